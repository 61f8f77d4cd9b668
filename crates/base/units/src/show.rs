//! Numbers as people read them: scaled, with their unit, and never rounded to something that they are not.
//!
//! A number that is not finite is written `-`: it could not be measured.

/// Preamble (7), start delimiter (1) and inter-frame gap (12) of IEEE 802.3: what a frame occupies on the link beyond itself.
pub const L1_OVERHEAD_BYTES: u32 = 20;

/// Bits per second on the link for frames of `size_wire` bytes (frame check sequence included), preamble and gap included.
pub fn l1_bps(rate_pps: f64, size_wire: u32) -> f64 {
    rate_pps * (f64::from(size_wire) + f64::from(L1_OVERHEAD_BYTES)) * 8.0
}

/// Bits per second in frames of `size_wire` bytes (frame check sequence included).
pub fn l2_bps(rate_pps: f64, size_wire: u32) -> f64 {
    rate_pps * f64::from(size_wire) * 8.0
}

/// A packet rate: `1.488 Mpps`.
pub fn pps(rate_pps: f64) -> String {
    scaled(rate_pps, "pps")
}

/// A rate of other things: `12.30 k/s`.
pub fn per_second(rate: f64) -> String {
    scaled(rate, "/s")
}

/// A bit rate: `9.870 Gbit/s`.
pub fn bps(rate_bps: f64) -> String {
    scaled(rate_bps, "bit/s")
}

/// A time span: `87 ns`, `12.3 µs`, `1.20 s`.
pub fn nanoseconds(span_ns: f64) -> String {
    if !span_ns.is_finite() {
        return "-".to_owned();
    }
    let units = [("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
    for (index, (unit, scale)) in units.iter().enumerate() {
        let value = span_ns / scale;
        let whole = *unit == "ns" && span_ns.fract() == 0.0;
        let text = if whole { format!("{value:.0}") } else { significant(value, 3) };
        // 999.96 would be written 1000: take the next unit.
        if index + 1 == units.len() || text.trim_start_matches('-').parse::<f64>().is_ok_and(|shown| shown < 1_000.0) {
            return format!("{text} {unit}");
        }
    }
    "-".to_owned()
}

/// A share of a whole: 0.0123 is `1.23 %`. Only 0 is written `0 %` and only 1 is written `100 %`.
pub fn percent(share: f64) -> String {
    let value = share * 100.0;
    if !value.is_finite() {
        "-".to_owned()
    } else if value == 0.0 {
        "0 %".to_owned()
    } else if value == 100.0 {
        "100 %".to_owned()
    } else if value.abs() < 0.0001 {
        (if value > 0.0 { "<0.0001 %" } else { ">-0.0001 %" }).to_owned()
    } else if value > 99.95 && value < 100.0 {
        if value > 99.9999 { ">99.9999 %".to_owned() } else { format!("{} %", floored(value, 4)) }
    } else if value > 100.0 && value < 100.05 {
        ">100 %".to_owned()
    } else {
        let decimals = if value.abs() < 0.01 { 5 } else { 3 };
        format!("{} %", significant_up_to(value, 3, decimals))
    }
}

/// A count with its thousands apart: `1,234,567`.
pub fn count(packets: u64) -> String {
    grouped(&packets.to_string())
}

/// A signed count with its thousands apart: `-1,234`.
pub fn signed_count(packets: i64) -> String {
    let sign = if packets < 0 { "-" } else { "" };
    format!("{sign}{}", grouped(&packets.unsigned_abs().to_string()))
}

/// A number of bytes of a frame: `64 B`.
pub fn frame_bytes(size: u32) -> String {
    format!("{} B", count(size.into()))
}

fn grouped(digits: &str) -> String {
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Four significant digits with an SI prefix; below 1000 as it is.
fn scaled(value: f64, unit: &str) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    if value.abs() < 999.95 {
        let whole = value.fract() == 0.0;
        let text = if whole { format!("{value:.0}") } else { significant(value, 4) };
        return format!("{text} {unit}");
    }
    let prefixes = ["k", "M", "G", "T", "P", "E"];
    let mut scaled = value / 1e3;
    for (index, prefix) in prefixes.iter().enumerate() {
        // 999.95 would be written 1000.0: take the next prefix.
        if scaled.abs() < 999.95 || index + 1 == prefixes.len() {
            return format!("{} {prefix}{unit}", significant(scaled, 4));
        }
        scaled /= 1e3;
    }
    "-".to_owned()
}

/// `digits` significant digits, with an exponent only where no real rate or time is.
fn significant(value: f64, digits: usize) -> String {
    significant_up_to(value, digits, 12)
}

/// `digits` significant digits, but at most so many after the point.
fn significant_up_to(value: f64, digits: usize, decimals_max: usize) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if !(1e-6..1e15).contains(&value.abs()) {
        return format!("{value:.*e}", digits - 1);
    }
    let decimals = |value: f64| {
        let before_point = value.abs().log10().floor() as i64 + 1;
        (digits as i64 - before_point).clamp(0, decimals_max as i64) as usize
    };
    let text = format!("{value:.*}", decimals(value));
    // 9.9996 becomes 10.000 in the first go: rounding made a digit before the point.
    match text.parse::<f64>() {
        Ok(rounded) if rounded != 0.0 && decimals(rounded) < decimals(value) => {
            format!("{value:.*}", decimals(rounded))
        }
        _ => text,
    }
}

fn floored(value: f64, decimals: usize) -> String {
    let scale = 10f64.powi(decimals as i32);
    let text = format!("{:.decimals$}", (value * scale).floor() / scale);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rate;
    use proptest::prelude::*;

    #[test]
    fn rates() {
        for (value, text) in [
            (0.0, "0 pps"),
            (0.5, "0.5000 pps"),
            (999.0, "999 pps"),
            (999.96, "1.000 kpps"),
            (1_488_095.238, "1.488 Mpps"),
            (14_880_952.0, "14.88 Mpps"),
            (999_999.9, "1.000 Mpps"),
            (999_949.0, "999.9 kpps"),
            (9_999_600.0, "10.00 Mpps"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(pps(value), text);
        }
        assert_eq!(bps(l1_bps(1_488_095.238, 64)), "1.000 Gbit/s");
        assert_eq!(bps(l2_bps(1_488_095.238, 64)), "761.9 Mbit/s");
    }

    #[test]
    fn times() {
        for (value, text) in [
            (0.0, "0 ns"),
            (87.0, "87 ns"),
            (87.25, "87.2 ns"),
            (999.7, "1.00 µs"),
            (12_345.0, "12.3 µs"),
            (999_999.0, "1.00 ms"),
            (1_200_000_000.0, "1.20 s"),
            (3_600_000_000_000.0, "3600 s"),
            (f64::INFINITY, "-"),
        ] {
            assert_eq!(nanoseconds(value), text);
        }
    }

    #[test]
    fn shares() {
        for (share, text) in [
            (0.0, "0 %"),
            (1.0, "100 %"),
            (0.5, "50.0 %"),
            (0.556, "55.6 %"),
            (0.0123, "1.23 %"),
            (0.000_123, "0.012 %"),
            (0.000_004_2, "0.00042 %"),
            (1e-9, "<0.0001 %"),
            (-1e-9, ">-0.0001 %"),
            (0.999_999_999, ">99.9999 %"),
            (0.999_96, "99.996 %"),
            (1.000_01, ">100 %"),
            (1.25, "125 %"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(percent(share), text);
        }
    }

    #[test]
    fn counts() {
        for (value, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (u64::MAX, "18,446,744,073,709,551,615")] {
            assert_eq!(count(value), text);
        }
        assert_eq!(signed_count(i64::MIN), "-9,223,372,036,854,775,808");
        assert_eq!(signed_count(-12), "-12");
    }

    proptest! {
        #[test]
        fn rate_written_is_rate_read(rate_pps in 0.01f64..9.99e11) { // Rates of packets have no T.
            let Rate::PacketsPerSecond(read) = pps(rate_pps).parse().unwrap() else { panic!("not a packet rate") };
            prop_assert!((read - rate_pps).abs() <= rate_pps * 0.000_51, "{} {}", pps(rate_pps), rate_pps);
            let Rate::L1BitsPerSecond(read) = bps(rate_pps).parse().unwrap() else { panic!("not a bit rate") };
            prop_assert!((read - rate_pps).abs() <= rate_pps * 0.000_51);
        }

        #[test]
        fn count_written_is_count_read(packets: u64, signed: i64) {
            prop_assert_eq!(count(packets).replace(',', "").parse(), Ok(packets));
            prop_assert_eq!(signed_count(signed).replace(',', "").parse(), Ok(signed));
        }

        #[test]
        fn percent_is_honest_at_its_ends(share in 0.0f64..1.0) {
            let text = percent(share);
            prop_assert!(text != "100 %");
            prop_assert!(share == 0.0 || text.trim_end_matches(" %").parse::<f64>() != Ok(0.0), "{}", text);
            if let Ok(shown) = text.trim_end_matches(" %").parse::<f64>() {
                prop_assert!((shown / 100.0 - share).abs() <= share * 0.055, "{} {}", text, share);
            }
        }

        #[test]
        fn any_number_can_be_written(value: f64, size_wire: u32) {
            for text in [pps(value), bps(value), nanoseconds(value), percent(value), bps(l1_bps(value, size_wire))] {
                prop_assert!(!text.is_empty() && !text.contains("NaN") && !text.contains("inf"));
            }
        }
    }
}
