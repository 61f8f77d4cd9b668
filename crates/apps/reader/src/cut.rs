//! Which packets: a range of numbers or of times.

use linerate_units::Timestamp;
use linerate_units::duration_ns;

/// `FROM..TO`, either end left out at will, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// By the number of the packet, from 1.
    Numbers {
        /// First number.
        from: u64,
        /// Last number.
        to: u64,
    },
    /// By time.
    Times {
        /// The first packet of the range is not earlier.
        from: Option<Moment>,
        /// The last one is not later.
        to: Option<Moment>,
    },
}

/// A point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Nanoseconds since the first packet that is read.
    AfterFirst(u64),
    /// Nanoseconds since 1970.
    At(u64),
}

impl Cut {
    /// `10..20`, `+1s..+2500ms`, `2026-11-21T10:59:03Z..`.
    ///
    /// # Errors
    /// What is not understood.
    pub fn parse(text: &str) -> Result<Cut, String> {
        let refuse =
            || format!("{text}: write FROM..TO with numbers (10..20) or times (+1s..+2s, 2026-11-21T10:59:03Z..)");
        let (from, to) = text.split_once("..").ok_or_else(refuse)?;
        if from.is_empty() && to.is_empty() {
            return Err(refuse());
        }
        let is_number = |text: &str| text.is_empty() || text.bytes().all(|byte| byte.is_ascii_digit());
        let cut = if is_number(from) && is_number(to) {
            let number = |text: &str, otherwise| if text.is_empty() { Ok(otherwise) } else { text.parse() };
            Cut::Numbers {
                from: number(from, 1).map_err(|_| refuse())?,
                to: number(to, u64::MAX).map_err(|_| refuse())?,
            }
        } else {
            let moment = |text: &str| (!text.is_empty()).then(|| Moment::parse(text).ok_or_else(refuse)).transpose();
            Cut::Times { from: moment(from)?, to: moment(to)? }
        };
        match cut {
            Cut::Numbers { from, to } if from > to => Err(format!("{text}: the range ends before it begins")),
            _ => Ok(cut),
        }
    }

    /// Whether packet `number`, of time `time_ns`, is in the range; the first packet had `first_ns`.
    pub fn has(&self, number: u64, time_ns: u64, first_ns: u64) -> bool {
        match self {
            Cut::Numbers { from, to } => (*from..=*to).contains(&number),
            Cut::Times { from, to } => {
                from.is_none_or(|from| time_ns >= from.time_ns(first_ns))
                    && to.is_none_or(|to| time_ns <= to.time_ns(first_ns))
            }
        }
    }

    /// Whether no packet after this number can be in the range. (By time, a later one always can: files need not be in order.)
    pub fn is_over(&self, number: u64) -> bool {
        matches!(self, Cut::Numbers { to, .. } if number >= *to)
    }
}

impl Moment {
    fn parse(text: &str) -> Option<Moment> {
        match text.strip_prefix('+') {
            Some(span) => duration_ns(span).ok().map(Moment::AfterFirst),
            None => utc_ns(text).map(Moment::At),
        }
    }

    fn time_ns(self, first_ns: u64) -> u64 {
        match self {
            Moment::AfterFirst(span_ns) => first_ns.saturating_add(span_ns),
            Moment::At(time_ns) => time_ns,
        }
    }
}

/// `2026-11-21T10:59:03Z`, with up to nine digits behind a point.
fn utc_ns(text: &str) -> Option<u64> {
    let text = text.strip_suffix('Z')?;
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, "0"));
    if fraction.is_empty() || fraction.len() > 9 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let time: Timestamp = format!("{seconds}.000Z").parse().ok()?;
    let fraction_ns: u64 = format!("{fraction:0<9}").parse().ok()?;
    time.unix_ms().checked_mul(1_000_000)?.checked_add(fraction_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_understood_or_refused() {
        let in_range = |text: &str, number, time_ns| Cut::parse(text).unwrap().has(number, time_ns, 1_000);
        assert!(in_range("2..3", 2, 0) && in_range("2..3", 3, 0) && !in_range("2..3", 1, 0) && !in_range("2..3", 4, 0));
        assert!(in_range("..3", 1, 0) && in_range("3..", 1 << 60, 0));
        assert!(in_range("+5ns..+1us", 9, 1_005) && !in_range("+5ns..+1us", 9, 1_004) && !in_range("..+1us", 9, 2_001));
        assert!(
            in_range("1970-01-01T00:00:00.001Z..", 9, 1_000_000) && !in_range("1970-01-01T00:00:00.001Z..", 9, 999_999)
        );
        for bad in ["", "..", "5", "3..2", "a..b", "+1..", "1..+1s", "99999999999999999999..", "-1..2"] {
            assert!(Cut::parse(bad).is_err(), "{bad}");
        }
        assert!(Cut::parse("1..5").unwrap().is_over(5) && !Cut::parse("1..5").unwrap().is_over(4));
        assert!(!Cut::parse("..+1s").unwrap().is_over(u64::MAX));
    }
}
