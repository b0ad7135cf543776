//! A checked, typed program: what every backend consumes.
//!
//! All names are resolved, all types agree and every bound holds, so a backend needs no error
//! path. Arithmetic is on `u64`, saturating; `x / 0 = 0`. A boolean is 0 or 1.
//!
//! One invocation of a program (CCP §4.1 and libccp's execution loop):
//! 1. `Cwnd` and `Rate` are read from the flow; `Ack.now` is fixed for the invocation.
//! 2. A staged switch is applied (every variable takes its initial value, the timer restarts),
//!    then staged updates.
//! 3. The events run in order. A false condition goes on to the next event; a true one runs its
//!    body and stops, unless `(fallthrough)` ran in this invocation, here or in an earlier body.
//! 4. `Cwnd` and `Rate` are applied if they changed.
//! 5. If `(report)` ran, one report leaves with the final values, and volatile variables take
//!    their initial values again.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use crate::SignalSet;

/// The bound on variables of one program, hidden ones included; more is a compile-time error.
pub const MAX_VARIABLES: usize = 512;

/// The highest rate that is believed, bytes/s: 2⁴⁰, about 8.8 Tbit/s. A program or an algorithm
/// sets `+infinity` or more than this only by mistake.
pub const MAX_RATE: u64 = 1 << 40;

/// Index of a variable in [`Program::variables`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VarId(pub u16);

/// The type of an expression or variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Type {
    /// An unsigned 64-bit number.
    Num,
    /// A boolean, kept as 0 or 1.
    Bool,
}

/// Where a variable is visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Sent with each report.
    Report,
    /// Stays in the datapath; the plane may update it.
    Control,
    /// Made by the compiler (the state of an `ewma` that is not directly assigned); the plane
    /// neither sees nor updates it.
    Hidden,
}

/// A declared variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// The name without its `Report.` prefix.
    pub name: String,
    /// Where it is visible.
    pub scope: Scope,
    /// Whether it takes its initial value again after each report.
    pub volatile: bool,
    /// Its type.
    pub ty: Type,
    /// Its initial value.
    pub init: u64,
}

/// A checked program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The variables: all of [`Scope::Report`] first, each scope in declaration order.
    pub variables: Vec<Variable>,
    /// The `when` clauses in source order.
    pub events: Vec<Event>,
    /// The signals that the program reads.
    pub signals: SignalSet,
}

impl Program {
    /// How many report fields there are: `variables[..n]` are the report, in order.
    #[must_use]
    pub fn report_len(&self) -> usize {
        self.variables
            .iter()
            .take_while(|v| v.scope == Scope::Report)
            .count()
    }

    /// The variable of that scope and name.
    #[must_use]
    pub fn variable(&self, scope: Scope, name: &str) -> Option<VarId> {
        let at = self
            .variables
            .iter()
            .position(|v| v.scope == scope && v.name == name)?;
        u16::try_from(at).ok().map(VarId)
    }
}

/// One top-level `when` clause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Statements that run before the condition is evaluated, only ever assignments to
    /// [`Scope::Hidden`] variables; usually none.
    pub prelude: Vec<Stmt>,
    /// The condition, of type [`Type::Bool`].
    pub condition: Expr,
    /// What runs when it holds.
    pub body: Vec<Stmt>,
}

/// A statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stmt {
    /// `(:= place value)`; the types agree.
    Assign(Place, Expr),
    /// A nested `when`, or an `if` in statement position.
    If {
        /// The condition, of type [`Type::Bool`].
        condition: Expr,
        /// What runs when it holds.
        then: Vec<Stmt>,
        /// What runs when it does not.
        otherwise: Vec<Stmt>,
    },
    /// `(report)`: one report leaves at the end of the invocation.
    Report,
    /// `(fallthrough)`: later events are evaluated too, for the rest of the invocation.
    Fallthrough,
}

/// What can be assigned to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// A variable.
    Var(VarId),
    /// The congestion window, bytes.
    Cwnd,
    /// The pacing rate, bytes/s; 0 is no rate: the window alone limits the flow.
    Rate,
    /// The flow's timer, µs. Assigning `v` makes it read `v`, at most 2⁶³, now and count on from
    /// there; `(reset)` assigns 0.
    Micros,
}

/// A pure expression. Boxes are always non-null trees of bounded depth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expr {
    /// A constant: a number, `+infinity` (`u64::MAX`), or a boolean as 0 or 1.
    Const(u64, Type),
    /// A variable, `Cwnd`, `Rate` or `Micros`. `Micros` reads `Ack.now - zero`, wrapping.
    Place(Place),
    /// A congestion signal.
    Signal(crate::Signal),
    /// Arithmetic on two numbers.
    Binary(Binary, Box<Expr>, Box<Expr>),
    /// `floor(value × num / den)`, exact, saturating at `u64::MAX`: a decimal constant used as a
    /// factor (`(* 1.25 x)`) or divisor. `den ≥ 1`; `num` and `den` are reduced.
    Scale {
        /// What is scaled.
        value: Box<Expr>,
        /// The numerator.
        num: u32,
        /// The denominator, at least 1.
        den: u32,
    },
    /// `floor((weight·old + (10 − weight)·new) / 10)`, exact, or `new` when `old` is 0 (libccp's
    /// EWMA).
    Ewma {
        /// The weight of the old value, in tenths; more than 10 counts as 10.
        weight: Box<Expr>,
        /// The average so far: an [`Expr::Place`].
        old: Box<Expr>,
        /// The new sample.
        new: Box<Expr>,
    },
    /// A comparison; of numbers, or `Eq`/`Ne` of two booleans.
    Compare(Comparison, Box<Expr>, Box<Expr>),
    /// Both booleans hold.
    And(Box<Expr>, Box<Expr>),
    /// Either boolean holds.
    Or(Box<Expr>, Box<Expr>),
    /// The boolean does not hold.
    Not(Box<Expr>),
    /// `then` if the condition holds, else `otherwise`; both of one type.
    If {
        /// The condition, of type [`Type::Bool`].
        condition: Box<Expr>,
        /// The value when it holds.
        then: Box<Expr>,
        /// The value when it does not.
        otherwise: Box<Expr>,
    },
}

/// Arithmetic on `u64`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Binary {
    /// Saturates at `u64::MAX`.
    Add,
    /// Saturates at 0.
    Sub,
    /// Saturates at `u64::MAX`.
    Mul,
    /// Truncates; by zero yields 0.
    Div,
    /// The smaller.
    Min,
    /// The larger.
    Max,
    /// The later of two sequence numbers: compares the low 32 bits modulo 2³² (`wrapped_max`).
    /// Yields `left` when `(left - right) as i32 >= 0` on the low 32 bits, else `right`.
    WrappedMax,
}

/// Comparison operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
}
