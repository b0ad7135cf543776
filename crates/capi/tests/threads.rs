//! `ccp.h` says that its functions may be called from several threads at once.

mod support;

use std::fmt::Write;
use std::process::Command;

use fairwater_exec::portable::{self, Append};
use fairwater_proto::{Dialect, FlowId, ToDatapath, Updates};
use support::{compile, compile_sanitized, run};

const WORKERS: u32 = 4;

#[test]
fn connections_of_several_threads_are_invoked_started_ended_and_commanded_at_once() {
    let source = "(def (Report (volatile acked 0)))
        (when true (:= Report.acked (+ Report.acked Ack.bytes_acked)) (fallthrough))
        (when (== Report.acked 100) (report))";
    let program = fairwater_lang::compile("case.ccp", source).unwrap().program;
    let encoded = portable::encode(&program, Append::Nothing).unwrap();
    let install = ToDatapath::Install {
        idle_restart: true,
        program: 2,
        body: &encoded.body,
    };
    let switches = (0..WORKERS).map(|slot| ToDatapath::Command {
        flow: FlowId {
            slot,
            generation: 0,
        },
        switch: Some(2),
        cwnd: None,
        rate: None,
        updates: Updates::default(),
        withdraw: false,
    });
    let mut input = String::new();
    for message in std::iter::once(install).chain(switches) {
        let mut bytes = Vec::new();
        Dialect::Ccp
            .encode_to_datapath(&message, &mut bytes)
            .unwrap();
        for byte in bytes {
            write!(input, "{byte:02x}").unwrap();
        }
        input.push('\n');
    }

    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("threads");
    if compile_sanitized("tests/c/ccp_threads.c", &binary).is_none() {
        compile("tests/c/ccp_threads.c", &binary);
    }
    let said = run(&mut Command::new(&binary), &input);
    let mut expected: String = (1..=WORKERS)
        .map(|worker| format!("{worker} 1000 100000\n"))
        .collect();
    expected += "wrong 0, set 1\n";
    assert_eq!(said, expected);
}
