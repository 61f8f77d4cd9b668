//! Moments in UTC, as RFC 3339 writes them.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

const DAY_MS: u64 = 86_400_000;

/// Milliseconds since 1970-01-01 UTC, written as `2026-11-21T10:59:03.125Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Timestamp(u64);

impl Timestamp {
    /// The last moment that RFC 3339 can write: the end of the year 9999.
    pub const MAX: Self = Self(253_402_300_799_999);

    /// The moment `unix_ms` milliseconds after 1970-01-01 UTC, [`Timestamp::MAX`] at most.
    pub fn from_unix_ms(unix_ms: u64) -> Self {
        Self(unix_ms.min(Self::MAX.0))
    }

    /// The moment of a system clock. Before 1970 counts as 1970.
    pub fn from_system(time: SystemTime) -> Self {
        let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::from_unix_ms(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
    }

    /// Milliseconds since 1970-01-01 UTC.
    pub fn unix_ms(self) -> u64 {
        self.0
    }

    /// `20261121T105903Z`: sorts by time and is fit for file names.
    pub fn compact(self) -> String {
        let (year, month, day) = self.date();
        let (hour, minute, second, _) = self.time();
        format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
    }

    /// `2026-11-21 10:59:03 UTC`, for people.
    pub fn words(self) -> String {
        let (year, month, day) = self.date();
        let (hour, minute, second, _) = self.time();
        format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
    }

    fn time(self) -> (u64, u64, u64, u64) {
        let of_day = self.0 % DAY_MS;
        (of_day / 3_600_000, of_day / 60_000 % 60, of_day / 1_000 % 60, of_day % 1_000)
    }

    /// Year, month and day in the Gregorian calendar: years that begin on 1 March end with the leap day, so the day of the
    /// year gives the month by a linear formula (the month lengths from March repeat 31, 30, 31, 30, 31).
    fn date(self) -> (u64, u64, u64) {
        let days = self.0 / DAY_MS + 719_468; // since 0000-03-01
        let (era, of_era) = (days / 146_097, days % 146_097);
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        (era * 400 + year_of_era + u64::from(month <= 2), month, day)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.date();
        let (hour, minute, second, ms) = self.time();
        write!(formatter, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
    }
}

impl From<Timestamp> for String {
    fn from(timestamp: Timestamp) -> Self {
        timestamp.to_string()
    }
}

impl TryFrom<String> for Timestamp {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for Timestamp {
    type Err = String;

    /// Reads exactly what [`Display`](fmt::Display) writes.
    fn from_str(text: &str) -> Result<Self, String> {
        let error = || format!("`{text}` is not a time like 2026-11-21T10:59:03.125Z");
        let shape = "dddd-dd-ddTdd:dd:dd.dddZ";
        let fits = |(byte, shape): (u8, u8)| if shape == b'd' { byte.is_ascii_digit() } else { byte == shape };
        if text.len() != shape.len() || !text.bytes().zip(shape.bytes()).all(fits) {
            return Err(error());
        }
        let number = |at: usize, length: usize| text[at..at + length].parse::<u64>().map_err(|_| error());
        let (year, month, day) = (number(0, 4)?, number(5, 2)?, number(8, 2)?);
        let (hour, minute, second, ms) = (number(11, 2)?, number(14, 2)?, number(17, 2)?, number(20, 3)?);
        let days = days_since_1970(year, month, day).ok_or_else(error)?;
        let timestamp = Self(days * DAY_MS + hour * 3_600_000 + minute * 60_000 + second * 1_000 + ms);
        // A day, an hour or a minute that does not exist comes out as another moment.
        if timestamp.to_string() == text { Ok(timestamp) } else { Err(error()) }
    }
}

fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    let year = if month <= 2 { year.checked_sub(1)? } else { year };
    let from_march = (month + 9) % 12;
    let of_year = (153 * from_march + 2) / 5 + day.checked_sub(1)?;
    let of_era = year % 400 * 365 + year % 400 / 4 - year % 400 / 100 + of_year;
    (year / 400 * 146_097 + of_era).checked_sub(719_468)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_moments() {
        for (unix_ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_000_000_000_999, "2001-09-09T01:46:40.999Z"),
            (1_795_258_743_125, "2026-11-21T10:59:03.125Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (u64::MAX, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(Timestamp::from_unix_ms(unix_ms).to_string(), text);
        }
        assert_eq!(Timestamp::from_unix_ms(1_795_258_743_125).compact(), "20261121T105903Z");
    }

    #[test]
    fn moments_that_do_not_exist_are_refused() {
        for text in
            ["", "2026-11-21", "2026-02-30T00:00:00.000Z", "2026-13-01T00:00:00.000Z", "1969-12-31T23:59:59.999Z"]
        {
            assert!(text.parse::<Timestamp>().is_err(), "{text}");
        }
        assert!("2026-11-21T24:00:00.000Z".parse::<Timestamp>().is_err());
        assert!("0000-01-01T00:00:00.000Z".parse::<Timestamp>().is_err());
    }

    proptest! {
        #[test]
        fn written_and_read_back(unix_ms in 0..=Timestamp::MAX.0) {
            let timestamp = Timestamp::from_unix_ms(unix_ms);
            prop_assert_eq!(timestamp.to_string().parse(), Ok(timestamp));
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC*", digits in "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}.[0-9]{3}Z") {
            let _ = text.parse::<Timestamp>();
            let _ = digits.parse::<Timestamp>();
        }
    }
}
