//! What a misspelt name was probably meant to be.

/// `; did you mean …?`, else `; there are …`, for the end of a message.
pub(crate) fn did_you_mean<'n>(text: &str, names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<_> = names.collect();
    let nearest = names
        .iter()
        .map(|name| (strsim::jaro_winkler(name, text), name))
        .filter(|(similarity, _)| *similarity > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match nearest {
        Some((_, name)) => format!("; did you mean `{name}`?"),
        None if names.is_empty() => "; it has none".to_owned(),
        None => format!("; there are {}", names.join(", ")),
    }
}
