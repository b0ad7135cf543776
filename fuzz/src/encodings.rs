//! What both directions of the encodings promise.

/// Whatever of the packet decodes is encoded again to an equal message, in either dialect. Takes
/// the dialect's decoder and encoder of one direction.
#[macro_export]
macro_rules! messages_encode_as_they_decode {
    ($packet:expr, $decode:ident, $encode:ident) => {
        for dialect in [Dialect::Own, Dialect::Ccp] {
            let packet: &[u8] = $packet;
            let frames: Vec<_> = dialect.split(packet).collect();
            let mut results = 0;
            for message in dialect.$decode(packet) {
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
                let encoded = dialect.$encode(&message, &mut again);
                assert_eq!(encoded, Ok(()), "{message:?}");
                let reread: Vec<_> = dialect.$decode(&again).collect();
                assert_eq!(reread, [Ok(message)]);
                // Our encoding has one form for each message.
                assert!(dialect == Dialect::Ccp || frame == Some(&&again[..]));
            }
            // Past the last message that can be told apart there is at most one complaint.
            assert!(results == frames.len() || results == frames.len() + 1);
        }
    };
}
