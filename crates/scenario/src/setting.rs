//! `--set key=value`: a scenario's text with one value changed.

use thiserror::Error;
use toml_edit::{DocumentMut, Item, Value};

/// Why a value was not set.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SettingError {
    /// The file is no TOML.
    #[error("the file is not valid TOML: {0}")]
    Syntax(String),
    /// It has not the form of a setting.
    #[error("`{0}` is not of the form key=value, such as `duration=5s` or `flow.0.count=10`")]
    Form(String),
    /// The key leads through something that is no table.
    #[error("`{key}`: `{part}` is not a table or a list")]
    Nowhere {
        /// The key.
        key: String,
        /// The part of it that leads nowhere.
        part: String,
    },
}

/// The text of a scenario with `key=value` in it. A key is that of a variable of `[sweep]`, or a
/// path with dots, in which a number counts the tables of a list from 0. A value is TOML, or else
/// a text.
///
/// # Errors
/// [`SettingError`]; whether the file means something then is for [`crate::Scenario::parse`].
pub fn set(source: &str, setting: &str) -> Result<String, SettingError> {
    let mut document: DocumentMut = source
        .parse()
        .map_err(|error: toml_edit::TomlError| SettingError::Syntax(error.message().to_owned()))?;
    let form = || SettingError::Form(setting.to_owned());
    let (key, value) = setting.split_once('=').ok_or_else(form)?;
    let (key, value) = (key.trim(), value.trim());
    if key.is_empty() || value.is_empty() {
        return Err(form());
    }
    let value: Value = value.parse().unwrap_or_else(|_| Value::from(value));
    let is_variable = document
        .get("sweep")
        .and_then(Item::as_table_like)
        .is_some_and(|sweep| sweep.contains_key(key));
    let mut parts: Vec<&str> = key.split('.').collect();
    if is_variable {
        parts.insert(0, "sweep");
    }
    let nowhere = |part: &str| SettingError::Nowhere {
        key: key.to_owned(),
        part: part.to_owned(),
    };
    let last = parts.pop().ok_or_else(form)?;
    let mut at = document.as_item_mut();
    for part in parts {
        at = step(at, part).ok_or_else(|| nowhere(part))?;
    }
    if let Some(table) = at.as_table_like_mut() {
        table.insert(last, Item::Value(value));
    } else if let Some(slot) = last
        .parse::<usize>()
        .ok()
        .and_then(|index| at.as_array_mut()?.get_mut(index))
    {
        *slot = value;
    } else {
        return Err(nowhere(last));
    }
    Ok(document.to_string())
}

/// The text of a scenario with this seed and no other.
///
/// # Errors
/// [`SettingError::Syntax`].
pub fn set_seed(source: &str, seed: u64) -> Result<String, SettingError> {
    let mut document: DocumentMut = source
        .parse()
        .map_err(|error: toml_edit::TomlError| SettingError::Syntax(error.message().to_owned()))?;
    document.remove("seeds");
    let seed = i64::try_from(seed).unwrap_or(i64::MAX);
    document.insert("seed", Item::Value(Value::from(seed)));
    Ok(document.to_string())
}

fn step<'a>(at: &'a mut Item, part: &str) -> Option<&'a mut Item> {
    let index = part.parse::<usize>();
    match at {
        Item::Table(table) => Some(
            table
                .entry(part)
                .or_insert_with(|| Item::Table(toml_edit::Table::new())),
        ),
        Item::Value(_) if at.is_inline_table() => at.get_mut(part),
        Item::ArrayOfTables(_) | Item::Value(_) => at.get_mut(index.ok()?),
        Item::None => None,
    }
}
