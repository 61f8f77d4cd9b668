//! Spans of time, rates and sizes as they stand in a file: `"1s"`, `"200ms"`, `"1.5Mpps"`, `"64MiB"`.
//!
//! ```text
//! span = number [ " " ] ( "ns" | "us" | "µs" | "ms" | "s" | "m" | "h" )
//! rate = number [ " " ] ( "pps" | "kpps" | "Mpps" | "Gpps" )
//! size = number [ " " ] ( "B" | "KiB" | "MiB" | "GiB" )
//! number = digits [ "." digits ]
//! ```

const SPAN_UNITS: [(&str, f64); 7] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];
const RATE_UNITS: [(&str, f64); 4] = [("pps", 1.0), ("kpps", 1e3), ("Mpps", 1e6), ("Gpps", 1e9)];
const SIZE_UNITS: [(&str, f64); 4] = [("B", 1.0), ("KiB", 1024.0), ("MiB", 1_048_576.0), ("GiB", 1_073_741_824.0)];

/// Longest span: a week.
pub(crate) const SPAN_NS_MAX: u64 = 7 * 86_400 * 1_000_000_000;
/// Highest rate: no link carries more than 10 Gpps.
pub(crate) const RATE_PPS_MAX: f64 = 10e9;
/// Most bytes of a buffer.
const BYTES_MAX: f64 = 1_073_741_824.0;

/// Nanoseconds; the error says what is wrong and what a span looks like.
pub(crate) fn span_ns(text: &str) -> Result<u64, String> {
    let ns = scaled(text, &SPAN_UNITS, "a time", "200ms, 1s or 1.5m")?.round();
    if ns > SPAN_NS_MAX as f64 {
        return Err(format!("the time {} is longer than a week", shown(text)));
    }
    Ok(ns as u64)
}

/// Packets per second, more than 0.
pub(crate) fn rate_pps(text: &str) -> Result<f64, String> {
    let pps = scaled(text, &RATE_UNITS, "a rate", "1000pps, 500kpps or 1.5Mpps")?;
    match pps {
        pps if pps < 1.0 => Err(format!("the rate {} is below 1pps", shown(text))),
        pps if pps > RATE_PPS_MAX => Err(format!("the rate {} is above 10Gpps", shown(text))),
        pps => Ok(pps),
    }
}

/// Bytes, a whole number of them.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let bytes = scaled(text, &SIZE_UNITS, "a number of bytes", "4096B, 512KiB or 64MiB")?;
    if bytes.fract() != 0.0 || bytes > BYTES_MAX {
        return Err(format!("{} is no whole number of bytes up to 1GiB", shown(text)));
    }
    Ok(bytes as u64)
}

fn scaled(text: &str, units: &[(&str, f64)], what: &str, examples: &str) -> Result<f64, String> {
    let refuse =
        |why: &str| format!("{} is not {what}: {why}; expected a number with a unit, as {examples}", shown(text));
    let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let is_whole = !number.starts_with('.') && !number.ends_with('.') && number.len() <= 30;
    let number: f64 =
        number.parse().ok().filter(|_| is_whole).ok_or_else(|| refuse("it does not begin with a number"))?;
    let unit = unit.strip_prefix(' ').unwrap_or(unit);
    if unit.is_empty() {
        return Err(refuse("its unit is missing"));
    }
    let factor = units.iter().find(|(name, _)| *name == unit).map(|(_, factor)| factor);
    let factor = factor.ok_or_else(|| refuse("its unit is not known"))?;
    Ok(number * factor)
}

fn shown(text: &str) -> String {
    format!("{:?}", text.chars().take(40).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans() {
        for (text, ns) in
            [("200ms", 200_000_000), ("1s", 1_000_000_000), ("1.5 m", 90_000_000_000), ("0s", 0), ("7us", 7_000)]
        {
            assert_eq!(span_ns(text), Ok(ns), "{text}");
        }
        for text in ["", "s", "10", "-1s", "1e3s", ".5s", "1.s", "NaN s", "9999h", "1 sec", "1.2.3s", "٣s"] {
            assert!(span_ns(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes() {
        for (text, size) in [("512KiB", 524_288), ("10 MiB", 10_485_760), ("1.5KiB", 1536), ("7B", 7)] {
            assert_eq!(bytes(text), Ok(size), "{text}");
        }
        for text in ["64", "64MB", "2GiB", "0.3B", "-1B", "1e9B", ""] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rates() {
        for (text, pps) in [("1.5Mpps", 1.5e6), ("1000pps", 1e3), ("500 kpps", 5e5), ("10Gpps", 1e10)] {
            assert_eq!(rate_pps(text), Ok(pps), "{text}");
        }
        for text in ["0pps", "-1pps", "11Gpps", "1", "1Mbps", "infpps", "0.5pps", "1mpps"] {
            assert!(rate_pps(text).is_err(), "{text}");
        }
    }
}
