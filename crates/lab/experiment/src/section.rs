//! A table of the file under typed access. What is wrong is noted with its place and reading goes on; keys that nobody asked
//! for are unknown. Kinds of devices read their keys by what is public here.

use std::cell::RefCell;
use std::ops::{Range, RangeInclusive};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::{scalar, words};

pub use crate::error::Log;

/// A value with its place.
pub type Value<'a> = Spanned<DeValue<'a>>;

/// Most values of a key that can be a list: more than there are words, since sizes have none.
const VALUES_MAX: usize = 16;
/// Most characters of a text that is no program text.
const TEXT_LEN_MAX: usize = 10_000;

/// A table, and which of its keys are known.
pub struct Section<'a> {
    table: &'a DeTable<'a>,
    /// Where it stands.
    pub(crate) span: Range<usize>,
    /// For people: `[topology]`.
    title: String,
    known: RefCell<Vec<&'static str>>,
    /// Where errors go.
    pub log: &'a Log,
}

impl<'a> Section<'a> {
    pub(crate) fn new(table: &'a DeTable<'a>, span: Range<usize>, title: &str, log: &'a Log) -> Self {
        Self { table, span, title: title.to_string(), known: RefCell::default(), log }
    }

    /// A value that has to be a table.
    pub(crate) fn of(value: &'a Value<'a>, title: &str, log: &'a Log) -> Option<Self> {
        match value.get_ref() {
            DeValue::Table(table) => Some(Self::new(table, value.span(), title, log)),
            _ => log.refuse(value.span(), format!("{title} is {}; expected a table", kind(value))),
        }
    }

    /// The value of a key, which is known from now on.
    pub fn value(&self, key: &'static str) -> Option<&'a Value<'a>> {
        let mut known = self.known.borrow_mut();
        if !known.contains(&key) {
            known.push(key);
        }
        self.table.get(key)
    }

    /// As [`Section::value`], and an error when the key is missing.
    pub fn needed(&self, key: &'static str, example: &str) -> Option<&'a Value<'a>> {
        let value = self.value(key);
        if value.is_none() {
            self.log.error(self.span.clone(), format!("{} needs `{key}`, as {key} = {example}", self.title));
        }
        value
    }

    /// Notes that a table is missing.
    pub(crate) fn needs_table(&self, key: &str, what: &str) -> bool {
        let is_missing = !self.has(key);
        if is_missing {
            self.log.error(self.span.clone(), format!("{} needs {what}", self.title));
        }
        is_missing
    }

    /// Whether the key is there.
    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Where the value of a key stands, or else the table.
    pub(crate) fn place(&self, key: &str) -> Range<usize> {
        self.table.get(key).map_or(self.span.clone(), Spanned::span)
    }

    /// Notes an error at the value of a key.
    pub fn error(&self, key: &str, message: impl Into<String>) {
        self.log.error(self.place(key), message);
    }

    /// A table in the table; an empty one is used where there is none.
    pub(crate) fn section(&self, key: &'static str, title: &str) -> Option<Section<'a>> {
        Section::of(self.value(key)?, title, self.log)
    }

    /// True or false.
    pub fn boolean(&self, key: &'static str) -> Option<bool> {
        let value = self.value(key)?;
        match value.get_ref() {
            DeValue::Boolean(on) => Some(*on),
            _ => self.log.refuse(value.span(), format!("`{key}` is {}; expected true or false", kind(value))),
        }
    }

    /// A text of up to 10,000 bytes.
    pub fn text(&self, key: &'static str) -> Option<String> {
        text(self.value(key)?, key, self.log)
    }

    /// A whole number in the range.
    pub fn integer(&self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        integer(self.value(key)?, key, range, self.log)
    }

    /// A number of any kind in `range`, or below its end when `open`.
    pub(crate) fn number(&self, key: &'static str, check: fn(f64) -> bool, expected: &str) -> Option<f64> {
        number(self.value(key)?, key, check, expected, self.log)
    }

    /// Nanoseconds within a range.
    pub fn span_ns(&self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        let value = self.value(key)?;
        let text = quoted(value, key, "a time in quotes, as \"1s\"", self.log)?;
        match scalar::span_ns(&text) {
            Ok(ns) if range.contains(&ns) => Some(ns),
            Ok(_) => {
                let (least, most) = (shown_ns(*range.start()), shown_ns(*range.end()));
                self.log.error(value.span(), format!("`{key}` is {text:?}; expected {least} to {most}"));
                None
            }
            Err(message) => self.log.refuse(value.span(), format!("`{key}`: {message}")),
        }
    }

    pub(crate) fn rate_pps(&self, key: &'static str) -> Option<f64> {
        rate_pps(self.value(key)?, key, self.log)
    }

    /// One of a list of words.
    pub fn word<T: Clone>(&self, key: &'static str, what: &str, known: &[(&str, T)]) -> Option<T> {
        word(self.value(key)?, what, known, self.log)
    }

    /// An array, or nothing. Its length is within the range.
    pub(crate) fn list(&self, key: &'static str, range: RangeInclusive<usize>) -> Option<Vec<&'a Value<'a>>> {
        list(self.value(key)?, key, range, self.log)
    }

    /// An array of texts, each of up to 4,096 characters without a NUL.
    pub fn texts(&self, key: &'static str) -> Option<Vec<String>> {
        let values = self.list(key, 0..=256)?;
        Some(values.into_iter().filter_map(|value| text(value, key, self.log)).collect())
    }

    /// The tables of `[[key]]`, each with its own title.
    pub(crate) fn sections(&self, key: &'static str, most: usize) -> Vec<Section<'a>> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let title = format!("[[{key}]]");
        if value.get_ref().is_table() {
            self.log.error(value.span(), format!("`{key}` is a table; expected {title}, with two brackets"));
            return Vec::new();
        }
        let values = list(value, key, 1..=most, self.log).unwrap_or_default();
        values.into_iter().filter_map(|value| Section::of(value, &title, self.log)).collect()
    }

    /// Lets `read` ask for keys, which are known from now on; what it finds wrong is not told.
    pub(crate) fn probe(&self, read: impl FnOnce(&Section<'_>)) {
        let (title, known) = (self.title.clone(), self.known.take());
        let silent =
            Section { table: self.table, span: self.span.clone(), title, known: known.into(), log: &Log::default() };
        read(&silent);
        self.known.replace(silent.known.into_inner());
    }

    /// Notes the keys that nobody asked for.
    pub(crate) fn finish(&self) {
        let known = self.known.borrow();
        for key in self.table.keys().filter(|key| !known.contains(&key.get_ref().as_ref())) {
            let message = words::unknown(&format!("key in {}", self.title), key.get_ref(), &known);
            self.log.error(key.span(), message);
        }
    }
}

/// A text of up to 10,000 bytes, or an error.
pub fn text(value: &Value<'_>, key: &str, log: &Log) -> Option<String> {
    quoted(value, key, "a text in quotes", log)
}

fn quoted(value: &Value<'_>, key: &str, expected: &str, log: &Log) -> Option<String> {
    let problem = match value.get_ref() {
        DeValue::String(text) if text.contains('\0') => format!("`{key}` has a NUL character in it"),
        DeValue::String(text) if text.len() > TEXT_LEN_MAX => {
            format!("`{key}` has {} bytes; at most {TEXT_LEN_MAX} are read", text.len())
        }
        DeValue::String(text) => return Some(text.to_string()),
        _ => format!("`{key}` is {}; expected {expected}", kind(value)),
    };
    log.refuse(value.span(), problem)
}

/// A whole number in the range, or an error.
pub fn integer(value: &Value<'_>, key: &str, range: RangeInclusive<u64>, log: &Log) -> Option<u64> {
    let (least, most) = (range.start(), range.end());
    let found = match value.get_ref() {
        DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
        _ => None,
    };
    if let Some(number) = found.filter(|number| range.contains(number)) {
        return Some(number);
    }
    let is = match value.get_ref() {
        DeValue::Integer(number) => number.to_string().chars().take(40).collect(),
        _ => kind(value).to_string(),
    };
    log.refuse(value.span(), format!("`{key}` is {is}; expected a whole number from {least} to {most}"))
}

pub(crate) fn number(value: &Value<'_>, key: &str, check: fn(f64) -> bool, expected: &str, log: &Log) -> Option<f64> {
    let found: Option<f64> = match value.get_ref() {
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).ok().map(|number| number as f64)
        }
        DeValue::Float(number) => number.as_str().parse().ok(),
        _ => None,
    };
    if let Some(number) = found.filter(|number| number.is_finite() && check(*number)) {
        return Some(number);
    }
    let is: String = match value.get_ref() {
        DeValue::Integer(number) => number.to_string().chars().take(40).collect(),
        DeValue::Float(number) => number.as_str().chars().take(40).collect(),
        _ => kind(value).to_string(),
    };
    log.refuse(value.span(), format!("`{key}` is {is}; expected {expected}"))
}

pub(crate) fn rate_pps(value: &Value<'_>, key: &str, log: &Log) -> Option<f64> {
    let text = quoted(value, key, "a rate in quotes, as \"1.5Mpps\"", log)?;
    match scalar::rate_pps(&text) {
        Ok(pps) => Some(pps),
        Err(message) => log.refuse(value.span(), format!("`{key}`: {message}")),
    }
}

/// The meaning of a word out of a list, or an error.
pub fn word<T: Clone>(value: &Value<'_>, what: &str, known: &[(&str, T)], log: &Log) -> Option<T> {
    let word = text(value, what, log)?;
    let found = known.iter().find(|(name, _)| *name == word).map(|(_, meaning)| meaning.clone());
    if found.is_none() {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        log.error(value.span(), words::unknown(what, &word, &names));
    }
    found
}

pub(crate) fn list<'a>(
    value: &'a Value<'a>,
    key: &str,
    range: RangeInclusive<usize>,
    log: &Log,
) -> Option<Vec<&'a Value<'a>>> {
    let DeValue::Array(array) = value.get_ref() else {
        let is = kind(value);
        log.error(value.span(), format!("`{key}` is {is}; expected a list in brackets"));
        return None;
    };
    if !range.contains(&array.len()) {
        let (least, most) = (range.start(), range.end());
        log.error(value.span(), format!("`{key}` has {} entries; expected {least} to {most}", array.len()));
        return None;
    }
    Some(array.iter().collect())
}

/// The values of a key that can be a list, each with what it adds to the names of devices: nothing where it is none.
pub fn one_or_more<T: Copy + PartialEq>(
    table: &Section<'_>,
    key: &'static str,
    default: T,
    shown: impl Fn(T) -> String,
    read: impl Fn(&Value<'_>) -> Option<T>,
) -> Vec<(T, String)> {
    let Some(value) = table.value(key) else { return vec![(default, String::new())] };
    if !matches!(value.get_ref(), DeValue::Array(_)) {
        return vec![(read(value).unwrap_or(default), String::new())];
    }
    let mut values: Vec<(T, String)> = Vec::new();
    for entry in list(value, key, 1..=VALUES_MAX, table.log).unwrap_or_default() {
        let Some(known) = read(entry) else { continue };
        if values.iter().any(|(other, _)| *other == known) {
            table.log.error(entry.span(), format!("{} is in `{key}` twice; expected each once", shown(known)));
            continue;
        }
        values.push((known, format!("-{}", shown(known))));
    }
    if values.is_empty() { vec![(default, String::new())] } else { values }
}

/// The same for words out of a list, which shows each by the first word that it has there.
pub fn one_or_more_words<T: Copy + PartialEq>(
    table: &Section<'_>,
    (key, what): (&'static str, &str),
    known: &[(&str, T)],
    default: T,
) -> Vec<(T, String)> {
    let shown = |value| known.iter().find(|(_, known)| *known == value).map_or("", |(word, _)| *word).to_owned();
    one_or_more(table, key, default, shown, |value| word(value, what, known, table.log))
}

/// A size in quotes of at least so many bytes, as `"64MiB"`, or an error.
pub fn bytes(value: &Value<'_>, key: &str, least: u64, log: &Log) -> Option<u64> {
    let text = text(value, key, log)?;
    let bytes = match scalar::bytes(&text) {
        Ok(bytes) if bytes < least => {
            Err(format!("{bytes} bytes are too few; expected {} to 1GiB", shown_bytes(least)))
        }
        read => read,
    };
    bytes.map_err(|problem| log.error(value.span(), format!("`{key}`: {problem}"))).ok()
}

/// What a value is, with its article.
pub(crate) fn kind(value: &Value<'_>) -> &'static str {
    match value.get_ref() {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// A name that becomes a part of ids and of file names: letters, digits, dots and dashes, beginning with a letter or a digit.
pub(crate) fn name(value: &Value<'_>, key: &str, log: &Log) -> Option<String> {
    let name = text(value, key, log)?;
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '.';
    let starts = name.starts_with(|letter: char| letter.is_ascii_alphanumeric());
    if !starts || name.len() > 60 || !name.chars().all(is_plain) || name.contains("..") {
        let message = format!(
            "`{key}` is {:?}; expected 1 to 60 letters, digits, dots and dashes, with a letter or digit first",
            name.chars().take(60).collect::<String>()
        );
        log.error(value.span(), message);
        return None;
    }
    Some(name)
}

/// A time for messages: `1s`, `200ms`.
pub(crate) fn shown_ns(ns: u64) -> String {
    match ns {
        0 => "0s".to_string(),
        ns if ns % 3_600_000_000_000 == 0 => format!("{}h", ns / 3_600_000_000_000),
        ns if ns % 1_000_000_000 == 0 => format!("{}s", ns / 1_000_000_000),
        ns if ns % 1_000_000 == 0 => format!("{}ms", ns / 1_000_000),
        ns if ns % 1_000 == 0 => format!("{}us", ns / 1_000),
        ns => format!("{ns}ns"),
    }
}

/// For [`Section::number`]: a share that may be 0 or 1.
pub(crate) fn is_share(number: f64) -> bool {
    (0.0..=1.0).contains(&number)
}
pub(crate) const SHARE: &str = "a share from 0 to 1";

/// For [`Section::number`]: a share below 1.
pub(crate) fn is_share_below_1(number: f64) -> bool {
    (0.0..1.0).contains(&number)
}
pub(crate) const SHARE_BELOW_1: &str = "a share from 0 to below 1";

/// A size as it is written: `512KiB`, `10MiB`.
pub fn shown_bytes(bytes: u64) -> String {
    let units = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let unit = units.into_iter().find(|(_, unit)| bytes.is_multiple_of(*unit));
    unit.map_or(format!("{bytes}B"), |(name, unit)| format!("{}{name}", bytes / unit))
}
