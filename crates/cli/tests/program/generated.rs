//! What packagers generate: completions and man pages.

use std::fs;

fn fairwater(args: &[&str]) -> (String, String, Option<i32>) {
    let output = crate::support::fairwater(args);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        text(output.stdout),
        text(output.stderr),
        output.status.code(),
    )
}

/// The names of the subcommands, from the help text itself.
fn subcommands() -> Vec<String> {
    let (help, _, _) = fairwater(&["--help"]);
    help.lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn completions_know_every_subcommand_in_every_shell() {
    let names = subcommands();
    assert!(names.iter().any(|name| name == "man"), "{names:?}");
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let (script, errors, code) = fairwater(&["completions", shell]);
        assert_eq!((code, errors.as_str()), (Some(0), ""), "{shell}");
        for name in &names {
            assert!(script.contains(name.as_str()), "{shell} lacks {name}");
        }
    }
}

#[test]
fn a_man_page_is_written_for_every_subcommand() {
    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().join("man1");
    let (_, errors, code) = fairwater(&["man", "--dir", pages.to_str().unwrap()]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert!(
        fs::read_to_string(pages.join("fairwater.1"))
            .unwrap()
            .contains(".SH")
    );
    for name in subcommands().iter().filter(|name| *name != "help") {
        let page = fs::read_to_string(pages.join(format!("fairwater-{name}.1"))).unwrap();
        assert!(
            page.contains("Examples"),
            "{name} shows no example:\n{page}"
        );
    }
}

#[test]
fn man_pages_that_cannot_be_written_are_an_error() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let (_, errors, code) = fairwater(&["man", "--dir", file.path().to_str().unwrap()]);
    assert_eq!(code, Some(1));
    assert!(errors.contains(file.path().to_str().unwrap()), "{errors}");
}
