//! Requests by their size.

use fairwater_sim::Request;

use super::{ClassFinding, Spread};

/// The upper ends of the classes, bytes, and their names.
const CLASSES: [(u64, &str); 5] = [
    (10_000, "to 10kB"),
    (100_000, "10-100kB"),
    (1_000_000, "100kB-1MB"),
    (10_000_000, "1-10MB"),
    (u64::MAX, "over 10MB"),
];

/// All requests, then those of each class that has any; nothing of no requests.
pub(super) fn classes(requests: &[Request]) -> Vec<ClassFinding> {
    if requests.is_empty() {
        return Vec::new();
    }
    let mut found = vec![class("all", requests.iter())];
    let mut above = 0;
    for (most, name) in CLASSES {
        let within = |request: &&Request| (above + 1..=most).contains(&request.bytes.max(1));
        if requests.iter().any(|request| within(&request)) {
            found.push(class(name, requests.iter().filter(within)));
        }
        above = most;
    }
    found
}

fn class<'a>(name: &str, requests: impl Iterator<Item = &'a Request> + Clone) -> ClassFinding {
    let us = |time: std::time::Duration| time.as_nanos() as f64 / 1e3;
    let slowdown = |request: &Request| us(request.took) / us(request.ideal).max(f64::MIN_POSITIVE);
    ClassFinding {
        class: name.to_owned(),
        count: requests.clone().count() as u64,
        fct_us: Spread::of(requests.clone().map(|request| us(request.took)).collect()),
        slowdown: Spread::of(requests.map(slowdown).collect()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fairwater_net::Time;

    use super::*;

    #[test]
    fn each_request_is_in_one_class_and_in_all() {
        let request = |bytes, took_us| Request {
            start: Time::ZERO,
            took: Duration::from_micros(took_us),
            bytes,
            ideal: Duration::from_micros(10),
        };
        let requests = [
            request(10_000, 10),
            request(10_001, 20),
            request(100_000, 30),
            request(50_000_000, 40),
        ];
        let classes = classes(&requests);
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
}
