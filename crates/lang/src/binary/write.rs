//! A program to bytes.

use alloc::vec::Vec;

use super::{VERSION, tag};
use crate::program::{Binary, Comparison, Expr, Place, Program, Scope, Stmt, Type, Variable};

pub(super) fn program(program: &Program) -> Vec<u8> {
    let mut writer = Writer { out: vec![VERSION] };
    writer.count(program.variables.len());
    for variable in &program.variables {
        writer.variable(variable);
    }
    writer.count(program.events.len());
    for event in &program.events {
        writer.statements(&event.prelude);
        writer.expr(&event.condition);
        writer.statements(&event.body);
    }
    writer.out
}

struct Writer {
    out: Vec<u8>,
}

impl Writer {
    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.out.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }

    fn count(&mut self, count: usize) {
        self.number(count as u64);
    }

    fn variable(&mut self, variable: &Variable) {
        let scope = match variable.scope {
            Scope::Report => 0,
            Scope::Control => 1,
            Scope::Hidden => 2,
        };
        let volatile = if variable.volatile { tag::VOLATILE } else { 0 };
        let boolean = if variable.ty == Type::Bool {
            tag::BOOLEAN
        } else {
            0
        };
        self.out.push(scope | volatile | boolean);
        self.count(variable.name.len());
        self.out.extend_from_slice(variable.name.as_bytes());
        self.number(variable.init);
    }

    fn statements(&mut self, statements: &[Stmt]) {
        self.count(statements.len());
        for statement in statements {
            match statement {
                Stmt::Report => self.out.push(tag::REPORT),
                Stmt::Fallthrough => self.out.push(tag::FALLTHROUGH),
                Stmt::Assign(place, value) => {
                    self.place(tag::ASSIGN, *place);
                    self.expr(value);
                }
                Stmt::If {
                    condition,
                    then,
                    otherwise,
                } => {
                    let one_sided = otherwise.is_empty();
                    self.out
                        .push(if one_sided { tag::WHEN } else { tag::WHEN_ELSE });
                    self.expr(condition);
                    self.statements(then);
                    if !one_sided {
                        self.statements(otherwise);
                    }
                }
            }
        }
    }

    fn place(&mut self, base: u8, place: Place) {
        let after = match place {
            Place::Var(_) => 0,
            Place::Cwnd => 1,
            Place::Rate => 2,
            Place::Micros => 3,
        };
        self.out.push(base + after);
        if let Place::Var(id) = place {
            self.number(id.0.into());
        }
    }

    fn expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Const(value, Type::Bool) => {
                self.out
                    .push(if *value == 0 { tag::FALSE } else { tag::TRUE });
            }
            Expr::Const(u64::MAX, Type::Num) => self.out.push(tag::INFINITY),
            Expr::Const(value, Type::Num) => {
                self.out.push(tag::NUMBER);
                self.number(*value);
            }
            Expr::Place(place) => self.place(tag::PLACE, *place),
            Expr::Signal(signal) => self.out.push(tag::SIGNAL + *signal as u8),
            Expr::Binary(op, left, right) => self.form(tag::BINARY + binary(*op), &[left, right]),
            Expr::Scale { value, num, den } => {
                self.out.push(tag::SCALE);
                self.number((*num).into());
                self.number((*den).into());
                self.expr(value);
            }
            Expr::Ewma { weight, old, new } => self.form(tag::EWMA, &[weight, old, new]),
            Expr::Compare(op, left, right) => {
                self.form(tag::COMPARE + comparison(*op), &[left, right]);
            }
            Expr::And(left, right) => self.form(tag::AND, &[left, right]),
            Expr::Or(left, right) => self.form(tag::OR, &[left, right]),
            Expr::Not(inner) => self.form(tag::NOT, &[inner]),
            Expr::If {
                condition,
                then,
                otherwise,
            } => self.form(tag::IF, &[condition, then, otherwise]),
        }
    }

    fn form(&mut self, tag: u8, operands: &[&Expr]) {
        self.out.push(tag);
        for operand in operands {
            self.expr(operand);
        }
    }
}

/// The index in [`tag::BINARIES`].
const fn binary(op: Binary) -> u8 {
    match op {
        Binary::Add => 0,
        Binary::Sub => 1,
        Binary::Mul => 2,
        Binary::Div => 3,
        Binary::Min => 4,
        Binary::Max => 5,
        Binary::WrappedMax => 6,
    }
}

/// The index in [`tag::COMPARISONS`].
const fn comparison(op: Comparison) -> u8 {
    match op {
        Comparison::Eq => 0,
        Comparison::Ne => 1,
        Comparison::Lt => 2,
        Comparison::Le => 3,
        Comparison::Gt => 4,
        Comparison::Ge => 5,
    }
}
