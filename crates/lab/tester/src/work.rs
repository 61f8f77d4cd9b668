//! Cycles and instructions of a part of the path, where the machine counts them.

use std::io;

use linerate_report::Work;
use linerate_sys::perf::{Counter, Event, Scope};

/// The counters of one part.
pub(super) struct Counting {
    cycles: Counter,
    instructions: Counter,
}

/// Events of one part during a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Counts {
    cycles: Option<f64>,
    instructions: Option<f64>,
}

impl Counting {
    /// Starts counting.
    pub(super) fn start(scope: Scope) -> io::Result<Counting> {
        Ok(Counting {
            cycles: Counter::open(Event::Cycles, scope)?,
            instructions: Counter::open(Event::Instructions, scope)?,
        })
    }

    /// What was counted.
    pub(super) fn finish(self) -> io::Result<Counts> {
        Ok(Counts { cycles: self.cycles.read()?.scaled(), instructions: self.instructions.read()?.scaled() })
    }
}

impl Counts {
    /// For each packet delivered.
    pub(super) fn per_packet(&self, of: &str, delivered: u64) -> Work {
        let each = |events: Option<f64>| events.filter(|_| delivered > 0).map(|events| events / delivered as f64);
        Work {
            of: of.to_owned(),
            cycles_per_packet: each(self.cycles),
            instructions_per_packet: each(self.instructions),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_of_delivered_packets() {
        let counts = Counts { cycles: Some(3000.0), instructions: None };
        let work = counts.per_packet("generator", 10);
        assert_eq!((work.cycles_per_packet, work.instructions_per_packet), (Some(300.0), None));
        assert_eq!(counts.per_packet("generator", 0).cycles_per_packet, None);
    }
}
