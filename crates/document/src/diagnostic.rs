//! What is wrong with a document, each thing at its place in the file.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use fairwater_lang::{Label, Span};

pub use fairwater_lang::{Diagnostics, Severity};

/// Errors shown of one file; more only make the first hard to find.
const MAX_ERRORS: usize = 50;

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
    /// Whether the document is refused for it.
    pub severity: Severity,
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
            severity: Severity::Error,
        }
    }

    /// Something at these bytes of the file that is allowed, and probably not what was meant.
    #[must_use]
    pub fn warning(span: Range<usize>, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::new(span, message)
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

    /// In the form that the renderer takes. Of a span of several lines, the first is shown.
    fn shown(self, source: &str) -> fairwater_lang::Diagnostic {
        let start = source.floor_char_boundary(self.span.start);
        let line = source[start..].find('\n').map(|at| start + at);
        let end = source.floor_char_boundary(self.span.end);
        let end = end.clamp(start, line.unwrap_or(source.len()));
        // A byte-order mark is not counted there.
        let mark = source
            .strip_prefix('\u{feff}')
            .map_or(0, |_| '\u{feff}'.len_utf8());
        let span = Span {
            start: start.saturating_sub(mark),
            end: end.saturating_sub(mark),
        };
        fairwater_lang::Diagnostic {
            severity: self.severity,
            code: None,
            message: self.message,
            labels: vec![Label {
                span,
                text: self.label,
            }],
            help: self.help.into_iter().collect(),
        }
    }
}

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

    /// Ends collecting; warnings alone refuse nothing.
    ///
    /// # Errors
    /// What was found, if one of it is an error.
    pub fn finish(self, file_name: &str, source: &str) -> Result<(), Diagnostics> {
        self.finish_with_warnings(file_name, source).map(drop)
    }

    /// Ends collecting, and returns the warnings.
    ///
    /// # Errors
    /// What was found, if one of it is an error.
    pub fn finish_with_warnings(
        self,
        file_name: &str,
        source: &str,
    ) -> Result<Diagnostics, Diagnostics> {
        let mut list = self.list.into_inner();
        let is_refused = list.iter().any(|each| each.severity == Severity::Error);
        // Errors first to the bound: it is they that must be mended.
        list.sort_by_key(|each| {
            let is_warning = each.severity == Severity::Warning;
            (is_warning, each.span.start, each.span.end)
        });
        let beyond = list.len().saturating_sub(MAX_ERRORS);
        list.truncate(MAX_ERRORS);
        list.sort_by_key(|each| (each.span.start, each.span.end));
        let shown = list.into_iter().map(|diagnostic| diagnostic.shown(source));
        let mut list: Vec<_> = shown.collect();
        if let (1.., Some(last)) = (beyond, list.last_mut()) {
            last.help.push(format!("{beyond} more are not shown"));
        }
        let found = Diagnostics::new(file_name, source, list);
        if is_refused { Err(found) } else { Ok(found) }
    }
}
