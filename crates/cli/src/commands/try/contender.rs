//! Who sends, as typed: an algorithm of this project, or one of the kernel's.

use std::str::FromStr;

use crate::algorithm::{self, Chosen};

/// `cubic`, `cubic:report=10ms` or `kernel:cubic`.
#[derive(Debug, Clone)]
pub(crate) struct Typed {
    /// What was typed.
    pub(super) label: String,
    pub(super) sender: Sender,
}

#[derive(Debug, Clone)]
pub(super) enum Sender {
    /// An algorithm of this project.
    Ours(Chosen),
    /// A congestion control of the kernel's, by the kernel's name.
    Kernel(String),
}

impl FromStr for Typed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let sender = match text.strip_prefix("kernel:") {
            Some("") => {
                return Err("a name of the kernel's goes behind `kernel:`: `kernel:cubic`".into());
            }
            Some(name) => Sender::Kernel(name.to_owned()),
            None => Sender::Ours(algorithm::typed(text).map_err(|error| error.to_string())?),
        };
        Ok(Self {
            label: text.to_owned(),
            sender,
        })
    }
}

/// The algorithms of this project among them, each under a name that no other has: what comes a
/// second time with other parameters is `cubic_2`.
pub(super) fn ours(contenders: &[Typed]) -> Vec<(String, Chosen)> {
    let mut ours: Vec<(String, Chosen)> = Vec::new();
    for contender in contenders {
        if let Sender::Ours(chosen) = &contender.sender {
            let name = chosen.choice.name();
            let before = ours
                .iter()
                .filter(|(_, other)| other.choice.name() == name)
                .count();
            let name = match before {
                0 => name.to_owned(),
                n => format!("{name}_{}", n + 1),
            };
            ours.push((name, chosen.clone()));
        }
    }
    ours
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_tells_the_kernels_from_ours() {
        let kernel: Typed = "kernel:reno".parse().unwrap();
        assert!(matches!(&kernel.sender, Sender::Kernel(name) if name == "reno"));
        let ours: Typed = "reno:report=10ms".parse().unwrap();
        assert!(matches!(ours.sender, Sender::Ours(chosen) if chosen.choice.name() == "reno"));
        assert!(
            "kernel:"
                .parse::<Typed>()
                .unwrap_err()
                .contains("kernel:cubic")
        );
        assert!("renoo".parse::<Typed>().unwrap_err().contains("`reno`"));
    }

    #[test]
    fn one_algorithm_twice_has_two_names() {
        let typed = [
            "reno",
            "kernel:reno",
            "reno:report=10ms",
            "constant",
            "reno",
        ]
        .map(|text| text.parse().unwrap());
        let names: Vec<_> = ours(&typed).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["reno", "reno_2", "constant", "reno_3"]);
    }
}
