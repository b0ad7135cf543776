//! Expressions under construction. libccp knows numbers only; whether one is a boolean is found
//! from how it came about, and one is made of the other where they meet.

use alloc::boxed::Box;

use fairwater_lang::{Binary, Comparison, Expr, Place, Signal, Type};

/// An expression, its type and its levels.
#[derive(Debug, Clone)]
pub(super) struct Value {
    pub(super) expr: Expr,
    pub(super) ty: Type,
    pub(super) depth: usize,
}

impl Value {
    pub(super) const fn leaf(expr: Expr, ty: Type) -> Self {
        Self { expr, ty, depth: 1 }
    }

    pub(super) const fn number(value: u64) -> Self {
        Self::leaf(Expr::Const(value, Type::Num), Type::Num)
    }

    pub(super) const fn place(place: Place, ty: Type) -> Self {
        Self::leaf(Expr::Place(place), ty)
    }

    pub(super) const fn signal(signal: Signal) -> Self {
        Self::leaf(Expr::Signal(signal), signal.ty())
    }

    pub(super) const fn is_leaf(&self) -> bool {
        self.depth == 1
    }

    /// As a number: a boolean is 0 or 1.
    fn into_number(self) -> Self {
        match (self.ty, self.expr) {
            (Type::Num, expr) => Self { expr, ..self },
            (Type::Bool, Expr::Const(value, _)) => Self::number(value),
            (Type::Bool, expr) => Self {
                expr: Expr::If {
                    condition: Box::new(expr),
                    then: Box::new(Expr::Const(1, Type::Num)),
                    otherwise: Box::new(Expr::Const(0, Type::Num)),
                },
                ty: Type::Num,
                depth: self.depth + 1,
            },
        }
    }

    /// As a boolean: whether a number is not 0.
    fn into_boolean(self) -> Self {
        if self.ty == Type::Bool {
            return self;
        }
        let (expr, depth) = match self.expr {
            Expr::Const(value, _) => (Expr::Const(u64::from(value != 0), Type::Bool), 1),
            expr => match truth(expr) {
                Ok(expr) => (expr, self.depth),
                Err(expr) => {
                    let zero = Box::new(Expr::Const(0, Type::Num));
                    let expr = Expr::Compare(Comparison::Ne, Box::new(expr), zero);
                    (expr, self.depth + 1)
                }
            },
        };
        Self {
            expr,
            ty: Type::Bool,
            depth,
        }
    }

    /// The expression of a type.
    pub(super) fn into_expr(self, ty: Type) -> Expr {
        self.of(ty).expr
    }

    /// As a value of a type.
    pub(super) fn of(self, ty: Type) -> Self {
        match ty {
            Type::Num => self.into_number(),
            Type::Bool => self.into_boolean(),
        }
    }

    fn join(
        left: Self,
        right: Self,
        operands: Type,
        ty: Type,
        make: impl FnOnce(Box<Expr>, Box<Expr>) -> Expr,
    ) -> Self {
        let (left, right) = (left.of(operands), right.of(operands));
        Self {
            depth: left.depth.max(right.depth) + 1,
            ty,
            expr: make(Box::new(left.expr), Box::new(right.expr)),
        }
    }

    /// Two booleans' product or lesser is that both hold, their greater that either does.
    pub(super) fn binary(op: Binary, left: Self, right: Self) -> Self {
        let booleans = left.ty == Type::Bool && right.ty == Type::Bool;
        match op {
            Binary::Mul | Binary::Min if booleans => {
                Self::join(left, right, Type::Bool, Type::Bool, Expr::And)
            }
            Binary::Max if booleans => Self::join(left, right, Type::Bool, Type::Bool, Expr::Or),
            _ => Self::join(left, right, Type::Num, Type::Num, |l, r| {
                Expr::Binary(op, l, r)
            }),
        }
    }

    pub(super) fn compare(op: Comparison, left: Self, right: Self) -> Self {
        match (op, left.ty, &right.expr) {
            (Comparison::Eq, Type::Bool, Expr::Const(0, _)) => Self {
                expr: Expr::Not(Box::new(left.expr)),
                ty: Type::Bool,
                depth: left.depth + 1,
            },
            (Comparison::Eq, Type::Bool, _) if right.ty == Type::Bool => {
                Self::join(left, right, Type::Bool, Type::Bool, |l, r| {
                    Expr::Compare(op, l, r)
                })
            }
            _ => Self::join(left, right, Type::Num, Type::Bool, |l, r| {
                Expr::Compare(op, l, r)
            }),
        }
    }

    pub(super) fn choice(condition: Self, then: Self, otherwise: Self) -> Self {
        let ty = if then.ty == otherwise.ty {
            then.ty
        } else {
            Type::Num
        };
        let condition = condition.into_boolean();
        let (then, otherwise) = (then.of(ty), otherwise.of(ty));
        Self {
            depth: condition.depth.max(then.depth).max(otherwise.depth) + 1,
            ty,
            expr: Expr::If {
                condition: Box::new(condition.expr),
                then: Box::new(then.expr),
                otherwise: Box::new(otherwise.expr),
            },
        }
    }

    pub(super) fn ewma(weight: Self, old: Place, new: Self) -> Self {
        let (weight, new) = (weight.into_number(), new.into_number());
        Self {
            depth: weight.depth.max(new.depth).max(1) + 1,
            ty: Type::Num,
            expr: Expr::Ewma {
                weight: Box::new(weight.expr),
                old: Box::new(Expr::Place(old)),
                new: Box::new(new.expr),
            },
        }
    }
}

/// Whether a number that was made of booleans is not 0, or the number back: portus adds two
/// booleans to say that either holds.
fn truth(expr: Expr) -> Result<Expr, Expr> {
    match expr {
        Expr::If {
            condition,
            then,
            otherwise,
        } if *then == Expr::Const(1, Type::Num) && *otherwise == Expr::Const(0, Type::Num) => {
            Ok(*condition)
        }
        Expr::Binary(Binary::Add, left, right) => match (truth(*left), truth(*right)) {
            (Ok(left), Ok(right)) => Ok(Expr::Or(Box::new(left), Box::new(right))),
            (left, right) => {
                let back = |side: Result<Expr, Expr>| Box::new(side.map_or_else(|e| e, numbered));
                Err(Expr::Binary(Binary::Add, back(left), back(right)))
            }
        },
        other => Err(other),
    }
}

/// The number that [`truth`] took for a boolean.
fn numbered(condition: Expr) -> Expr {
    Expr::If {
        condition: Box::new(condition),
        then: Box::new(Expr::Const(1, Type::Num)),
        otherwise: Box::new(Expr::Const(0, Type::Num)),
    }
}
