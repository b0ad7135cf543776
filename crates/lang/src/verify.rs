//! Whether a program is all that a checked program promises, wherever it comes from.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::bounds::{MAX_DEPTH, MAX_NODES, MAX_VARIABLES};
use crate::name::{self, InvalidName};
use crate::program::{Comparison, Event, Expr, Place, Program, Scope, Stmt, Type, VarId, Variable};
use crate::walk;

/// Why a program is not a checked program: the first reason found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// It has more variables than [`MAX_VARIABLES`].
    #[error("the program has {0} variables; at most {MAX_VARIABLES} are allowed")]
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
    #[error("variable {0} has the same name as an earlier variable of its scope")]
    Duplicate(usize),
    /// A boolean's initial value is neither 0 nor 1.
    #[error("variable {0} is a boolean, but its initial value is neither 0 nor 1")]
    Initial(usize),
    /// A hidden variable is volatile.
    #[error("variable {0} is hidden and must not be volatile")]
    Volatile(usize),
    /// It has no event.
    #[error("the program has no event")]
    NoEvent,
    /// An event is not valid.
    #[error("in event {event}: {error}")]
    Event {
        /// Index of the event, from 0.
        event: usize,
        /// Why it is not valid.
        #[source]
        error: EventError,
    },
    /// It has more statements and expression nodes than [`MAX_NODES`].
    #[error("the program has {0} statements and expression nodes; at most {MAX_NODES} are allowed")]
    TooLarge(usize),
    /// [`Program::signals`] is not the set of the signals that its events read.
    #[error("the listed signals are not the signals that the program reads")]
    Signals,
}

/// Why an event is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// What runs before the condition does more than assign to hidden variables.
    #[error("a statement before the condition does not assign to a hidden variable")]
    Prelude,
    /// There is no such variable.
    #[error("variable {} does not exist", .0.0)]
    UnknownVariable(VarId),
    /// An expression has another type than what uses it takes.
    #[error("expected a {}, found a {}", .wanted.name(), .found.name())]
    Type {
        /// The expected type.
        wanted: Type,
        /// The type found.
        found: Type,
    },
    /// A boolean constant is neither 0 nor 1.
    #[error("a boolean must be 0 or 1, not {0}")]
    Boolean(u64),
    /// Booleans are compared other than for equality.
    #[error("booleans have no order")]
    Unordered,
    /// The fraction of a scale is not reduced.
    #[error("{num}/{den} is not a reduced fraction")]
    Ratio {
        /// The numerator.
        num: u32,
        /// The denominator.
        den: u32,
    },
    /// The state of an `ewma` is not a variable.
    #[error("the state of an `ewma` is not a variable")]
    EwmaState,
    /// Statements or expressions are nested in more levels than [`MAX_DEPTH`].
    #[error("statements or expressions nest deeper than {MAX_DEPTH} levels")]
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
            .map_err(|error| Invalid::Event { event: at, error })?;
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
    fn prelude(&self, prelude: &[Stmt]) -> Result<(), EventError> {
        for statement in prelude {
            let Stmt::Assign(Place::Var(id), _) = statement else {
                return Err(EventError::Prelude);
            };
            if self.variable(*id)?.scope != Scope::Hidden {
                return Err(EventError::Prelude);
            }
        }
        self.statements(prelude, 1)
    }

    /// `level` is 1 for the statements of a body itself.
    fn statements(&self, statements: &[Stmt], level: usize) -> Result<(), EventError> {
        if level > MAX_DEPTH {
            return Err(EventError::TooDeep);
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

    fn variable(&self, id: VarId) -> Result<&Variable, EventError> {
        let found = self.0.get(usize::from(id.0));
        found.ok_or(EventError::UnknownVariable(id))
    }

    fn place(&self, place: Place) -> Result<Type, EventError> {
        match place {
            Place::Var(id) => Ok(self.variable(id)?.ty),
            Place::Cwnd | Place::Rate | Place::Micros => Ok(Type::Num),
        }
    }

    fn is(&self, expr: &Expr, wanted: Type) -> Result<(), EventError> {
        self.at(expr, wanted, 1)
    }

    /// Checks an expression at a level of its tree, the root's being 1, that must have a type.
    fn at(&self, expr: &Expr, wanted: Type, level: usize) -> Result<(), EventError> {
        let found = self.expr(expr, level)?;
        if found == wanted {
            Ok(())
        } else {
            Err(EventError::Type { wanted, found })
        }
    }

    fn expr(&self, expr: &Expr, level: usize) -> Result<Type, EventError> {
        if level > MAX_DEPTH {
            return Err(EventError::TooDeep);
        }
        let below = level + 1;
        match expr {
            Expr::Const(value, Type::Bool) if *value > 1 => Err(EventError::Boolean(*value)),
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
                    return Err(EventError::Ratio { num, den });
                }
                self.at(value, Type::Num, below)?;
                Ok(Type::Num)
            }
            Expr::Ewma { weight, old, new } => {
                if !matches!(**old, Expr::Place(_)) {
                    return Err(EventError::EwmaState);
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
                    return Err(EventError::Unordered);
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
