//! A Python class as an algorithm of the plane; each of its instances is one flow, or the flows of
//! one key.

use std::sync::Arc;

use fairwater_algorithms::Choice;
use fairwater_hosting::ResolveError;
use fairwater_lang::{Program, Scope};
use fairwater_plane::{
    self as plane, Aggregate, AlgorithmError, Ecn, Field, Key, ProgramId, Programs,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping, PyString, PyTuple, PyType};

use crate::aggregate::{self, GroupControls, PythonAggregate};
use crate::command::call_algorithm;
use crate::control::{Control, Target};
use crate::errors::{self, ReportedErrors};
use crate::flow_info::FlowInfo;
use crate::report::{self, Layout, Report};

/// A class with its parameters, looked at once: everything that can be known to be wrong before a
/// flow begins was found.
struct Loaded {
    name: String,
    class: Py<PyAny>,
    parameters: Py<PyDict>,
    programs: Vec<(String, Program, ReportClass)>,
    /// The method of an instance that has no flows.
    aggregate_by: Option<Py<PyAny>>,
    idle_restart: bool,
    needs_rate: bool,
    ecn: Ecn,
    errors: ReportedErrors,
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
) -> Result<Choice, ResolveError> {
    let loaded = Arc::new(load(class, parameters)?);
    let name = loaded.name.clone();
    Ok(Choice::new(&name, move |programs| {
        Ok(Box::new(Hosted::new(Arc::clone(&loaded), programs)?))
    }))
}

fn load(class: &Bound<'_, PyAny>, parameters: &Bound<'_, PyDict>) -> Result<Loaded, ResolveError> {
    let py = class.py();
    let one = |fault: String| ResolveError {
        messages: vec![fault],
    };
    let raised = |error: PyErr| one(errors::traceback(py, &error));
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
    if !on_report.is_some_and(|method| method.is_callable() && !is_inherited(&method)) {
        faults.push(format!("{called} has no method on_report(report, control)"));
    }
    let aggregate_by = instance.getattr_opt("aggregate_by").map_err(raised)?;
    let aggregate_by = aggregate_by.filter(|method| !method.is_none());
    if aggregate_by
        .as_ref()
        .is_some_and(|method| !method.is_callable())
    {
        faults.push(format!(
            "`aggregate_by` of {called} is no method aggregate_by(info)"
        ));
    }
    if !faults.is_empty() {
        return Err(ResolveError { messages: faults });
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
        aggregate_by: aggregate_by.map(Bound::unbind),
        idle_restart: flag("idle_restart", true).map_err(raised)?,
        needs_rate: flag("needs_rate", false).map_err(raised)?,
        ecn: if needs_ecn {
            Ecn::Required
        } else {
            Ecn::AsConfigured
        },
        errors: ReportedErrors::default(),
    })
}

/// Whether `on_report` is that of `fairwater.Algorithm`, which only raises.
fn is_inherited(on_report: &Bound<'_, PyAny>) -> bool {
    let base = || {
        let module = on_report.py().import("fairwater._algorithm")?;
        module.getattr("Algorithm")?.getattr("on_report")
    };
    match (on_report.getattr("__func__"), base()) {
        (Ok(function), Ok(base)) => function.is(&base),
        _ => false,
    }
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

    fn instantiate(&self, py: Python<'_>) -> PyResult<AlgorithmInstance> {
        let loaded = &self.loaded;
        let object = loaded
            .class
            .bind(py)
            .call((), Some(loaded.parameters.bind(py)))?;
        let mut reports = Vec::new();
        for (_, _, report) in &loaded.programs {
            let report = report.class.bind(py).call1((&report.layout,))?;
            reports.push(report.cast_into::<Report>()?.unbind());
        }
        Ok(AlgorithmInstance {
            on_report: object.getattr("on_report")?.unbind(),
            object: object.unbind(),
            reports,
            shared: Arc::clone(&self.shared),
            targets: Arc::clone(&self.targets),
            loaded: Arc::clone(loaded),
        })
    }

    fn begin(
        &self,
        py: Python<'_>,
        info: &plane::FlowInfo,
        control: &mut plane::Control<'_>,
    ) -> PyResult<PythonFlow> {
        let instance = self.instantiate(py)?;
        let py_control = Bound::new(py, Control::new(Arc::clone(&self.targets)))?;
        let mut arguments = Vec::new();
        for report in &instance.reports {
            arguments.push((report, &py_control).into_pyobject(py)?.unbind());
        }
        py_control.get().open(control.running());
        match instance.new_flow(py, info, &py_control) {
            Ok(()) => py_control.get().close(control),
            Err(error) => {
                py_control.get().abandon();
                return Err(error);
            }
        }
        Ok(PythonFlow {
            instance,
            control: py_control.unbind(),
            arguments,
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
        call_algorithm(|py| match self.begin(py, info, control) {
            Ok(flow) => Box::new(flow) as Box<dyn plane::Flow>,
            Err(error) => {
                let place = format!("a new flow, at {} µs", info.now_us);
                control.withdraw(self.loaded.errors.raised(py, "new_flow", &error, &place));
                Box::new(WithdrawnFlow)
            }
        })
    }

    /// A key function that raises is heard of once, and its flow runs alone.
    fn aggregate_by(&self, info: &plane::FlowInfo) -> Option<Key> {
        let aggregate_by = self.loaded.aggregate_by.as_ref()?;
        call_algorithm(|py| {
            let aggregate_by = aggregate_by.bind(py);
            let value = aggregate_by.call1((FlowInfo::from(info),));
            match value.and_then(|value| aggregate::key(&value)) {
                Ok(key) => key,
                Err(error) => {
                    let reported = &self.loaded.errors;
                    reported.unraisable(py, "aggregate_by", error, aggregate_by);
                    None
                }
            }
        })
    }

    fn new_aggregate(&self, _: &Key, info: &plane::FlowInfo) -> Option<Box<dyn Aggregate>> {
        let instance = call_algorithm(|py| {
            self.instantiate(py).map_err(|error| {
                let place = format!("a new aggregate, at {} µs", info.now_us);
                self.loaded
                    .errors
                    .raised(py, "the constructor", &error, &place)
            })
        });
        Some(Box::new(PythonAggregate::new(instance)))
    }

    fn idle_restart(&self) -> bool {
        self.loaded.idle_restart
    }

    fn needs_rate(&self) -> bool {
        self.loaded.needs_rate
    }

    fn ecn(&self) -> Ecn {
        self.loaded.ecn
    }
}

/// The flow of an algorithm that failed to begin it; it is withdrawn.
struct WithdrawnFlow;

impl plane::Flow for WithdrawnFlow {
    fn on_report(&mut self, _: &plane::Report<'_>, _: &mut plane::Control<'_>) {}
}

/// An instance of the class.
pub(crate) struct AlgorithmInstance {
    object: Py<PyAny>,
    on_report: Py<PyAny>,
    /// By program, its report object.
    reports: Vec<Py<Report>>,
    shared: Arc<[Fields]>,
    targets: Arc<[Target]>,
    loaded: Arc<Loaded>,
}

impl AlgorithmInstance {
    pub(crate) fn control_of(&self, member: usize, group: &Arc<GroupControls>) -> Control {
        Control::of_member(Arc::clone(&self.targets), member, Arc::clone(group))
    }

    pub(crate) fn new_flow(
        &self,
        py: Python<'_>,
        info: &plane::FlowInfo,
        control: &Bound<'_, Control>,
    ) -> PyResult<()> {
        match self.object.bind(py).getattr_opt("new_flow")? {
            Some(new_flow) => {
                let made = new_flow.call1((FlowInfo::from(info), control))?;
                errors::require_nothing("new_flow", &made)
            }
            None => Ok(()),
        }
    }

    /// Fills the report object of its program, whose index is returned too. None if the report is of
    /// no program of the class.
    pub(crate) fn read(&self, report: &plane::Report<'_>) -> Option<(usize, &Py<Report>)> {
        let program = report.program();
        let at = self.shared.iter().position(|f| f.program == program)?;
        let object = self.reports.get(at)?;
        object.get().open(report, &self.shared[at].fields);
        Some((at, object))
    }

    pub(crate) fn on_report<'py>(&self, py: Python<'py>) -> &Bound<'py, PyAny> {
        self.on_report.bind(py)
    }

    /// Why a flow is given up after `on_report` raised.
    pub(crate) fn refused(
        &self,
        py: Python<'_>,
        error: &PyErr,
        report: &plane::Report<'_>,
        read: &Report,
    ) -> String {
        let place = format!(
            "a report of program `{}` at {} µs: {}",
            read.program(),
            report.time_us(),
            read.summary()
        );
        self.raised(py, "on_report", error, &place)
    }

    pub(crate) fn raised(&self, py: Python<'_>, call: &str, error: &PyErr, place: &str) -> String {
        self.loaded.errors.raised(py, call, error, place)
    }

    /// Tells that a flow's segments have another size.
    pub(crate) fn on_mss(
        &self,
        py: Python<'_>,
        mss: u32,
        control: &Bound<'_, Control>,
    ) -> PyResult<()> {
        match self.object.bind(py).getattr_opt("on_mss")? {
            Some(on_mss) => {
                let result = on_mss.call1((mss, control))?;
                errors::require_nothing("on_mss", &result)
            }
            None => Ok(()),
        }
    }

    /// Tells that a member left, and who are left.
    pub(crate) fn on_leave(
        &self,
        py: Python<'_>,
        member: usize,
        others: Vec<Py<Control>>,
    ) -> PyResult<()> {
        match self.object.bind(py).getattr_opt("on_leave")? {
            Some(on_leave) => {
                let result = on_leave.call1((member, others))?;
                errors::require_nothing("on_leave", &result)
            }
            None => Ok(()),
        }
    }

    pub(crate) fn on_close(&self, py: Python<'_>) {
        let closed = match self.object.bind(py).getattr_opt("on_close") {
            Ok(Some(on_close)) => on_close.call0().map(|_| ()),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = closed {
            self.unraisable(py, "on_close", error);
        }
    }

    /// Shows what was raised where no flow is given up for it.
    pub(crate) fn unraisable(&self, py: Python<'_>, call: &str, error: PyErr) {
        let object = self.object.bind(py);
        self.loaded.errors.unraisable(py, call, error, object);
    }
}

/// A flow that is alone.
struct PythonFlow {
    instance: AlgorithmInstance,
    control: Py<Control>,
    /// By program, the arguments of `on_report`.
    arguments: Vec<Py<PyTuple>>,
    raised: bool,
}

impl plane::Flow for PythonFlow {
    fn on_report(&mut self, report: &plane::Report<'_>, control: &mut plane::Control<'_>) {
        call_algorithm(|py| {
            let Some((at, object)) = self.instance.read(report) else {
                return;
            };
            let (read, py_control) = (object.get(), self.control.get());
            py_control.open(report.program());
            let called = self
                .instance
                .on_report(py)
                .call1(self.arguments[at].bind(py));
            match called.and_then(|result| errors::require_nothing("on_report", &result)) {
                Ok(()) => py_control.close(control),
                Err(error) => {
                    self.raised = true;
                    py_control.abandon();
                    control.withdraw(self.instance.refused(py, &error, report, read));
                }
            }
            read.close();
        });
    }

    fn on_mss(&mut self, mss: u32, control: &mut plane::Control<'_>) {
        call_algorithm(|py| {
            let py_control = self.control.bind(py);
            py_control.get().open(control.running());
            match self.instance.on_mss(py, mss, py_control) {
                Ok(()) => py_control.get().close(control),
                Err(error) => {
                    self.raised = true;
                    py_control.get().abandon();
                    let place = format!("segments of {mss} bytes");
                    control.withdraw(self.instance.raised(py, "on_mss", &error, &place));
                }
            }
        });
    }

    fn on_close(&mut self) {
        if !self.raised {
            call_algorithm(|py| self.instance.on_close(py));
        }
    }
}
