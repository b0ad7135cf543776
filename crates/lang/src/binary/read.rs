//! Bytes to a program. Nothing is believed: neither counts, before their items are there, nor
//! depth, before its bound.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Error, VERSION, tag};
use crate::bounds::{MAX_DEPTH, MAX_NAME, MAX_NODES, MAX_VARIABLES};
use crate::name::InvalidName;
use crate::program::{Event, Expr, Place, Program, Scope, Stmt, Type, VarId, Variable};
use crate::signal::Signal;
use crate::verify::Invalid;

pub(super) fn program(bytes: &[u8]) -> Result<Program, Error> {
    let mut reader = Reader {
        bytes,
        at: 0,
        nodes: 0,
    };
    let version = reader.byte()?;
    if version != VERSION {
        return Err(Error::Version(version));
    }
    let variables = reader.variables()?;
    let events = reader.events()?;
    match bytes.len() - reader.at {
        0 => Ok(Program::new(variables, events)?),
        left => Err(Error::Trailing(left)),
    }
}

struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
    /// Events, statements and expression nodes so far.
    nodes: usize,
}

impl Reader<'_> {
    fn byte(&mut self) -> Result<u8, Error> {
        let byte = *self.bytes.get(self.at).ok_or(Error::Truncated)?;
        self.at += 1;
        Ok(byte)
    }

    /// The error for the byte read last.
    fn unknown<T>(&self, tag: u8) -> Result<T, Error> {
        Err(Error::Tag {
            at: self.at - 1,
            tag,
        })
    }

    fn number(&mut self) -> Result<u64, Error> {
        let mut value = 0_u64;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let group = u64::from(byte & 0x7f);
            value |= group << shift;
            if byte & 0x80 == 0 {
                let lost = value >> shift != group;
                let padded = group == 0 && shift > 0;
                return if lost || padded {
                    Err(Error::Number(self.at))
                } else {
                    Ok(value)
                };
            }
        }
        Err(Error::Number(self.at))
    }

    /// A number that fits the type.
    fn small<T: TryFrom<u64>>(&mut self) -> Result<T, Error> {
        let number = self.number()?;
        T::try_from(number).map_err(|_| Error::Number(self.at))
    }

    /// The number of items that follow, each of at least `least` bytes.
    fn count(&mut self, least: usize) -> Result<usize, Error> {
        let count: usize = self.small()?;
        if count > (self.bytes.len() - self.at) / least {
            return Err(Error::Truncated);
        }
        Ok(count)
    }

    fn node(&mut self) -> Result<(), Error> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(Error::TooLarge);
        }
        Ok(())
    }

    fn variables(&mut self) -> Result<Vec<Variable>, Error> {
        let count: usize = self.small()?;
        if count > MAX_VARIABLES {
            return Err(Invalid::TooManyVariables(count).into());
        }
        let mut variables = Vec::new();
        for at in 0..count {
            variables.push(self.variable(at)?);
        }
        Ok(variables)
    }

    fn variable(&mut self, at: usize) -> Result<Variable, Error> {
        let kind = self.byte()?;
        let scope = match kind & !(tag::VOLATILE | tag::BOOLEAN) {
            0 => Scope::Report,
            1 => Scope::Control,
            2 => Scope::Hidden,
            _ => return self.unknown(kind),
        };
        let length: usize = self.small()?;
        if length > MAX_NAME {
            return Err(Invalid::Name(at, InvalidName::TooLong).into());
        }
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let name = rest.get(..length).ok_or(Error::Truncated)?;
        self.at += length;
        let name = str::from_utf8(name).map_err(|_| Error::Text(self.at))?;
        Ok(Variable {
            name: name.to_owned(),
            scope,
            volatile: kind & tag::VOLATILE != 0,
            ty: if kind & tag::BOOLEAN == 0 {
                Type::Num
            } else {
                Type::Bool
            },
            init: self.number()?,
        })
    }

    fn events(&mut self) -> Result<Vec<Event>, Error> {
        let count = self.count(3)?;
        let mut events = Vec::new();
        for _ in 0..count {
            self.node()?;
            events.push(Event {
                prelude: self.statements(1)?,
                condition: self.expr(1)?,
                body: self.statements(1)?,
            });
        }
        Ok(events)
    }

    fn statements(&mut self, level: usize) -> Result<Vec<Stmt>, Error> {
        if level > MAX_DEPTH {
            return Err(Error::TooDeep);
        }
        let count = self.count(1)?;
        let mut statements = Vec::new();
        for _ in 0..count {
            statements.push(self.statement(level)?);
        }
        Ok(statements)
    }

    fn statement(&mut self, level: usize) -> Result<Stmt, Error> {
        self.node()?;
        let at = self.at;
        match self.byte()? {
            tag::REPORT => Ok(Stmt::Report),
            tag::FALLTHROUGH => Ok(Stmt::Fallthrough),
            tag::WHEN => Ok(Stmt::If {
                condition: self.expr(1)?,
                then: self.statements(level + 1)?,
                otherwise: Vec::new(),
            }),
            tag::WHEN_ELSE => {
                let condition = self.expr(1)?;
                let then = self.statements(level + 1)?;
                let otherwise = self.statements(level + 1)?;
                if otherwise.is_empty() {
                    let tag = tag::WHEN_ELSE;
                    return Err(Error::Tag { at, tag });
                }
                Ok(Stmt::If {
                    condition,
                    then,
                    otherwise,
                })
            }
            tag => match self.place(tag, tag::ASSIGN)? {
                Some(place) => Ok(Stmt::Assign(place, self.expr(1)?)),
                None => self.unknown(tag),
            },
        }
    }

    /// The place whose tags begin with `base`.
    fn place(&mut self, tag: u8, base: u8) -> Result<Option<Place>, Error> {
        if tag == base {
            return Ok(Some(Place::Var(VarId(self.small()?))));
        }
        Ok(item(&tag::PLACES, tag, base + 1))
    }

    fn operand(&mut self, level: usize) -> Result<Box<Expr>, Error> {
        Ok(Box::new(self.expr(level + 1)?))
    }

    fn expr(&mut self, level: usize) -> Result<Expr, Error> {
        if level > MAX_DEPTH {
            return Err(Error::TooDeep);
        }
        self.node()?;
        let tag = self.byte()?;
        let expr = match tag {
            tag::FALSE => Expr::Const(0, Type::Bool),
            tag::TRUE => Expr::Const(1, Type::Bool),
            tag::INFINITY => Expr::Const(u64::MAX, Type::Num),
            tag::NUMBER => match self.number()? {
                // That is longer than `INFINITY`.
                u64::MAX => return Err(Error::Number(self.at)),
                value => Expr::Const(value, Type::Num),
            },
            tag::SCALE => Expr::Scale {
                num: self.small()?,
                den: self.small()?,
                value: self.operand(level)?,
            },
            tag::EWMA => Expr::Ewma {
                weight: self.operand(level)?,
                old: self.operand(level)?,
                new: self.operand(level)?,
            },
            tag::AND => Expr::And(self.operand(level)?, self.operand(level)?),
            tag::OR => Expr::Or(self.operand(level)?, self.operand(level)?),
            tag::NOT => Expr::Not(self.operand(level)?),
            tag::IF => Expr::If {
                condition: self.operand(level)?,
                then: self.operand(level)?,
                otherwise: self.operand(level)?,
            },
            _ => {
                if let Some(place) = self.place(tag, tag::PLACE)? {
                    Expr::Place(place)
                } else if let Some(op) = item(&tag::BINARIES, tag, tag::BINARY) {
                    Expr::Binary(op, self.operand(level)?, self.operand(level)?)
                } else if let Some(op) = item(&tag::COMPARISONS, tag, tag::COMPARE) {
                    Expr::Compare(op, self.operand(level)?, self.operand(level)?)
                } else if let Some(signal) = item(&Signal::ALL, tag, tag::SIGNAL) {
                    Expr::Signal(signal)
                } else {
                    return self.unknown(tag);
                }
            }
        };
        Ok(expr)
    }
}

/// The item whose tag this is, the first's being `base`.
fn item<T: Copy>(items: &[T], tag: u8, base: u8) -> Option<T> {
    items.get(usize::from(tag.checked_sub(base)?)).copied()
}
