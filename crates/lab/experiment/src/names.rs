//! Names of the entries of a matrix: short, unique in their dimension, parts of cell ids.

use crate::{Direction, FlowIp, FlowOrder, FlowSpec, SizeSpec, TesterPorts};

/// The shortest frame of IPv6 that tells packets apart, in bytes on the wire: Ethernet 14, IPv6 40 (RFC 8200 section 3), UDP 8, the
/// signature 16, the frame check sequence 4.
pub const FRAME_IPV6_MIN: u32 = 82;
/// Addresses of one side of a pattern that is only a number.
const ADDRESSES_DEFAULT_MAX: u64 = 100;

impl SizeSpec {
    /// `64`, `imix`: the first word of the label.
    pub fn name(&self) -> String {
        self.label.split(' ').next().unwrap_or_default().to_lowercase()
    }

    /// The frames that are sent for this size with such flows: of at least [`FRAME_IPV6_MIN`] bytes on the wire where some are of IPv6, so
    /// that all packets of a cell have the sizes that its label says.
    pub fn frames(&self, flows: &FlowSpec) -> SizeSpec {
        let is_short = |part: &(u32, u32)| part.0 < FRAME_IPV6_MIN;
        if flows.ip == FlowIp::V4 || !self.parts.iter().any(is_short) {
            return self.clone();
        }
        let longer = self.parts.iter().map(|(bytes, weight)| ((*bytes).max(FRAME_IPV6_MIN), *weight));
        SizeSpec {
            label: format!("{} (frames of {FRAME_IPV6_MIN} bytes, the least with IPv6)", self.label),
            parts: longer.collect(),
        }
    }
}

impl FlowSpec {
    /// Number of flows, of all versions of IP together.
    pub fn count(&self) -> u64 {
        self.count_of_one().saturating_mul(self.ip.versions().len() as u64)
    }

    /// Number of flows of each version of IP that it has.
    pub fn count_of_one(&self) -> u64 {
        self.sources.saturating_mul(self.destinations).saturating_mul(self.ports)
    }

    /// Whether all pairs of addresses are among those of `other`.
    pub fn is_part_of(&self, other: &FlowSpec) -> bool {
        (self.source, self.destination, self.ip) == (other.source, other.destination, other.ip)
            && self.sources <= other.sources
            && self.destinations <= other.destinations
    }

    /// `10000` for a pattern that a number stands for, else sources x destinations (x ports): `1x49`, `100x100-random`; with IPv6
    /// `10000-ipv6` and `10000-dual`.
    pub fn name(&self) -> String {
        let shape = (self.sources, self.destinations, self.ports);
        let mut name = match self.ports {
            _ if shape == divided(self.count_of_one()) => self.count().to_string(),
            1 => format!("{}x{}", self.sources, self.destinations),
            _ => format!("{}x{}x{}", self.sources, self.destinations, self.ports),
        };
        match self.order {
            FlowOrder::Odometer => {}
            FlowOrder::Random(1) => name += "-random",
            FlowOrder::Random(seed) => name += &format!("-random{seed}"),
        }
        match self.ip {
            FlowIp::V4 => {}
            FlowIp::V6(_) => name += "-ipv6",
            FlowIp::Dual(_) => name += "-dual",
        }
        name
    }
}

/// Sources, destinations and ports of so many flows: of up to 100 sources and 100 destinations; what is left are ports.
pub(crate) fn divided(count: u64) -> (u64, u64, u64) {
    let sources = largest_divisor(count);
    let destinations = largest_divisor(count / sources);
    (sources, destinations, count / sources / destinations)
}

fn largest_divisor(count: u64) -> u64 {
    (1..=ADDRESSES_DEFAULT_MAX).rev().find(|part| count.is_multiple_of(*part)).unwrap_or(1)
}

impl TesterPorts {
    /// `xdp` when both are of one kind, else `xdp-sink`.
    pub fn name(&self) -> String {
        match self.sender == self.receiver {
            true => self.sender.clone(),
            false => format!("{}-{}", self.sender, self.receiver),
        }
    }
}

/// Whether a name or an id is meant: `*` stands for any text.
pub fn matches_glob(id: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = id.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part).and_then(|at| rest.get(at + part.len()..)) {
            Some(after) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

impl Direction {
    /// `one-way`, `both-ways`: as in files and ids.
    pub fn word(self) -> &'static str {
        match self {
            Self::OneWay => "one-way",
            Self::BothWays => "both-ways",
        }
    }

    /// What it is for a capture, which has a port for each direction: `one-port`, `two-ports`.
    pub fn word_for_captures(self) -> &'static str {
        match self {
            Self::OneWay => "one-port",
            Self::BothWays => "two-ports",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::matches_glob;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, is_meant) in [
            ("a-b-c", true),
            ("a-*", true),
            ("*-c", true),
            ("a*c", true),
            ("*", true),
            ("a-*-c", true),
            ("a", false),
            ("*-b", false),
            ("b*", false),
            ("", false),
        ] {
            assert_eq!(matches_glob("a-b-c", pattern), is_meant, "{pattern}");
        }
        assert!(!matches_glob("ab", "ab*b"), "no letter is used twice");
    }
}
