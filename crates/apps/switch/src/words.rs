//! Words of settings: the same in a flag (`--set a.trunk=10,20-30`), in a file (`trunk = [10, "20-30"]`) and in a request.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

/// The value of a setting as text. Read from a file or a request it may also be a number, a boolean or a list.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(transparent)]
pub struct Word(pub String);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Word, D::Error> {
        from.deserialize_any(WordVisitor)
    }
}

struct WordVisitor;

impl<'de> Visitor<'de> for WordVisitor {
    type Value = Word;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a text, a whole number, true or false, or a list of them")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Word, E> {
        Ok(Word(text.into()))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Word, E> {
        Ok(Word(if value { "yes" } else { "no" }.into()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Word, E> {
        Ok(Word(value.to_string()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Word, E> {
        Ok(Word(value.to_string()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Word, A::Error> {
        let mut all: Vec<String> = Vec::new();
        while let Some(Word(item)) = items.next_element()? {
            all.push(item);
        }
        Ok(Word(all.join(",")))
    }
}

/// What is wrong with a value: what it should have been.
pub type Problem = String;

/// `yes` or `no` (`true`, `false`).
///
/// # Errors
/// It is something else.
pub fn yes_or_no(text: &str) -> Result<bool, Problem> {
    match text {
        "yes" | "true" | "on" => Ok(true),
        "no" | "false" | "off" => Ok(false),
        _ => Err(format!("{text:?} is neither yes nor no")),
    }
}

/// A VLAN number, 1 to 4094 (IEEE 802.1Q table 9-2).
///
/// # Errors
/// It is none.
pub fn vlan(text: &str) -> Result<u16, Problem> {
    let number = text.trim().parse::<u16>().ok().filter(|number| (1..=4094).contains(number));
    number.ok_or_else(|| format!("{text:?} is no VLAN; they go from 1 to 4094"))
}

/// VLAN numbers and ranges of them: `10,20-30`; `all` or `none`. Ranges with both ends.
///
/// # Errors
/// One of them is none, or a range ends before it begins.
pub fn vlans(text: &str) -> Result<Vec<(u16, u16)>, Problem> {
    match text.trim() {
        "all" => return Ok(vec![(1, 4094)]),
        "none" | "" => return Ok(Vec::new()),
        _ => {}
    }
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (vlan(first)?, vlan(last)?);
        if first <= last { Ok((first, last)) } else { Err(format!("{part:?} ends before it begins")) }
    };
    text.split(',').map(range).collect()
}

/// A number with a unit of powers of 1,000: `1500`, `10k`, `1.5M`, `10 Gbit/s`, `20kpps`. `unit` is what may follow the power.
///
/// # Errors
/// It is none, or beyond 10^15.
pub fn scaled(text: &str, units: &[&str]) -> Result<u64, Problem> {
    let complain =
        || format!("{text:?} is no number as 1500, 10k, 1.5M or 10G, with or without {}", units.join(" or "));
    let trimmed = text.trim();
    let end = trimmed.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(trimmed.len());
    let (digits, rest) = trimmed.split_at(end);
    let rest = rest.trim();
    let rest = units.iter().find_map(|unit| rest.strip_suffix(unit)).unwrap_or(rest);
    let power = match rest {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        _ => return Err(complain()),
    };
    let value = digits.parse::<f64>().map_err(|_| complain())? * power;
    if (0.0..=1e15).contains(&value) { Ok(value.round() as u64) } else { Err(complain()) }
}

/// A span of time in nanoseconds: `300`, `300s`, `500ms`, `5m`, `1h`. A number alone is seconds.
///
/// # Errors
/// It is none, or more than 100 days.
pub fn span_ns(text: &str) -> Result<u64, Problem> {
    let complain = || format!("{text:?} is no span of time as 300s, 500ms, 5m or 1h");
    let trimmed = text.trim();
    let end = trimmed.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(trimmed.len());
    let (digits, unit) = trimmed.split_at(end);
    let seconds = match unit.trim() {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(complain()),
    };
    let value = digits.parse::<f64>().map_err(|_| complain())? * seconds;
    if (0.0..=8_640_000.0).contains(&value) { Ok((value * 1e9) as u64) } else { Err(complain()) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_file_and_a_request_say_the_same_words() {
        let expected = [("trunk", "10,20-30"), ("isolated", "yes"), ("access", "7"), ("rate", "1G")];
        let expected: BTreeMap<String, Word> = expected.map(|(key, value)| (key.into(), Word(value.into()))).into();
        let file = "trunk = [10, \"20-30\"]\nisolated = true\naccess = 7\nrate = \"1G\"\n";
        assert_eq!(toml::from_str::<BTreeMap<String, Word>>(file).unwrap(), expected);
        let request = r#"{"trunk":[10,"20-30"],"isolated":true,"access":7,"rate":"1G"}"#;
        assert_eq!(serde_json::from_str::<BTreeMap<String, Word>>(request).unwrap(), expected);
        assert!(serde_json::from_str::<Word>("1.5").is_err() && serde_json::from_str::<Word>("{}").is_err());
    }

    #[test]
    fn numbers_have_units_and_limits() {
        assert_eq!(scaled("10 Gbit/s", &["bit/s", "bps"]), Ok(10_000_000_000));
        assert_eq!(scaled("1.5M", &["pps"]), Ok(1_500_000));
        assert_eq!(scaled("20kpps", &["pps"]), Ok(20_000));
        assert_eq!(scaled("0", &[]), Ok(0));
        for text in ["", "k", "-1", "1T", "1e99", "1 2", "9999999999999999", "NaN"] {
            assert!(scaled(text, &["pps"]).is_err(), "{text}");
        }
        assert_eq!(
            [span_ns("300"), span_ns("1.5 s"), span_ns("20ms"), span_ns("5m")].map(Result::unwrap),
            [300_000_000_000, 1_500_000_000, 20_000_000, 300_000_000_000]
        );
        assert!(span_ns("1y").is_err() && span_ns("").is_err() && span_ns("99999h").is_err());
    }

    #[test]
    fn vlans_are_single_or_ranges() {
        assert_eq!(vlans("10,20-30"), Ok(vec![(10, 10), (20, 30)]));
        assert_eq!((vlans("all"), vlans("none")), (Ok(vec![(1, 4094)]), Ok(vec![])));
        for text in ["0", "4095", "30-20", "10,", "a", "1-2-3"] {
            assert!(vlans(text).is_err(), "{text}");
        }
    }
}
