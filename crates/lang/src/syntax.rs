//! Tokens to S-expressions. Never fails: what is wrong is reported, and the rest goes on.

use crate::bounds::MAX_DEPTH;
use crate::diagnostic::{Diagnostic, Sink, Span};
use crate::token::{Token, TokenKind};

#[derive(Debug)]
pub(crate) enum Node<'s> {
    Atom(Atom<'s>),
    List(List<'s>),
}

impl Node<'_> {
    pub(crate) fn span(&self) -> Span {
        match self {
            Self::Atom(atom) => atom.span,
            Self::List(list) => list.span,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Atom<'s> {
    pub(crate) kind: AtomKind,
    pub(crate) text: &'s str,
    pub(crate) span: Span,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtomKind {
    Number(u64),
    Decimal,
    Word,
    /// Something already reported; stands for anything.
    Bad,
}

#[derive(Debug)]
pub(crate) struct List<'s> {
    pub(crate) items: Vec<Node<'s>>,
    pub(crate) span: Span,
    /// Its end is a guess: a parenthesis is missing somewhere in it.
    pub(crate) broken: bool,
}

impl<'s> List<'s> {
    /// The word that the list begins with.
    pub(crate) fn head(&self) -> Option<Atom<'s>> {
        match self.items.first() {
            Some(Node::Atom(atom)) => Some(*atom),
            _ => None,
        }
    }

    /// All but the first.
    pub(crate) fn arguments(&self) -> &[Node<'s>] {
        self.items.get(1..).unwrap_or(&[])
    }
}

/// The forms of a source text, outermost level.
pub(crate) fn parse<'s>(source: &'s str, tokens: &[Token], sink: &mut Sink) -> Vec<Node<'s>> {
    // When a parenthesis is missing, forms that begin a line of their own are taken for the
    // next ones, so that one slip does not swallow the rest of the program.
    let unbalanced = tokens.iter().fold(0_i64, |depth, token| match token.kind {
        TokenKind::Open => depth + 1,
        TokenKind::Close => (depth - 1).max(0),
        _ => depth,
    }) > 0;
    let mut parser = Parser {
        source,
        unbalanced,
        stack: Vec::new(),
        top: Vec::new(),
        sink,
    };
    parser.run(tokens);
    parser.top
}

struct Frame<'s> {
    open: Span,
    items: Vec<Node<'s>>,
}

struct Parser<'s, 'k> {
    source: &'s str,
    unbalanced: bool,
    stack: Vec<Frame<'s>>,
    top: Vec<Node<'s>>,
    sink: &'k mut Sink,
}

impl<'s> Parser<'s, '_> {
    fn run(&mut self, tokens: &[Token]) {
        let mut too_deep = 0_usize;
        let mut reported_depth = false;
        for (i, token) in tokens.iter().enumerate() {
            let span = token.span;
            let kind = match token.kind {
                TokenKind::Open if too_deep > 0 => {
                    too_deep += 1;
                    continue;
                }
                TokenKind::Close if too_deep > 0 => {
                    too_deep -= 1;
                    continue;
                }
                _ if too_deep > 0 => continue,
                TokenKind::Open => {
                    if self.unbalanced && self.begins_a_form(span, tokens.get(i + 1)) {
                        self.close_all(span.start);
                    }
                    if self.stack.len() < MAX_DEPTH {
                        self.stack.push(Frame {
                            open: span,
                            items: Vec::new(),
                        });
                        continue;
                    }
                    too_deep = 1;
                    if !reported_depth {
                        reported_depth = true;
                        let message = format!("parentheses nest deeper than {MAX_DEPTH} levels");
                        self.sink.push(Diagnostic::error("too-deep", span, message));
                    }
                    AtomKind::Bad
                }
                TokenKind::Close => {
                    self.close(span);
                    continue;
                }
                TokenKind::Number(n) => AtomKind::Number(n),
                TokenKind::Decimal => AtomKind::Decimal,
                TokenKind::Word => AtomKind::Word,
                TokenKind::Bad => AtomKind::Bad,
            };
            self.add(Node::Atom(Atom {
                kind,
                text: &self.source[span.start..span.end],
                span,
            }));
        }
        self.close_all(self.source.len());
    }

    fn add(&mut self, node: Node<'s>) {
        match self.stack.last_mut() {
            Some(frame) => frame.items.push(node),
            None => self.top.push(node),
        }
    }

    fn close(&mut self, close: Span) {
        match self.stack.pop() {
            Some(frame) => {
                let span = Span::new(frame.open.start, close.end);
                self.add(Node::List(List {
                    items: frame.items,
                    span,
                    broken: false,
                }));
            }
            None => {
                let error =
                    Diagnostic::error("stray-parenthesis", close, "this `)` closes nothing")
                        .help("remove it, or add the `(` that it belongs to");
                self.sink.push(error);
            }
        }
    }

    fn begins_a_form(&self, open: Span, next: Option<&Token>) -> bool {
        let line_start = open.start == 0 || self.source.as_bytes()[open.start - 1] == b'\n';
        let word = next.map(|t| &self.source[t.span.start..t.span.end]);
        line_start
            && word.is_some_and(|w| w.eq_ignore_ascii_case("when") || w.eq_ignore_ascii_case("def"))
    }

    /// Ends every open list at `end`, with one error that points at what was left open.
    fn close_all(&mut self, end: usize) {
        let Some(innermost) = self.stack.last() else {
            return;
        };
        let missing = self.stack.len();
        let message = match missing {
            1 => "this parenthesis is never closed".to_owned(),
            n => format!("{n} parentheses are never closed, the innermost here"),
        };
        let mut error = Diagnostic::error("unclosed-parenthesis", innermost.open, message);
        for outer in self.stack.iter().rev().skip(1).take(2) {
            error = error.label(outer.open, "nor is this one");
        }
        self.sink.push(error);
        let end = self.source[..end].trim_end().len();
        while let Some(frame) = self.stack.pop() {
            let span = Span::new(frame.open.start, end.max(frame.open.end));
            self.add(Node::List(List {
                items: frame.items,
                span,
                broken: true,
            }));
        }
    }
}
