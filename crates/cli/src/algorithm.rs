//! Which algorithm a text stands for: one of this project's, or a class in a Python file.

use std::fmt;
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
#[derive(Debug, Clone, Copy)]
pub struct Python {
    /// What a class in a file stands for: the file, and behind it `Class` or
    /// `Class:key=value,key=value`.
    pub load: fn(&Path, &str) -> Result<Choice, Unknown>,
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

/// The algorithm of a text in a file of that folder.
pub(crate) fn beside(text: &str, folder: &Path) -> Result<Chosen, Unknown> {
    let Some((file, class)) = in_python(text) else {
        return match by_spec(text) {
            Ok(choice) => Ok(Chosen { choice }),
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
    })
}

/// The file and what stands behind it, of a text that names a class in a Python file.
fn in_python(text: &str) -> Option<(&str, &str)> {
    let (file, class) = text.split_once(':').unwrap_or((text, ""));
    file.ends_with(".py").then_some((file, class))
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
