//! `cargo run --release -p linerate-benches --bin classify [RULES]`: what lookups of flow tables take, in nanoseconds of a key in a batch
//! of 64 (median of the batches), and what changes take.

use linerate_benches::classify::{
    Cached, Headers, Priorities, Table, header, header_of_its_own, median_ns, rule, unknown,
};
use linerate_benches::say;
use linerate_classify::{Classifier, Domain, Rule};
use linerate_sys::clock;

/// Batches of a row.
const BATCHES: u64 = 20_000;

fn main() {
    let only: Option<String> = std::env::args().nth(1);
    let wanted = |row: &str| only.as_ref().is_none_or(|only| row.contains(only.as_str()));
    for flows in [1, 10_000, 1_000_000] {
        let row = format!("cache hit + counters, {flows} flows");
        if wanted(&row) {
            let mut cached = Cached::new(flows);
            let (ns, found) =
                median_ns(BATCHES, |number| header_of_its_own(number % flows), |keys| cached.look_up(keys));
            let memory = cached.memory_bytes() as f64 / flows as f64;
            say!("{row:48} {ns:7.1} ns  found {:5.1} %  {memory:.0} bytes a flow", found * 100.0);
        }
    }
    for (rules, masks) in [(100_000, 20), (1_000_000, 20), (1_000_000, 1)] {
        for priorities in [Priorities::Specific, Priorities::Random] {
            if masks == 1 && priorities == Priorities::Random {
                continue;
            }
            let name = format!("{rules} rules, {masks} masks, {priorities:?} priorities");
            if !wanted(&name) {
                continue;
            }
            let mut table = Table::new(rules, masks, priorities);
            for headers in [Headers::Known, Headers::Unknown] {
                let (ns, found) = match headers {
                    Headers::Known => median_ns(BATCHES, |number| header(number % rules), |keys| table.look_up(keys)),
                    Headers::Unknown => median_ns(BATCHES, unknown, |keys| table.look_up(keys)),
                };
                say!("{:48} {ns:7.1} ns  found {:5.1} %", format!("{name}, {headers:?}"), found * 100.0);
            }
            let (rules, bytes) = (table.classifier.len(), table.classifier.memory_bytes());
            say!("{:48} {rules} rules, {:.0} bytes a rule", "", bytes as f64 / rules as f64);
            drop(table);
            changes(rules as u64, masks, priorities);
        }
    }
}

/// What changes take: all rules added one by one, and removed; without the time in which rules are made.
fn changes(rules: u64, masks: u64, priorities: Priorities) {
    let mut classifier = Classifier::new(&Domain::new(1));
    let added_ns = each(rules, masks, priorities, |rule| classifier.insert(rule));
    let removed_ns = each(rules, masks, priorities, |rule| assert!(classifier.remove(rule)));
    say!("{:48} a rule added {added_ns:.0} ns, removed {removed_ns:.0} ns", "");
}

fn each(rules: u64, masks: u64, priorities: Priorities, mut change: impl FnMut(&Rule)) -> f64 {
    let mut taken_ns = 0;
    for first in (0..rules).step_by(512) {
        let some: Vec<Rule> = (first..rules.min(first + 512)).map(|number| rule(number, masks, priorities)).collect();
        let start = clock::thread_cpu_ns();
        some.iter().for_each(&mut change);
        taken_ns += clock::thread_cpu_ns() - start;
    }
    taken_ns as f64 / rules as f64
}
