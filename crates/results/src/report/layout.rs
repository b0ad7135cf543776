//! What the report of a grid shows.

/// How the report of a grid is drawn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GridLayout {
    /// The variable along the axis; unless given, the one with the most values.
    pub over: Option<String>,
    /// Variables of which each combination has plots of its own.
    pub panels: Vec<String>,
    /// Titles of [`crate::grid::METRICS`] that are shown; unless given, all.
    pub metrics: Vec<String>,
    /// A variable and one of its values: the others are shown as multiples of that one's.
    pub baseline: Option<(String, String)>,
}
