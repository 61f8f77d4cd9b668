//! The grammar of port names. This file is the one place that documents it.
//!
//! ```text
//! spec     = [ backend ":" ] target [ "@" queue ] { "," option }
//!          | [ backend ":" ] target "@conf:" option { "," option }       as netmap writes options
//! backend  = letter { letter | digit }              pipe null file packet xdp xdplive pcap tap ...
//! target   = { any character but "," and "@" }      an interface, a path, a name; may be empty (null:)
//! queue    = decimal number
//! option   = key [ "=" value ]                      a key alone means key=yes
//! ```
//! Some options are the same for every backend and become [`OpenOptions`]: `queues`, `tx_only`, `rx_only`, `promisc`, `prompt`,
//! `refused`, `corrupt`, `zerocopy`, `merge`, `filter`. The others belong to the backend.
//!
//! A backslash before `,`, `@`, `:` or `\` takes the meaning from it (file names). Without a backend the spec is an interface
//! and the fastest backend that works on it is chosen. Which options there are is each backend's matter; one that it does not
//! know is an error that lists those it does.
//!
//! Three options are for every backend, and impair packets (`linerate-impair`, docs/impair.md): `impair-rx=WORDS` those that arrive,
//! `impair-tx=WORDS` those that leave, `impair=WORDS` both, each by itself. WORDS are those of tc-netem(8), with spaces between:
//! `packet:eth1,impair-tx=loss 1% delay 10ms 2ms`.

use std::fmt;
use std::str::FromStr;

use crate::OpenOptions;
use crate::options::{COMMON, choice};

/// Most characters of a spec.
const SPEC_LEN_MAX: usize = 4096;

/// A port name, taken apart.
///
/// ```
/// use linerate_port::PortSpec;
/// let mut spec: PortSpec = "xdp:eth1@3,ring=8192,native,promisc=no".parse().unwrap();
/// assert_eq!((spec.backend.as_deref(), spec.target.as_str()), (Some("xdp"), "eth1"));
/// assert_eq!((spec.options.first_queue, spec.options.promiscuous), (Some(3), Some(false)));
/// assert_eq!(spec.take("ring"), Some("8192".to_string()));
/// assert_eq!(spec.take_flag("native").unwrap(), true);
/// spec.finish(&["@", "ring", "native", "promisc"]).unwrap();
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortSpec {
    /// Text before the first colon; `None` for a bare interface name.
    pub backend: Option<String>,
    /// What the backend is to open.
    pub target: String,
    /// Options that all backends share.
    pub options: OpenOptions,
    /// Options of the backend alone that nobody took yet, in the order written.
    pub own: Vec<(String, String)>,
    /// Which of the shared options the user wrote.
    written: Vec<&'static str>,
    text: String,
}

/// What is wrong with a spec.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad port name {text:?}: {problem}")]
pub struct SpecError {
    /// The spec as given.
    pub text: String,
    /// What is wrong with it, and what would be right.
    pub problem: String,
}

impl PortSpec {
    /// The spec of `target` at a known backend, without options.
    pub fn new(backend: &str, target: &str) -> PortSpec {
        let text = format!("{backend}:{}", escaped(target));
        PortSpec { backend: Some(backend.into()), target: target.into(), text, ..PortSpec::default() }
    }

    /// This spec with one option more, as if the user had written it: `@` is the queue.
    ///
    /// # Errors
    /// The option is there already, or does not take this value.
    pub fn with(mut self, key: &str, value: &str) -> Result<PortSpec, SpecError> {
        self.set(key, value).map_err(|problem| self.error(problem))?;
        self.text += &match (key, value) {
            ("@", queue) => format!("@{queue}"),
            (_, "yes") => format!(",{key}"),
            _ => format!(",{key}={}", escaped(value)),
        };
        Ok(self)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        if self.written.contains(&key) || self.own.iter().any(|(name, _)| name == key) {
            return Err(format!("names option {key} twice"));
        }
        match COMMON.iter().find(|common| **common == key) {
            Some(common) => {
                self.options.set(key, value)?;
                self.written.push(common);
            }
            None => self.own.push((key.into(), value.into())),
        }
        Ok(())
    }

    /// This spec with what a program asks for, where the user left it open.
    pub fn completed(&self, options: &OpenOptions) -> PortSpec {
        PortSpec { options: self.options.clone().or(options), ..self.clone() }
    }

    /// True if the user wrote the shared option `key` (`@` is the queue).
    pub fn wrote(&self, key: &str) -> bool {
        self.written.contains(&key)
    }

    /// The name of the port of queue `queue`, which opens that port alone.
    pub fn at_queue(&self, queue: u32) -> String {
        let (_, options) = split_options(&self.text);
        let options = options.iter().filter(|option| !option.starts_with("queues="));
        let backend = self.backend.as_ref().map(|backend| format!("{backend}:")).unwrap_or_default();
        let options: String = options.map(|option| format!(",{option}")).collect();
        format!("{backend}{}@{queue}{options}", escaped(&self.target))
    }

    /// Takes the backend's option `key` out and returns its value.
    pub fn take(&mut self, key: &str) -> Option<String> {
        let at = self.own.iter().position(|(name, _)| name == key)?;
        Some(self.own.remove(at).1)
    }

    /// Takes the backend's option `key` out and returns its value, as if it had not been written: the spec's text goes without it.
    pub fn cut(&mut self, key: &str) -> Option<String> {
        let value = self.take(key)?;
        let is_other = |part: &&str| part.split_once('=').map_or(*part, |(name, _)| name) != key;
        let (name, options) = split_options(&self.text);
        self.text = std::iter::once(name).chain(options.into_iter().filter(is_other)).collect::<Vec<_>>().join(",");
        Some(value)
    }

    /// Takes the backend's option `key` out as a number, in decimal; `Ok(None)` when it was not given.
    pub fn take_number(&mut self, key: &str, least: u64, most: u64) -> Result<Option<u64>, SpecError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        match value.parse::<u64>() {
            Ok(number) if (least..=most).contains(&number) => Ok(Some(number)),
            _ => Err(self.error(format!("{key}={value}: {key} takes a number from {least} to {most}"))),
        }
    }

    /// Takes the backend's option `key` out as a switch: absent or `no` is false, alone or `yes` is true.
    pub fn take_flag(&mut self, key: &str) -> Result<bool, SpecError> {
        self.take_choice(key, &[("no", false), ("yes", true)])
    }

    /// Takes the backend's option `key` out as one of these words, the first of which stands for an absent option.
    pub fn take_choice<T: Copy>(&mut self, key: &str, words: &[(&str, T)]) -> Result<T, SpecError> {
        let value = self.take(key).unwrap_or_else(|| words.first().map_or(String::new(), |(word, _)| (*word).into()));
        choice(key, &value, words).map_err(|problem| self.error(problem))
    }

    /// The number of queue pairs that were asked for: `most` at most.
    ///
    /// # Errors
    /// The user asked for more.
    pub fn queues_up_to(&self, most: u32) -> Result<Option<u32>, SpecError> {
        match self.options.queues {
            Some(queues) if queues > most => {
                Err(self.error(format!("queues={queues}: queues takes a number from 1 to {most}")))
            }
            queues => Ok(queues),
        }
    }

    /// Complains about options that the backend does not have: shared ones that the user wrote and that `known` does not
    /// list, and others that nobody took. `known` lists all that the backend has.
    pub fn finish(&self, known: &[&str]) -> Result<(), SpecError> {
        let written = self.written.iter().find(|key| !known.contains(*key));
        let backend = self.backend.as_deref().unwrap_or("this port");
        let key = match (written, self.own.first()) {
            (Some(&"@"), _) => {
                let problem =
                    format!("{backend} has no queue to choose; leave out the @, or write \\@ if it belongs to a name");
                return Err(self.error(problem));
            }
            (Some(key), _) => *key,
            (None, Some((key, _))) => key,
            (None, None) => return Ok(()),
        };
        let listed: Vec<&str> = known.iter().filter(|key| **key != "@").copied().collect();
        let what = if listed.is_empty() { "has no options".into() } else { format!("knows {}", listed.join(", ")) };
        Err(self.error(format!("unknown option {key}; {backend} {what}")))
    }

    /// An error about this spec.
    pub fn error(&self, problem: impl Into<String>) -> SpecError {
        SpecError { text: self.text.clone(), problem: problem.into() }
    }
}

impl fmt::Display for PortSpec {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl FromStr for PortSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<PortSpec, SpecError> {
        let error = |problem: &str| SpecError { text: text.chars().take(80).collect(), problem: problem.into() };
        if text.len() > SPEC_LEN_MAX {
            return Err(error("longer than 4096 characters"));
        }
        if text.chars().any(char::is_control) {
            return Err(error("contains control characters"));
        }
        let parts = split_unescaped(text, ',').ok_or_else(|| error("ends in a backslash"))?;
        let (name, options) = parts.split_first().ok_or_else(|| error("is empty"))?;
        let (backend, rest) = split_backend(name);
        let mut fields = split_unescaped(rest, '@').ok_or_else(|| error("ends in a backslash"))?.into_iter();
        let target = unescape(fields.next().unwrap_or_default());
        let queue = fields.next();
        if fields.next().is_some() {
            return Err(error("has two @; write \\@ for one that belongs to a name"));
        }
        if backend.is_none() && target.is_empty() {
            return Err(error("is empty; a port is backend:target, or an interface"));
        }
        let backend = backend.map(str::to_string);
        let mut spec = PortSpec { backend, target, text: text.into(), ..PortSpec::default() };
        // Options may begin as netmap writes them.
        let first = queue.and_then(|queue| queue.strip_prefix("conf:"));
        let queue = queue.filter(|_| first.is_none());
        let options = first.iter().chain(options).map(|option| option.split_once('=').unwrap_or((option, "yes")));
        if options.clone().any(|(key, _)| key == "@") {
            return Err(error("has an option @; a queue stands behind the target: eth0@3"));
        }
        for (key, value) in queue.map(|queue| ("@", queue)).into_iter().chain(options) {
            if key.is_empty() {
                return Err(error("has an option without a name"));
            }
            spec.set(key, &unescape(value)).map_err(|problem| error(&problem))?;
        }
        Ok(spec)
    }
}

/// The options as they are written, and what stands before them: `netmap:a@conf:x,y` has the options `x` and `y` of `netmap:a`.
fn split_options(text: &str) -> (&str, Vec<&str>) {
    let mut options = split_unescaped(text, ',').unwrap_or_default();
    let Some(name) = options.first().copied() else { return (text, options) };
    let at = split_unescaped(name, '@').unwrap_or_default();
    match (at.first(), at.get(1).and_then(|queue| queue.strip_prefix("conf:"))) {
        (Some(before), Some(first)) => {
            options[0] = first;
            (before, options)
        }
        _ => {
            options.remove(0);
            (name, options)
        }
    }
}

/// Splits off `backend:`; a name that is no plain word before the colon is part of the target.
fn split_backend(name: &str) -> (Option<&str>, &str) {
    match name.split_once(':') {
        Some((word, rest)) if is_backend_word(word) => (Some(word), rest),
        _ => (None, name),
    }
}

fn is_backend_word(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_lowercase())
        && word.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit())
}

/// Splits at `separator` where no backslash stands before it; `None` when the text ends in a lone backslash.
fn split_unescaped(text: &str, separator: char) -> Option<Vec<&str>> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (at, letter) in text.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if letter == separator => {
                parts.push(&text[start..at]);
                start = at + letter.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    (!escaped).then_some(parts)
}

/// The text with a backslash before each character that has a meaning in a spec.
fn escaped(text: &str) -> String {
    let escape = |letter| [Some('\\').filter(|_| matches!(letter, ',' | '@' | ':' | '\\')), Some(letter)];
    text.chars().flat_map(escape).flatten().collect()
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        out.extend(if letter == '\\' { letters.next() } else { Some(letter) });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<PortSpec, SpecError> {
        text.parse()
    }

    #[test]
    fn takes_names_apart() {
        let spec = parse("file:/tmp/a\\,b.pcap,write,speed=2,promisc=no").unwrap();
        assert_eq!((spec.backend.as_deref(), spec.target.as_str()), (Some("file"), "/tmp/a,b.pcap"));
        assert_eq!(spec.own, [("write".into(), "yes".into()), ("speed".into(), "2".into())]);
        assert_eq!(spec.options, OpenOptions { promiscuous: Some(false), ..OpenOptions::default() });
        assert!(spec.wrote("promisc") && !spec.wrote("@"));
        assert_eq!(parse("eth0").unwrap().backend, None);
        assert_eq!(parse("null:").unwrap().target, "");
        assert_eq!(parse("eth0@2").unwrap().options.first_queue, Some(2));
        let netmaps = parse("netmap:vale0:a@conf:rings=2,slots=512").unwrap();
        assert_eq!((netmaps.target.as_str(), netmaps.wrote("@")), ("vale0:a", false));
        assert_eq!(netmaps.own, [("rings".into(), "2".into()), ("slots".into(), "512".into())]);
        assert!(parse("x:1,@=3").unwrap_err().to_string().contains("eth0@3"));
        // A colon after what is no backend word belongs to the name (an alias interface).
        assert_eq!(parse("ETH0:1").unwrap().target, "ETH0:1");
    }

    #[test]
    fn an_option_can_be_cut_out() {
        let mut spec = parse("file:/tmp/a\\,b.pcap,impair=loss 1%,write").unwrap();
        assert_eq!(
            (spec.cut("impair"), spec.cut("impair"), spec.cut("file:/tmp/a")),
            (Some("loss 1%".into()), None, None)
        );
        assert_eq!(spec.to_string(), "file:/tmp/a\\,b.pcap,write");
        assert_eq!(spec.own, [("write".into(), "yes".into())]);
        let mut netmaps = parse("netmap:vale0:a@conf:impair=loss 1%,slots=512,rings=2").unwrap();
        assert_eq!(
            (netmaps.cut("impair"), netmaps.to_string()),
            (Some("loss 1%".into()), "netmap:vale0:a,slots=512,rings=2".into())
        );
        assert_eq!(parse("netmap:a@conf:rings=2,slots=512").unwrap().at_queue(3), "netmap:a@3,rings=2,slots=512");
    }

    #[test]
    fn refuses_what_means_nothing() {
        for bad in [
            "",
            ",a",
            "pipe:a,=1",
            "pipe:a,x=1,x=2",
            "xdp:e@x",
            "xdp:e@1@2",
            "a\\",
            "a\nb",
            "xdp:e@4294967296",
            "xdp:e@",
            "xdp:e@conf:",
            "xdp:e@conf:@=3",
            "pipe:a,promisc=maybe",
            "pipe:a,tx_only,rx_only",
            "pipe:a,queues=0",
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
        let spec = parse("pipe:a,fast").unwrap();
        assert!(spec.finish(&["ring"]).unwrap_err().to_string().contains("knows ring"));
        assert!(parse("pipe:a,ring=x").unwrap().take_number("ring", 1, 9).is_err());
        let shared = parse("pipe:a,promisc=no").unwrap();
        assert!(shared.finish(&["ring"]).unwrap_err().problem.contains("unknown option promisc; pipe knows ring"));
        assert!(shared.finish(&["promisc"]).is_ok());
        assert!(parse("pipe:a@1").unwrap().finish(&["ring"]).unwrap_err().problem.contains("no queue to choose"));
        assert!(parse("memif:a,queues=9").unwrap().queues_up_to(8).is_err());
    }

    #[test]
    fn names_are_put_together() {
        let spec = PortSpec::new("memif", "/tmp/a@b,c").with("role", "client").unwrap().with("queues", "2").unwrap();
        assert_eq!(spec.to_string(), "memif:/tmp/a\\@b\\,c,role=client,queues=2");
        assert_eq!(parse(&spec.to_string()).unwrap(), spec);
        assert_eq!(spec.at_queue(1), "memif:/tmp/a\\@b\\,c@1,role=client");
        assert_eq!(parse("xdp:e@3,native,queues=2").unwrap().at_queue(4), "xdp:e@4,native");
        assert!(spec.clone().with("role", "server").is_err() && spec.with("refused", "maybe").is_err());
    }

    proptest! {
        #[test]
        fn never_panics_and_any_name_can_be_written(text in ".{0,60}", name in "[a-z,@:\\\\]{1,20}") {
            let _ = parse(&text);
            let escaped: String = name.chars().flat_map(|letter| ['\\', letter]).collect();
            prop_assert_eq!(parse(&format!("file:{escaped}")).unwrap().target, name);
        }
    }
}
