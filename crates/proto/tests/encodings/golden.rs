//! The bytes of one message of each type. Those of libccp's encoding were written by portus 0.9
//! and libccp 1.2 themselves.

use std::path::Path;

use fairwater_lang::Signal;
use fairwater_proto::{
    Abilities, Capabilities, Dialect, Fallback, FlowId, FlowInfo, Hello, Refusal, RefusalReason,
    SignalQualities, SignalQuality, ToDatapath, ToPlane, Update, Welcome,
};

const FLOW: FlowId = FlowId {
    slot: 0x0102,
    generation: 0x0a0b_0c0d,
};

fn golden(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
        .with_extension("hex");
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let bytes = text.split_whitespace();
    bytes
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect()
}

/// Bytes as the files have them, 16 a line.
fn hex(bytes: &[u8]) -> String {
    let line = |line: &[u8]| line.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>();
    let lines = bytes.chunks(16).map(|bytes| line(bytes).join(" ") + "\n");
    lines.collect()
}

/// The message is written as the file's bytes, and read from them.
fn to_plane(dialect: Dialect, name: &str, message: &ToPlane<'_>) {
    let golden = golden(name);
    let mut bytes = Vec::new();
    dialect.encode_to_plane(message, &mut bytes).unwrap();
    assert_eq!(hex(&bytes), hex(&golden), "{name}");
    reads_to_plane(dialect, name, message);
}

fn reads_to_plane(dialect: Dialect, name: &str, message: &ToPlane<'_>) {
    let golden = golden(name);
    assert_eq!(Dialect::of(&golden), Some(dialect), "{name}");
    let read: Vec<_> = dialect.to_plane(&golden).collect();
    assert_eq!(read, [Ok(message.clone())], "{name}");
}

fn to_datapath(dialect: Dialect, name: &str, message: &ToDatapath<'_>) {
    let golden = golden(name);
    let mut bytes = Vec::new();
    dialect.encode_to_datapath(message, &mut bytes).unwrap();
    assert_eq!(hex(&bytes), hex(&golden), "{name}");
    reads_to_datapath(dialect, name, message);
}

fn reads_to_datapath(dialect: Dialect, name: &str, message: &ToDatapath<'_>) {
    let golden = golden(name);
    assert_eq!(Dialect::of(&golden), Some(dialect), "{name}");
    let read: Vec<_> = dialect.to_datapath(&golden).collect();
    assert_eq!(read, [Ok(message.clone())], "{name}");
}

/// Capabilities with a value of each kind.
fn capabilities() -> Capabilities {
    Capabilities {
        signals: SignalQualities::exact(
            [Signal::BytesAcked, Signal::RttSampleUs]
                .into_iter()
                .collect(),
        )
        .with(Signal::LostPkts, SignalQuality::Inferred)
        .with(Signal::RateIncoming, SignalQuality::Degraded),
        abilities: Abilities {
            ecn: false,
            ..Abilities::ALL
        },
        fallback: Fallback::Release,
        max_programs: 1000,
    }
}

#[test]
fn ours_to_a_plane() {
    let own = |name: &str, message| to_plane(Dialect::Own, &format!("own/{name}"), &message);
    own(
        "hello",
        ToPlane::Hello(Hello {
            name: "toy",
            instance: 0x1122_3344_5566_7788,
            capabilities: capabilities(),
        }),
    );
    let info = FlowInfo {
        local: "10.0.0.1:4242".parse().unwrap(),
        remote: "[2001:db8::7%3]:443".parse().unwrap(),
        mss: 1448,
        cwnd: 14_480,
        srtt_us: 20_500,
        now_us: 5_000_000_000,
        tag: 0,
        ..FlowInfo::default()
    };
    own(
        "created",
        ToPlane::Created {
            flow: FLOW,
            algorithm: "cubic",
            info: info.clone(),
        },
    );
    own(
        "resumed",
        ToPlane::Resumed {
            flow: FLOW,
            algorithm: "",
            info: FlowInfo {
                rate: 1_250_000,
                ssthresh: Some(72_400),
                ..info
            },
        },
    );
    own(
        "reported",
        ToPlane::Reported {
            flow: FLOW,
            program: 7,
            time_us: Some(5_000_000_000),
            cwnd: 14_480,
            rate: 5_000_000_000,
            fields: (&[1, u64::MAX]).into(),
        },
    );
    own(
        "faulted",
        ToPlane::Faulted {
            flow: FLOW,
            fault: 2,
        },
    );
    own(
        "mss_changed",
        ToPlane::MssChanged {
            flow: FLOW,
            mss: 1_420,
        },
    );
    own("closed", ToPlane::Closed { flow: FLOW });
    own(
        "refused_to_plane",
        ToPlane::Refused(Refusal {
            message: 0x84,
            reason: RefusalReason::UnknownFlow,
            flow: Some(FLOW),
            program: 0,
        }),
    );
}

#[test]
fn ours_to_a_datapath() {
    let own = |name: &str, message| to_datapath(Dialect::Own, &format!("own/{name}"), &message);
    own(
        "welcome",
        ToDatapath::Welcome(Welcome {
            instance: 0x1122_3344_5566_7788,
            alive_us: 100_000,
        }),
    );
    own(
        "hand_over",
        ToDatapath::HandOver {
            flow: FLOW,
            algorithm: "copa",
        },
    );
    own(
        "install",
        ToDatapath::Install {
            idle_restart: true,
            program: 7,
            body: b"any bytes",
        },
    );
    own("uninstall", ToDatapath::Uninstall { program: 7 });
    own(
        "command",
        ToDatapath::Command {
            flow: FLOW,
            switch: Some(7),
            cwnd: Some(14_480),
            rate: None,
            updates: (&[
                Update {
                    variable: 2,
                    value: u64::MAX,
                },
                Update {
                    variable: 511,
                    value: 1,
                },
            ])
                .into(),
            withdraw: false,
        },
    );
    own(
        "refused_to_datapath",
        ToDatapath::Refused(Refusal {
            message: 0x04,
            reason: RefusalReason::BadReport,
            flow: None,
            program: 7,
        }),
    );
}

/// The flow of a sid up to 2²⁰.
fn sid(sid: u32) -> FlowId {
    FlowId {
        slot: sid - 1,
        generation: 0,
    }
}

fn libccps_hello(instance: u64) -> ToPlane<'static> {
    ToPlane::Hello(Hello {
        name: "libccp",
        instance,
        capabilities: fairwater_proto::ccp::CAPABILITIES,
    })
}

#[test]
fn libccps_to_an_agent() {
    let ccp = |name: &str, message| to_plane(Dialect::Ccp, &format!("ccp/{name}"), &message);
    ccp("ready", libccps_hello(0x8765_4321));
    ccp("libccp_ready", libccps_hello(57));
    let created = |flow, algorithm| ToPlane::Created {
        flow,
        algorithm,
        info: FlowInfo {
            local: "10.0.0.1:4242".parse().unwrap(),
            remote: "192.0.2.7:443".parse().unwrap(),
            mss: 1448,
            cwnd: 14_480,
            srtt_us: 0,
            now_us: 0,
            tag: 0,
            ..FlowInfo::default()
        },
    };
    ccp("create_unnamed", created(sid(15), ""));
    ccp("libccp_create", created(sid(1), "reno"));
    ccp(
        "measure",
        ToPlane::Reported {
            flow: sid(256),
            program: 19,
            time_us: None,
            cwnd: 0,
            rate: 0,
            fields: (&[42_424_242, 65_536, 65_531, 100_000, u64::MAX, 0]).into(),
        },
    );
    ccp("measure_close", ToPlane::Closed { flow: sid(256) });
    ccp("libccp_close", ToPlane::Closed { flow: sid(1) });
}

#[test]
fn libccps_to_a_datapath() {
    let ccp = |name: &str, message| to_datapath(Dialect::Ccp, &format!("ccp/{name}"), &message);
    let install = golden("ccp/install");
    ccp(
        "install",
        ToDatapath::Install {
            program: 7,
            idle_restart: true,
            body: &install[12..],
        },
    );
    let updates = [
        Update {
            variable: 3,
            value: 77,
        },
        Update {
            variable: 0,
            value: u64::MAX,
        },
    ];
    let command = |switch| ToDatapath::Command {
        flow: sid(3),
        switch,
        cwnd: Some(28_960),
        rate: Some(5_000_000_000),
        updates: (&updates).into(),
        withdraw: false,
    };
    ccp("update_fields", command(None));
    ccp("change_prog", command(Some(7)));
    // Volatile controls are updated as others are; we write one type for both.
    let volatile = Update {
        variable: 2,
        value: 9,
    };
    reads_to_datapath(
        Dialect::Ccp,
        "ccp/update_volatile",
        &ToDatapath::Command {
            flow: sid(3),
            switch: None,
            cwnd: None,
            rate: None,
            updates: (&[volatile]).into(),
            withdraw: false,
        },
    );
}
