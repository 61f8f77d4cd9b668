//! Local ports of connections that are begun (RFC 6056 section 3.3.4, double-hash port selection).

use crate::hash::Key;
use crate::tuple::Tuple;

/// First and last port that is chosen (RFC 6335 has 49152 for the first; more are needed for many connections from one address).
const FIRST: u16 = 16_384;
const LAST: u16 = u16::MAX;
const COUNT: u32 = (LAST - FIRST) as u32 + 1;
/// Counters: destinations that share one leave gaps in each other's sequences, no more.
const COUNTERS: usize = 1024;

/// Where the search for a port starts, by destination.
pub(crate) struct Ports {
    key: Key,
    counters: Box<[u32; COUNTERS]>,
    /// The destination that was asked for last, and its hash.
    last: (Tuple, u64),
}

impl Ports {
    pub(crate) fn new(secret: [u8; 16]) -> Ports {
        let (key, nobody) = (Key::derive(secret, 3), Tuple::default());
        Ports { key, counters: Box::new([0; COUNTERS]), last: (nobody, key.tuple(&nobody)) }
    }

    /// The ports to a destination in the order in which they are tried. `tuple` has no local port yet.
    pub(crate) fn candidates(&mut self, tuple: &Tuple) -> Candidates {
        let destination = Tuple { local_port: 0, ..*tuple };
        if self.last.0 != destination {
            self.last = (destination, self.key.tuple(&destination));
        }
        let hash = self.last.1;
        let counter = (hash >> 32) as usize % COUNTERS;
        Candidates { counter, start: (hash as u32).wrapping_add(self.counters[counter]), step: 0 }
    }

    /// The port that was returned last is taken: the next search goes on behind it.
    pub(crate) fn taken(&mut self, candidates: &Candidates) {
        let counter = &mut self.counters[candidates.counter];
        *counter = counter.wrapping_add(candidates.step);
    }
}

/// Ports to try.
pub(crate) struct Candidates {
    counter: usize,
    start: u32,
    step: u32,
}

impl Candidates {
    /// The port that comes `ahead` behind the one that was returned last.
    pub(crate) fn later(&self, ahead: u32) -> u16 {
        port(self.start.wrapping_add(self.step).wrapping_add(ahead))
    }
}

/// The port of a number that counts up for ever.
fn port(number: u32) -> u16 {
    FIRST + (number % COUNT) as u16
}

impl Iterator for Candidates {
    type Item = u16;

    fn next(&mut self) -> Option<u16> {
        if self.step == COUNT {
            return None;
        }
        self.step += 1;
        Some(port(self.start.wrapping_add(self.step)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashSet, VecDeque};

    #[test]
    fn all_ports_to_a_destination_are_used_before_it_gives_up() {
        let mut ports = Ports::new([7; 16]);
        let tuple = Tuple { local: 1, remote: 2, local_port: 0, remote_port: 80, v6: false };
        let mut used = HashSet::new();
        loop {
            let mut candidates = ports.candidates(&tuple);
            let Some(port) = candidates.find(|port| !used.contains(port)) else { break };
            ports.taken(&candidates);
            assert!(port >= FIRST && used.insert(port));
        }
        assert_eq!(used.len(), COUNT as usize);
    }

    /// What is asked for ahead is what is chosen then, as long as all ports are free.
    #[test]
    fn a_later_port_is_the_one_that_is_tried_then() {
        let mut ports = Ports::new([7; 16]);
        let tuple = Tuple { local: 1, remote: 2, local_port: 0, remote_port: 80, v6: false };
        let mut expected = VecDeque::new();
        for _ in 0..100_000 {
            let mut candidates = ports.candidates(&tuple);
            let port = candidates.next();
            expected.push_back(candidates.later(8));
            ports.taken(&candidates);
            if expected.len() > 8 {
                assert_eq!(port, expected.pop_front());
            }
        }
    }
}
