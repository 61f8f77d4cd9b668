//! Names of the entries of a matrix: short, unique in their dimension, parts of cell ids.

use crate::{Direction, FlowOrder, FlowSpec, SizeSpec, TesterPorts};

/// Addresses of one side of a pattern that is only a number.
const ADDRESSES_DEFAULT_MAX: u64 = 100;

impl SizeSpec {
    /// `64`, `imix`: the first word of the label.
    pub fn name(&self) -> String {
        self.label.split(' ').next().unwrap_or_default().to_lowercase()
    }
}

impl FlowSpec {
    /// Number of flows.
    pub fn count(&self) -> u64 {
        self.sources.saturating_mul(self.destinations).saturating_mul(self.ports)
    }

    /// `10000` for a pattern that a number stands for, else sources x destinations (x ports): `1x49`, `100x100-random`.
    pub fn name(&self) -> String {
        let shape = (self.sources, self.destinations, self.ports);
        let mut name = match self.ports {
            _ if shape == divided(self.count()) => self.count().to_string(),
            1 => format!("{}x{}", self.sources, self.destinations),
            _ => format!("{}x{}x{}", self.sources, self.destinations, self.ports),
        };
        match self.order {
            FlowOrder::Odometer => {}
            FlowOrder::Random(1) => name += "-random",
            FlowOrder::Random(seed) => name += &format!("-random{seed}"),
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

impl Direction {
    /// `one-way`, `both-ways`: as in files and ids.
    pub fn word(self) -> &'static str {
        match self {
            Self::OneWay => "one-way",
            Self::BothWays => "both-ways",
        }
    }
}
