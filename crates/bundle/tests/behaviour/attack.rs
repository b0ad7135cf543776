//! Messages that are forged, replayed, reordered or cut at a high rate change nothing.

use std::time::Duration;

use fairwater_bundle::{Mode, Refusal};

use crate::network::{Network, Source, link, receivebox_address};
use crate::plane::SHORT_QUEUE;

/// 100,000 hostile messages per second, from one who sees all messages: the mean rate moves by less than 1 %.
#[test]
fn hostile_messages_move_no_rate() {
    let run = |is_attacked: bool| {
        let mut network = Network::new(SHORT_QUEUE, &link(24, 40, 2), Source::Backlogged);
        network.run(Duration::from_secs(2));
        let before = network.delivered_bytes;
        let mut sent: u64 = 0;
        let began = network.now;
        let end = network.now + Duration::from_secs(3);
        network.run_each(end, &mut |network| {
            let due = network.now.since(began).as_micros() as u64 / 10;
            while is_attacked && sent < due {
                sent += 1;
                let log = &network.feedback_log;
                let back = sent as usize * 31 % log.len().min(3_000);
                let mut bytes = log[log.len() - 1 - back].message.bytes.clone();
                match sent % 4 {
                    0 => {}
                    1 => {
                        let at = sent as usize % bytes.len();
                        bytes[at] ^= 1 << (sent % 8);
                    }
                    2 => bytes.truncate(sent as usize % 104),
                    _ => bytes[24..64].rotate_left(sent as usize % 39 + 1),
                }
                let now = network.now;
                let _ = network
                    .sendbox
                    .on_message(now, receivebox_address(), &bytes);
            }
        });
        assert_eq!(
            network.status().mode,
            Mode::Control,
            "{:?}",
            network.changes
        );
        let refusals = *network.sendbox.refusals();
        (network.delivered_bytes - before, refusals, sent)
    };
    let (undisturbed, ..) = run(false);
    let (attacked, refusals, sent) = run(true);
    assert!(sent > 290_000);
    assert_eq!(refusals.total(), sent, "{refusals:?}");
    assert!(refusals.of(Refusal::Authentication) > 50_000);
    assert!(refusals.of(Refusal::Replayed) > 10_000);
    let moved = (attacked as f64 / undisturbed as f64 - 1.0).abs();
    assert!(moved < 0.01, "{moved}");
}
