//! Values of a policy.

use std::time::Duration;

use fairwater_document::fields::{Fields, InvalidValue, Read, refuse};
use fairwater_document::network;
use fairwater_document::quantity;
use fairwater_document::tree::{Node, Value};
use ipnet::IpNet;

use crate::policy::{Conditions, Mode, OnPlaneLoss, PortPattern, WhenStarved};

/// Longest time that a flow may wait for its program.
const MAX_GRACE: Duration = Duration::from_secs(10);
/// Most connections that a table may be told to hold.
const MAX_FLOWS: u64 = 1 << 24;
/// Greatest weight of a share.
const MAX_WEIGHT: u64 = 1_000;

/// What a tenant has.
pub(super) fn tenant(mut fields: Fields<'_>) -> Conditions {
    let conditions = Conditions {
        ports: list(&mut fields, "port", port_pattern),
        vlans: list(&mut fields, "vlan", vlan),
        guests: list(&mut fields, "guest", prefix),
        ..Conditions::default()
    };
    if conditions == Conditions::default() {
        fields.missing("port");
    }
    fields.finish();
    conditions
}

/// A value, or a list of them.
pub(super) fn list<T>(fields: &mut Fields<'_>, key: &'static str, read: Read<T>) -> Vec<T> {
    let Some(node) = fields.node(key) else {
        return Vec::new();
    };
    let items = match &node.value {
        Value::Array(items) => items.as_slice(),
        _ => std::slice::from_ref(node),
    };
    if items.is_empty() {
        let wrong = InvalidValue {
            message: "the list is empty: nothing would match".to_owned(),
            allowed: "one value at least".to_owned(),
        };
        refuse(key, node, wrong, fields.sink);
    }
    let read = items.iter().filter_map(|item| {
        let read = read(item);
        read.map_err(|wrong| refuse(key, item, wrong, fields.sink))
            .ok()
    });
    read.collect()
}

pub(super) fn port_pattern(node: &Node) -> Result<PortPattern, InvalidValue> {
    let text = quantity::text(node)?;
    PortPattern::new(&text).map_err(|error| InvalidValue {
        message: format!("`{text}` is not a pattern: {error}"),
        allowed: "the name of a port, or a pattern such as `vnet*`".to_owned(),
    })
}

pub(super) fn prefix(node: &Node) -> Result<IpNet, InvalidValue> {
    network::prefix(node).map(|prefix| prefix.trunc())
}

pub(super) fn vlan(node: &Node) -> Result<u16, InvalidValue> {
    bounded(node, 1, 4_094, "an identifier from 1 to 4094 (IEEE 802.1Q)")
}

pub(super) fn max_scale(node: &Node) -> Result<u8, InvalidValue> {
    bounded(node, 0, 14, "a shift from 0 to 14 (RFC 7323 §2.3)")
}

pub(super) fn weight(node: &Node) -> Result<u16, InvalidValue> {
    bounded(node, 1, MAX_WEIGHT, "a weight from 1 to 1000")
}

pub(super) fn flows(node: &Node) -> Result<usize, InvalidValue> {
    bounded(node, 1, MAX_FLOWS, "a count from 1 to 16777216")
}

fn bounded<T: TryFrom<u64>>(
    node: &Node,
    least: u64,
    most: u64,
    allowed: &str,
) -> Result<T, InvalidValue> {
    let number = quantity::integer(node)?;
    let in_range = (least..=most).contains(&number);
    let number_of_type = T::try_from(number).ok().filter(|_| in_range);
    number_of_type.ok_or_else(|| InvalidValue {
        message: format!("{number} is out of range"),
        allowed: allowed.to_owned(),
    })
}

pub(super) fn grace(node: &Node) -> Result<Duration, InvalidValue> {
    let grace = quantity::duration(node)?;
    if grace <= MAX_GRACE {
        return Ok(grace);
    }
    Err(InvalidValue {
        message: "it is out of range".to_owned(),
        allowed: "0ms to 10s".to_owned(),
    })
}

pub(super) fn on_plane_loss(node: &Node) -> Result<OnPlaneLoss, InvalidValue> {
    one_of(
        node,
        &[OnPlaneLoss::Release, OnPlaneLoss::Hold].map(|each| (each.name(), each)),
    )
}

pub(super) fn when_starved(node: &Node) -> Result<WhenStarved, InvalidValue> {
    one_of(
        node,
        &[
            ("propose", WhenStarved::Propose),
            ("control", WhenStarved::Control),
        ],
    )
}

pub(super) fn mode(node: &Node) -> Result<Mode, InvalidValue> {
    one_of(
        node,
        &[Mode::Window, Mode::Buffer].map(|each| (each.name(), each)),
    )
}

/// Bytes of a buffer: that of the initial window at least, so that a guest is never told of less.
pub(super) fn buffer(node: &Node) -> Result<usize, InvalidValue> {
    const LEAST: usize = 64_000;
    const MOST: usize = 1_000_000_000_000;
    let bytes = quantity::bytes(node)?;
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    if (LEAST..=MOST).contains(&bytes) {
        return Ok(bytes);
    }
    Err(InvalidValue {
        message: format!("{bytes} bytes are out of range"),
        allowed: "64kB to 1000GB, such as \"4MB\"".to_owned(),
    })
}

/// The one thing to do with guests that negotiate ECN themselves: leave them alone.
pub(super) fn native_ecn(node: &Node) -> Result<(), InvalidValue> {
    let message = "guests that negotiate ECN themselves cannot be normalised yet";
    not_yet(node, "normalise", message, "exempt")
}

fn not_yet(node: &Node, absent: &str, message: &str, there: &str) -> Result<(), InvalidValue> {
    let text = quantity::text(node)?;
    if text == absent {
        return Err(InvalidValue {
            message: message.to_owned(),
            allowed: format!("`{there}`, which is also the default"),
        });
    }
    one_of(node, &[(there, ())])
}

pub(super) fn one_of<T: Copy>(node: &Node, known: &[(&str, T)]) -> Result<T, InvalidValue> {
    let text = quantity::text(node)?;
    let found = known.iter().find(|(name, _)| *name == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
        let near = fairwater_lang::nearest(&text, names.iter().copied());
        let near = near.map_or(String::new(), |near| format!(": did you mean `{near}`?"));
        InvalidValue {
            message: format!("`{text}` is not known{near}"),
            allowed: fairwater_document::fields::listed(&names),
        }
    })
}
