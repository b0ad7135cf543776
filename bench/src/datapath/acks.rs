//! The ACKs that both sides take.

/// What a transport knows of one ACK.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ack {
    pub(crate) bytes_acked: u32,
    pub(crate) packets_acked: u32,
    pub(crate) lost_packets: u32,
    pub(crate) rtt_us: u64,
    /// Bytes/s.
    pub(crate) rate_incoming: u64,
    /// Bytes/s.
    pub(crate) rate_outgoing: u64,
    pub(crate) packets_in_flight: u32,
}

/// One lost packet in so many ACKs.
const LOSS: u32 = 1000;

/// A stream to be repeated, of 4,000 ACKs. The RTT is short, so that reports which are due once
/// per RTT come every few hundred ACKs although a run lasts milliseconds.
pub(crate) fn acks() -> Vec<Ack> {
    let stream = (0..4 * LOSS).map(|i| {
        let wave = i * 37 % 101;
        Ack {
            bytes_acked: 1448 * (1 + i % 2),
            packets_acked: 1 + i % 2,
            lost_packets: u32::from(i % LOSS == LOSS / 2),
            rtt_us: 100 + u64::from(wave) / 4,
            rate_incoming: 5_900_000 + 1000 * u64::from(wave),
            rate_outgoing: 6_000_000 - 500 * u64::from(wave),
            packets_in_flight: 40 + wave / 10,
        }
    });
    stream.collect()
}
