//! Errors and warnings about a program or another text, with their places in it.

use std::fmt;

use annotate_snippets::{
    Annotation, AnnotationKind, Element, Group, Level, Origin, Renderer, Snippet,
};

use crate::bounds;

/// Bytes of source that a diagnostic shows at most.
const EXCERPT: usize = 4096;

/// A range of bytes of the source, `start..end`, on character boundaries. A byte-order mark at the
/// beginning of the source is no part of it and not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Span {
    pub(crate) const fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Severity {
    /// The program is refused.
    Error,
    /// The program compiles, and probably does not do what was meant.
    Warning,
}

/// A place in the source and what is to be said of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// Where.
    pub span: Span,
    /// What, possibly nothing.
    pub text: String,
}

/// One error or warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: Severity,
    /// A stable name of the kind of mistake, `unknown-name` for instance. Each diagnostic of the
    /// compiler has one; those of other texts need none.
    pub code: Option<&'static str>,
    /// What is wrong.
    pub message: String,
    /// Where; the first is the place of the mistake, the others explain it. Never empty.
    pub labels: Vec<Label>,
    /// What to do about it, possibly nothing.
    pub help: Vec<String>,
}

impl Diagnostic {
    pub(crate) fn error(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, span, message.into())
    }

    pub(crate) fn warning(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, span, message.into())
    }

    fn new(severity: Severity, code: &'static str, span: Span, message: String) -> Self {
        let labels = vec![Label {
            span,
            text: String::new(),
        }];
        Self {
            severity,
            code: Some(code),
            message,
            labels,
            help: Vec::new(),
        }
    }

    /// Says something at the place of the mistake.
    pub(crate) fn here(mut self, text: impl Into<String>) -> Self {
        if let Some(first) = self.labels.first_mut() {
            first.text = text.into();
        }
        self
    }

    pub(crate) fn label(mut self, span: Span, text: impl Into<String>) -> Self {
        self.labels.push(Label {
            span,
            text: text.into(),
        });
        self
    }

    pub(crate) fn help(mut self, text: impl Into<String>) -> Self {
        self.help.push(text.into());
        self
    }

    /// The place of the mistake.
    #[must_use]
    pub fn span(&self) -> Span {
        self.labels.first().map_or(Span::new(0, 0), |l| l.span)
    }
}

/// Collects diagnostics while a program is compiled; counts those beyond
/// [`bounds::MAX_ERRORS`], so that hostile input costs little.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    kept: Vec<Diagnostic>,
    dropped: usize,
}

impl Sink {
    /// Whether further diagnostics are only counted.
    pub(crate) fn is_full(&self) -> bool {
        self.kept.len() >= bounds::MAX_ERRORS
    }

    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        if self.is_full() {
            self.dropped += 1;
        } else {
            self.kept.push(diagnostic);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    pub(crate) fn finish(mut self, file_name: &str, source: &str) -> Diagnostics {
        self.kept.sort_by_key(Diagnostic::span);
        if let (dropped @ 1.., Some(last)) = (self.dropped, self.kept.last_mut()) {
            last.help.push(format!("{dropped} more are not shown"));
        }
        Diagnostics {
            file_name: file_name.to_owned(),
            source: source.to_owned(),
            list: self.kept,
        }
    }
}

/// All errors, or all warnings, of one text, in the order of their places.
///
/// Its [`Display`](fmt::Display) form shows each with file, line, column, the source line and a
/// caret under the mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostics {
    file_name: String,
    source: String,
    list: Vec<Diagnostic>,
}

impl Diagnostics {
    /// Diagnostics of a later step, or of a text in another language, shown as the compiler's own
    /// are. Beyond [`bounds::MAX_ERRORS`] they are only counted.
    #[must_use]
    pub fn new(file_name: &str, source: &str, list: impl IntoIterator<Item = Diagnostic>) -> Self {
        let mut sink = Sink::default();
        for diagnostic in list {
            sink.push(diagnostic);
        }
        sink.finish(file_name, source.strip_prefix('\u{feff}').unwrap_or(source))
    }

    /// Each diagnostic, in the order of the source.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.list.iter()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The file name that was given to [`compile`](crate::compile).
    #[must_use]
    pub fn file_name(&self) -> &str {
        &self.file_name
    }

    /// The line and column of a place, both counted from 1, the column in characters.
    #[must_use]
    pub fn line_column(&self, span: Span) -> (usize, usize) {
        let before = self.source.get(..span.start).unwrap_or(&self.source);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        (
            before.matches('\n').count() + 1,
            before[line_start..].chars().count() + 1,
        )
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
        text
    }

    fn group<'a>(&'a self, diagnostic: &'a Diagnostic) -> Group<'a> {
        let level = match diagnostic.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let title = level.primary_title(diagnostic.message.as_str());
        let title = match diagnostic.code {
            Some(code) => title.id(code),
            None => title,
        };
        let group = title.elements(self.snippet(diagnostic));
        group.elements(
            diagnostic
                .help
                .iter()
                .map(|text| Level::HELP.message(text.as_str())),
        )
    }

    /// The source lines of a diagnostic, with its labels.
    fn snippet<'a>(&'a self, diagnostic: &'a Diagnostic) -> Vec<Element<'a>> {
        let spans = || diagnostic.labels.iter().map(|l| l.span);
        let first = spans().map(|s| s.start).min().unwrap_or(0);
        let last = spans().map(|s| s.end).max().unwrap_or(first);
        // Only the lines concerned are handed over: rendering takes time in all it is given.
        let from = self.source[..first].rfind('\n').map_or(0, |at| at + 1);
        let to = self.source[last..]
            .find('\n')
            .map_or(self.source.len(), |at| last + at);
        if to - from <= EXCERPT {
            let snippet = self
                .excerpt(diagnostic, from, to)
                .path(self.file_name.as_str());
            return vec![snippet.into()];
        }
        // Of what is very long, a part around the mistake is shown.
        let place = diagnostic.span();
        let boundary = |at: usize| {
            (at..)
                .find(|i| self.source.is_char_boundary(*i))
                .unwrap_or(at)
        };
        let from = from.max(boundary(place.start.saturating_sub(EXCERPT / 4)));
        let to = to.min(boundary(self.source.len().min(place.start + EXCERPT / 4)));
        let (line, column) = self.line_column(place);
        let origin = Origin::path(self.file_name.as_str())
            .line(line)
            .char_column(column);
        vec![origin.into(), self.excerpt(diagnostic, from, to).into()]
    }

    /// The bytes `from..to` of the source, with what the labels say of them.
    fn excerpt<'a>(
        &'a self,
        diagnostic: &'a Diagnostic,
        from: usize,
        to: usize,
    ) -> Snippet<'a, Annotation<'a>> {
        let line = self.source[..from].matches('\n').count() + 1;
        let shown = diagnostic
            .labels
            .iter()
            .enumerate()
            .filter(|(_, l)| (from..=to).contains(&l.span.start));
        let annotations = shown.map(|(i, label)| {
            let kind = if i == 0 {
                AnnotationKind::Primary
            } else {
                AnnotationKind::Context
            };
            let text = (!label.text.is_empty()).then_some(label.text.as_str());
            kind.span(label.span.start - from..label.span.end.min(to) - from)
                .label(text)
        });
        Snippet::source(&self.source[from..to])
            .line_start(line)
            .annotations(annotations)
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Diagnostics {}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
