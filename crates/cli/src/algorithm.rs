//! Which algorithm a text stands for: one of this project's, or a class in a Python file.

use std::fmt;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use fairwater_algorithms::{Choice, by_spec};

/// An algorithm that was chosen.
#[derive(Debug, Clone)]
pub(crate) struct Chosen {
    /// What builds it.
    pub(crate) choice: Choice,
    /// The text by which another process in the same folder finds it.
    pub(crate) text: String,
    /// Whether it is in Python.
    pub(crate) is_python: bool,
}

/// Why a text stands for no algorithm: every fault, one a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Unknown {
    /// Each fault, as one sentence.
    pub faults: Vec<String>,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.faults.join("\n"))
    }
}

/// What this process, which is a Python interpreter, does for algorithms in Python.
#[derive(Debug, Clone)]
pub struct Python {
    /// What a class in a file stands for: the file, and behind it `Class` or
    /// `Class:key=value,key=value`.
    pub load: fn(&Path, &str) -> Result<Choice, Unknown>,
    /// The command that runs this same program again: the interpreter and its arguments.
    pub command: Vec<String>,
}

static PYTHON: OnceLock<Python> = OnceLock::new();

/// Lets this process load algorithms in Python. The first call counts.
pub fn embed_python(python: Python) {
    // A second call would say the same again.
    let _ = PYTHON.set(python);
}

/// The algorithm of a text on the command line.
pub(crate) fn typed(text: &str) -> Result<Chosen, Unknown> {
    beside(text, Path::new(""))
}

/// What builds the algorithm of a text in a file of that folder: one of this project's, or a class
/// in a Python file.
///
/// # Errors
/// Everything that is wrong with the text, or with the class.
pub fn resolve(text: &str, folder: &Path) -> Result<Choice, Unknown> {
    beside(text, folder).map(|chosen| chosen.choice)
}

/// The algorithm of a text in a file of that folder.
pub(crate) fn beside(text: &str, folder: &Path) -> Result<Chosen, Unknown> {
    let Some((file, class)) = in_python(text) else {
        return match by_spec(text) {
            Ok(choice) => Ok(Chosen {
                choice,
                text: text.to_owned(),
                is_python: false,
            }),
            Err(error) => Err(Unknown {
                faults: error.faults().to_vec(),
            }),
        };
    };
    let file = folder.join(file);
    let Some(python) = PYTHON.get() else {
        return Err(Unknown {
            faults: vec![go_on_in_python(text)],
        });
    };
    Ok(Chosen {
        choice: (python.load)(&file, class)?,
        text: format!("{}:{class}", file.display()),
        is_python: true,
    })
}

/// The file and what stands behind it, of a text that names a class in a Python file.
fn in_python(text: &str) -> Option<(&str, &str)> {
    let (file, class) = text.split_once(':').unwrap_or((text, ""));
    file.ends_with(".py").then_some((file, class))
}

/// The text of the Python file that a text names, in a file of that folder, if it names one.
#[must_use]
pub fn python_source(text: &str, folder: &Path) -> Option<(String, String)> {
    let (file, _) = in_python(text)?;
    let source = fs::read_to_string(folder.join(file)).ok()?;
    Some((file.to_owned(), source))
}

/// The command that runs this program again, as a process of its own.
pub(crate) fn again() -> std::io::Result<Command> {
    match PYTHON.get().map(|python| python.command.as_slice()) {
        Some([program, arguments @ ..]) => {
            let mut command = Command::new(program);
            command.args(arguments);
            Ok(command)
        }
        _ => std::env::current_exe().map(Command::new),
    }
}

/// This program has no Python in it: runs the same command in Python's place for it. Returns only
/// if that cannot be, with the reason. Nothing has begun yet, for algorithms are chosen first.
fn go_on_in_python(text: &str) -> String {
    let mut importable = Command::new("python3");
    importable
        .args(["-c", "import fairwater"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let because = match importable.status() {
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
    format!("`{text}` is in Python, and {because}")
}
