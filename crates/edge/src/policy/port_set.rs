//! Sets of guests' ports, by their names.

use std::fmt;

/// A pattern of ports' names, such as `vnet*`: `*` is any text, `?` any character, `[ab]` one of some.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortPattern(glob::Pattern);

/// Characters that mean more than themselves in a pattern.
const WILDCARDS: [char; 3] = ['*', '?', '['];

impl PortPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(text: &str) -> Result<Self, String> {
        match glob::Pattern::new(text) {
            Ok(pattern) => Ok(Self(pattern)),
            Err(error) => Err(error.msg.to_owned()),
        }
    }

    /// The pattern as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Whether a port of that name is meant.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        self.0.matches(name)
    }

    /// Whether every name of `other` is one of this pattern: found for equal patterns, for one name, and for
    /// patterns such as `vnet*` whose only wildcard is the last character. Others count as not covered.
    fn covers(&self, other: &Self) -> bool {
        let (this, other_text) = (self.as_str(), other.as_str());
        if this == other_text {
            return true;
        }
        if !other_text.contains(WILDCARDS) {
            return self.matches(other_text);
        }
        let prefix = this.strip_suffix('*');
        prefix.is_some_and(|prefix| !prefix.contains(WILDCARDS) && other_text.starts_with(prefix))
    }
}

/// A set of ports: those whose names match a pattern of each list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortSet {
    lists: Vec<Vec<PortPattern>>,
}

impl PortSet {
    /// Ports that are in every list. An empty list holds every port.
    #[must_use]
    pub fn new(lists: impl IntoIterator<Item = Vec<PortPattern>>) -> Self {
        let lists = lists.into_iter().filter(|list| !list.is_empty());
        Self {
            lists: lists.collect(),
        }
    }

    /// Whether it holds every port.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.lists.is_empty()
    }

    /// Whether a port is in it.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        let has = |list: &Vec<PortPattern>| list.iter().any(|pattern| pattern.matches(name));
        self.lists.iter().all(has)
    }

    /// Whether every port of `other` is certainly in this set.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let list_covers = |this: &[PortPattern], other: &[PortPattern]| {
            other
                .iter()
                .all(|pattern| this.iter().any(|each| each.covers(pattern)))
        };
        self.lists
            .iter()
            .all(|this| other.lists.iter().any(|other| list_covers(this, other)))
    }
}

impl fmt::Display for PortSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lists: Vec<_> = self.lists.iter().map(|list| patterns(list)).collect();
        f.write_str(&lists.join(" and "))
    }
}

/// `vnet*` or `tap0`.
pub(super) fn patterns(list: &[PortPattern]) -> String {
    let quoted = list.iter().map(|pattern| format!("`{}`", pattern.as_str()));
    quoted.collect::<Vec<_>>().join(" or ")
}
