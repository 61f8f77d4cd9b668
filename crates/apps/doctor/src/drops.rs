//! Packets that the host has lost since boot, where its own counters say so.

use super::Finding;
use super::facts::Facts;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    vec![backlog_drops(facts)]
}

fn backlog_drops(facts: &Facts) -> Finding {
    const TOPIC: &str = "backlog drops";
    let (processed, dropped) = (facts.softnet.processed, facts.softnet.dropped);
    if dropped == 0 {
        return Finding::good(TOPIC, "none since boot");
    }
    let why = "the per-core backlog was full: software interfaces and RPS handed over more than a core could take. The \
               counter is of the whole machine and of all time; a trial's ledger shows what belongs to it";
    Finding::note(TOPIC, format!("{dropped} beside {processed} packets since boot"), why)
        .fix("sysctl -w net.core.netdev_max_backlog=10000")
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::super::facts::Softnet;
    use super::*;

    #[test]
    fn drops_are_noted() {
        let mut facts = Facts::default();
        assert_eq!(check(&facts)[0].severity, Severity::Good);
        facts.softnet = Softnet { processed: 9, dropped: 2, squeezed: 0 };
        assert_eq!(check(&facts)[0].severity, Severity::Note);
        assert!(check(&facts)[0].what.contains("2 beside 9"));
    }
}
