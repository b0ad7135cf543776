//! Whether a program is all that a checked program promises, wherever it comes from.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::bounds::{MAX_DEPTH, MAX_NODES, MAX_VARIABLES};
use crate::name::{self, InvalidName};
use crate::program::{Comparison, Event, Expr, Place, Program, Scope, Stmt, Type, VarId, Variable};
use crate::walk;

/// The first thing in which a program breaks the promise of a checked program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// It has more variables than [`MAX_VARIABLES`].
    #[error("a program has at most {MAX_VARIABLES} variables, this has {0}")]
    TooManyVariables(usize),
    /// A variable stands after one of a later scope.
    #[error(
        "variable {0} is out of order: report variables come first, then control variables, then hidden ones"
    )]
    Order(usize),
    /// A variable cannot have its name.
    #[error("variable {0} is misnamed: {1}")]
    Name(usize, #[source] InvalidName),
    /// A variable has the name of an earlier one of its scope.
    #[error("variable {0} has the name of another of its scope")]
    Duplicate(usize),
    /// A boolean's initial value is neither 0 nor 1.
    #[error("variable {0} is a boolean, its initial value is neither 0 nor 1")]
    Initial(usize),
    /// A hidden variable is volatile.
    #[error("variable {0} is hidden, and volatile")]
    Volatile(usize),
    /// It has no event.
    #[error("a program has at least one event")]
    NoEvent,
    /// Something is wrong with an event.
    #[error("in event {event}: {flaw}")]
    Event {
        /// Which, from 0.
        event: usize,
        /// What is wrong.
        #[source]
        flaw: Flaw,
    },
    /// It has more statements and expression nodes than [`MAX_NODES`].
    #[error("a program has at most {MAX_NODES} statements and expression nodes, this has {0}")]
    TooLarge(usize),
    /// [`Program::signals`] is not the set of the signals that its events read.
    #[error("the set of signals is not that of the signals it reads")]
    Signals,
}

/// What is wrong with an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// What runs before the condition does more than assign to hidden variables.
    #[error("only assignments to hidden variables stand before a condition")]
    Prelude,
    /// There is no such variable.
    #[error("there is no variable {}", .0.0)]
    UnknownVariable(VarId),
    /// An expression has another type than what uses it takes.
    #[error("a {} stands where a {} is due", .found.name(), .wanted.name())]
    Type {
        /// What is due.
        wanted: Type,
        /// What is there.
        found: Type,
    },
    /// A boolean constant is neither 0 nor 1.
    #[error("a boolean is 0 or 1, not {0}")]
    Boolean(u64),
    /// Booleans are compared other than for equality.
    #[error("booleans have no order")]
    Unordered,
    /// A scale is no reduced fraction.
    #[error("{num}/{den} is no reduced fraction")]
    Ratio {
        /// The numerator.
        num: u32,
        /// The denominator.
        den: u32,
    },
    /// The state of an `ewma` is no place.
    #[error("the state of an `ewma` is no variable")]
    EwmaState,
    /// Statements or expressions are nested in more levels than [`MAX_DEPTH`].
    #[error("statements or expressions are deeper than {MAX_DEPTH} levels")]
    TooDeep,
}

impl Type {
    const fn name(self) -> &'static str {
        match self {
            Self::Num => "number",
            Self::Bool => "boolean",
        }
    }
}

impl Program {
    /// The program of these variables and events, verified; the signals that they read are found.
    ///
    /// # Errors
    /// The first [`Invalid`] thing; a bound that is passed is named.
    pub fn new(variables: Vec<Variable>, events: Vec<Event>) -> Result<Self, Invalid> {
        check(&variables, &events)?;
        Ok(Self {
            signals: walk::signals(&events),
            variables,
            events,
        })
    }

    /// Checks all that a backend relies on: names and order of variables, types, indices, bounds,
    /// the set of signals. What [`crate::compile`] yields passes; what comes from elsewhere runs
    /// only if it does.
    ///
    /// # Errors
    /// The first [`Invalid`] thing; a bound that is passed is named.
    pub fn verify(&self) -> Result<(), Invalid> {
        check(&self.variables, &self.events)?;
        if walk::signals(&self.events) != self.signals {
            return Err(Invalid::Signals);
        }
        Ok(())
    }
}

fn check(declared: &[Variable], events: &[Event]) -> Result<(), Invalid> {
    variables(declared)?;
    if events.is_empty() {
        return Err(Invalid::NoEvent);
    }
    let types = Types(declared);
    let mut nodes = 0_usize;
    for (at, event) in events.iter().enumerate() {
        types
            .prelude(&event.prelude)
            .and_then(|()| types.is(&event.condition, Type::Bool))
            .and_then(|()| types.statements(&event.body, 1))
            .map_err(|flaw| Invalid::Event { event: at, flaw })?;
        nodes = nodes.saturating_add(walk::size(event));
    }
    if nodes > MAX_NODES {
        return Err(Invalid::TooLarge(nodes));
    }
    Ok(())
}

fn variables(variables: &[Variable]) -> Result<(), Invalid> {
    if variables.len() > MAX_VARIABLES {
        return Err(Invalid::TooManyVariables(variables.len()));
    }
    let mut names = BTreeSet::new();
    let mut last = 0;
    for (at, variable) in variables.iter().enumerate() {
        let rank = match variable.scope {
            Scope::Report => 0,
            Scope::Control => 1,
            Scope::Hidden => 2,
        };
        if rank < last {
            return Err(Invalid::Order(at));
        }
        last = rank;
        name::check(variable.scope, &variable.name).map_err(|why| Invalid::Name(at, why))?;
        if !names.insert((rank, variable.name.as_str())) {
            return Err(Invalid::Duplicate(at));
        }
        if variable.ty == Type::Bool && variable.init > 1 {
            return Err(Invalid::Initial(at));
        }
        if variable.scope == Scope::Hidden && variable.volatile {
            return Err(Invalid::Volatile(at));
        }
    }
    Ok(())
}

/// Types of what stands in events, by the variables there are.
struct Types<'p>(&'p [Variable]);

impl Types<'_> {
    fn prelude(&self, prelude: &[Stmt]) -> Result<(), Flaw> {
        for statement in prelude {
            let Stmt::Assign(Place::Var(id), _) = statement else {
                return Err(Flaw::Prelude);
            };
            if self.variable(*id)?.scope != Scope::Hidden {
                return Err(Flaw::Prelude);
            }
        }
        self.statements(prelude, 1)
    }

    /// `level` is 1 for the statements of a body itself.
    fn statements(&self, statements: &[Stmt], level: usize) -> Result<(), Flaw> {
        if level > MAX_DEPTH {
            return Err(Flaw::TooDeep);
        }
        for statement in statements {
            match statement {
                Stmt::Assign(place, value) => self.is(value, self.place(*place)?)?,
                Stmt::If {
                    condition,
                    then,
                    otherwise,
                } => {
                    self.is(condition, Type::Bool)?;
                    self.statements(then, level + 1)?;
                    self.statements(otherwise, level + 1)?;
                }
                Stmt::Report | Stmt::Fallthrough => {}
            }
        }
        Ok(())
    }

    fn variable(&self, id: VarId) -> Result<&Variable, Flaw> {
        let found = self.0.get(usize::from(id.0));
        found.ok_or(Flaw::UnknownVariable(id))
    }

    fn place(&self, place: Place) -> Result<Type, Flaw> {
        match place {
            Place::Var(id) => Ok(self.variable(id)?.ty),
            Place::Cwnd | Place::Rate | Place::Micros => Ok(Type::Num),
        }
    }

    fn is(&self, expr: &Expr, wanted: Type) -> Result<(), Flaw> {
        self.at(expr, wanted, 1)
    }

    /// Checks an expression at a level of its tree, the root's being 1, that must have a type.
    fn at(&self, expr: &Expr, wanted: Type, level: usize) -> Result<(), Flaw> {
        let found = self.expr(expr, level)?;
        if found == wanted {
            Ok(())
        } else {
            Err(Flaw::Type { wanted, found })
        }
    }

    fn expr(&self, expr: &Expr, level: usize) -> Result<Type, Flaw> {
        if level > MAX_DEPTH {
            return Err(Flaw::TooDeep);
        }
        let below = level + 1;
        match expr {
            Expr::Const(value, Type::Bool) if *value > 1 => Err(Flaw::Boolean(*value)),
            Expr::Const(_, ty) => Ok(*ty),
            Expr::Place(place) => self.place(*place),
            Expr::Signal(signal) => Ok(signal.ty()),
            Expr::Binary(_, left, right) => {
                self.at(left, Type::Num, below)?;
                self.at(right, Type::Num, below)?;
                Ok(Type::Num)
            }
            Expr::Scale { value, num, den } => {
                let (num, den) = (*num, *den);
                if den == 0 || gcd(num, den) != 1 {
                    return Err(Flaw::Ratio { num, den });
                }
                self.at(value, Type::Num, below)?;
                Ok(Type::Num)
            }
            Expr::Ewma { weight, old, new } => {
                if !matches!(**old, Expr::Place(_)) {
                    return Err(Flaw::EwmaState);
                }
                for number in [weight, old, new] {
                    self.at(number, Type::Num, below)?;
                }
                Ok(Type::Num)
            }
            Expr::Compare(op, left, right) => {
                let ty = self.expr(left, below)?;
                self.at(right, ty, below)?;
                if ty == Type::Bool && !matches!(op, Comparison::Eq | Comparison::Ne) {
                    return Err(Flaw::Unordered);
                }
                Ok(Type::Bool)
            }
            Expr::And(left, right) | Expr::Or(left, right) => {
                self.at(left, Type::Bool, below)?;
                self.at(right, Type::Bool, below)?;
                Ok(Type::Bool)
            }
            Expr::Not(inner) => {
                self.at(inner, Type::Bool, below)?;
                Ok(Type::Bool)
            }
            Expr::If {
                condition,
                then,
                otherwise,
            } => {
                self.at(condition, Type::Bool, below)?;
                let ty = self.expr(then, below)?;
                self.at(otherwise, ty, below)?;
                Ok(ty)
            }
        }
    }
}

const fn gcd(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
