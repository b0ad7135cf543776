//! How TCP behaves: `[tcp]` for all flows, `tcp = { … }` for those of one table.

use std::time::Duration;

use fairwater_experiment::{Ecn, MAX_RECEIVE_WINDOW, TcpConfig};

use crate::diagnostic::Sink;
use crate::fields::{Fields, InvalidValue, refuse};
use crate::quantity;
use crate::tree::{Node, Value};

/// Reads a table of TCP's settings; `base` has the defaults.
pub(crate) fn read(node: &Node, base: &TcpConfig, sink: &Sink) -> TcpConfig {
    let mut tcp = base.clone();
    let Some(mut fields) = Fields::of("`tcp`", node, sink) else {
        return tcp;
    };
    let mss = fields.node("mss").map(|node| (node, quantity::bytes(node)));
    match mss {
        Some((_, Ok(bytes))) if (64..=65_483).contains(&bytes) => {
            tcp.mss = u32::try_from(bytes).unwrap_or(base.mss);
        }
        Some((node, found)) => {
            let wrong = found.err().unwrap_or_else(|| InvalidValue {
                message: "the segment size is out of range".to_owned(),
                allowed: "from `64B` to `65483B`".to_owned(),
            });
            refuse("mss", node, wrong, sink);
        }
        None => {}
    }
    let set = |value: Option<bool>, field: &mut bool| *field = value.unwrap_or(*field);
    set(fields.optional("sack", quantity::boolean), &mut tcp.sack);
    set(fields.optional("prr", quantity::boolean), &mut tcp.prr);
    set(fields.optional("pace", quantity::boolean), &mut tcp.pace);
    set(
        fields.optional("idle_restart", quantity::boolean),
        &mut tcp.idle_restart,
    );
    set(
        fields.optional("handshake", quantity::boolean),
        &mut tcp.handshake,
    );
    if let Some(packets) = fields.optional("initial_window", quantity::packets) {
        tcp.initial_window = u32::try_from(packets).unwrap_or(u32::MAX);
    }
    if let Some(bytes) = fields.optional("receive_window", receive_window) {
        tcp.receive_window = bytes.max(tcp.mss.into());
    }
    if let Some(least) = fields.optional("min_rto", quantity::period) {
        tcp.min_rto = least;
    }
    if let Some(delay) = fields.optional::<Duration>("delayed_ack", quantity::duration) {
        tcp.delayed_ack = delay;
    }
    if let Some(delay) = fields.optional::<Duration>("sack_delay", quantity::duration) {
        tcp.sack_delay = delay;
    }
    if let Some(kind) = fields.optional("ecn", ecn) {
        tcp.ecn = kind;
    }
    fields.finish();
    tcp
}

fn receive_window(node: &Node) -> Result<u64, InvalidValue> {
    let bytes = quantity::some_bytes(node)?;
    if bytes > MAX_RECEIVE_WINDOW {
        return Err(InvalidValue {
            message: "the receive window is out of range (RFC 7323 §2.3)".to_owned(),
            allowed: format!("at most `{MAX_RECEIVE_WINDOW}B`"),
        });
    }
    Ok(bytes)
}

fn ecn(node: &Node) -> Result<Ecn, InvalidValue> {
    const ALLOWED: &str = "`off`, `classic`, `dctcp` or `accurate`";
    match &node.value {
        Value::Text(text) => match text.as_str() {
            "off" => Ok(Ecn::Off),
            "classic" => Ok(Ecn::Classic),
            "dctcp" => Ok(Ecn::Dctcp),
            "accurate" => Ok(Ecn::Accurate),
            other => Err(InvalidValue {
                message: format!("`{other}` is not a kind of ECN"),
                allowed: ALLOWED.to_owned(),
            }),
        },
        _ => Err(InvalidValue::kind(node, ALLOWED)),
    }
}
