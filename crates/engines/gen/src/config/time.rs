//! Spans of time as users give them: `10s`, `1.5ms`, `2m`.
//!
//! ```text
//! span = digits [ "." digits ] [ " " ] ( "ns" | "us" | "µs" | "ms" | "s" | "m" | "h" )
//! ```

/// A year: longer spans are mistakes.
const SPAN_NS_MAX: f64 = 365.0 * 86_400e9;

const UNITS: [(&str, f64); 7] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];

/// Why a text is no span of time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no span of time: {why}; a span is a number with a unit, as 10s, 1.5ms, 200us or 2m")]
pub struct TimeError {
    /// The text as given, cut to 40 characters.
    pub text: String,
    /// What is wrong with it.
    pub why: &'static str,
}

/// Nanoseconds of a span, at least 1.
///
/// # Errors
/// A text that is no span, or one of 0 or of more than a year.
///
/// ```
/// use linerate_gen::config::duration_ns;
/// assert_eq!(duration_ns("1.5ms"), Ok(1_500_000));
/// assert!(duration_ns("10").unwrap_err().to_string().contains("its unit is missing"));
/// ```
pub fn duration_ns(text: &str) -> Result<u64, TimeError> {
    let refuse = |why| TimeError { text: text.chars().take(40).collect(), why };
    let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let whole_digits = !number.starts_with('.') && !number.ends_with('.');
    let number: f64 =
        number.parse().ok().filter(|_| whole_digits).ok_or_else(|| refuse("it does not begin with a number"))?;
    let unit = unit.strip_prefix(' ').unwrap_or(unit);
    if unit.is_empty() {
        return Err(refuse("its unit is missing"));
    }
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(|| refuse("its unit is not known"))?;
    let span_ns = (number * factor).round();
    match span_ns {
        span_ns if span_ns < 1.0 => Err(refuse("it is shorter than a nanosecond")),
        span_ns if span_ns > SPAN_NS_MAX => Err(refuse("it is longer than a year")),
        span_ns => Ok(span_ns as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans() {
        for (text, span_ns) in [
            ("1ns", 1),
            ("10s", 10_000_000_000),
            ("2 m", 120_000_000_000),
            ("1h", 3_600_000_000_000),
            ("0.25us", 250),
            ("3µs", 3_000),
        ] {
            assert_eq!(duration_ns(text), Ok(span_ns), "{text}");
        }
        for text in
            ["", "s", "10", "-1s", "1e3s", "1.s", ".5s", "1.2.3s", "0s", "0.1ns", "9999999h", "10 sec", "1s ", "٣s"]
        {
            assert!(duration_ns(text).is_err(), "{text}");
        }
    }
}
