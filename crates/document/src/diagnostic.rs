//! What is wrong with a document, each thing at its place in the file.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

/// Errors kept of one file; more only make the first hard to find.
const MAX_ERRORS: usize = 50;

/// Source that a diagnostic shows at most, bytes.
const EXCERPT: usize = 2048;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Where: bytes of the file.
    pub span: Range<usize>,
    /// What is wrong.
    pub message: String,
    /// What is said under the place, possibly nothing.
    pub label: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl Diagnostic {
    /// Something that is wrong at these bytes of the file.
    #[must_use]
    pub fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Self {
            span,
            message: message.into(),
            label: String::new(),
            help: None,
        }
    }

    /// Says something under the place.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Says what to do about it.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// Everything that is wrong with a document, in the order of its lines. Displayed, each stands
/// under the line it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostics {
    file_name: String,
    source: String,
    list: Vec<Diagnostic>,
    dropped: usize,
}

impl Diagnostics {
    /// Each, in the order of the file.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.list.iter()
    }

    /// The line of a diagnostic, from 1.
    #[must_use]
    pub fn line(&self, diagnostic: &Diagnostic) -> usize {
        let before = self.source.get(..diagnostic.span.start);
        before.unwrap_or(&self.source).matches('\n').count() + 1
    }

    /// All of them as text for a terminal, with ANSI colours if asked for.
    #[must_use]
    pub fn render(&self, color: bool) -> String {
        let renderer = if color {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        let mut text = String::new();
        for diagnostic in &self.list {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&renderer.render(&[self.group(diagnostic)]));
            text.push('\n');
        }
        if self.dropped > 0 {
            text.push_str(&format!("\n{} more are not shown\n", self.dropped));
        }
        text
    }

    fn group<'a>(&'a self, diagnostic: &'a Diagnostic) -> Group<'a> {
        let Range { start, end } = diagnostic.span;
        // Only the lines concerned are handed over: rendering takes time in all it is given.
        let from = self.source[..start].rfind('\n').map_or(0, |at| at + 1);
        let to = self.source[start..]
            .find('\n')
            .map_or(self.source.len(), |at| start + at);
        let boundary = |at: usize| self.source.floor_char_boundary(at);
        let from = from.max(boundary(start.saturating_sub(EXCERPT)));
        let to = to.min(boundary(start.saturating_add(EXCERPT)));
        let label = (!diagnostic.label.is_empty()).then_some(diagnostic.label.as_str());
        let snippet = Snippet::source(&self.source[from..to])
            .line_start(self.line(diagnostic))
            .path(self.file_name.as_str())
            .annotation(
                AnnotationKind::Primary
                    .span(start - from..end.clamp(start, to) - from)
                    .label(label),
            );
        let group = Level::ERROR
            .primary_title(diagnostic.message.as_str())
            .element(snippet);
        group.elements(
            diagnostic
                .help
                .iter()
                .map(|help| Level::HELP.message(help.as_str())),
        )
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Diagnostics {}

/// Collects diagnostics; the same thing said again, of another point of a grid, is said once.
#[derive(Debug, Default)]
pub struct Sink {
    list: RefCell<Vec<Diagnostic>>,
    said: Cell<usize>,
}

impl Sink {
    /// Takes a diagnostic.
    pub fn push(&self, diagnostic: Diagnostic) {
        self.said.set(self.said.get() + 1);
        let mut list = self.list.borrow_mut();
        if !list.contains(&diagnostic) {
            list.push(diagnostic);
        }
    }

    /// How much was said, repetitions counted: whether something was found between two moments.
    pub fn said(&self) -> usize {
        self.said.get()
    }

    /// Whether more would hardly be read.
    pub fn is_full(&self) -> bool {
        self.list.borrow().len() >= MAX_ERRORS
    }

    /// Ends collecting.
    ///
    /// # Errors
    /// What was found, if anything.
    pub fn finish(self, file_name: &str, source: &str) -> Result<(), Diagnostics> {
        let mut list = self.list.into_inner();
        if list.is_empty() {
            return Ok(());
        }
        for diagnostic in &mut list {
            let start = source.floor_char_boundary(diagnostic.span.start);
            let end = source.floor_char_boundary(diagnostic.span.end);
            diagnostic.span = start..end.max(start);
        }
        list.sort_by_key(|diagnostic| (diagnostic.span.start, diagnostic.span.end));
        let dropped = list.len().saturating_sub(MAX_ERRORS);
        list.truncate(MAX_ERRORS);
        Err(Diagnostics {
            file_name: file_name.to_owned(),
            source: source.to_owned(),
            list,
            dropped,
        })
    }
}
