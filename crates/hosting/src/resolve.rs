//! Resolves the spec of an algorithm, as users type it: an algorithm of this project, or a class
//! in a Python file.

use std::fmt;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use fairwater_algorithms::{Choice, by_spec};

use crate::fork;

/// An algorithm that a spec named.
#[derive(Debug, Clone)]
pub struct ResolvedAlgorithm {
    /// Builds the algorithm.
    pub choice: Choice,
    /// A spec by which another process in the same working directory finds the algorithm.
    pub spec: String,
    /// Whether the algorithm is a Python class.
    pub is_python: bool,
}

/// Why a spec names no algorithm.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ResolveError {
    /// Everything that is wrong, one sentence each.
    pub messages: Vec<String>,
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.messages.join("\n"))
    }
}

/// What a process that is a Python interpreter does for algorithms in Python.
#[derive(Debug, Clone)]
pub struct PythonRuntime {
    /// Loads a class: the file, and the part of the spec after it, `Class` or
    /// `Class:key=value,key=value`.
    pub load: fn(&Path, &str) -> Result<Choice, ResolveError>,
    /// The command that runs this same program again: the interpreter and its arguments.
    pub command: Vec<String>,
}

static PYTHON: OnceLock<PythonRuntime> = OnceLock::new();

/// Lets this process load algorithms in Python. Only the first call has an effect.
pub fn embed_python(runtime: PythonRuntime) {
    // A second call would bring the same runtime.
    let _ = PYTHON.set(runtime);
}

/// Resolves a spec from the command line: files are relative to the working directory.
///
/// # Errors
/// Everything that is wrong with the spec, or with the class.
pub fn resolve_argument(spec: &str) -> Result<ResolvedAlgorithm, ResolveError> {
    resolve(spec, Path::new(""))
}

/// Resolves a spec in which files are relative to `folder`.
///
/// # Errors
/// Everything that is wrong with the spec, or with the class.
pub fn resolve(spec: &str, folder: &Path) -> Result<ResolvedAlgorithm, ResolveError> {
    let Some((file, class)) = python_class(spec) else {
        return match by_spec(spec) {
            Ok(choice) => Ok(ResolvedAlgorithm {
                choice,
                spec: spec.to_owned(),
                is_python: false,
            }),
            Err(error) => Err(ResolveError {
                messages: error.faults().to_vec(),
            }),
        };
    };
    let file = folder.join(file);
    let Some(python) = PYTHON.get() else {
        // Another program in this one's place would leave the plane's flows behind.
        let message = match fork::hosts_plane() {
            true => format!(
                "`{spec}` is in Python, and this process has no interpreter: restart the plane"
            ),
            false => reexecute_in_python(spec),
        };
        return Err(ResolveError {
            messages: vec![message],
        });
    };
    Ok(ResolvedAlgorithm {
        choice: (python.load)(&file, class)?,
        spec: format!("{}:{class}", file.display()),
        is_python: true,
    })
}

/// Splits a spec that names a class in a Python file into the file and the rest.
fn python_class(spec: &str) -> Option<(&str, &str)> {
    let (file, class) = spec.split_once(':').unwrap_or((spec, ""));
    file.ends_with(".py").then_some((file, class))
}

/// Whether a spec names a class in a Python file.
#[must_use]
pub fn is_python_spec(spec: &str) -> bool {
    python_class(spec).is_some()
}

/// The name and the source of the Python file that a spec names, relative to `folder`.
#[must_use]
pub fn python_source(spec: &str, folder: &Path) -> Option<(String, String)> {
    let (file, _) = python_class(spec)?;
    let source = fs::read_to_string(folder.join(file)).ok()?;
    Some((file.to_owned(), source))
}

/// The command that runs this program again, as another process: under a Python interpreter where this
/// process is one.
///
/// # Errors
/// The program's own file is not known.
pub fn own_command() -> std::io::Result<Command> {
    match PYTHON.get().map(|python| python.command.as_slice()) {
        Some([program, arguments @ ..]) => {
            let mut command = Command::new(program);
            command.args(arguments);
            Ok(command)
        }
        _ => std::env::current_exe().map(Command::new),
    }
}

/// Replaces this process, which has no Python in it, by `python3 -m fairwater` with the same
/// arguments. Returns only on failure, with the reason. Algorithms are resolved before anything
/// is started, so there is nothing to undo.
fn reexecute_in_python(spec: &str) -> String {
    let mut importable = Command::new("python3");
    importable
        .args(["-c", "import fairwater"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let reason = match importable.status() {
        Ok(status) if status.success() => {
            let mut same = Command::new("python3");
            same.args(["-m", "fairwater"])
                .args(std::env::args_os().skip(1));
            format!("`python3` cannot be run: {}", same.exec())
        }
        Ok(_) => "`python3` has no package `fairwater`: install it by `pip install .` in \
                  Fairwater's source"
            .to_owned(),
        Err(error) => format!("`python3` cannot be run: {error}"),
    };
    format!("`{spec}` is in Python, and {reason}")
}
