//! Quantities as people read them: three significant digits and a unit.

use std::time::Duration;

/// "48.0 Mbit/s" of bits per second.
pub(crate) fn bit_rate(bits_per_s: f64) -> String {
    scaled(
        bits_per_s,
        &["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"],
    )
}

/// "120 kB" of bytes, in powers of ten.
pub(crate) fn bytes(bytes: u64) -> String {
    scaled(bytes as f64, &["B", "kB", "MB", "GB", "TB"])
}

/// "20.1 ms" of microseconds.
pub(crate) fn micros(us: u64) -> String {
    scaled(us as f64, &["µs", "ms", "s"])
}

/// "200 ms" of a duration.
pub(crate) fn duration(duration: Duration) -> String {
    micros(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
}

/// "12 s", "3 min 20 s", "2 h 5 min".
pub(crate) fn age(age: Duration) -> String {
    match age.as_secs() {
        s @ 0..60 => format!("{s} s"),
        s @ 60..3600 => format!("{} min {} s", s / 60, s % 60),
        s => format!("{} h {} min", s / 3600, s % 3600 / 60),
    }
}

/// "1 flow", "2 flows".
pub(crate) fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// Parses "200ms", "1.5s", "30s", "2min" or "500us".
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let seconds = match unit.trim() {
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "min" | "m" => 60.0,
        "" => return Err("the unit is missing: us, ms, s or min".to_owned()),
        other => return Err(format!("{other:?} is not a unit of time: us, ms, s or min")),
    };
    let number: f64 = number
        .parse()
        .map_err(|_| format!("{number:?} is not a number"))?;
    Duration::try_from_secs_f64(number * seconds).map_err(|_| "it is too long".to_owned())
}

fn scaled(mut value: f64, units: &[&str]) -> String {
    let mut unit = 0;
    // What would round to four digits belongs to the next unit.
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let decimals = match value {
        _ if unit == 0 => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_three_digits() {
        assert_eq!(bit_rate(0.0), "0 bit/s");
        assert_eq!(bit_rate(999.6), "1.00 kbit/s");
        assert_eq!(bit_rate(47_960_000.0), "48.0 Mbit/s");
        assert_eq!(bit_rate(9_996.0), "10.0 kbit/s");
        assert_eq!(bit_rate(3.2e15), "3200 Tbit/s");
        assert_eq!(bytes(14_480), "14.5 kB");
        assert_eq!(micros(20_110), "20.1 ms");
        assert_eq!(micros(812), "812 µs");
    }

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(parse_duration("200ms"), Ok(Duration::from_millis(200)));
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("2min"), Ok(Duration::from_secs(120)));
        assert_eq!(parse_duration("10m"), Ok(Duration::from_secs(600)));
        assert!(parse_duration("30").unwrap_err().contains("unit"));
        assert!(parse_duration("1h").unwrap_err().contains("\"h\""));
        assert!(parse_duration("ms").is_err());
        assert!(parse_duration("1.2.3s").is_err());
        assert!(parse_duration("99999999999999999999s").is_err());
    }

    #[test]
    fn ages_are_in_two_units() {
        assert_eq!(age(Duration::from_secs(59)), "59 s");
        assert_eq!(age(Duration::from_secs(200)), "3 min 20 s");
        assert_eq!(age(Duration::from_secs(7530)), "2 h 5 min");
    }
}
