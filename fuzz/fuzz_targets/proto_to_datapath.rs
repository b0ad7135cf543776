//! Whatever bytes come in either encoding, what decodes is encoded again to an equal message.

#![no_main]

use fairwater_proto::Dialect;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|packet: &[u8]| {
    for dialect in [Dialect::Own, Dialect::Ccp] {
        let frames: Vec<_> = dialect.split(packet).collect();
        let mut results = 0;
        for message in dialect.to_datapath(packet) {
            let frame = frames.get(results);
            results += 1;
            let message = match message {
                Ok(message) => message,
                Err(malformed) => {
                    assert!(malformed.offset <= packet.len());
                    continue;
                }
            };
            let mut again = Vec::new();
            let encoded = dialect.encode_to_datapath(&message, &mut again);
            assert_eq!(encoded, Ok(()), "{message:?}");
            let reread: Vec<_> = dialect.to_datapath(&again).collect();
            assert_eq!(reread, [Ok(message)]);
            // Our encoding has one form for each message.
            assert!(dialect == Dialect::Ccp || frame == Some(&&again[..]));
        }
        // Past the last message that can be told apart there is at most one complaint.
        assert!(results == frames.len() || results == frames.len() + 1);
    }
});
