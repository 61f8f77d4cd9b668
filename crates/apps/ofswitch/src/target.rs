//! Where controllers are: `tcp:HOST:PORT`, `ssl:HOST:PORT` to connect to, `ptcp:PORT[:IP]`, `pssl:PORT[:IP]` to listen at, as Open vSwitch
//! writes them (ovs-vswitchd.conf.db(5)). To listen, `tcp:IP:PORT` and `ssl:IP:PORT` are understood, too.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// The port that IANA gave OpenFlow.
const PORT_DEFAULT: u16 = 6653;
/// Most auxiliary connections beside a main one; the protocol has room for 255.
const AUXILIARY_MAX: u8 = 16;

/// A controller to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The connection is encrypted.
    pub tls: bool,
    /// Name or address of the controller's host.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Number of auxiliary connections beside the main one, of the same kind.
    pub auxiliary: u8,
    /// Number of auxiliary connections by UDP behind those.
    pub auxiliary_udp: u8,
}

/// An address at which controllers are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenAddress {
    /// Connections are encrypted.
    pub tls: bool,
    /// Address and port; port 0 is any that is free.
    pub address: SocketAddr,
}

/// Text that is not an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TargetError(String);

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Target, TargetError> {
        let wrong = |why: &str| {
            let usage =
                "write tcp:HOST:PORT or ssl:HOST:PORT, for example tcp:127.0.0.1:6653 or ssl:[2001:db8::1]:6653";
            TargetError(format!("not a controller: `{text}` {why}; {usage}"))
        };
        let (address, options) = text.split_once(',').unwrap_or((text, ""));
        let (tls, place) = match address.split_once(':') {
            Some(("tcp", place)) => (false, place),
            Some(("ssl" | "tls", place)) => (true, place),
            Some(("ptcp" | "pssl", _)) => return Err(wrong("is an address to listen at (--listen)")),
            _ => return Err(wrong("begins neither with tcp: nor with ssl:")),
        };
        let (host, port) = host_and_port(place).ok_or_else(|| wrong("has no host or a wrong port"))?;
        let (mut auxiliary, mut auxiliary_udp) = (0, 0);
        for option in options.split(',').filter(|option| !option.is_empty()) {
            let (count, number) = match option.split_once('=') {
                Some(("aux", number)) => (&mut auxiliary, number),
                Some(("udp-aux", _)) if tls => {
                    return Err(wrong("asks for auxiliary connections by UDP, which nothing would encrypt; use aux=N"));
                }
                Some(("udp-aux", number)) => (&mut auxiliary_udp, number),
                _ => return Err(wrong(&format!("has an unknown option ({option}); aux=N and udp-aux=N are known"))),
            };
            *count =
                number.parse().ok().filter(|number| *number <= AUXILIARY_MAX).ok_or_else(|| {
                    wrong(&format!("has a wrong number ({option}); it is one from 0 to {AUXILIARY_MAX}"))
                })?;
        }
        Ok(Target { tls, host: host.into(), port: port.unwrap_or(PORT_DEFAULT), auxiliary, auxiliary_udp })
    }
}

/// Takes `HOST[:PORT]` apart; an IPv6 address is in brackets, or has no port behind it.
fn host_and_port(place: &str) -> Option<(&str, Option<u16>)> {
    if let Some(rest) = place.strip_prefix('[') {
        let (host, port) = rest.split_once(']')?;
        host.parse::<IpAddr>().ok()?;
        return match port.strip_prefix(':') {
            Some(port) => Some((host, Some(port.parse().ok()?))),
            None => port.is_empty().then_some((host, None)),
        };
    }
    if place.parse::<IpAddr>().is_ok() {
        return Some((place, None));
    }
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) => (host, Some(port.parse().ok()?)),
        None => (place, None),
    };
    (!host.is_empty() && !host.contains(':')).then_some((host, port))
}

impl FromStr for ListenAddress {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<ListenAddress, TargetError> {
        let wrong = || {
            let usage = "write ptcp:PORT[:IP] or pssl:PORT[:IP], for example ptcp:6634:127.0.0.1, or tcp:IP:PORT";
            TargetError(format!("not an address to listen at: `{text}`; {usage}"))
        };
        let (kind, place) = text.split_once(':').unwrap_or((text, ""));
        let tls = match kind {
            "ptcp" | "tcp" => false,
            "pssl" | "ssl" | "tls" => true,
            _ => return Err(wrong()),
        };
        let address = if kind.starts_with('p') { passive(place) } else { active(place) };
        Ok(ListenAddress { tls, address: address.ok_or_else(wrong)? })
    }
}

/// `[PORT][:IP]`; without an address, all of the host.
fn passive(place: &str) -> Option<SocketAddr> {
    let (port, address) = match place.split_once(':') {
        Some((port, address)) => (port, address.trim_start_matches('[').trim_end_matches(']').parse().ok()?),
        None => (place, IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
    };
    let port = if port.is_empty() { PORT_DEFAULT } else { port.parse().ok()? };
    Some(SocketAddr::new(address, port))
}

/// `IP:PORT`.
fn active(place: &str) -> Option<SocketAddr> {
    let (host, port) = host_and_port(place)?;
    Some(SocketAddr::new(host.parse().ok()?, port.unwrap_or(PORT_DEFAULT)))
}

impl fmt::Display for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.tls { "ssl" } else { "tcp" };
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        write!(out, "{kind}:{host}:{}", self.port)?;
        let counts = [("aux", self.auxiliary), ("udp-aux", self.auxiliary_udp)];
        counts.iter().filter(|(_, count)| *count > 0).try_for_each(|(word, count)| write!(out, ",{word}={count}"))
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.tls { "pssl" } else { "ptcp" };
        match self.address {
            SocketAddr::V4(address) => write!(out, "{kind}:{}:{}", address.port(), address.ip()),
            SocketAddr::V6(address) => write!(out, "{kind}:{}:[{}]", address.port(), address.ip()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_are_written_as_open_vswitch_does() {
        for (text, whole) in [
            ("tcp:127.0.0.1:6653", "tcp:127.0.0.1:6653"),
            ("tcp:127.0.0.1", "tcp:127.0.0.1:6653"),
            ("ssl:control.example:6700", "ssl:control.example:6700"),
            ("tcp:[::1]:1", "tcp:[::1]:1"),
            ("tcp:::1", "tcp:[::1]:6653"),
            ("ssl:[::1]", "ssl:[::1]:6653"),
            ("tcp:10.0.0.1:6633,aux=2", "tcp:10.0.0.1:6633,aux=2"),
            ("tcp:a:6633,udp-aux=3,aux=1", "tcp:a:6633,aux=1,udp-aux=3"),
        ] {
            assert_eq!(text.parse::<Target>().map(|target| target.to_string()), Ok(whole.into()), "{text}");
        }
        let wrong = ["", "tcp", "tcp:", "udp:1.2.3.4:1", "tcp:a:99999", "tcp:[x]:1", "ptcp:6653"];
        for text in wrong.iter().chain(&["tcp:a:1,aux=99", "tcp:a:1,b", "tcp:a:1,udp-aux=x", "ssl:a:1,udp-aux=1"]) {
            let error = text.parse::<Target>().unwrap_err().to_string();
            assert!(error.contains("tcp:HOST:PORT"), "{text}: {error}");
        }
    }

    #[test]
    fn addresses_to_listen_at_come_in_two_spellings() {
        for (text, whole) in [
            ("ptcp:6634", "ptcp:6634:0.0.0.0"),
            ("ptcp:", "ptcp:6653:0.0.0.0"),
            ("ptcp:6634:127.0.0.1", "ptcp:6634:127.0.0.1"),
            ("pssl:6640:[::1]", "pssl:6640:[::1]"),
            ("tcp:127.0.0.1:16653", "ptcp:16653:127.0.0.1"),
            ("ssl:[::]:1", "pssl:1:[::]"),
        ] {
            assert_eq!(text.parse::<ListenAddress>().map(|address| address.to_string()), Ok(whole.into()), "{text}");
        }
        for text in ["", "6653", "ptcp:x", "ptcp:1:host", "tcp:host:1", "punix:x"] {
            assert!(text.parse::<ListenAddress>().is_err(), "{text}");
        }
    }
}
