//! Configurations of boxes: whatever the text, either a configuration or a mistake comes out.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use fairwater_hosting::bundle::{BoxConfig, create_key};
use fairwater_hosting::host::HostConfig;
use proptest::prelude::*;

const SEND: &str = "[sendbox]\nplane = \"tap\"\nports = [\"lan0\"]\nlisten = \"[::]:0\"\nmessage_port = 6790\n\
    memory = \"256MB\"\nsilent_after = \"50ms\"\n[[bundle]]\nname = \"a\"\nnumber = 1\nkey = \"a.key\"\n\
    receivebox = \"192.0.2.2\"\nto = [\"10.2.0.0/24\"]\nalgorithm = \"copa\"\nqueue = { type = \"sfq\" }\n\
    queue_limit = \"12MB\"\nqueue_time = \"250ms\"\nmin_rate = \"1mbit\"\nassured_rate = \"2mbit\"\nobserve = true\n";
const RECEIVE: &str = "[receivebox]\nports = [\"wan0\"]\nlisten = \"[::]:6790\"\n[[bundle]]\nname = \"a\"\nnumber = 1\n\
    key = \"a.key\"\nfrom = [\"10.1.0.0/24\"]\nto = [\"10.2.0.0/24\", \"fd02::/64\"]\n";

/// What may stand in the place of some characters.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        "[\\[\\]{}=\",.#\n a-z0-9/:-]{0,8}",
        prop_oneof![
            Just("[[bundle]]\n"),
            Just("[receivebox]\n"),
            Just("[sendbox]\n"),
            Just("\"kernel\""),
            Just("-1"),
            Just("99999999999999999999"),
            Just("1e400"),
            Just("[[]]"),
            Just("\u{0}"),
            Just("é"),
        ]
        .prop_map(str::to_owned),
    ]
}

fn changed(text: &str, changes: &[(usize, usize, String)]) -> String {
    let mut text = text.to_owned();
    for (at, length, piece) in changes {
        let boundary = |mut at: usize| {
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let start = boundary(at % (text.len() + 1));
        let end = boundary((start + length).min(text.len())).max(start);
        text.replace_range(start..end, piece);
    }
    text
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_with_a_reason(
        is_send: bool,
        changes in proptest::collection::vec((0_usize..1_000, 0_usize..30, piece()), 0..4),
    ) {
        let folder = tempfile::tempdir().unwrap();
        create_key(&folder.path().join("a.key")).unwrap();
        let whole = if is_send { SEND } else { RECEIVE };
        let text = changed(whole, &changes);
        let outcome = BoxConfig::parse("it.toml", &text, folder.path());
        if let Err(mistakes) = &outcome {
            prop_assert!(mistakes.to_string().contains("error"), "{mistakes}");
        }
        if changes.is_empty() {
            prop_assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
        }
        // The same in the configuration of a host.
        let host = format!("algorithms = [\"copa\"]\n{}", text.replace("[[bundle]]", "[[sendbox.bundle]]"));
        if let Err(mistakes) = HostConfig::parse("host.toml", &host, folder.path()) {
            prop_assert!(mistakes.to_string().contains("error"), "{mistakes}");
        }
    }
}
