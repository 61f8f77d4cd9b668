//! Rates as users give them: `1.5Mpps`, `10Gbit/s`, `l2:1Gbit/s`, `50%`.
//!
//! ```text
//! rate = [ "l1:" | "l2:" ] bit rate | packet rate | percentage          (as everywhere, with their unit)
//! ```
//! Bits per second count everything on the link (L1: preamble and gap included) unless `l2:` is given, because that is what the
//! nominal rate of a link counts: `10Gbit/s` fills a 10 Gbit/s link.

use crate::quantity::{bits_per_second, packets_per_second, percent};
use crate::show::L1_OVERHEAD_BYTES;
use std::fmt;
use std::str::FromStr;

const ACCEPTED: &str = "a rate is a number with a unit: 1.5Mpps, 10Gbit/s (everything on the link), l2:1Gbit/s (frames only) or \
                        50% (of the link); prefixes are k, M, G, and T for bits";

/// An intended rate, above 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rate {
    /// Packets per second.
    PacketsPerSecond(f64),
    /// Bits per second on the link, preamble and gap included.
    L1BitsPerSecond(f64),
    /// Bits per second in frames, frame check sequence included.
    L2BitsPerSecond(f64),
    /// Percent of the link's rate, at most 100.
    PercentOfLink(f64),
}

impl Rate {
    /// Packets per second for frames of `size_wire` bytes on a link of `link_bps` bits per second.
    ///
    /// # Errors
    /// A percentage of a link whose rate is not known.
    pub fn to_pps(self, size_wire: u32, link_bps: Option<f64>) -> Result<f64, RateError> {
        self.to_pps_mixed(size_wire.max(1).into(), link_bps)
    }

    /// The same for frames of several sizes, of which `mean_size_wire` is the mean.
    ///
    /// # Errors
    /// A percentage of a link whose rate is not known.
    pub fn to_pps_mixed(self, mean_size_wire: f64, link_bps: Option<f64>) -> Result<f64, RateError> {
        let l1_bits = (mean_size_wire + f64::from(L1_OVERHEAD_BYTES)) * 8.0;
        match self {
            Self::PacketsPerSecond(rate_pps) => Ok(rate_pps),
            Self::L1BitsPerSecond(rate_bps) => Ok(rate_bps / l1_bits),
            Self::L2BitsPerSecond(rate_bps) => Ok(rate_bps / (mean_size_wire * 8.0)),
            Self::PercentOfLink(percent) => match link_bps {
                Some(link_bps) if link_bps > 0.0 => Ok(percent / 100.0 * link_bps / l1_bits),
                _ => Err(RateError::LinkUnknown { percent }),
            },
        }
    }
}

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        let refuse = |why: &str| RateError::Syntax { text: text.to_owned(), why: why.to_owned() };
        let (layer, rest) = match text.split_once(':') {
            Some((layer @ ("l1" | "l2"), rest)) => (Some(layer), rest),
            Some(_) => return Err(refuse("the part before the colon is neither l1 nor l2")),
            None => (None, text),
        };
        let unit_error = |error: crate::UnitError| refuse(&error.hint);
        let rate = if rest.ends_with('%') {
            match layer {
                Some(_) => return Err(refuse("a percentage is of the link, so l1 and l2 do not apply")),
                None => Self::PercentOfLink(percent(rest).map_err(unit_error)?),
            }
        } else if rest.ends_with("pps") {
            match layer {
                Some(_) => return Err(refuse("packets have no layer: l1 and l2 apply to bits")),
                None => Self::PacketsPerSecond(packets_per_second(rest).map_err(unit_error)?),
            }
        } else {
            let rate_bps = bits_per_second(rest).map_err(unit_error)?;
            match layer {
                _ if !rest.ends_with("bit/s") && !rest.ends_with("bps") => return Err(refuse("its unit is missing")),
                Some("l2") => Self::L2BitsPerSecond(rate_bps),
                _ => Self::L1BitsPerSecond(rate_bps),
            }
        };
        let (Self::PacketsPerSecond(value)
        | Self::L1BitsPerSecond(value)
        | Self::L2BitsPerSecond(value)
        | Self::PercentOfLink(value)) = rate;
        if value > 0.0 { Ok(rate) } else { Err(refuse("it must be above 0")) }
    }
}

impl fmt::Display for Rate {
    /// Writes what [`FromStr`] reads back to the same rate.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (layer, value, unit) = match self {
            Self::PacketsPerSecond(value) => ("", value, "pps"),
            Self::L1BitsPerSecond(value) => ("", value, "bit/s"),
            Self::L2BitsPerSecond(value) => ("l2:", value, "bit/s"),
            Self::PercentOfLink(value) => return write!(formatter, "{value}%"),
        };
        for (prefix, factor) in [("G", 1e9), ("M", 1e6), ("k", 1e3)] {
            let scaled = value / factor;
            if scaled >= 1.0 && scaled * factor == *value && scaled.to_string().len() <= 12 {
                return write!(formatter, "{layer}{scaled}{prefix}{unit}");
            }
        }
        write!(formatter, "{layer}{value}{unit}")
    }
}

/// Why a text is not a rate, or a rate cannot be had.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RateError {
    /// The text is not a rate.
    #[error("`{text}` is not a rate: {why}; {ACCEPTED}")]
    Syntax {
        /// The text as given.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// The rate of the link is not known.
    #[error("{percent}% of the link: the rate of this link is not known; give pps or bit/s instead")]
    LinkUnknown {
        /// The percentage asked for.
        percent: f64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn accepted() {
        for (text, rate) in [
            ("1.5Mpps", Rate::PacketsPerSecond(1.5e6)),
            ("100pps", Rate::PacketsPerSecond(100.0)),
            ("1.488 Mpps", Rate::PacketsPerSecond(1.488e6)),
            ("10Gbit/s", Rate::L1BitsPerSecond(1e10)),
            ("10Gbps", Rate::L1BitsPerSecond(1e10)),
            ("l1:1Tbit/s", Rate::L1BitsPerSecond(1e12)),
            ("l2:1Gbit/s", Rate::L2BitsPerSecond(1e9)),
            ("50%", Rate::PercentOfLink(50.0)),
            ("0.5 %", Rate::PercentOfLink(0.5)),
        ] {
            assert_eq!(text.parse(), Ok(rate), "{text}");
        }
    }

    #[test]
    fn refused_and_told_what_is_accepted() {
        for text in [
            "",
            "1",
            "1000000",
            "pps",
            "Mpps",
            ".5Mpps",
            "5.Mpps",
            "1.2.3pps",
            "-1pps",
            "+1pps",
            "1e6pps",
            "1,000pps",
            "0pps",
            "0%",
            "101%",
            "1mpps",
            "1Kpps",
            "1Tpps",
            "1MPPS",
            "1Mpp",
            "1Mppss",
            "1  Mpps",
            " 1Mpps",
            "1Mpps ",
            "l3:1bit/s",
            "l2:1Mpps",
            "l1:50%",
            "L2:1Gbit/s",
            "1MB/s",
            "infpps",
            "NaNpps",
            "1Gbit",
            "٣pps",
        ] {
            let error = text.parse::<Rate>().unwrap_err().to_string();
            assert!(
                error.contains("1.5Mpps") && error.contains("l2:1Gbit/s") && error.contains("50%"),
                "{text}: {error}"
            );
        }
        assert!(format!("{}pps", "9".repeat(400)).parse::<Rate>().is_err());
    }

    #[test]
    fn conversion_to_packets() {
        let at_10g = |rate: &str| rate.parse::<Rate>().unwrap().to_pps(64, Some(1e10)).unwrap();
        assert_eq!(at_10g("10Gbit/s").round(), 14_880_952.0);
        assert_eq!(at_10g("100%").round(), 14_880_952.0);
        assert_eq!(at_10g("l2:512Mbit/s"), 1_000_000.0);
        assert_eq!(at_10g("7pps"), 7.0);
        let csit = (28.0 * 64.0 + 16.0 * 570.0 + 4.0 * 1518.0) / 48.0;
        assert!(
            (Rate::L1BitsPerSecond(1e10).to_pps_mixed(csit, None).unwrap() - 1e10 / 8.0 / (csit + 20.0)).abs() < 1e-6
        );
        assert!(matches!(Rate::PercentOfLink(50.0).to_pps(64, None), Err(RateError::LinkUnknown { .. })));
    }

    proptest! {
        #[test]
        fn written_and_read_back(value in 1e-6f64..1e15, kind in 0..4) {
            let rate = match kind {
                0 => Rate::PacketsPerSecond(value),
                1 => Rate::L1BitsPerSecond(value.round().max(1.0)),
                2 => Rate::L2BitsPerSecond(value),
                _ => Rate::PercentOfLink((value % 100.0).max(1e-6)),
            };
            prop_assert_eq!(rate.to_string().parse(), Ok(rate));
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC*", near in "(l[12]:)?[0-9.]{0,5} ?[kMGT]?(pps|bit/s|bps|%)?") {
            let _ = text.parse::<Rate>();
            if let Ok(rate) = near.parse::<Rate>() {
                let pps = rate.to_pps(0, Some(1e9)).unwrap();
                prop_assert!(pps > 0.0 && pps.is_finite());
            }
        }
    }
}
