//! Requests by their size.

use serde::{Deserialize, Serialize};

use crate::{RequestClass, Spread};

/// A request that was done.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RequestResult {
    /// When it was asked for, seconds.
    pub start_s: f64,
    /// Its size.
    pub bytes: u64,
    /// The flow completion time: until its last byte was in order at the receiver, µs.
    pub fct_us: f64,
    /// The least time it could have taken, alone on its path, µs.
    pub ideal_us: f64,
}

/// All requests, then those of each class that has any, by the rising upper `ends` of the classes,
/// bytes; nothing of no requests.
#[must_use]
pub fn classes(requests: &[RequestResult], ends: &[u64]) -> Vec<RequestClass> {
    if requests.is_empty() {
        return Vec::new();
    }
    let mut found = vec![class("all", requests.iter())];
    let mut above = 0;
    for most in ends.iter().copied().chain([u64::MAX]) {
        let within = |request: &&RequestResult| (above + 1..=most).contains(&request.bytes.max(1));
        if requests.iter().any(|request| within(&request)) {
            let name = class_name(above, most);
            found.push(class(&name, requests.iter().filter(within)));
        }
        above = most;
    }
    found
}

/// The names of all classes, by the rising upper `ends` of the classes, bytes; that of all requests first.
#[must_use]
pub fn class_names(ends: &[u64]) -> Vec<String> {
    let mut names = vec!["all".to_owned()];
    let mut above = 0;
    for most in ends.iter().copied().chain([u64::MAX]) {
        names.push(class_name(above, most));
        above = most;
    }
    names
}

/// `to 10kB`, `10-100kB`, `100kB-1MB`, `over 10MB`.
fn class_name(above: u64, most: u64) -> String {
    let (number, unit) = in_unit(most);
    match (above, most) {
        (0, u64::MAX) => "all".to_owned(),
        (0, _) => format!("to {number}{unit}"),
        (_, u64::MAX) => {
            let (number, unit) = in_unit(above);
            format!("over {number}{unit}")
        }
        _ => match in_unit(above) {
            (from, same) if same == unit => format!("{from}-{number}{unit}"),
            (from, other) => format!("{from}{other}-{number}{unit}"),
        },
    }
}

/// The greatest unit that a size is a whole number of.
fn in_unit(bytes: u64) -> (u64, &'static str) {
    let units = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    let fits = |(size, _): &(u64, &str)| bytes >= *size && bytes.is_multiple_of(*size);
    match units.into_iter().find(fits) {
        Some((size, unit)) => (bytes / size, unit),
        None => (bytes, "B"),
    }
}

fn class<'a>(
    name: &str,
    requests: impl Iterator<Item = &'a RequestResult> + Clone,
) -> RequestClass {
    let slowdown = |r: &RequestResult| r.fct_us / r.ideal_us.max(f64::MIN_POSITIVE);
    RequestClass {
        class: name.to_owned(),
        count: requests.clone().count() as u64,
        fct_us: Spread::of(requests.clone().map(|request| request.fct_us).collect()),
        slowdown: Spread::of(requests.map(slowdown).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_is_in_one_class_and_in_all() {
        let request = |bytes, fct_us| RequestResult {
            start_s: 0.0,
            bytes,
            fct_us: f64::from(fct_us),
            ideal_us: 10.0,
        };
        let requests = [
            request(10_000, 10),
            request(10_001, 20),
            request(100_000, 30),
            request(50_000_000, 40),
        ];
        let classes = classes(&requests, &[10_000, 100_000, 1_000_000, 10_000_000]);
        let found: Vec<_> = classes
            .iter()
            .map(|c| (c.class.as_str(), c.count))
            .collect();
        let expected = [
            ("all", 4),
            ("to 10kB", 1),
            ("10-100kB", 2),
            ("over 10MB", 1),
        ];
        assert_eq!(found, expected);
        assert_eq!(classes[2].fct_us.max, Some(30.0));
        assert_eq!(classes[3].slowdown.p50, 4.0);
    }

    #[test]
    fn classes_are_named_by_their_ends() {
        assert_eq!(class_name(10_000, 1_500_000), "10-1500kB");
        assert_eq!(class_name(10_000, 2_000_000), "10kB-2MB");
        assert_eq!(class_name(0, 1_460), "to 1460B");
        assert_eq!(class_name(1_000_000_000, u64::MAX), "over 1GB");
    }
}
