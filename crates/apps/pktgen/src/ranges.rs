//! Address and port ranges: `addr[:port][-addr[:port]]`, and for IPv6 `[group@]addr` or `[group@][addr]:port`.
//!
//! The first `-` splits the ends, so a range of ports alone names the address twice: `10.0.0.1:1000-10.0.0.1:2000`. Both ends
//! belong to the range; reversed ends are swapped; a missing second port is the first one; a missing first port is 1234. Of an
//! IPv6 address one 16-bit word varies, the one that `group` names (0 to 7, 7 unless told, 0 being the first word in writing).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

/// Port of an end that names none.
pub const PORT_DEFAULT: u16 = 1234;

/// Word of an IPv6 address that varies unless another is named.
const GROUP_DEFAULT: u8 = 7;

/// Which addresses are expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4 (`-4`).
    V4,
    /// IPv6 (`-6`).
    V6,
}

/// The addresses of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// All from the first to the last.
    V4(RangeInclusive<Ipv4Addr>),
    /// Those that differ in one word.
    V6 {
        /// The address with the lowest word.
        first: Ipv6Addr,
        /// Which of the eight 16-bit words varies, 0 being the first.
        group: u8,
        /// Highest value of that word.
        last_word: u16,
    },
}

/// Addresses with ports: what `-s` and `-d` say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointRange {
    /// The addresses.
    pub addresses: Addresses,
    /// The UDP ports.
    pub ports: RangeInclusive<u16>,
}

/// What is wrong with a range, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeError {
    /// What is wrong.
    pub problem: String,
    /// What to write instead.
    pub cure: String,
}

impl fmt::Display for RangeError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.problem, self.cure)
    }
}

impl EndpointRange {
    /// Reads a range of the given family.
    pub fn parse(text: &str, family: Family) -> Result<EndpointRange, RangeError> {
        let (first, last) = match text.split_once('-') {
            Some((first, last)) => (first, Some(last)),
            None => (text, None),
        };
        let first = End::parse(first, family)?;
        let last = last.map(|last| End::parse(last, family)).transpose()?;
        let first_port = first.port.unwrap_or(PORT_DEFAULT);
        let last_port = last.as_ref().and_then(|last| last.port).unwrap_or(first_port);
        let ports = first_port.min(last_port)..=first_port.max(last_port);
        Ok(EndpointRange { addresses: Addresses::between(first, last)?, ports })
    }

    /// Number of addresses.
    pub fn address_count(&self) -> u64 {
        match &self.addresses {
            Addresses::V4(range) => u64::from(u32::from(*range.end()) - u32::from(*range.start())) + 1,
            Addresses::V6 { first, group, last_word } => {
                u64::from(*last_word - first.segments()[usize::from(*group)]) + 1
            }
        }
    }

    /// Number of ports.
    pub fn port_count(&self) -> u64 {
        u64::from(*self.ports.end() - *self.ports.start()) + 1
    }

    /// The lowest address.
    pub fn first_address(&self) -> IpAddr {
        match &self.addresses {
            Addresses::V4(range) => (*range.start()).into(),
            Addresses::V6 { first, .. } => (*first).into(),
        }
    }

    /// The highest address.
    pub fn last_address(&self) -> IpAddr {
        match &self.addresses {
            Addresses::V4(range) => (*range.end()).into(),
            Addresses::V6 { first, group, last_word } => {
                let mut words = first.segments();
                words[usize::from(*group)] = *last_word;
                Ipv6Addr::from(words).into()
            }
        }
    }
}

/// As the original writes it: `10.0.0.1:1234 to 10.0.0.9:1234`, or `7@[::1]:1234 to 7@[::9]:1234`.
impl fmt::Display for EndpointRange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = (self.first_address(), self.last_address());
        let (first_port, last_port) = (self.ports.start(), self.ports.end());
        match &self.addresses {
            Addresses::V4(_) => write!(out, "{first}:{first_port} to {last}:{last_port}"),
            Addresses::V6 { group, .. } => {
                write!(out, "{group}@[{first}]:{first_port} to {group}@[{last}]:{last_port}")
            }
        }
    }
}

impl Addresses {
    fn between(first: End, last: Option<End>) -> Result<Addresses, RangeError> {
        match (first.address, last.as_ref().map_or(first.address, |last| last.address)) {
            (IpAddr::V4(first), IpAddr::V4(last)) => Ok(Addresses::V4(first.min(last)..=first.max(last))),
            (IpAddr::V6(low), IpAddr::V6(high)) => {
                let group = one_group(first.group, last.and_then(|last| last.group))?;
                between_v6(low, high, group)
            }
            // Both ends were read with one family.
            (first, last) => Err(error(format!("{first} and {last} are of two kinds"), "write two of one kind")),
        }
    }
}

fn one_group(first: Option<u8>, last: Option<u8>) -> Result<u8, RangeError> {
    match (first, last) {
        (Some(first), Some(last)) if first != last => {
            Err(error(format!("the ends name two groups, {first} and {last}"), "one word varies: name one group"))
        }
        (first, last) => Ok(first.or(last).unwrap_or(GROUP_DEFAULT)),
    }
}

fn between_v6(one: Ipv6Addr, other: Ipv6Addr, group: u8) -> Result<Addresses, RangeError> {
    let at = usize::from(group);
    let (mut one_words, mut other_words) = (one.segments(), other.segments());
    let words = (one_words[at].min(other_words[at]), one_words[at].max(other_words[at]));
    one_words[at] = 0;
    other_words[at] = 0;
    if one_words != other_words {
        let problem = format!("{one} and {other} differ outside word {group}");
        return Err(error(problem, "only the word that GROUP@ names can vary"));
    }
    one_words[at] = words.0;
    Ok(Addresses::V6 { first: one_words.into(), group, last_word: words.1 })
}

/// One end of a range as written.
struct End {
    address: IpAddr,
    group: Option<u8>,
    port: Option<u16>,
}

impl End {
    fn parse(text: &str, family: Family) -> Result<End, RangeError> {
        match family {
            Family::V4 => End::parse_v4(text),
            Family::V6 => End::parse_v6(text),
        }
    }

    fn parse_v4(text: &str) -> Result<End, RangeError> {
        let (address, port) = match text.split_once(':') {
            Some((address, port)) => (address, Some(port)),
            None => (text, None),
        };
        let Ok(parsed) = address.parse::<Ipv4Addr>() else {
            let cure = if looks_like_v6(text) { "add -6 for IPv6" } else { "write it as 10.0.0.1 or 10.0.0.1:1234" };
            return Err(error(format!("{text:?} is no IPv4 address"), cure));
        };
        Ok(End { address: parsed.into(), group: None, port: port.map(parse_port).transpose()? })
    }

    fn parse_v6(text: &str) -> Result<End, RangeError> {
        let (group, rest) = match text.split_once('@') {
            Some((group, rest)) => (Some(parse_group(group)?), rest),
            None => (None, text),
        };
        let no_address = || {
            let cure = match rest.parse::<Ipv4Addr>() {
                Ok(_) => "leave -6 away for IPv4",
                Err(_) => "write it as 2001:db8::1, [2001:db8::1]:1234 or 7@[2001:db8::1]:1234",
            };
            error(format!("{text:?} is no IPv6 address"), cure)
        };
        let (address, port) = match rest.strip_prefix('[') {
            None => (rest, None),
            Some(bracketed) => match bracketed.split_once(']').ok_or_else(no_address)? {
                (address, "") => (address, None),
                (address, behind) => (address, Some(behind.strip_prefix(':').ok_or_else(no_address)?)),
            },
        };
        let address = address.parse::<Ipv6Addr>().map_err(|_| no_address())?;
        Ok(End { address: address.into(), group, port: port.map(parse_port).transpose()? })
    }
}

fn looks_like_v6(text: &str) -> bool {
    text.contains('[') || text.contains('@') || text.matches(':').count() > 1
}

fn parse_group(text: &str) -> Result<u8, RangeError> {
    match text.parse::<u8>() {
        Ok(group @ 0..=7) => Ok(group),
        _ => Err(error(format!("{text:?} is no group of an IPv6 address"), "GROUP@ is a number from 0 to 7")),
    }
}

/// A port in decimal, or in hexadecimal after `0x`. A leading zero, octal to strtol(3), is refused.
fn parse_port(text: &str) -> Result<u16, RangeError> {
    let plain = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let parsed = match text.strip_prefix("0x") {
        Some(digits) if plain(digits) => u16::from_str_radix(digits, 16).ok(),
        None if plain(text) && (text.len() == 1 || !text.starts_with('0')) => text.parse().ok(),
        _ => None,
    };
    parsed.ok_or_else(|| error(format!("{text:?} is no port"), "a port is a number from 0 to 65535"))
}

fn error(problem: String, cure: &str) -> RangeError {
    RangeError { problem, cure: cure.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn v4(text: &str) -> Result<EndpointRange, RangeError> {
        EndpointRange::parse(text, Family::V4)
    }

    fn v6(text: &str) -> Result<EndpointRange, RangeError> {
        EndpointRange::parse(text, Family::V6)
    }

    #[test]
    fn reads_the_forms_of_the_manual() {
        for (text, shown) in [
            ("10.0.0.1", "10.0.0.1:1234 to 10.0.0.1:1234"),
            ("10.0.0.1:7", "10.0.0.1:7 to 10.0.0.1:7"),
            ("10.0.0.1:1000-10.0.0.1:2000", "10.0.0.1:1000 to 10.0.0.1:2000"),
            ("10.0.0.1:1000-10.0.0.9", "10.0.0.1:1000 to 10.0.0.9:1000"),
            ("10.0.0.1-10.0.0.9:99", "10.0.0.1:99 to 10.0.0.9:1234"),
            ("192.168.1.201-192.168.1.249:12345", "192.168.1.201:1234 to 192.168.1.249:12345"),
            ("10.0.0.9:5-10.0.0.1:3", "10.0.0.1:3 to 10.0.0.9:5"),
            ("10.0.0.1:0x50", "10.0.0.1:80 to 10.0.0.1:80"),
        ] {
            assert_eq!(v4(text).map(|range| range.to_string()), Ok(shown.to_string()), "{text}");
        }
        for (text, shown) in [
            ("2001:db8::1", "7@[2001:db8::1]:1234 to 7@[2001:db8::1]:1234"),
            ("[2001:db8::1]:9", "7@[2001:db8::1]:9 to 7@[2001:db8::1]:9"),
            ("3@[2001:db8::1]:9", "3@[2001:db8::1]:9 to 3@[2001:db8::1]:9"),
            ("3@2001:db8:0:9::1-[2001:db8:0:2::1]:9", "3@[2001:db8:0:2::1]:9 to 3@[2001:db8:0:9::1]:1234"),
            ("[::ff]-::1", "7@[::1]:1234 to 7@[::ff]:1234"),
        ] {
            assert_eq!(v6(text).map(|range| range.to_string()), Ok(shown.to_string()), "{text}");
        }
    }

    #[test]
    fn refuses_the_rest_and_says_what_to_write() {
        let bad_v4 = [
            "",
            "-",
            "10.0.0",
            "10.0.0.1:",
            "10.0.0.1:65536",
            "10.0.0.1:-1",
            "10.0.0.1:010",
            "10.0.0.1:+1",
            "1.2.3.4-",
        ];
        for text in
            bad_v4.into_iter().chain(["host", "10.0.0.1 ", "10.0.0.1:1:2", "1.2.3.4-1.2.3.5-1.2.3.6", "10.0.0.1:0x"])
        {
            let error = v4(text).expect_err(text);
            assert!(!error.cure.is_empty(), "{text}");
        }
        for text in ["", "::1]", "[::1", "[::1]9", "8@::1", "x@::1", "@::1", "1@::1-2@::1", "::1-1::1", "[::1]:x", "0@"]
        {
            let error = v6(text).expect_err(text);
            assert!(!error.cure.is_empty(), "{text}");
        }
        assert!(v4("2001:db8::1").expect_err("v6").cure.contains("-6"));
        assert!(v6("10.0.0.1").expect_err("v4").cure.contains("-6"));
    }

    proptest! {
        #[test]
        fn what_is_shown_is_what_was_meant(ends in any::<(u32, u32, u16, u16)>()) {
            let (a, b) = (Ipv4Addr::from(ends.0), Ipv4Addr::from(ends.1));
            let range = v4(&format!("{a}:{}-{b}:{}", ends.2, ends.3)).unwrap();
            prop_assert_eq!(range.first_address(), IpAddr::from(a.min(b)));
            prop_assert_eq!(range.last_address(), IpAddr::from(a.max(b)));
            prop_assert_eq!(range.address_count(), u64::from(ends.0.abs_diff(ends.1)) + 1);
            prop_assert_eq!(range.port_count(), u64::from(ends.2.abs_diff(ends.3)) + 1);
            let again = v4(&range.to_string().replace(" to ", "-")).unwrap();
            prop_assert_eq!(again, range);
        }

        #[test]
        fn an_ipv6_range_varies_in_its_word_only(base in any::<[u16; 8]>(), words in any::<(u16, u16)>(), group in 0u8..8) {
            let with = |word| { let mut all = base; all[usize::from(group)] = word; Ipv6Addr::from(all) };
            let range = v6(&format!("{group}@[{}]:1-[{}]:2", with(words.0), with(words.1))).unwrap();
            prop_assert_eq!(range.first_address(), IpAddr::from(with(words.0.min(words.1))));
            prop_assert_eq!(range.last_address(), IpAddr::from(with(words.0.max(words.1))));
            prop_assert_eq!(range.address_count(), u64::from(words.0.abs_diff(words.1)) + 1);
            prop_assert_eq!(v6(&range.to_string().replace(" to ", "-")).unwrap(), range);
        }

        #[test]
        fn never_panics(text in "[0-9a-f:.@\\[\\]x-]{0,40}") {
            let _ = (v4(&text), v6(&text));
        }
    }
}
