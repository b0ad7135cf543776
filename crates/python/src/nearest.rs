//! What a misspelt name was probably meant to be.

/// `; did you mean …?`, else `; there are …`, for the end of a message.
pub(crate) fn did_you_mean<'n>(text: &str, names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<_> = names.collect();
    match fairwater_lang::nearest(text, names.iter().copied()) {
        Some(name) => format!("; did you mean `{name}`?"),
        None if names.is_empty() => "; it has none".to_owned(),
        None => format!("; there are {}", names.join(", ")),
    }
}
