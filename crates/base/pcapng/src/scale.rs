//! Timestamps to nanoseconds since 1970: `if_tsresol` and `if_tsoffset` of pcapng (draft-ietf-opsawg-pcapng, section 4.2).

/// How one interface counts time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    unit: Unit,
    offset_s: i64,
}

/// Length of one unit of a timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// So many nanoseconds.
    Nanoseconds(u64),
    /// So many to a nanosecond.
    PerNanosecond(u64),
    /// So many to a second, as a power of two.
    PerSecond(u32),
}

/// Powers of ten that fit into 64 bits.
const TENS_MAX: u32 = 19;

impl Scale {
    /// `resolution` as in `if_tsresol`: 10^-n, or 2^-n when the top bit is set. `offset_s` seconds are added.
    pub fn new(resolution: u8, offset_s: i64) -> Scale {
        let exponent = u32::from(resolution & 0x7f);
        let unit = match (resolution & 0x80, exponent) {
            (0x80, _) => Unit::PerSecond(exponent),
            (_, 0..=9) => Unit::Nanoseconds(10u64.pow(9 - exponent)),
            _ => Unit::PerNanosecond(10u64.pow((exponent - 9).min(TENS_MAX))),
        };
        Scale { unit, offset_s }
    }

    /// Nanoseconds since 1970; what lies outside of 64 bits becomes the nearest that does not.
    #[inline]
    pub fn time_ns(&self, units: u64) -> u64 {
        if self.offset_s == 0 && self.unit == Unit::Nanoseconds(1) {
            return units;
        }
        let time_ns = match self.unit {
            Unit::Nanoseconds(length_ns) => i128::from(units) * i128::from(length_ns),
            Unit::PerNanosecond(count) => i128::from(units / count),
            Unit::PerSecond(bits) => (i128::from(units) * 1_000_000_000) >> bits,
        };
        let time_ns = time_ns + i128::from(self.offset_s) * 1_000_000_000;
        time_ns.clamp(0, i128::from(u64::MAX)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolutions() {
        let time_ns = |resolution, offset_s, units| Scale::new(resolution, offset_s).time_ns(units);
        assert_eq!(time_ns(9, 0, 7), 7);
        assert_eq!(time_ns(6, 0, 7), 7_000);
        assert_eq!(time_ns(0, 0, 7), 7_000_000_000);
        assert_eq!(time_ns(12, 0, 7_999), 7);
        assert_eq!(time_ns(0x80 | 1, 0, 3), 1_500_000_000);
        assert_eq!(time_ns(0x80 | 32, 0, 5 << 31), 2_500_000_000);
        assert_eq!(time_ns(9, 10, 7), 10_000_000_007);
        assert_eq!(time_ns(9, -10, 7), 0);
    }

    #[test]
    fn no_value_overflows() {
        for resolution in 0..=255 {
            for offset_s in [i64::MIN, -1, 0, 1, i64::MAX] {
                for units in [0, 1, u64::MAX] {
                    let _ = Scale::new(resolution, offset_s).time_ns(units);
                }
            }
        }
        assert_eq!(Scale::new(0, 0).time_ns(u64::MAX), u64::MAX);
        assert_eq!(Scale::new(127, 0).time_ns(u64::MAX), 1);
    }
}
