//! What `fairwater check --json` prints.

use fairwater_lang::{Diagnostics, Program, Scope, Signal, Type};
use serde::Serialize;

/// The whole document; `program` is null when there are errors.
#[derive(Debug, Serialize)]
pub(super) struct Document<'a> {
    file: &'a str,
    errors: Vec<Diagnostic<'a>>,
    warnings: Vec<Diagnostic<'a>>,
    program: Option<Typed<'a>>,
}

#[derive(Debug, Serialize)]
struct Diagnostic<'a> {
    code: &'a str,
    message: &'a str,
    line: usize,
    column: usize,
    help: &'a [String],
}

#[derive(Debug, Serialize)]
struct Typed<'a> {
    variables: Vec<Variable<'a>>,
    signals: Vec<&'static str>,
    cost: Cost,
    ebpf: Vec<&'a str>,
}

/// The most instructions of an invocation; null where a backend cannot run the program.
#[derive(Debug, Serialize)]
struct Cost {
    ebpf: Option<usize>,
    machine_code: Option<usize>,
    libccp: Option<usize>,
}

#[derive(Debug, Serialize)]
struct Variable<'a> {
    name: &'a str,
    scope: &'static str,
    r#type: &'static str,
    volatile: bool,
    initially: u64,
}

impl<'a> Document<'a> {
    pub(super) fn refused(file: &'a str, errors: &'a Diagnostics) -> Self {
        Self {
            file,
            errors: diagnostics(errors),
            warnings: Vec::new(),
            program: None,
        }
    }

    pub(super) fn sound(
        file: &'a str,
        warnings: &'a Diagnostics,
        program: &'a Program,
        ebpf: &'a str,
        cost: &fairwater_exec::cost::Cost,
    ) -> Self {
        let program = Typed {
            variables: program.variables.iter().map(variable).collect(),
            signals: program.signals.iter().map(Signal::name).collect(),
            cost: Cost {
                ebpf: cost.ebpf.as_ref().ok().copied(),
                machine_code: cost.machine_code,
                libccp: cost.libccp.as_ref().ok().copied(),
            },
            ebpf: ebpf.lines().map(str::trim_start).collect(),
        };
        Self {
            file,
            errors: Vec::new(),
            warnings: diagnostics(warnings),
            program: Some(program),
        }
    }
}

fn diagnostics(all: &Diagnostics) -> Vec<Diagnostic<'_>> {
    all.iter()
        .map(|diagnostic| {
            let (line, column) = all.line_column(diagnostic.span());
            let fairwater_lang::Diagnostic {
                code,
                message,
                help,
                ..
            } = diagnostic;
            Diagnostic {
                code: code.unwrap_or_default(),
                message,
                line,
                column,
                help,
            }
        })
        .collect()
}

fn variable(variable: &fairwater_lang::Variable) -> Variable<'_> {
    Variable {
        name: &variable.name,
        scope: match variable.scope {
            Scope::Report => "report",
            Scope::Control => "control",
            Scope::Hidden => "hidden",
        },
        r#type: match variable.ty {
            Type::Num => "num",
            Type::Bool => "bool",
        },
        volatile: variable.volatile,
        initially: variable.init,
    }
}
