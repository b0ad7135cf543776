//! The words of the language: keywords, commands and operators. They may be written in any case
//! (the paper has `And`, `Or` and `If`).

use crate::program::{Binary, Comparison};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    Def,
    Volatile,
    When,
    Bind,
    Report,
    Fallthrough,
    Reset,
    If,
    NotIf,
    Ewma,
    Binary(Binary),
    Compare(Comparison),
    And,
    Or,
    Not,
}

const WORDS: [(&str, Word); 40] = [
    ("def", Word::Def),
    ("volatile", Word::Volatile),
    ("when", Word::When),
    (":=", Word::Bind),
    ("bind", Word::Bind),
    ("report", Word::Report),
    ("fallthrough", Word::Fallthrough),
    ("reset", Word::Reset),
    ("if", Word::If),
    ("!if", Word::NotIf),
    ("ewma", Word::Ewma),
    ("+", Word::Binary(Binary::Add)),
    ("add", Word::Binary(Binary::Add)),
    ("-", Word::Binary(Binary::Sub)),
    ("sub", Word::Binary(Binary::Sub)),
    ("*", Word::Binary(Binary::Mul)),
    ("mul", Word::Binary(Binary::Mul)),
    ("/", Word::Binary(Binary::Div)),
    ("div", Word::Binary(Binary::Div)),
    ("min", Word::Binary(Binary::Min)),
    ("max", Word::Binary(Binary::Max)),
    ("wrapped_max", Word::Binary(Binary::WrappedMax)),
    ("==", Word::Compare(Comparison::Eq)),
    ("eq", Word::Compare(Comparison::Eq)),
    ("!=", Word::Compare(Comparison::Ne)),
    ("ne", Word::Compare(Comparison::Ne)),
    ("<", Word::Compare(Comparison::Lt)),
    ("lt", Word::Compare(Comparison::Lt)),
    ("<=", Word::Compare(Comparison::Le)),
    ("le", Word::Compare(Comparison::Le)),
    (">", Word::Compare(Comparison::Gt)),
    ("gt", Word::Compare(Comparison::Gt)),
    (">=", Word::Compare(Comparison::Ge)),
    ("ge", Word::Compare(Comparison::Ge)),
    ("&&", Word::And),
    ("and", Word::And),
    ("||", Word::Or),
    ("or", Word::Or),
    ("!", Word::Not),
    ("not", Word::Not),
];

impl Word {
    pub(crate) fn find(text: &str) -> Option<Self> {
        WORDS
            .iter()
            .find(|(word, _)| word.eq_ignore_ascii_case(text))
            .map(|(_, word)| *word)
    }
}

#[cfg(feature = "compile")]
impl Word {
    /// Every spelling, for suggestions.
    pub(crate) fn spellings() -> impl Iterator<Item = &'static str> {
        WORDS.iter().map(|(word, _)| *word)
    }

    /// Whether it yields a value (a word may be a statement as well: `if`).
    pub(crate) fn is_value(self) -> bool {
        match self {
            Self::If | Self::NotIf | Self::Ewma => true,
            Self::Binary(_) | Self::Compare(_) | Self::And | Self::Or | Self::Not => true,
            Self::Def | Self::Volatile | Self::When | Self::Bind => false,
            Self::Report | Self::Fallthrough | Self::Reset => false,
        }
    }
}
