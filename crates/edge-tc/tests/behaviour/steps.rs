//! What may happen to a connection, at random.

use fairwater_wire::{EcnCodepoint, TcpFlags, TcpOption};
use proptest::prelude::*;

pub(crate) const MSS: u32 = 1000;

/// What happens next. Numbers choose among what there is.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// The guest sends so many bytes that are new.
    Send { length: u32, push: bool },
    /// The guest sends something of its window again; from its beginning if `head`.
    Again { at: u16, length: u32, head: bool },
    /// A packet of the guest's arrives at the peer, which answers; others are overtaken.
    Deliver { which: u8, marked: bool },
    /// A packet of the guest's is lost behind the box.
    Lose(u8),
    /// An answer passes the box, perhaps for the second time.
    Answer { which: u8, stays: bool },
    /// The peer sends data, perhaps marked, perhaps with CWR.
    FromPeer { length: u32, ecn: u8, cwr: bool },
    /// The guest acknowledges what has come, perhaps with a smaller window.
    Acknowledge { window: u16 },
    /// The peer changes the window that it advertises.
    Window(u16),
    /// A reset that no end has sent.
    ForgeReset {
        to_guest: bool,
        seq: u32,
        near: bool,
    },
    /// A packet that no end has sent.
    Forge {
        to_guest: bool,
        seq: u32,
        ack: u32,
        flags: u16,
        length: u16,
    },
    /// One end has no more to send.
    Fin { to_guest: bool },
    /// A SYN, or the answer, once more.
    SynAgain { to_guest: bool },
    /// A new connection on the same ports; how far it gets.
    Reopen { iss: u32, packets: u8 },
    /// A frame with a byte changed, or cut.
    Damage {
        to_guest: bool,
        at: u16,
        value: u8,
        cut: bool,
    },
    /// Nothing happens for so long, ms.
    Wait(u16),
    /// The plane falls silent for good. (When one comes back, flows of a datapath in the kernel run their
    /// programs at once, and those of one in user space are switched again first.)
    Silence,
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (1..3 * MSS, any::<bool>()).prop_map(|(length, push)| Step::Send { length, push }),
        4 => (any::<u16>(), 1..2 * MSS, any::<bool>())
            .prop_map(|(at, length, head)| Step::Again { at, length, head }),
        14 => (any::<u8>(), prop::bool::weighted(0.2))
            .prop_map(|(which, marked)| Step::Deliver { which, marked }),
        2 => any::<u8>().prop_map(Step::Lose),
        14 => (any::<u8>(), prop::bool::weighted(0.1))
            .prop_map(|(which, stays)| Step::Answer { which, stays }),
        2 => (0..2 * MSS, 0u8..4, any::<bool>())
            .prop_map(|(length, ecn, cwr)| Step::FromPeer { length, ecn, cwr }),
        2 => any::<u16>().prop_map(|window| Step::Acknowledge { window }),
        1 => any::<u16>().prop_map(Step::Window),
        1 => any::<(bool, u32, bool)>()
            .prop_map(|(to_guest, seq, near)| Step::ForgeReset { to_guest, seq, near }),
        1 => any::<(bool, u32, u32, u16, u16)>().prop_map(|(to_guest, seq, ack, flags, length)| {
            Step::Forge { to_guest, seq, ack, flags, length: length % 3000 }
        }),
        1 => any::<bool>().prop_map(|to_guest| Step::Fin { to_guest }),
        1 => any::<bool>().prop_map(|to_guest| Step::SynAgain { to_guest }),
        1 => (any::<u32>(), 0u8..4).prop_map(|(iss, packets)| Step::Reopen { iss, packets }),
        2 => any::<(bool, u16, u8, bool)>()
            .prop_map(|(to_guest, at, value, cut)| Step::Damage { to_guest, at, value, cut }),
        3 => prop_oneof![0u16..30, 150..350u16, 900..3000u16].prop_map(Step::Wait),
        1 => prop::bool::weighted(0.2)
            .prop_map(|silent| if silent { Step::Silence } else { Step::Wait(1) }),
    ]
}

/// What one end's SYN says.
#[derive(Debug, Clone)]
pub(crate) struct Syn {
    pub(crate) mss: Option<u16>,
    pub(crate) scale: Option<u8>,
    pub(crate) sack: bool,
    pub(crate) timestamps: bool,
    pub(crate) window: u16,
    /// AE, CWR and ECE.
    pub(crate) ace: u8,
    /// An option that exempts the connection.
    pub(crate) exempting: Option<bool>,
    pub(crate) payload: usize,
}

impl Syn {
    pub(crate) fn options(&self, ack: bool) -> Vec<TcpOption<'static>> {
        let mut options = Vec::new();
        options.extend(self.mss.map(TcpOption::Mss));
        options.extend(self.sack.then_some(TcpOption::SackPermitted));
        options.extend(self.timestamps.then_some(TcpOption::Timestamps {
            value: 7,
            echo: u32::from(ack),
        }));
        options.extend(self.scale.map(TcpOption::WindowScale));
        options.extend(self.exempting.map(|signed| {
            if signed {
                TcpOption::Md5([3; 16])
            } else {
                TcpOption::Mptcp(&[1, 0])
            }
        }));
        options
    }

    pub(crate) fn flags(&self) -> TcpFlags {
        TcpFlags::SYN.with_ace(self.ace)
    }
}

pub(crate) fn syn() -> impl Strategy<Value = Syn> {
    let ace = prop_oneof![8 => Just(0u8), 1 => Just(0b011), 1 => Just(0b111), 1 => 0u8..8];
    let scale = prop_oneof![1 => Just(None), 5 => (0u8..16).prop_map(Some)];
    let mss = prop_oneof![1 => Just(None), 8 => (500u16..1500).prop_map(Some)];
    (
        mss,
        scale,
        prop::bool::weighted(0.6),
        any::<bool>(),
        prop_oneof![any::<u16>(), Just(64_000)],
        ace,
        prop_oneof![12 => Just(None), 1 => any::<bool>().prop_map(Some)],
        prop_oneof![6 => Just(0usize), 1 => 1usize..500],
    )
        .prop_map(
            |(mss, scale, sack, timestamps, window, ace, exempting, payload)| Syn {
                mss,
                scale,
                sack,
                timestamps,
                window,
                ace,
                exempting,
                payload,
            },
        )
}

pub(crate) fn codepoint(bits: u8) -> EcnCodepoint {
    EcnCodepoint::from_bits(bits)
}
