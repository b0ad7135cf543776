//! Any message that could be said.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use fairwater_lang::{Signal, SignalSet};
use fairwater_proto::{
    Abilities, Capabilities, Fallback, FlowId, FlowInfo, Hello, Refusal, RefusalReason,
    SignalQualities, SignalQuality, ToDatapath, ToPlane, Update, Welcome,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

/// Messages borrow; the few of a test may stay.
fn leak<T>(values: Vec<T>) -> &'static [T] {
    Vec::leak(values)
}

fn name() -> impl Strategy<Value = &'static str> {
    "[a-zé.:_-]{0,30}".prop_map(|s| &*String::leak(s))
}

/// Numbers whose edges are met often.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0..100_000u64,
        Just(0),
        Just(u64::from(u32::MAX)),
        Just(1 << 32),
        Just(u64::MAX),
    ]
}

fn flow() -> impl Strategy<Value = FlowId> {
    let slot = prop_oneof![0..1u32 << 20, Just((1 << 20) - 1)];
    (slot, any::<u32>()).prop_map(|(slot, generation)| FlowId { slot, generation })
}

fn address() -> impl Strategy<Value = SocketAddr> {
    (any::<IpAddr>(), any::<u16>(), any::<u32>(), any::<u32>()).prop_map(
        |(ip, port, flow, scope)| match ip {
            IpAddr::V4(_) => SocketAddr::new(ip, port),
            IpAddr::V6(ip) => SocketAddrV6::new(ip, port, flow, scope).into(),
        },
    )
}

fn info() -> impl Strategy<Value = FlowInfo> {
    (
        address(),
        address(),
        any::<[u32; 2]>(),
        [number(), number(), number(), number(), number()],
    )
        .prop_map(
            |(local, remote, [mss, tag], [cwnd, srtt_us, now_us, rate, ssthresh])| FlowInfo {
                local,
                remote,
                mss,
                cwnd,
                srtt_us,
                now_us,
                tag,
                rate,
                ssthresh: Some(ssthresh).filter(|ssthresh| *ssthresh != u64::MAX),
            },
        )
}

fn refusal() -> impl Strategy<Value = Refusal> {
    let reason = select(&RefusalReason::ALL[..]);
    (any::<u8>(), reason, option::of(flow()), any::<u32>()).prop_map(
        |(message, reason, flow, program)| Refusal {
            message,
            reason,
            flow,
            program,
        },
    )
}

fn capabilities() -> impl Strategy<Value = Capabilities> {
    let quality = select(vec![
        SignalQuality::Absent,
        SignalQuality::Degraded,
        SignalQuality::Inferred,
        SignalQuality::Exact,
    ]);
    let fallback = select(vec![Fallback::Cubic, Fallback::Reno, Fallback::Release]);
    let abilities = any::<[bool; 4]>().prop_map(|[window, rate, ecn, idle_restart]| Abilities {
        window,
        rate,
        ecn,
        idle_restart,
    });
    let qualities = vec(quality, Signal::ALL.len());
    (qualities, abilities, fallback, any::<u32>()).prop_map(
        |(qualities, abilities, fallback, max_programs)| Capabilities {
            signals: Signal::ALL
                .into_iter()
                .zip(qualities)
                .fold(SignalQualities::exact(SignalSet::EMPTY), |all, (s, q)| {
                    all.with(s, q)
                }),
            abilities,
            fallback,
            max_programs,
        },
    )
}

fn hello() -> impl Strategy<Value = Hello<'static>> {
    (name(), any::<u64>(), capabilities()).prop_map(|(name, instance, capabilities)| Hello {
        name,
        instance,
        capabilities,
    })
}

fn report() -> impl Strategy<Value = ToPlane<'static>> {
    let numbers = (option::of(number()), number(), number());
    (flow(), any::<u32>(), numbers, vec(number(), 0..40)).prop_map(
        |(flow, program, (time_us, cwnd, rate), fields)| ToPlane::Reported {
            flow,
            program,
            time_us,
            cwnd,
            rate,
            fields: leak(fields).into(),
        },
    )
}

/// What a datapath may say.
pub(crate) fn to_plane() -> impl Strategy<Value = ToPlane<'static>> {
    prop_oneof![
        3 => report(),
        1 => hello().prop_map(ToPlane::Hello),
        1 => (flow(), name(), info()).prop_map(|(flow, algorithm, info)| ToPlane::Created {
            flow,
            algorithm,
            info
        }),
        1 => (flow(), name(), info()).prop_map(|(flow, algorithm, info)| ToPlane::Resumed {
            flow,
            algorithm,
            info
        }),
        1 => (flow(), 1..=u32::MAX).prop_map(|(flow, mss)| ToPlane::MssChanged { flow, mss }),
        1 => (flow(), any::<u32>()).prop_map(|(flow, fault)| ToPlane::Faulted { flow, fault }),
        1 => flow().prop_map(|flow| ToPlane::Closed { flow }),
        1 => refusal().prop_map(ToPlane::Refused),
    ]
}

fn updates() -> impl Strategy<Value = &'static [Update]> {
    let update = (0..120u16, number()).prop_map(|(variable, value)| Update { variable, value });
    vec(update, 0..300).prop_map(leak)
}

fn command() -> impl Strategy<Value = ToDatapath<'static>> {
    let controls = (
        option::of(any::<u32>()),
        option::of(number()),
        option::of(number()),
    );
    (flow(), controls, updates(), any::<bool>()).prop_map(
        |(flow, (switch, cwnd, rate), updates, withdraw)| ToDatapath::Command {
            flow,
            switch,
            cwnd,
            rate,
            updates: updates.into(),
            withdraw,
        },
    )
}

/// A body that has the form of libccp's events and instructions.
fn body() -> impl Strategy<Value = &'static [u8]> {
    (0..4u32, 0..20u32).prop_flat_map(|(events, instructions)| {
        let parts = 16 * (events + instructions) as usize;
        vec(any::<u8>(), parts).prop_map(move |parts| {
            let counts = [events.to_le_bytes(), instructions.to_le_bytes()].concat();
            leak([counts, parts].concat())
        })
    })
}

/// What a plane may say.
pub(crate) fn to_datapath() -> impl Strategy<Value = ToDatapath<'static>> {
    let welcome = (any::<u64>(), any::<u32>());
    prop_oneof![
        3 => command(),
        1 => welcome.prop_map(|(instance, alive_us)| {
            ToDatapath::Welcome(Welcome { instance, alive_us })
        }),
        1 => (1..=u32::MAX, any::<bool>(), body())
            .prop_map(|(program, idle_restart, body)| ToDatapath::Install { program, idle_restart, body }),
        1 => (flow(), name()).prop_map(|(flow, algorithm)| ToDatapath::HandOver { flow, algorithm }),
        1 => (1..=u32::MAX).prop_map(|program| ToDatapath::Uninstall { program }),
        1 => refusal().prop_map(ToDatapath::Refused),
    ]
}
