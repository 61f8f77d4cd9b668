//! The names of netmap's ports: an interface, a VALE switch's port or a pipe, and which of its rings.
//!
//! ```text
//! name   = port [ rings ] [ "/" flag { flag } ]
//! port   = interface | "vale" [ switch ] ":" port        "valeS:P": port P of the kernel's switch S
//! port   = port ( "{" | "}" ) pipe                        the first and the second end of a pipe beside a port
//! rings  = "-" N | "^" [ N ] | "*"                        ring pair N; those of the host's stack, or one; both kinds
//! flag   = "x" alone | "r" "t" copies of what the port receives, sends | "z" without a copy | "R" "T" one direction's rings
//! ```
//! As netmap's own library reads them (`libnetmap.h`), with two exceptions. A dash that no number follows belongs to the interface's name.
//! The memory area is an option here (`mem=N`), because `@N` is the queue of a port in all names of Linerate.

use crate::abi;

/// Longest name that a request holds, without the zero behind it.
const NAME_LEN_MAX: usize = abi::NAME_BYTES - 1;

/// A name, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortName {
    /// The port, as the kernel is told.
    pub port: String,
    /// Which rings of it.
    pub rings: Rings,
    /// `NR_*` flags for the request.
    pub flags: u64,
    pub kind: Kind,
}

/// Which rings of a port are bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rings {
    /// All of the interface.
    All,
    /// Ring pair N.
    One(u32),
    /// All of the host's stack.
    Host,
    /// Ring pair N of the host's stack.
    OneHost(u32),
    /// All of both.
    AllAndHost,
}

/// What the port is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An interface of the host.
    Interface,
    /// A port of the kernel's VALE switch.
    Vale,
    /// One end of a pipe.
    Pipe,
    /// A copy of another port's packets.
    Monitor,
}

impl PortName {
    /// Takes the target of a spec apart.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(crate) fn parse(text: &str) -> Result<PortName, String> {
        let (switch, rest) = match text.split_once(':') {
            Some((switch, rest)) => (Some(switch), rest),
            None => (None, text),
        };
        if let Some(switch) = switch
            && !switch.strip_prefix("vale").is_some_and(is_identifier)
        {
            return Err(format!("{switch}: is no switch; its name is `vale`, letters, digits and _"));
        }
        let end = rest.find(['*', '^', '/']).unwrap_or(rest.len());
        // A dash is part of an interface's name unless a number follows it.
        let is_ring = |dash: &usize| {
            let number = &rest[dash + 1..end];
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        };
        let end = rest[..end].rfind('-').filter(is_ring).unwrap_or(end);
        let (port, suffix) = rest.split_at(end);
        let pipe = match port.split_once(['{', '}']) {
            Some((_, pipe)) if pipe.is_empty() || !is_identifier(pipe) => {
                return Err(format!("{pipe:?} is no name of a pipe; it has letters, digits and _"));
            }
            Some(("", _)) => return Err("a pipe stands behind the name of a port".into()),
            split => split.is_some(),
        };
        if port.is_empty() {
            return Err("names no port".into());
        }
        if text[..text.len() - suffix.len()].len() > NAME_LEN_MAX {
            return Err(format!("is longer than {NAME_LEN_MAX} characters"));
        }
        let (rings, flags) = match suffix.split_once('/') {
            Some((rings, flags)) => (rings, parse_flags(flags)?),
            None => (suffix, 0),
        };
        let rings = parse_rings(rings)?;
        let kind = match (switch, pipe) {
            _ if flags & (abi::MONITOR_TX | abi::MONITOR_RX | abi::MONITOR_ZERO_COPY) != 0 => Kind::Monitor,
            (_, true) => Kind::Pipe,
            (Some(_), _) => Kind::Vale,
            _ => Kind::Interface,
        };
        let port = text[..text.len() - suffix.len()].to_string();
        Ok(PortName { port, rings, flags, kind })
    }
}

fn is_identifier(text: &str) -> bool {
    text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

fn parse_rings(text: &str) -> Result<Rings, String> {
    let number = |digits: &str| match digits.parse::<u16>() {
        // The kernel keeps 12 bits of it.
        Ok(number) if number < 0xfff && digits.bytes().all(|byte| byte.is_ascii_digit()) => Ok(u32::from(number)),
        _ => Err(format!("{digits:?} is no ring; write a number from 0 to 4094")),
    };
    match (text.chars().next(), text.get(1..).unwrap_or_default()) {
        (None, _) => Ok(Rings::All),
        (Some('^'), "") => Ok(Rings::Host),
        (Some('*'), "") => Ok(Rings::AllAndHost),
        (Some('^'), digits) => number(digits).map(Rings::OneHost),
        (Some('-'), digits) => number(digits).map(Rings::One),
        _ => Err(format!("{text:?} names no rings; write -N, ^, ^N or *")),
    }
}

fn parse_flags(text: &str) -> Result<u64, String> {
    if text.is_empty() {
        return Err("a flag is missing behind /".into());
    }
    text.chars().try_fold(0, |flags, letter| {
        let flag = match letter {
            'x' => abi::EXCLUSIVE,
            'z' => abi::MONITOR_ZERO_COPY,
            't' => abi::MONITOR_TX,
            'r' => abi::MONITOR_RX,
            'R' => abi::RX_RINGS_ONLY,
            'T' => abi::TX_RINGS_ONLY,
            _ => return Err(format!("{letter:?} is no flag; write x, r, t, z, R or T behind /")),
        };
        Ok(flags | flag)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_those_of_netmaps_library() {
        for (text, port, rings, flags, kind) in [
            ("eth0", "eth0", Rings::All, 0, Kind::Interface),
            ("eth0-3", "eth0", Rings::One(3), 0, Kind::Interface),
            ("lr-in", "lr-in", Rings::All, 0, Kind::Interface),
            ("lr-in-0/x", "lr-in", Rings::One(0), abi::EXCLUSIVE, Kind::Interface),
            ("eth0^", "eth0", Rings::Host, 0, Kind::Interface),
            ("eth0^1", "eth0", Rings::OneHost(1), 0, Kind::Interface),
            ("eth0*", "eth0", Rings::AllAndHost, 0, Kind::Interface),
            ("eth0*/x", "eth0", Rings::AllAndHost, abi::EXCLUSIVE, Kind::Interface),
            ("eth0{1", "eth0{1", Rings::All, 0, Kind::Pipe),
            ("eth0}a_b", "eth0}a_b", Rings::All, 0, Kind::Pipe),
            ("x{1/xT", "x{1", Rings::All, abi::EXCLUSIVE | abi::TX_RINGS_ONLY, Kind::Pipe),
            ("eth0/rt", "eth0", Rings::All, abi::MONITOR_RX | abi::MONITOR_TX, Kind::Monitor),
            ("eth0-2/z", "eth0", Rings::One(2), abi::MONITOR_ZERO_COPY, Kind::Monitor),
            ("eth0/R", "eth0", Rings::All, abi::RX_RINGS_ONLY, Kind::Interface),
            ("vale0:a", "vale0:a", Rings::All, 0, Kind::Vale),
            ("vale:1", "vale:1", Rings::All, 0, Kind::Vale),
            ("valeS_1:x-1", "valeS_1:x", Rings::One(1), 0, Kind::Vale),
            ("vale0:a{2", "vale0:a{2", Rings::All, 0, Kind::Pipe),
        ] {
            let wanted = PortName { port: port.into(), rings, flags, kind };
            assert_eq!(PortName::parse(text), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn what_means_nothing_is_refused() {
        for text in [
            "",
            "vale0:",
            ":a",
            "eth0:a",
            "vale-1:a",
            "-1",
            "^",
            "eth0-4095",
            "eth0-99999",
            "eth0^x",
            "eth0**",
            "eth0^-1",
            "eth0/",
            "eth0/q",
            "eth0{",
            "eth0}",
            "{1",
            "eth0{1{2",
            "eth0{a b",
            "vale0:a:b{",
        ] {
            assert!(PortName::parse(text).is_err(), "{text}");
        }
        assert!(PortName::parse(&"a".repeat(63)).is_ok() && PortName::parse(&"a".repeat(64)).is_err());
    }

    proptest! {
        #[test]
        fn never_panics_and_tells_the_kernel_a_name_that_fits(text in "(vale[a-z0-9]{0,3}:)?[a-z{}*^/@:0-9é-]{0,80}") {
            if let Ok(name) = PortName::parse(&text) {
                prop_assert!(text.starts_with(&name.port) && !name.port.is_empty() && name.port.len() <= NAME_LEN_MAX);
            }
        }
    }
}
