//! Whatever the network does, every byte arrives in order, and everything comes to an end.

use fairwater_net::Time;
use fairwater_sim::{Native, TcpConfig};

use crate::wire::Wire;

#[test]
fn a_clean_wire_carries_everything_without_retransmission() {
    for native in [Native::Reno, Native::Cubic, Native::Constant(40 * 1448)] {
        let mut wire = Wire::new(&TcpConfig::default(), native);
        wire.sender.write(3_000_001);
        wire.sender.close();
        wire.run_to_completion(Time::from_millis(10_000));
        assert_eq!(wire.receiver.delivered(), 3_000_001);
        assert_eq!(wire.sender.counters().retransmissions, 0);
    }
}
