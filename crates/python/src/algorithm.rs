//! A Python class as an algorithm of the plane; each of its instances is one flow.

use std::sync::Arc;

use fairwater_algorithms::Choice;
use fairwater_cli::Unknown;
use fairwater_lang::{Program, Scope};
use fairwater_plane::{self as plane, AlgorithmError, Ecn, Field, ProgramId, Programs};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping, PyString, PyTuple, PyType};

use crate::control::{Control, Target};
use crate::flow_info::FlowInfo;
use crate::report::{self, Layout, Report};
use crate::trouble::{self, Told};

/// A class with its parameters, looked at once: everything that can be known to be wrong before a
/// flow begins was found.
struct Loaded {
    name: String,
    class: Py<PyAny>,
    parameters: Py<PyDict>,
    programs: Vec<(String, Program, ReportClass)>,
    idle_restart: bool,
    ecn: Ecn,
    told: Told,
}

struct ReportClass {
    class: Py<PyType>,
    layout: Py<Layout>,
}

/// The algorithm that a class with these parameters is.
///
/// # Errors
/// Everything that is wrong with the class: its constructor raises, it lacks something, a program
/// does not compile.
pub(crate) fn choice(
    class: &Bound<'_, PyAny>,
    parameters: &Bound<'_, PyDict>,
) -> Result<Choice, Unknown> {
    let loaded = Arc::new(load(class, parameters)?);
    let name = loaded.name.clone();
    Ok(Choice::new(&name, move |programs| {
        Ok(Box::new(Hosted::new(Arc::clone(&loaded), programs)?))
    }))
}

fn load(class: &Bound<'_, PyAny>, parameters: &Bound<'_, PyDict>) -> Result<Loaded, Unknown> {
    let py = class.py();
    let one = |fault: String| Unknown {
        faults: vec![fault],
    };
    let raised = |error: PyErr| one(trouble::traceback(py, &error));
    let called: String = class
        .getattr("__name__")
        .and_then(|name| name.extract())
        .map_err(|_| one(format!("{class} is not a class")))?;
    // What a class is, its programs above all, may depend on its parameters.
    let instance = class.call((), Some(parameters)).map_err(raised)?;
    let mut faults = Vec::new();
    let sources = sources(&instance, &called, &mut faults).map_err(raised)?;
    let mut programs = Vec::new();
    for (name, source) in sources {
        match fairwater_lang::compile(&name, &source) {
            Ok(compiled) => programs.push((name, compiled.program)),
            Err(diagnostics) => faults.push(format!(
                "program `{name}` of {called} does not compile\n{diagnostics}"
            )),
        }
    }
    let on_report = instance.getattr_opt("on_report").map_err(raised)?;
    if !on_report.is_some_and(|method| method.is_callable()) {
        faults.push(format!("{called} has no method on_report(report, control)"));
    }
    if !faults.is_empty() {
        return Err(Unknown { faults });
    }
    let programs = programs.into_iter().map(|(name, program)| {
        let layout = Layout::of(&name, &program);
        let class = ReportClass {
            class: report::class(py, &layout)?.unbind(),
            layout: Py::new(py, layout)?,
        };
        Ok((name, program, class))
    });
    let programs = programs.collect::<PyResult<Vec<_>>>().map_err(raised)?;
    let flag = |name: &str, otherwise: bool| match instance.getattr_opt(name)? {
        Some(value) => value.extract(),
        None => Ok(otherwise),
    };
    let name = match instance.getattr_opt("name").map_err(raised)? {
        Some(name) if !name.is_none() => name.extract().map_err(raised)?,
        _ => called.to_lowercase(),
    };
    let needs_ecn = flag("needs_ecn", false).map_err(raised)?;
    Ok(Loaded {
        name,
        class: class.clone().unbind(),
        parameters: parameters.clone().unbind(),
        programs,
        idle_restart: flag("idle_restart", true).map_err(raised)?,
        ecn: if needs_ecn {
            Ecn::Required
        } else {
            Ecn::AsConfigured
        },
        told: Told::default(),
    })
}

/// The programs by name, in their order: one text is named for its class.
fn sources(
    instance: &Bound<'_, PyAny>,
    called: &str,
    faults: &mut Vec<String>,
) -> PyResult<Vec<(String, String)>> {
    let wanted = "a text, or texts by name, the one that flows begin with first";
    let Some(programs) = instance.getattr_opt("programs")? else {
        faults.push(format!("{called} has no `programs`: {wanted}"));
        return Ok(Vec::new());
    };
    if let Ok(text) = programs.cast::<PyString>() {
        return Ok(vec![(called.to_lowercase(), text.to_string())]);
    }
    let by_name: Option<Vec<(String, String)>> = match programs.cast::<PyMapping>() {
        Ok(mapping) => mapping.items()?.extract().ok(),
        Err(_) => None,
    };
    match by_name {
        Some(texts) if !texts.is_empty() => Ok(texts),
        _ => {
            faults.push(format!(
                "`programs` of {called} is {}: it must be {wanted}",
                programs.get_type().name()?
            ));
            Ok(Vec::new())
        }
    }
}

/// A loaded class in a plane.
struct Hosted {
    loaded: Arc<Loaded>,
    shared: Arc<[Fields]>,
    targets: Arc<[Target]>,
}

/// The report fields of a program.
struct Fields {
    program: ProgramId,
    fields: Vec<Field>,
}

impl Hosted {
    fn new(loaded: Arc<Loaded>, programs: &mut Programs) -> Result<Self, AlgorithmError> {
        let mut shared = Vec::new();
        let mut targets = Vec::new();
        for (name, program, _) in &loaded.programs {
            let handle = programs.add_checked(name, program.clone());
            let mut fields = Vec::new();
            let mut variables = Vec::new();
            for variable in &program.variables {
                match variable.scope {
                    Scope::Report => fields.push(handle.field(&variable.name)?),
                    Scope::Control => {
                        let var = handle.variable(&variable.name)?;
                        variables.push((variable.name.clone(), var, variable.ty));
                    }
                    Scope::Hidden => {}
                }
            }
            shared.push(Fields {
                program: handle.id(),
                fields,
            });
            targets.push(Target {
                name: name.clone(),
                id: handle.id(),
                variables,
            });
        }
        Ok(Self {
            loaded,
            shared: shared.into(),
            targets: targets.into(),
        })
    }

    fn begin(
        &self,
        py: Python<'_>,
        info: &plane::FlowInfo,
        control: &mut plane::Control<'_>,
    ) -> PyResult<Governed> {
        let loaded = &self.loaded;
        let instance = loaded
            .class
            .bind(py)
            .call((), Some(loaded.parameters.bind(py)))?;
        let wishes = Bound::new(py, Control::new(Arc::clone(&self.targets)))?;
        let mut reports = Vec::new();
        for (_, _, report) in &loaded.programs {
            let object = report.class.bind(py).call1((&report.layout,))?;
            let object = object.cast_into::<Report>()?;
            let arguments = (&object, &wishes).into_pyobject(py)?.unbind();
            reports.push((object.unbind(), arguments));
        }
        if let Some(new_flow) = instance.getattr_opt("new_flow")? {
            wishes.get().open(control.running());
            let made = new_flow.call1((FlowInfo::from(info), &wishes));
            match made.and_then(|result| trouble::require_nothing("new_flow", &result)) {
                Ok(()) => wishes.get().close(control),
                Err(error) => {
                    wishes.get().abandon();
                    return Err(error);
                }
            }
        }
        Ok(Governed {
            on_report: instance.getattr("on_report")?.unbind(),
            instance: instance.unbind(),
            control: wishes.unbind(),
            reports,
            shared: Arc::clone(&self.shared),
            loaded: Arc::clone(loaded),
            raised: false,
        })
    }
}

impl plane::Algorithm for Hosted {
    fn name(&self) -> &str {
        &self.loaded.name
    }

    fn new_flow(
        &self,
        info: &plane::FlowInfo,
        control: &mut plane::Control<'_>,
    ) -> Box<dyn plane::Flow> {
        Python::attach(|py| match self.begin(py, info, control) {
            Ok(flow) => Box::new(flow) as Box<dyn plane::Flow>,
            Err(error) => {
                let place = format!("a new flow, at {} µs", info.now_us);
                control.withdraw(self.loaded.told.raised(py, "new_flow", &error, &place));
                Box::new(Nobody)
            }
        })
    }

    fn idle_restart(&self) -> bool {
        self.loaded.idle_restart
    }

    fn ecn(&self) -> Ecn {
        self.loaded.ecn
    }
}

/// The flow of an algorithm that failed to begin it; it is withdrawn.
struct Nobody;

impl plane::Flow for Nobody {
    fn on_report(&mut self, _: &plane::Report<'_>, _: &mut plane::Control<'_>) {}
}

/// A flow: an instance of the class.
struct Governed {
    instance: Py<PyAny>,
    on_report: Py<PyAny>,
    control: Py<Control>,
    /// By program, the report object and the arguments of `on_report` with it.
    reports: Vec<(Py<Report>, Py<PyTuple>)>,
    shared: Arc<[Fields]>,
    loaded: Arc<Loaded>,
    raised: bool,
}

impl plane::Flow for Governed {
    fn on_report(&mut self, report: &plane::Report<'_>, control: &mut plane::Control<'_>) {
        let program = report.program();
        let reporters = self.shared.iter().zip(&self.reports);
        let Some((fields, (object, arguments))) =
            reporters.into_iter().find(|(f, _)| f.program == program)
        else {
            return;
        };
        Python::attach(|py| {
            let (read, wishes) = (object.get(), self.control.get());
            read.open(report, &fields.fields);
            wishes.open(program);
            let called = self.on_report.bind(py).call1(arguments.bind(py));
            match called.and_then(|result| trouble::require_nothing("on_report", &result)) {
                Ok(()) => wishes.close(control),
                Err(error) => {
                    self.raised = true;
                    wishes.abandon();
                    let place = format!(
                        "a report of program `{}` at {} µs: {}",
                        read.program(),
                        report.time_us(),
                        read.told()
                    );
                    control.withdraw(self.loaded.told.raised(py, "on_report", &error, &place));
                }
            }
            read.close();
        });
    }

    fn on_close(&mut self) {
        if self.raised {
            return;
        }
        Python::attach(|py| {
            let instance = self.instance.bind(py);
            let closed = match instance.getattr_opt("on_close") {
                Ok(Some(on_close)) => on_close.call0().map(|_| ()),
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            };
            match closed {
                Ok(()) => {}
                Err(error) if trouble::is_interrupt(py, &error) => {}
                // The flow is gone: nobody is left to be told of it but the author.
                Err(error) => error.write_unraisable(py, Some(instance)),
            }
        });
    }
}
