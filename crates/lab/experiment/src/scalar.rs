//! Durations, rates and sizes as they stand in a file, `"1s"`, `"1.5Mpps"`, `"64MiB"`, and their limits.

use crate::words::shown;

/// Longest span: a week.
pub(crate) const SPAN_NS_MAX: u64 = 7 * 86_400 * 1_000_000_000;
/// Highest rate: no link carries more than 10 Gpps.
pub(crate) const RATE_PPS_MAX: f64 = 10e9;
/// Most bytes of a buffer.
const BYTES_MAX: u64 = 1 << 30;

/// Nanoseconds; the error says what is wrong and what to write.
pub(crate) fn span_ns(text: &str) -> Result<u64, String> {
    match linerate_units::duration_ns(text) {
        Ok(ns) if ns > SPAN_NS_MAX => Err(format!("the time {} is longer than a week", shown(text))),
        read => read.map_err(|error| error.to_string()),
    }
}

/// Packets per second, at least 1.
pub(crate) fn rate_pps(text: &str) -> Result<f64, String> {
    match linerate_units::packets_per_second(text) {
        Ok(pps) if pps < 1.0 => Err(format!("the rate {} is below 1pps", shown(text))),
        Ok(pps) if pps > RATE_PPS_MAX => Err(format!("the rate {} is above 10Gpps", shown(text))),
        read => read.map_err(|error| error.to_string()),
    }
}

/// Bytes.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    match linerate_units::bytes(text) {
        Ok(bytes) if bytes > BYTES_MAX => Err(format!("{} is more than 1GiB", shown(text))),
        read => read.map_err(|error| error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_limits() {
        assert_eq!([span_ns("0s"), span_ns("168h")], [Ok(0), Ok(SPAN_NS_MAX)]);
        assert_eq!([rate_pps("1pps"), rate_pps("10Gpps")], [Ok(1.0), Ok(RATE_PPS_MAX)]);
        assert_eq!([bytes("0"), bytes("1GiB")], [Ok(0), Ok(BYTES_MAX)]);
        for refused in [span_ns("169h").map(|_| ()), rate_pps("0.5pps").map(|_| ()), rate_pps("11Gpps").map(|_| ())] {
            assert!(refused.is_err());
        }
        assert!(bytes("2GiB").is_err() && span_ns("10").is_err() && rate_pps("1Mbps").is_err());
    }
}
