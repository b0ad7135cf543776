//! Whatever bytes come for a plane in either encoding, what decodes is encoded again to an equal
//! message.

#![no_main]

use fairwater_fuzz::messages_encode_as_they_decode;
use fairwater_proto::Dialect;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|packet: &[u8]| {
    messages_encode_as_they_decode!(packet, to_plane, encode_to_plane);
});
