//! Whatever bytes come as a packet, nothing panics, headers lie where they say, and a rewritten field is
//! read back with checksums that are as right as before.

#![no_main]

use fairwater_wire::{Checksum, EcnCodepoint, Layout, Rewriter, Seq, TcpFlags, Transport};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for parse in [Layout::of_ip, Layout::of_ethernet] {
        if let Ok(layout) = parse(bytes) {
            check(bytes, layout);
        }
    }
});

fn check(bytes: &[u8], layout: Layout) {
    assert!(layout.network_offset() < layout.transport_offset());
    assert!(layout.transport_offset() <= layout.payload_offset());
    assert!(layout.payload_offset() <= layout.end() && layout.end() <= bytes.len());
    let packet = layout.packet(bytes);
    let was_valid = packet.has_valid_checksums();
    let _ = (packet.source(), packet.destination(), packet.udp());
    let mut bytes = bytes.to_vec();
    let mut rewriter = Rewriter::new(&mut bytes, layout, Checksum::Complete);
    rewriter.set_ecn(EcnCodepoint::Ce);
    rewriter.set_window(0x1234);
    rewriter.set_ack(Seq(7));
    rewriter.set_flags(TcpFlags::ECE, TcpFlags::CWR);
    let mss = rewriter.set_mss(1000);
    let scale = rewriter.set_window_scale(3);
    let after = layout.packet(&bytes);
    assert_eq!(after.ecn(), EcnCodepoint::Ce);
    if let Some(tcp) = after.tcp() {
        assert_eq!((tcp.window(), tcp.ack()), (0x1234, Seq(7)));
        assert!(tcp.flags().contains(TcpFlags::ECE) && !tcp.flags().contains(TcpFlags::CWR));
        if let Ok(options) = tcp.option_summary() {
            assert_eq!(
                (options.mss.is_some(), options.window_scale.is_some()),
                (mss, scale)
            );
        }
    }
    if layout.transport() == Transport::Tcp && was_valid {
        assert!(after.has_valid_checksums());
    }
}
