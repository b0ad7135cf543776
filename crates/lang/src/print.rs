//! The typed program as text, as `fairwater check` shows it.

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};

use core::fmt;

use crate::program::{
    Binary, Comparison, Event, Expr, Place, Program, Scope, Stmt, Type, VarId, Variable,
};

/// Variables with scope, type, volatility and initial value; signals with their types; then each
/// event, every assignment and condition with its type.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut printer = self.printer();
        printer.program();
        f.write_str(&printer.out)
    }
}

impl Program {
    /// The condition of one of the program's events, as the program's text has it.
    #[must_use]
    pub fn condition_text(&self, event: &Event) -> String {
        self.printer().expr(&event.condition)
    }

    /// One of the program's statements, as the program's text has it: a line, and those of the
    /// branches within it.
    #[must_use]
    pub fn statement_text(&self, statement: &Stmt) -> String {
        let mut printer = self.printer();
        printer.statements(0, core::slice::from_ref(statement));
        printer.out
    }

    const fn printer(&self) -> Printer<'_> {
        Printer {
            program: self,
            out: String::new(),
        }
    }
}

fn ty(ty: Type) -> &'static str {
    match ty {
        Type::Num => "num",
        Type::Bool => "bool",
    }
}

fn constant(value: u64, ty: Type) -> String {
    match (ty, value) {
        (Type::Bool, 0) => "false".to_owned(),
        (Type::Bool, _) => "true".to_owned(),
        (Type::Num, u64::MAX) => "+infinity".to_owned(),
        (Type::Num, n) => n.to_string(),
    }
}

fn full_name(variable: &Variable) -> String {
    match variable.scope {
        Scope::Report => format!("Report.{}", variable.name),
        Scope::Control | Scope::Hidden => variable.name.clone(),
    }
}

struct Printer<'p> {
    program: &'p Program,
    out: String,
}

impl Printer<'_> {
    fn line(&mut self, indent: usize, text: &str) {
        self.out.push_str(&"  ".repeat(indent));
        self.out.push_str(text.trim_end());
        self.out.push('\n');
    }

    fn program(&mut self) {
        let program = self.program;
        if !program.variables.is_empty() {
            self.line(0, "variables");
            let width = program
                .variables
                .iter()
                .map(|v| full_name(v).len())
                .max()
                .unwrap_or(0);
            for (i, variable) in program.variables.iter().enumerate() {
                let scope = match variable.scope {
                    Scope::Report => "report",
                    Scope::Control => "control",
                    Scope::Hidden => "hidden",
                };
                let row = format!(
                    "{i:3}  {:width$}  {scope:7}  {:4}  {:8}  initially {}",
                    full_name(variable),
                    ty(variable.ty),
                    if variable.volatile { "volatile" } else { "" },
                    constant(variable.init, variable.ty),
                );
                self.line(1, &row);
            }
        }
        if !program.signals.is_empty() {
            self.line(0, "signals");
            let width = program
                .signals
                .iter()
                .map(|s| s.name().len())
                .max()
                .unwrap_or(0);
            for signal in program.signals.iter() {
                self.line(1, &format!("{:width$}  {}", signal.name(), ty(signal.ty())));
            }
        }
        for (i, event) in program.events.iter().enumerate() {
            self.line(0, &format!("event {i}"));
            if !event.prelude.is_empty() {
                self.line(1, "first");
                self.statements(2, &event.prelude);
            }
            let condition = self.expr(&event.condition);
            self.line(1, &format!("when {condition}: bool"));
            self.statements(2, &event.body);
        }
    }

    fn statements(&mut self, indent: usize, list: &[Stmt]) {
        for statement in list {
            match statement {
                Stmt::Assign(place, value) => {
                    let kind = ty(self.place_type(*place));
                    let text = format!("{}: {kind} := {}", self.place(*place), self.expr(value));
                    self.line(indent, &text);
                }
                Stmt::If {
                    condition,
                    then,
                    otherwise,
                } => {
                    let condition = self.expr(condition);
                    self.line(indent, &format!("if {condition}: bool"));
                    self.statements(indent + 1, then);
                    if !otherwise.is_empty() {
                        self.line(indent, "else");
                        self.statements(indent + 1, otherwise);
                    }
                }
                Stmt::Report => self.line(indent, "report"),
                Stmt::Fallthrough => self.line(indent, "fallthrough"),
            }
        }
    }

    fn variable(&self, id: VarId) -> Option<&Variable> {
        self.program.variables.get(usize::from(id.0))
    }

    fn place(&self, place: Place) -> String {
        match place {
            Place::Var(id) => self
                .variable(id)
                .map_or_else(|| format!("variable {}", id.0), full_name),
            Place::Cwnd => "Cwnd".to_owned(),
            Place::Rate => "Rate".to_owned(),
            Place::Micros => "Micros".to_owned(),
        }
    }

    fn place_type(&self, place: Place) -> Type {
        match place {
            Place::Var(id) => self.variable(id).map_or(Type::Num, |v| v.ty),
            Place::Cwnd | Place::Rate | Place::Micros => Type::Num,
        }
    }

    fn expr(&self, expr: &Expr) -> String {
        match expr {
            Expr::Const(value, ty) => constant(*value, *ty),
            Expr::Place(place) => self.place(*place),
            Expr::Signal(signal) => signal.name().to_owned(),
            Expr::Binary(op, a, b) => self.form(binary(*op), &[a, b]),
            Expr::Scale { value, num, den } => format!("(* {num}/{den} {})", self.expr(value)),
            Expr::Ewma { weight, old, new } => self.form("ewma", &[weight, old, new]),
            Expr::Compare(op, a, b) => self.form(comparison(*op), &[a, b]),
            Expr::And(a, b) => self.form("&&", &[a, b]),
            Expr::Or(a, b) => self.form("||", &[a, b]),
            Expr::Not(a) => self.form("!", &[a]),
            Expr::If {
                condition,
                then,
                otherwise,
            } => self.form("if", &[condition, then, otherwise]),
        }
    }

    fn form(&self, head: &str, arguments: &[&Expr]) -> String {
        let mut text = format!("({head}");
        for argument in arguments {
            text.push(' ');
            text.push_str(&self.expr(argument));
        }
        text.push(')');
        text
    }
}

fn binary(op: Binary) -> &'static str {
    match op {
        Binary::Add => "+",
        Binary::Sub => "-",
        Binary::Mul => "*",
        Binary::Div => "/",
        Binary::Min => "min",
        Binary::Max => "max",
        Binary::WrappedMax => "wrapped_max",
    }
}

fn comparison(op: Comparison) -> &'static str {
    match op {
        Comparison::Eq => "==",
        Comparison::Ne => "!=",
        Comparison::Lt => "<",
        Comparison::Le => "<=",
        Comparison::Gt => ">",
        Comparison::Ge => ">=",
    }
}
