//! Selectors of controlled guests, by the packets that pass.

use std::sync::Arc;

use fairwater_edge::Treatment;
use fairwater_edge::policy::EdgePolicy;
use fairwater_wire::TcpFlags;

use crate::plane::{Box, constant, treatment};
use crate::support::{Fields, MSS, ms};

#[test]
fn a_loss_asks_for_another_algorithm_and_a_hand_over_is_the_callers() {
    let source = include_str!("../../../../examples/edge/mystique.toml");
    let policy = EdgePolicy::parse("edge.toml", source, None).unwrap().policy;
    let selector = Arc::clone(&policy.selectors()[0]);
    let mut it = Box::new(
        &constant(10_000),
        Treatment {
            algorithm: Arc::clone(&selector.first),
            selector: Some(selector),
            ..treatment()
        },
    );
    it.open();
    let data = |n: u32| Fields {
        seq: 1 + n * MSS,
        ack: 1,
        payload: MSS as usize,
        ..Fields::default()
    };
    let ack = |n: u32| Fields {
        seq: 1,
        ack: 1 + n * MSS,
        flags: TcpFlags::ACK,
        window: 5_000,
        ..Fields::default()
    };
    for n in 0..4 {
        it.sent(&data(n));
    }
    it.now = ms(20);
    it.received(&ack(2));
    assert_eq!(it.edge.select(it.now), []);
    // The third segment is sent again after a timeout: the RTT is 20 ms.
    it.now = ms(500);
    it.sent(&data(2));
    let chosen = it.edge.select(it.now);
    assert_eq!(chosen.len(), 1);
    assert_eq!(&*chosen[0].switch.algorithm, "illinois");
    assert_eq!(chosen[0].flow, it.controlled().flow());
    // Nothing happened since: nothing is asked.
    it.now = ms(510);
    assert_eq!(it.edge.select(it.now), []);
    it.received(&ack(4));
    assert_eq!(&*it.edge.select(it.now)[0].switch.algorithm, "hybla");
    let selector = it.controlled().selector().unwrap();
    assert_eq!(&**selector.algorithm(), "hybla");
}
