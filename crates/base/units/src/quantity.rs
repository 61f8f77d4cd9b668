//! The grammar of numbers with units.
//!
//! ```text
//! quantity = digits [ "." digits ] [ " " ] [ prefix ] unit
//! prefix   = "k" | "M" | "G" | "T"                       powers of 1,000
//!          | "Ki" | "Mi" | "Gi" | "Ti"                   powers of 1,024, for bytes
//!
//! duration          unit = "ns" | "us" | "µs" | "ms" | "s" | "m" | "h"           without a prefix
//! bit rate          unit = "bit/s" | "bps" | ""
//! packet rate       unit = "pps" | ""
//! number of bytes   unit = "B" | ""
//! number            unit = ""
//! share             unit = "%"                                                   without a prefix
//! ```

use crate::nearest;

/// Why a text is not a quantity, with what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a {what}: `{text}` ({hint})")]
pub struct UnitError {
    /// What was expected: "duration".
    pub what: &'static str,
    /// The text as given, cut to 40 characters.
    pub text: String,
    /// What is wrong, or what to write.
    pub hint: String,
}

/// A kind of quantity.
struct Kind {
    what: &'static str,
    examples: &'static str,
    prefixes: &'static [(&'static str, f64)],
    units: &'static [(&'static str, f64)],
    /// Highest value.
    max: f64,
}

const POWERS: &[(&str, f64)] = &[("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12)];

const DURATION: Kind = Kind {
    what: "duration",
    examples: "10s, 1.5ms, 200us or 2m",
    prefixes: &[("", 1.0)],
    units: &[("s", 1e9), ("ms", 1e6), ("us", 1e3), ("µs", 1e3), ("ns", 1.0), ("m", 60e9), ("h", 3600e9)],
    // A year: a longer duration is a mistake.
    max: 365.0 * 86_400e9,
};
const BIT_RATE: Kind = Kind {
    what: "bit rate",
    examples: "100Mbit/s, 1.5Gbit/s or 10G",
    prefixes: POWERS,
    units: &[("bit/s", 1.0), ("bps", 1.0), ("", 1.0)],
    max: 1e15,
};
const PACKET_RATE: Kind = Kind {
    what: "packet rate",
    examples: "1000pps, 500kpps or 1.5M",
    // No path carries 10^12 packets a second.
    prefixes: POWERS.split_at(4).0,
    units: &[("pps", 1.0), ("", 1.0)],
    max: 1e15,
};
const BYTES: Kind = Kind {
    what: "number of bytes",
    examples: "4096, 64k, 512KiB or 64MB",
    prefixes: &[
        ("", 1.0),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("Ki", 1024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
        ("Ti", 1_099_511_627_776.0),
    ],
    units: &[("", 1.0), ("B", 1.0)],
    max: 1e15,
};
const COUNT: Kind =
    Kind { what: "number", examples: "1500, 10k or 1.5M", prefixes: POWERS, units: &[("", 1.0)], max: 1e15 };
const PERCENT: Kind =
    Kind { what: "percentage", examples: "1% or 0.05%", prefixes: &[("", 1.0)], units: &[("%", 1.0)], max: 100.0 };

/// Nanoseconds of a duration, up to a year: `10s`, `1.5ms`, `2m`, `0s`.
///
/// # Errors
/// The text is not a duration. The error says what to write.
///
/// ```
/// use linerate_units::duration_ns;
/// assert_eq!(duration_ns("1.5ms"), Ok(1_500_000));
/// assert_eq!(duration_ns("10").unwrap_err().to_string(), "not a duration: `10` (write 10s)");
/// assert_eq!(duration_ns("10 sec").unwrap_err().to_string(), "not a duration: `10 sec` (did you mean 10s?)");
/// ```
pub fn duration_ns(text: &str) -> Result<u64, UnitError> {
    DURATION.read(text).map(|ns| ns.round() as u64)
}

/// As [`duration_ns`], for a duration that must not be 0.
///
/// # Errors
/// The text is not a duration, or one of 0.
pub fn positive_duration_ns(text: &str) -> Result<u64, UnitError> {
    match duration_ns(text) {
        Ok(0) => Err(DURATION.error(text, "it must be longer than 0".into())),
        read => read,
    }
}

/// Bits per second: `10Gbit/s`, `1.5Gbps`, `100M`.
///
/// # Errors
/// The text is not a bit rate.
pub fn bits_per_second(text: &str) -> Result<f64, UnitError> {
    BIT_RATE.read(text)
}

/// Packets per second: `1.5Mpps`, `500k`.
///
/// # Errors
/// The text is not a packet rate.
pub fn packets_per_second(text: &str) -> Result<f64, UnitError> {
    PACKET_RATE.read(text)
}

/// Bytes: `4096`, `64M` (64,000,000), `64MiB` (67,108,864).
///
/// # Errors
/// The text is not a whole number of bytes.
pub fn bytes(text: &str) -> Result<u64, UnitError> {
    BYTES.whole(text)
}

/// A whole number: `1500`, `10k`, `1.5M`.
///
/// # Errors
/// The text is not a whole number.
pub fn count(text: &str) -> Result<u64, UnitError> {
    COUNT.whole(text)
}

/// Percent, from 0 to 100: `1%`, `0.05%`.
///
/// # Errors
/// The text is not a percentage from 0 to 100.
pub fn percent(text: &str) -> Result<f64, UnitError> {
    PERCENT.read(text)
}

/// A share from 0 to 1, written in percent: `1%` is 0.01.
///
/// # Errors
/// As [`percent`].
pub fn share(text: &str) -> Result<f64, UnitError> {
    percent(text).map(|percent| percent / 100.0)
}

impl Kind {
    fn read(&self, text: &str) -> Result<f64, UnitError> {
        let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let unit = unit.strip_prefix(' ').unwrap_or(unit);
        let is_number = !number.starts_with('.') && !number.ends_with('.') && number.len() <= 30;
        let value = number.parse::<f64>().ok().filter(|_| is_number);
        let value = value.ok_or_else(|| self.error(text, format!("expected for example {}", self.examples)))?;
        let factor = self.factor(unit).ok_or_else(|| self.error(text, self.hint(number, unit)))?;
        let scaled = value * factor;
        if scaled > self.max {
            let most = self.max / self.units[0].1;
            return Err(self.error(text, format!("the highest value is {most}{}", self.units[0].0)));
        }
        Ok(scaled)
    }

    fn whole(&self, text: &str) -> Result<u64, UnitError> {
        let value = self.read(text)?;
        if value.fract() != 0.0 {
            return Err(self.error(text, "it is not a whole number".into()));
        }
        Ok(value as u64)
    }

    fn factor(&self, unit: &str) -> Option<f64> {
        self.units.iter().find_map(|(name, scale)| {
            let prefix = unit.strip_suffix(name)?;
            let (_, power) = self.prefixes.iter().find(|(known, _)| *known == prefix)?;
            Some(power * scale)
        })
    }

    /// What to write instead of an unknown unit.
    fn hint(&self, number: &str, unit: &str) -> String {
        if unit.is_empty() {
            return format!("write {number}{}", self.units[0].0);
        }
        let name = |unit: &&str| self.prefixes.iter().map(|(prefix, _)| format!("{prefix}{unit}")).collect::<Vec<_>>();
        let names: Vec<String> = self.units.iter().flat_map(|(unit, _)| name(unit)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
        // "msec" and "seconds" begin with the unit that is meant.
        let begins = || names.iter().copied().filter(|name| unit.starts_with(*name)).max_by_key(|name| name.len());
        // Any letter is near to any other.
        let near = nearest(unit, &names).filter(|near| unit.chars().count() > 1 || near.eq_ignore_ascii_case(unit));
        match near.or_else(begins) {
            Some(meant) => format!("did you mean {number}{meant}?"),
            None => format!("expected for example {}", self.examples),
        }
    }

    fn error(&self, text: &str, hint: String) -> UnitError {
        UnitError { what: self.what, text: text.chars().take(40).collect(), hint }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, ns) in [
            ("0s", 0),
            ("1ns", 1),
            ("10s", 10_000_000_000),
            ("2 m", 120_000_000_000),
            ("1h", 3_600_000_000_000),
            ("0.25us", 250),
            ("3µs", 3_000),
        ] {
            assert_eq!(duration_ns(text), Ok(ns), "{text}");
        }
        assert_eq!((positive_duration_ns("1ns"), positive_duration_ns("0s").is_err()), (Ok(1), true));
        for text in ["", "s", "10", "-1s", "1e3s", "1.s", ".5s", "1.2.3s", "9999999h", "10  s", "1s ", "NaN s", "٣s"] {
            assert!(duration_ns(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rates_sizes_and_shares() {
        assert_eq!(bits_per_second("10Gbit/s"), Ok(1e10));
        assert_eq!(["1.5G", "1.5Gbit/s", "1.5 Gbps"].map(bits_per_second), [const { Ok(1.5e9) }; 3]);
        assert_eq!(["1.5Mpps", "1.5M", "1500 kpps"].map(packets_per_second), [const { Ok(1.5e6) }; 3]);
        assert_eq!(["64M", "64MB", "64MiB"].map(bytes), [Ok(64_000_000), Ok(64_000_000), Ok(67_108_864)]);
        assert_eq!(["512KiB", "1.5KiB", "7B", "4096"].map(bytes), [Ok(524_288), Ok(1536), Ok(7), Ok(4096)]);
        assert_eq!(["5k", "12", "1.5M"].map(count), [Ok(5000), Ok(12), Ok(1_500_000)]);
        assert_eq!(["1%", "0.05 %", "100%"].map(share), [Ok(0.01), Ok(0.0005), Ok(1.0)]);
        for text in ["", "k", "-1", "1e9", "1 2", "9999999999999999", "NaN", "1.5", "0.3"] {
            assert!(count(text).is_err(), "{text}");
        }
        assert!(bytes("0.3B").is_err() && share("101%").is_err() && share("1").is_err() && bytes("64MiBit").is_err());
        assert!(bits_per_second("1pps").is_err() && packets_per_second("1bit/s").is_err());
    }

    #[test]
    fn near_misses_are_told_what_was_meant() {
        let hint = |error: UnitError| error.hint;
        for (text, hints) in [
            ("10", "write 10s"),
            ("10sec", "did you mean 10s?"),
            ("10 seconds", "did you mean 10s?"),
            ("5msec", "did you mean 5ms?"),
            ("2min", "did you mean 2m?"),
            ("1MS", "did you mean 1ms?"),
            ("3 parsecs", "expected for example 10s, 1.5ms, 200us or 2m"),
            ("1x", "expected for example 10s, 1.5ms, 200us or 2m"),
            ("1S", "did you mean 1s?"),
            ("soon", "expected for example 10s, 1.5ms, 200us or 2m"),
        ] {
            assert_eq!(duration_ns(text).map_err(hint), Err(hints.into()), "{text}");
        }
        assert_eq!(bits_per_second("10mbit").map_err(hint), Err("did you mean 10Mbit/s?".into()));
        assert_eq!(bits_per_second("10Gb/s").map_err(hint), Err("did you mean 10Gbps?".into()));
        assert_eq!(bytes("64KB").map_err(hint), Err("did you mean 64kB?".into()));
        assert_eq!(packets_per_second("1mpps").map_err(hint), Err("did you mean 1Mpps?".into()));
        assert_eq!(share("5").map_err(hint), Err("write 5%".into()));
        assert_eq!(duration_ns("9999999h").map_err(hint), Err("the highest value is 31536000s".into()));
    }
}
