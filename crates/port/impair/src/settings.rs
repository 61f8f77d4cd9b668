//! What is done to the packets of one direction, and the words for it, which are those of tc-netem(8).
//!
//! ```text
//! settings  = impairment { " " impairment }
//! loss      = "loss" [ "random" ] SHARE [ CORRELATION ]
//!           | "loss gemodel" P [ R [ 1-H [ 1-K ] ] ]          four shares: Gilbert (two) and Gilbert-Elliott (four)
//! delay     = "delay" TIME [ JITTER [ CORRELATION ] ] [ "ordered" ]
//! reorder   = "reorder" SHARE [ CORRELATION ] [ "gap" NUMBER ]
//! duplicate = "duplicate" SHARE [ CORRELATION ]
//! corrupt   = "corrupt" SHARE [ CORRELATION ]
//! rate      = "rate" BITRATE [ OVERHEAD ]                     OVERHEAD in bytes of each packet, also negative
//! limit     = "limit" NUMBER                                  packets that wait, at most
//! seed      = "seed" NUMBER
//! ```
//! Numbers are those of `linerate-units`: `1%`, `10ms`, `10Mbit/s`, `5k`.

use std::fmt;
use std::str::FromStr;

use linerate_units::{UnitError, bits_per_second, count, duration_ns, nearest, share};

/// What is done to the packets of one direction. The default does nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How packets get lost.
    pub loss: Loss,
    /// Time that each packet waits, in nanoseconds.
    pub delay_ns: u64,
    /// By how much the delay of a packet is longer or shorter than that, at most, in nanoseconds.
    pub jitter_ns: u64,
    /// Share of packets that have the jitter of the packet before them.
    pub jitter_correlation: f64,
    /// No packet leaves before one that came before it, whatever its jitter.
    pub ordered: bool,
    /// Packets that leave without the delay.
    pub reorder: Chance,
    /// Only each so many-th packet can leave without the delay; 1 for any.
    pub reorder_gap: u64,
    /// Packets that a copy follows.
    pub duplicate: Chance,
    /// Packets of which one bit is changed.
    pub corrupt: Chance,
    /// How fast packets leave.
    pub rate: Option<LinkRate>,
    /// Packets (slots, where a packet has several) that wait, at most; the next ones are lost.
    pub limit: usize,
    /// Start of the pseudo-random sequences.
    pub seed: u64,
}

/// How packets get lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loss {
    /// Each packet for itself.
    Random(Chance),
    /// In bursts: a chain of a good and a bad state (Gilbert 1960, Elliott 1963), which may change after each packet.
    GilbertElliott {
        /// Chance to go from the good state to the bad one (`p`).
        to_bad: f64,
        /// Chance to go from the bad state to the good one (`r`).
        to_good: f64,
        /// Loss in the bad state (`1-h`).
        bad: f64,
        /// Loss in the good state (`1-k`).
        good: f64,
    },
}

/// Something that happens to a share of the packets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Chance {
    /// Share of the packets, 0 to 1.
    pub share: f64,
    /// Share of the packets that fare as the packet before them.
    pub correlation: f64,
}

/// A rate at which packets leave, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkRate {
    /// Bits per second, at least 1.
    pub bps: u64,
    /// Bytes that each packet takes besides its own (without FCS); 24 for Ethernet's preamble, FCS and gap.
    pub overhead: i32,
}

/// Packets that wait, unless `limit` says otherwise; netem's number.
const LIMIT_DEFAULT: usize = 1000;
/// A frame of 2 KiB for each: 2 GiB.
const LIMIT_MAX: u64 = 1 << 20;
const OVERHEAD_MAX: i32 = 10_000;

const WORDS: [&str; 8] = ["loss", "delay", "reorder", "duplicate", "corrupt", "rate", "limit", "seed"];

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            loss: Loss::Random(Chance::default()),
            delay_ns: 0,
            jitter_ns: 0,
            jitter_correlation: 0.0,
            ordered: false,
            reorder: Chance::default(),
            reorder_gap: 1,
            duplicate: Chance::default(),
            corrupt: Chance::default(),
            rate: None,
            limit: LIMIT_DEFAULT,
            seed: 1,
        }
    }
}

impl FromStr for Settings {
    type Err = String;

    fn from_str(text: &str) -> Result<Settings, String> {
        let mut words = Words { words: text.split_whitespace().collect(), at: 0 };
        let (mut settings, mut seen) = (Settings::default(), Vec::new());
        while let Some(word) = words.next() {
            if seen.contains(&word) {
                return Err(format!("{word} is written twice"));
            }
            seen.push(word);
            settings.read(word, &mut words).map_err(|problem| format!("{word}: {problem}"))?;
        }
        if seen.is_empty() {
            return Err(format!("expected one or more of {}", WORDS.join(", ")));
        }
        if settings.reorder.share > 0.0 && settings.delay_ns == 0 {
            return Err("reorder: needs a delay, which the other packets have (for example delay 10ms)".into());
        }
        Ok(settings)
    }
}

impl Settings {
    fn read(&mut self, word: &str, words: &mut Words) -> Result<(), String> {
        match word {
            "loss" => self.loss = loss(words)?,
            "delay" => {
                self.delay_ns = words.number(duration_ns)?;
                self.jitter_ns = words.optional(duration_ns)?.unwrap_or(0);
                self.jitter_correlation = words.optional(share)?.unwrap_or(0.0);
                self.ordered = words.accept("ordered");
            }
            "reorder" => {
                self.reorder = words.chance()?;
                if words.accept("gap") {
                    self.reorder_gap = words.number(count)?.max(1);
                }
            }
            "duplicate" => self.duplicate = words.chance()?,
            "corrupt" => self.corrupt = words.chance()?,
            "rate" => {
                let bps = words.number(bits_per_second)?.max(1.0);
                self.rate = Some(LinkRate { bps: bps as u64, overhead: words.overhead()? });
            }
            "limit" => {
                let limit = words.number(count)?;
                if !(1..=LIMIT_MAX).contains(&limit) {
                    return Err(format!("takes a number of packets from 1 to {LIMIT_MAX}"));
                }
                self.limit = limit as usize;
            }
            "seed" => self.seed = words.number(count)?,
            "distribution" | "slot" | "ecn" => return Err("this word of netem is not supported".into()),
            _ => {
                let meant = nearest(word, &WORDS).map_or(String::new(), |near| format!("; did you mean {near}?"));
                return Err(format!("expected one of {}{meant}", WORDS.join(", ")));
            }
        }
        Ok(())
    }

    /// True when packets pass as if there were no settings.
    pub fn do_nothing(&self) -> bool {
        let happens = |chance: Chance| chance.share > 0.0;
        let loses = match self.loss {
            Loss::Random(chance) => happens(chance),
            Loss::GilbertElliott { to_bad, bad, good, .. } => good > 0.0 || (to_bad > 0.0 && bad > 0.0),
        };
        let waits = self.delay_ns > 0 || self.jitter_ns > 0 || self.rate.is_some();
        !loses && !waits && !happens(self.duplicate) && !happens(self.corrupt)
    }
}

fn loss(words: &mut Words) -> Result<Loss, String> {
    if !words.accept("gemodel") {
        words.accept("random");
        return if words.peek() == Some("state") {
            Err("the model `state` is not supported; `loss gemodel P R 1-H 1-K` has two states".into())
        } else {
            words.chance().map(Loss::Random)
        };
    }
    let to_bad = words.number(share)?;
    let to_good = words.optional(share)?.unwrap_or(1.0 - to_bad);
    let bad = words.optional(share)?.unwrap_or(1.0);
    Ok(Loss::GilbertElliott { to_bad, to_good, bad, good: words.optional(share)?.unwrap_or(0.0) })
}

/// The words of the settings, read from left to right.
struct Words<'a> {
    words: Vec<&'a str>,
    at: usize,
}

impl<'a> Words<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).copied()
    }

    fn next(&mut self) -> Option<&'a str> {
        self.at += 1;
        self.words.get(self.at - 1).copied()
    }

    /// Goes past the word, if it is the next one.
    fn accept(&mut self, word: &str) -> bool {
        let is_next = self.peek() == Some(word);
        self.at += usize::from(is_next);
        is_next
    }

    /// Reads the number that must follow.
    fn number<T>(&mut self, read: fn(&str) -> Result<T, UnitError>) -> Result<T, String> {
        let word = self.next().ok_or("a number is missing behind it")?;
        read(word).map_err(|error| error.to_string())
    }

    /// Reads a number, if one follows.
    fn optional<T>(&mut self, read: fn(&str) -> Result<T, UnitError>) -> Result<Option<T>, String> {
        match self.peek() {
            Some(word) if word.starts_with(|letter: char| letter.is_ascii_digit()) => self.number(read).map(Some),
            _ => Ok(None),
        }
    }

    fn chance(&mut self) -> Result<Chance, String> {
        Ok(Chance { share: self.number(share)?, correlation: self.optional(share)?.unwrap_or(0.0) })
    }

    fn overhead(&mut self) -> Result<i32, String> {
        let Some(word) =
            self.peek().filter(|word| word.starts_with(|first: char| first == '-' || first.is_ascii_digit()))
        else {
            return Ok(0);
        };
        self.at += 1;
        let overhead = word.parse().ok().filter(|bytes| (-OVERHEAD_MAX..=OVERHEAD_MAX).contains(bytes));
        overhead.ok_or_else(|| format!("not an overhead in bytes: `{word}` (-{OVERHEAD_MAX} to {OVERHEAD_MAX})"))
    }
}

/// Writes words that [`FromStr`] reads back to the same settings.
impl fmt::Display for Settings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.loss {
            Loss::Random(chance) => chance.write("loss", out)?,
            Loss::GilbertElliott { to_bad, to_good, bad, good } => {
                let shares = [to_bad, to_good, bad, good].map(|share| format!("{}%", percent(share)));
                write!(out, "loss gemodel {} ", shares.join(" "))?;
            }
        }
        if self.delay_ns > 0 || self.jitter_ns > 0 {
            write!(out, "delay {} ", time(self.delay_ns))?;
            if self.jitter_ns > 0 {
                write!(out, "{} {}% ", time(self.jitter_ns), percent(self.jitter_correlation))?;
            }
            out.write_str(if self.ordered { "ordered " } else { "" })?;
        }
        self.reorder.write("reorder", out)?;
        if self.reorder_gap > 1 && self.reorder.share > 0.0 {
            write!(out, "gap {} ", self.reorder_gap)?;
        }
        self.duplicate.write("duplicate", out)?;
        self.corrupt.write("corrupt", out)?;
        if let Some(rate) = self.rate {
            write!(out, "rate {}bit/s {} ", rate.bps, rate.overhead)?;
        }
        write!(out, "limit {} seed {}", self.limit, self.seed)
    }
}

impl Chance {
    fn write(&self, word: &str, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.share > 0.0, self.correlation > 0.0) {
            (false, _) => Ok(()),
            (true, false) => write!(out, "{word} {}% ", percent(self.share)),
            (true, true) => write!(out, "{word} {}% {}% ", percent(self.share), percent(self.correlation)),
        }
    }
}

/// Percent, without the digits that only the conversion brought.
fn percent(share: f64) -> f64 {
    (share * 1e12).round() / 1e10
}

fn time(ns: u64) -> String {
    let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1000)];
    let unit = units.into_iter().find(|(_, unit)| ns.is_multiple_of(*unit));
    unit.map_or(format!("{ns}ns"), |(name, unit)| format!("{}{name}", ns / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_those_of_netem() {
        let read: Settings =
            "loss 1% 25% delay 10ms 2ms 25% reorder 25% 50% gap 5 duplicate 0.1% corrupt 0.05% rate 10Mbit/s 24 limit 5k seed 7"
                .parse()
                .unwrap();
        let expected = Settings {
            loss: Loss::Random(Chance { share: 0.01, correlation: 0.25 }),
            delay_ns: 10_000_000,
            jitter_ns: 2_000_000,
            jitter_correlation: 0.25,
            ordered: false,
            reorder: Chance { share: 0.25, correlation: 0.5 },
            reorder_gap: 5,
            duplicate: Chance { share: 0.001, correlation: 0.0 },
            corrupt: Chance { share: 0.0005, correlation: 0.0 },
            rate: Some(LinkRate { bps: 10_000_000, overhead: 24 }),
            limit: 5000,
            seed: 7,
        };
        assert_eq!(read, expected);
        assert_eq!("loss random 1%".parse::<Settings>().unwrap().loss, "loss 1%".parse::<Settings>().unwrap().loss);
        let gemodel = |text: &str| text.parse::<Settings>().map(|settings| settings.loss);
        assert_eq!(
            gemodel("loss gemodel 1% 10% 70% 0.1%"),
            Ok(Loss::GilbertElliott { to_bad: 0.01, to_good: 0.1, bad: 0.7, good: 0.001 })
        );
        assert_eq!(
            gemodel("loss gemodel 1%"),
            Ok(Loss::GilbertElliott { to_bad: 0.01, to_good: 0.99, bad: 1.0, good: 0.0 })
        );
        assert_eq!(
            "rate 1Gbit/s -4".parse::<Settings>().unwrap().rate,
            Some(LinkRate { bps: 1_000_000_000, overhead: -4 })
        );
    }

    #[test]
    fn what_is_written_is_read_back() {
        for text in [
            "loss 1.5% 25% delay 10ms 2ms 25% ordered seed 9",
            "loss gemodel 0.3% 7% 90% 0.01% limit 77",
            "delay 1500us reorder 10% gap 3 duplicate 0.7% corrupt 0.3% 3%",
            "rate 123456789bit/s -4 delay 0s 7ns",
        ] {
            let settings: Settings = text.parse().unwrap();
            assert_eq!(settings.to_string().parse::<Settings>().as_ref(), Ok(&settings), "{settings}");
        }
    }

    #[test]
    fn mistakes_are_told_with_what_to_write() {
        for (text, part) in [
            ("", "one or more of loss, delay"),
            ("los 1%", "did you mean loss?"),
            ("loss", "a number is missing"),
            ("loss 1", "write 1%"),
            ("loss 101%", "the highest value is"),
            ("loss 1% loss 2%", "twice"),
            ("loss state 1%", "not supported"),
            ("delay 10", "write 10s"),
            ("delay 10msec", "did you mean 10ms?"),
            ("delay 1ms distribution normal", "not supported"),
            ("rate 10mbit", "did you mean 10Mbit/s?"),
            ("rate 10M 1e9", "not an overhead"),
            ("limit 0", "from 1 to 1048576"),
            ("reorder 25%", "needs a delay"),
            ("seed x", "not a number"),
        ] {
            let problem = text.parse::<Settings>().unwrap_err();
            assert!(problem.contains(part), "{text}: {problem}");
        }
    }

    #[test]
    fn nothing_is_known_to_be_nothing() {
        assert!(Settings::default().do_nothing());
        for text in ["loss 0%", "delay 0s", "loss gemodel 0%", "limit 5", "seed 3", "loss gemodel 5% 5% 0%"] {
            assert!(text.parse::<Settings>().unwrap().do_nothing(), "{text}");
        }
        for text in ["loss 1%", "delay 1ns", "loss gemodel 0% 1% 0% 1%", "duplicate 1%", "corrupt 1%", "rate 1G"] {
            assert!(!text.parse::<Settings>().unwrap().do_nothing(), "{text}");
        }
    }
}
