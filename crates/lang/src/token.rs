//! Source text to tokens.
//!
//! Names are runs of `[A-Za-z0-9._]`, operators runs of punctuation, so `(>x 0)` is what
//! portus takes it for, `(> x 0)`. A comment runs from `#` to the end of its line.

use crate::diagnostic::{Diagnostic, Sink, Span};
use crate::name::is_name_byte as is_name;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Open,
    Close,
    /// A whole number.
    Number(u64),
    /// A decimal constant, `1.25`; its text is well formed.
    Decimal,
    /// A name, keyword or operator.
    Word,
    /// Something already reported; stands for anything.
    Bad,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) span: Span,
}

const fn is_symbol(byte: u8) -> bool {
    matches!(
        byte,
        b'+' | b'-'
            | b'*'
            | b'/'
            | b'<'
            | b'>'
            | b'='
            | b'!'
            | b'&'
            | b'|'
            | b':'
            | b'%'
            | b'^'
            | b'~'
    )
}

/// All tokens of the source, comments and space left out.
pub(crate) fn tokenize(source: &str, sink: &mut Sink) -> Vec<Token> {
    let mut lexer = Lexer {
        source,
        bytes: source.as_bytes(),
        at: 0,
        tokens: Vec::new(),
        sink,
    };
    lexer.run();
    lexer.tokens
}

struct Lexer<'a> {
    source: &'a str,
    bytes: &'a [u8],
    at: usize,
    tokens: Vec<Token>,
    sink: &'a mut Sink,
}

impl Lexer<'_> {
    fn run(&mut self) {
        while let Some(&byte) = self.bytes.get(self.at) {
            let start = self.at;
            match byte {
                b'(' => self.one(TokenKind::Open),
                b')' => self.one(TokenKind::Close),
                b'#' => self.skip_line(),
                _ if byte.is_ascii_whitespace() || byte == 0x0b => self.at += 1,
                _ if is_name(byte) => self.name(start),
                _ if is_symbol(byte) => self.symbol(start),
                _ => self.unexpected(start),
            }
        }
    }

    fn one(&mut self, kind: TokenKind) {
        self.at += 1;
        self.push(kind, self.at - 1);
    }

    fn push(&mut self, kind: TokenKind, start: usize) {
        self.tokens.push(Token {
            kind,
            span: Span::new(start, self.at),
        });
    }

    fn bad(&mut self, start: usize, diagnostic: Diagnostic) {
        self.sink.push(diagnostic);
        self.push(TokenKind::Bad, start);
    }

    fn span_from(&self, start: usize) -> Span {
        Span::new(start, self.at)
    }

    fn take_while(&mut self, accept: fn(u8) -> bool) {
        while self.bytes.get(self.at).is_some_and(|b| accept(*b)) {
            self.at += 1;
        }
    }

    fn skip_line(&mut self) {
        self.take_while(|b| b != b'\n');
    }

    fn name(&mut self, start: usize) {
        self.take_while(is_name);
        let text = &self.source[start..self.at];
        let numeric = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        if !numeric && !text.starts_with(|c: char| c.is_ascii_digit()) {
            self.push(TokenKind::Word, start);
            return;
        }
        let kind = match text.split_once('.') {
            None if numeric => text.parse().ok().map(TokenKind::Number),
            Some((whole, part))
                if numeric && !whole.is_empty() && !part.is_empty() && !part.contains('.') =>
            {
                Some(TokenKind::Decimal)
            }
            _ => {
                let span = self.span_from(start);
                let error = Diagnostic::error(
                    "malformed-number",
                    span,
                    "this is neither a number nor a name",
                )
                .help("a number is digits, `1500`, or digits, a point and digits, `0.5`")
                .help("a name does not begin with a digit");
                self.bad(start, error);
                return;
            }
        };
        match kind {
            Some(kind) => self.push(kind, start),
            None => {
                let error = Diagnostic::error(
                    "number-too-large",
                    self.span_from(start),
                    "this number is too large",
                )
                .help(format!("the largest is {}; `+infinity` means it", u64::MAX));
                self.bad(start, error);
            }
        }
    }

    fn symbol(&mut self, start: usize) {
        self.take_while(is_symbol);
        let text = &self.source[start..self.at];
        if text.starts_with("//") {
            self.not_a_comment(start);
            return;
        }
        let next = self.bytes.get(self.at).copied().unwrap_or(b' ');
        let follows = |word: &str| {
            let rest = &self.bytes[self.at..];
            let is_it = rest
                .get(..word.len())
                .is_some_and(|w| w.eq_ignore_ascii_case(word.as_bytes()));
            is_it && !rest.get(word.len()).is_some_and(|b| is_name(*b))
        };
        if text == "+" && follows("infinity") {
            self.at += "infinity".len();
            self.push(TokenKind::Number(u64::MAX), start);
        } else if text == "!" && follows("if") {
            self.at += "if".len();
            self.push(TokenKind::Word, start);
        } else if (text == "-" || text == "+") && next.is_ascii_digit() && !self.after_open() {
            self.take_while(is_name);
            let error = Diagnostic::error("signed-number", self.span_from(start), "numbers have no sign")
                .help("numbers are unsigned; to subtract, write `(- x 5)`, which is 0 when `x` is less than 5");
            self.bad(start, error);
        } else {
            self.push(TokenKind::Word, start);
        }
    }

    fn after_open(&self) -> bool {
        self.tokens
            .last()
            .is_some_and(|t| t.kind == TokenKind::Open)
    }

    fn not_a_comment(&mut self, start: usize) {
        self.skip_line();
        let error = Diagnostic::error(
            "not-a-comment",
            self.span_from(start),
            "this is not a comment",
        )
        .help("a comment begins with `#`");
        self.sink.push(error);
    }

    fn unexpected(&mut self, start: usize) {
        if self.bytes[start] == b';' {
            self.not_a_comment(start);
            return;
        }
        self.take_while(|b| !b.is_ascii_whitespace() && b != b'(' && b != b')' && b != b'#');
        let error = Diagnostic::error(
            "unexpected-character",
            self.span_from(start),
            format!(
                "`{}` has no meaning here",
                self.source[start..]
                    .chars()
                    .next()
                    .unwrap_or(' ')
                    .escape_debug()
            ),
        )
        .help("names are made of ASCII letters, digits, `.` and `_`");
        self.bad(start, error);
    }
}
