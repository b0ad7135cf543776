//! A C program written for libccp behaves the same over libfairwater: one script runs through both
//! libraries, in libccp's own acceptance cases.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../crates/capi/tests/support/mod.rs"]
mod support;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use fairwater_exec::portable::{self, Append};
use fairwater_lang::{Scope, compile};
use fairwater_proto::{Dialect, FlowId, ToDatapath, ToPlane, Update, Updates};
use support::{compile as compile_c, compile_sanitized, run};

const DRIVER: &str = "tests/c/ccp_driver.c";

/// What a script says and what is known of it beforehand.
#[derive(Default)]
struct Script(String);

impl Script {
    fn line(mut self, line: &str) -> Self {
        writeln!(self.0, "{line}").unwrap();
        self
    }

    fn message(self, message: &ToDatapath<'_>) -> Self {
        let mut bytes = Vec::new();
        Dialect::Ccp
            .encode_to_datapath(message, &mut bytes)
            .unwrap();
        Dialect::Ccp.split(&bytes).fold(self, |script, message| {
            let hex: String = message.iter().map(|byte| format!("{byte:02x}")).collect();
            script.line(&format!("msg {hex}"))
        })
    }

    /// Installs the program under a number.
    fn install(self, number: u32, source: &str) -> Self {
        let program = compile("case.ccp", source).unwrap().program;
        let encoded = portable::encode(&program, Append::Nothing).unwrap();
        self.message(&ToDatapath::Install {
            idle_restart: true,
            program: number,
            body: &encoded.body,
        })
    }

    /// Switches the connection of an index to a program, with its control variables preset.
    fn switch(self, index: u32, number: u32, source: &str, presets: &[(&str, u64)]) -> Self {
        let program = compile("case.ccp", source).unwrap().program;
        let encoded = portable::encode(&program, Append::Nothing).unwrap();
        let updates: Vec<_> = presets
            .iter()
            .map(|(name, value)| {
                let variable = program.variable(Scope::Control, name).unwrap();
                let register = u16::try_from(encoded.controls[&variable]).unwrap();
                Update {
                    variable: register,
                    value: *value,
                }
            })
            .collect();
        self.command(index, Some(number), None, None, &updates)
    }

    fn command(
        self,
        index: u32,
        switch: Option<u32>,
        cwnd: Option<u64>,
        rate: Option<u64>,
        updates: &[Update],
    ) -> Self {
        self.message(&ToDatapath::Command {
            flow: FlowId {
                slot: index - 1,
                generation: 0,
            },
            switch,
            cwnd,
            rate,
            updates: Updates::from(updates),
            withdraw: false,
        })
    }

    /// So many ACKs, 1 ms apart, of so many bytes each.
    fn acks(mut self, index: u32, count: u32, bytes: u32) -> Self {
        for _ in 0..count {
            self = self
                .line("time 1000")
                .line(&format!("ack {index} {bytes} 1 0 10000 0"));
        }
        self
    }
}

/// What a run printed: its lines, and what they say of reports and ends.
#[derive(Debug, PartialEq, Eq)]
struct Transcript(Vec<String>);

impl Transcript {
    /// The messages to the agent, as text: a report is its connection and fields.
    fn messages(&self) -> Vec<String> {
        let hex = |line: &str| -> Vec<u8> {
            let digits = line.as_bytes().chunks(2);
            let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16);
            digits.map(|pair| byte(pair).unwrap()).collect()
        };
        let sent = self.0.iter().filter_map(|line| line.strip_prefix("send "));
        sent.map(|line| {
            let bytes = hex(line);
            let message = Dialect::Ccp.to_plane(&bytes).next().unwrap().unwrap();
            match message {
                ToPlane::Hello(hello) => format!("ready {}", hello.instance),
                ToPlane::Created { flow, info, .. } => {
                    format!("create {} of {}", flow.slot + 1, info.mss)
                }
                ToPlane::Reported { flow, fields, .. } => {
                    let fields: Vec<_> = fields.iter().collect();
                    format!("report {} {fields:?}", flow.slot + 1)
                }
                ToPlane::Closed { flow } => format!("close {}", flow.slot + 1),
                other => panic!("{other:?}"),
            }
        })
        .collect()
    }

    /// The reports, in order.
    fn reports(&self) -> Vec<String> {
        let messages = self.messages().into_iter();
        messages.filter(|m| m.starts_with("report")).collect()
    }
}

/// The driver over libfairwater; the binary `libccp-driver` is the same driver over libccp.
struct Driver {
    _folder: tempfile::TempDir,
    fairwater: PathBuf,
}

impl Driver {
    fn build() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let fairwater = folder.path().join("driver");
        compile_c(DRIVER, &fairwater);
        Self {
            _folder: folder,
            fairwater,
        }
    }

    /// Runs a script through both libraries, which must do the same.
    fn run(&self, script: Script) -> Transcript {
        // Our library greets in our own dialect too, which agents written for libccp drop.
        let own = |line: &&str| line.starts_with("send 4657");
        let through = |program: &Path| {
            let printed = run(&mut Command::new(program), &script.0);
            let lines = printed.lines().filter(|line| !own(line));
            Transcript(lines.map(str::to_owned).collect())
        };
        let fairwater = through(&self.fairwater);
        let libccp = through(Path::new(env!("CARGO_BIN_EXE_libccp-driver")));
        assert_eq!(libccp, fairwater, "libccp is on the left\n{}", script.0);
        fairwater
    }

    /// One connection under one program.
    fn run_one(
        &self,
        source: &str,
        presets: &[(&str, u64)],
        then: fn(Script) -> Script,
    ) -> Transcript {
        let script = Script::default().line("start 1000").install(1, source);
        self.run(then(script.switch(1, 1, source, presets)))
    }
}

/// Behaviours that libccp's and portus's own tests pin down.
#[test]
fn programs_do_what_libccp_does_with_them() {
    let driver = Driver::build();
    let reports = |source: &str, presets: &[(&str, u64)], then: fn(Script) -> Script| {
        driver.run_one(source, presets, then).reports()
    };

    let sum = "(def (Report (volatile acked 0)))
        (when true (:= Report.acked (+ Report.acked Ack.bytes_acked)) (fallthrough))
        (when (== Report.acked 100) (report))";
    assert_eq!(reports(sum, &[], |s| s.acks(1, 25, 5)), ["report 1 [100]"]);

    let preset = "(def (Report (seen 0)) (given 3)) (when true (:= Report.seen given) (report))";
    let one = reports(preset, &[("given", 42)], |s| s.acks(1, 1, 5));
    assert_eq!(one, ["report 1 [42]"]);

    let timer = "(def (Report (at 0)))
        (when (> Micros 3000000) (:= Report.at Micros) (report) (:= Micros 0))";
    let late = reports(timer, &[], |s| {
        s.acks(1, 1, 5).line("time 3500000").acks(1, 2, 5)
    });
    assert_eq!(late, ["report 1 [3501000]"]);

    let tenth = "(def (Report (volatile v 0) (n 0)) (volatile count 0))
        (when true (:= Report.v (+ Report.v 1)) (:= Report.n (+ Report.n 1))
            (:= count (+ count 1)) (fallthrough))
        (when (== count 10) (report))";
    let twice = reports(tenth, &[], |s| s.acks(1, 20, 5));
    assert_eq!(twice, ["report 1 [10, 10]", "report 1 [10, 20]"]);

    let min_rtt = "(def (Report (rtt 1000000)))
        (when (< Flow.rtt_sample_us Report.rtt) (:= Report.rtt Flow.rtt_sample_us) (report))";
    let falling = reports(min_rtt, &[], |s| {
        s.acks(1, 2, 5)
            .line("ack 1 5 1 0 9000 0")
            .line("ack 1 5 1 0 9500 0")
    });
    assert_eq!(falling, ["report 1 [10000]", "report 1 [9000]"]);

    let fallthrough = "(def (Report (n 0)))
        (when true (:= Report.n (+ Report.n 1)) (fallthrough))
        (when (== Report.n 1) (report))
        (when (== Report.n 2) (:= Report.n 3) (report))";
    let both = reports(fallthrough, &[], |s| s.acks(1, 2, 5));
    assert_eq!(both, ["report 1 [1]", "report 1 [3]"]);

    let assigned = "(def (Report (ok 0)))
        (when true (:= Cwnd 5) (fallthrough)) (when (== Cwnd 5) (:= Report.ok 1) (report))";
    let script = driver.run_one(assigned, &[], |s| s.acks(1, 1, 5));
    assert_eq!(script.reports(), ["report 1 [1]"]);
    assert!(script.0.contains(&"cwnd 1 5".to_owned()), "{script:?}");

    let quiet = "(def (Report (n 0)))
        (when true (:= Report.n (+ Report.n 1)) (fallthrough)) (when (> Ack.bytes_acked 0) (report))";
    let third = reports(quiet, &[], |s| s.acks(1, 2, 0).acks(1, 1, 5));
    assert_eq!(third, ["report 1 [3]"]);
}

#[test]
fn connections_are_kept_apart_from_start_to_close() {
    let driver = Driver::build();
    let source = "(def (Report (volatile acked 0)))
        (when true (:= Report.acked (+ Report.acked Ack.bytes_acked)) (fallthrough))
        (when (> Report.acked 20) (report))";
    let script = Script::default()
        .line("start 1000")
        .line("start 1200")
        .install(1, source)
        .switch(1, 1, source, &[])
        .switch(2, 1, source, &[]);
    let script = (0..3).fold(script, |script, _| script.acks(1, 1, 11).acks(2, 1, 7));
    let transcript = driver.run(script.line("free 1").line("free 2"));
    assert_eq!(
        transcript.messages(),
        [
            "ready 9",
            "create 1 of 1000",
            "create 2 of 1200",
            "report 1 [22]",
            "report 2 [21]",
            "close 1",
            "close 2",
        ]
    );
}

#[test]
fn what_an_agent_sets_is_applied_and_seen_by_the_program() {
    let driver = Driver::build();
    let source = "(def (Report (w 0) (r 0)))
        (when true (:= Report.w Cwnd) (:= Report.r Rate) (report))";
    let script = Script::default().line("start 1000").install(1, source);
    let script = script.switch(1, 1, source, &[]).acks(1, 1, 5);
    let script = script
        .command(1, None, Some(42_000), Some(125_000), &[])
        .acks(1, 2, 5);
    let transcript = driver.run(script);
    assert_eq!(
        transcript.reports(),
        [
            "report 1 [10000, 0]",
            "report 1 [42000, 125000]",
            "report 1 [42000, 125000]"
        ]
    );
    let set: Vec<_> = transcript
        .0
        .iter()
        .filter(|line| line.starts_with(['c', 'r']))
        .collect();
    assert_eq!(
        set.into_iter()
            .filter(|line| !line.starts_with("read"))
            .collect::<Vec<_>>(),
        ["cwnd 1 42000", "rate 1 125000"]
    );
}

/// Messages that libccp reads out of bounds (under AddressSanitizer) are refused by ours.
#[test]
fn malformed_messages_are_refused_and_touch_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let driver = folder.path().join("driver");
    if compile_sanitized(DRIVER, &driver).is_none() {
        compile_c(DRIVER, &driver);
    }
    let source = "(def (Report (n 0)) (c 0)) (when true (:= Report.n c) (report))";
    let script = Script::default().line("start 1000").install(1, source);
    let mut script = script.switch(1, 1, source, &[("c", 4)]).acks(1, 1, 5);
    let update = "03001900010000000100000000";
    let wrong = [
        "msg 03".to_owned(),
        format!("msg {update}ffffff7f0100000000000000"),
        format!("msg {update}0000ffff0100000000000000"),
        "msg 04001000010000006300000000000000".to_owned(),
        "msg 04001000070000000100000000000000".to_owned(),
        "msg 02001400000000000200000001000000ffffffff".to_owned(),
        "msg 0900080001000000".to_owned(),
    ];
    for line in &wrong {
        script = script.line(line);
    }
    let said = run(&mut Command::new(&driver), &script.acks(1, 1, 5).0);
    assert_eq!(said.matches("read taken").count(), 2, "{said}");
    assert_eq!(said.matches("read refused").count(), wrong.len(), "{said}");
    let libccp = |line: &&str| !line.starts_with("send 4657");
    let lines = said.lines().filter(libccp);
    let transcript = Transcript(lines.map(str::to_owned).collect());
    assert_eq!(transcript.reports(), ["report 1 [4]"; 2]);
}
