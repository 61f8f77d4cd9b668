//! A load divided among threads: each has its own flows and its part of the schedule.
//!
//! Of `parts` threads, thread `part` gets the packets `k` of a stream with `k = part (mod parts)`: of each rule that goes on with every packet it
//! takes every g-th value, where g is the greatest common divisor of `parts` and the number of values. All threads together then send the
//! flows of the whole stream, and no flow is sent by two of them, so its packets stay in order.

use crate::field::{Advance, Values};
use crate::pace::{Arrival, Schedule};
use crate::plan::{Rule, StreamSpec};
use crate::size::Sizes;

impl StreamSpec {
    /// The stream that thread `part` of `parts` sends, with the same signature; whether its flows are its own. They are not if no rule has as
    /// many values as there are threads: each thread then sends all of them.
    pub fn share(&self, part: usize, parts: usize) -> (StreamSpec, bool) {
        let mut spec = self.clone();
        if parts < 2 {
            return (spec, true);
        }
        let (part, parts) = (part as u64, parts as u64);
        match &mut spec.sizes {
            Sizes::Random { seed, .. } | Sizes::RandomOf { seed, .. } => *seed = seed_of(*seed, part),
            _ => {}
        }
        let is_divided = divide(&mut spec.rules, part, parts);
        (spec, is_divided)
    }
}

impl Schedule {
    /// The part of thread `part` of `parts`, and by how many nanoseconds later it starts. The packets that all parts intend are those that the
    /// whole schedule intends.
    pub fn share(&self, part: usize, parts: usize) -> (Schedule, u64) {
        let (number, count) = (part as u64, parts.max(1) as u64);
        let packets = self.packets.map(|packets| packets / count + u64::from(number < packets % count));
        let Some(rate_pps) = self.rate_pps else { return (Schedule { packets, ..*self }, 0) };
        let (between, arrival) = match self.arrival {
            Arrival::Constant => (1, self.arrival),
            Arrival::Burst { packets } => (u64::from(packets.max(1)), self.arrival),
            // Poisson processes add up to one, if they are independent.
            Arrival::Poisson { seed } => (0, Arrival::Poisson { seed: seed_of(seed, number) }),
        };
        let later_ns = ((number * between) as f64 * 1e9 / rate_pps) as u64;
        let duration_ns = self.duration_ns.map(|duration_ns| duration_ns.saturating_sub(later_ns));
        (Schedule { rate_pps: Some(rate_pps / count as f64), arrival, packets, duration_ns, ..*self }, later_ns)
    }
}

/// Divides the values of rules; false if none has enough of them.
fn divide(rules: &mut [Rule], part: u64, parts: u64) -> bool {
    for rule in &mut *rules {
        if let Values::Random { seed, .. } = &mut rule.values {
            *seed = seed_of(*seed, part);
        }
    }
    let counts: Vec<u64> = rules.iter().map(|rule| if is_random(rule) { 0 } else { count(rule) }).collect();
    let each_packet: Vec<bool> =
        rules.iter().enumerate().map(|(at, rule)| at == 0 || rule.advance == Advance::EachPacket).collect();
    if counts.iter().zip(&each_packet).any(|(count, each)| *each && *count > 0 && count % parts == 0) {
        for (at, rule) in rules.iter_mut().enumerate().filter(|(at, _)| each_packet[*at] && counts[*at] > 0) {
            let every = gcd(counts[at], parts);
            take(rule, part % every, every);
        }
        return true;
    }
    if let Some((chosen, most)) = largest(&counts).filter(|(_, most)| *most >= parts) {
        for (at, rule) in rules.iter_mut().enumerate() {
            // Rules that have as many values and go on with it stay in step.
            if at == chosen || each_packet[chosen] && each_packet[at] && counts[at] == most {
                take(rule, part, parts);
            }
        }
        return true;
    }
    let random: Vec<u64> = rules.iter().map(|rule| if is_random(rule) { count(rule) } else { 0 }).collect();
    match largest(&random) {
        Some((chosen, most)) if most >= parts => {
            take(&mut rules[chosen], part, parts);
            true
        }
        _ => false,
    }
}

/// The first of the largest.
fn largest(counts: &[u64]) -> Option<(usize, u64)> {
    counts.iter().copied().enumerate().max_by_key(|(at, count)| (*count, std::cmp::Reverse(*at)))
}

fn is_random(rule: &Rule) -> bool {
    matches!(rule.values, Values::Random { .. })
}

fn count(rule: &Rule) -> u64 {
    match &rule.values {
        Values::Range { count, .. } | Values::Random { count, .. } => *count,
        Values::List(list) => list.len() as u64,
    }
}

/// Leaves every `every`-th value, from number `from` on. There are more than `from`.
fn take(rule: &mut Rule, from: u64, every: u64) {
    match &mut rule.values {
        Values::Range { first, step, count } | Values::Random { first, step, count, .. } => {
            *first = first.wrapping_add((*step as u64).wrapping_mul(from));
            *step = step.wrapping_mul(every as i64);
            *count = (*count - from).div_ceil(every);
        }
        Values::List(list) => *list = list.iter().copied().skip(from as usize).step_by(every as usize).collect(),
    }
}

/// Another pseudo-random sequence for each part; the first one keeps its own.
fn seed_of(seed: u64, part: u64) -> u64 {
    seed ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn gcd(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { gcd(other, one % other) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use linerate_wire::{Stack, ethernet, ipv4, udp};
    use proptest::prelude::*;

    use super::*;
    use crate::pace::{CatchUp, Pacer};
    use crate::stream::Stream;

    const FIELDS: [&str; 3] = ["udp.source", "udp.destination", "ipv4.source"];

    fn spec(rules: Vec<(Values, Advance)>) -> StreamSpec {
        let stack =
            Stack::new().with(ethernet::Header::default()).with(ipv4::Header::default()).with(udp::Header::default());
        let rules = rules.into_iter().zip(FIELDS);
        let rules = rules.map(|((values, advance), field)| Rule { field: field.into(), values, advance });
        StreamSpec { rules: rules.collect(), ..StreamSpec::fixed(stack, 60, None) }
    }

    /// The flows of the first `packets` packets.
    fn flows(spec: &StreamSpec, packets: usize) -> BTreeSet<Vec<u8>> {
        let mut stream = Stream::new(&spec.plan().unwrap());
        let mut flow = || {
            let mut packet = [0; 60];
            stream.write(0, &mut packet, 0);
            [&packet[26..30], &packet[34..38]].concat()
        };
        (0..packets).map(|_| flow()).collect()
    }

    fn values() -> impl Strategy<Value = Values> {
        prop_oneof![
            (0u64..100, 1i64..3, 1u64..13).prop_map(|(first, step, count)| Values::Range { first, step, count }),
            proptest::collection::btree_set(0u64..500, 1..13)
                .prop_map(|values| Values::List(values.into_iter().collect())),
        ]
    }

    proptest! {
        /// Threads have flows of their own, and of a single chain of rules all together have each flow of the stream.
        #[test]
        fn no_flow_is_sent_by_two_threads(
            rules in proptest::collection::vec((values(), any::<bool>()), 1..4),
            parts in 1usize..6,
        ) {
            let advance = |waits: bool| if waits { Advance::WhenPreviousWraps } else { Advance::EachPacket };
            let is_one_chain = rules.iter().skip(1).all(|(_, waits)| *waits);
            let is_enough = rules.iter().any(|(values, _)| match values {
                Values::List(list) => list.len() >= parts,
                Values::Range { count, .. } | Values::Random { count, .. } => *count >= parts as u64,
            });
            let whole = spec(rules.into_iter().map(|(values, waits)| (values, advance(waits))).collect());
            let packets = 12 * 12 * 12;
            let mut all = BTreeSet::new();
            for part in 0..parts {
                let (share, is_divided) = whole.share(part, parts);
                prop_assert_eq!(is_divided, is_enough);
                for flow in flows(&share, packets) {
                    prop_assert!(all.insert(flow) || !is_divided, "sent by two threads");
                }
            }
            if is_one_chain {
                prop_assert_eq!(all, flows(&whole, packets));
            }
        }

        /// What all parts of a schedule intend is what the schedule intends.
        #[test]
        fn parts_of_a_schedule_add_up(
            rate_pps in 1_000f64..1e6,
            duration_ns in proptest::option::of(1u64..20_000_000),
            packets in 0u64..5_000,
            burst in 0u32..9,
            parts in 1usize..6,
        ) {
            let arrival = if burst == 0 { Arrival::Constant } else { Arrival::Burst { packets: burst } };
            let packets = if duration_ns.is_none() { Some(packets) } else { None };
            let whole = Schedule { rate_pps: Some(rate_pps), arrival, packets, duration_ns, catch_up: CatchUp::Burst };
            let intended = |schedule: Schedule| {
                let mut pacer = Pacer::new(schedule, 0);
                pacer.close(1 << 60)
            };
            let sum: u64 = (0..parts).map(|part| whole.share(part, parts)).map(|(schedule, _)| intended(schedule)).sum();
            // A packet that is due at the end of the duration may fall on either side of it, by rounding.
            let slack = if packets.is_some() { 0 } else { u64::from(burst.max(1)) };
            prop_assert!(sum.abs_diff(intended(whole)) <= slack, "{} and {}", sum, intended(whole));
        }
    }

    #[test]
    fn a_part_that_would_start_after_the_end_intends_nothing() {
        let whole = Schedule {
            rate_pps: Some(1_000.0),
            arrival: Arrival::Constant,
            packets: None,
            duration_ns: Some(1),
            catch_up: CatchUp::Burst,
        };
        let intended: Vec<u64> = (0..3).map(|part| Pacer::new(whole.share(part, 3).0, 0).close(1 << 60)).collect();
        assert_eq!(intended, [1, 0, 0]);
    }

    #[test]
    fn values_in_step_stay_in_step() {
        let range = |first, count| Values::Range { first, step: 1, count };
        for count in [4, 5] {
            let pairs = vec![(range(10, count), Advance::EachPacket), (range(50, count), Advance::EachPacket)];
            let whole = spec(pairs);
            let shares: BTreeSet<_> = (0..2).flat_map(|part| flows(&whole.share(part, 2).0, 100)).collect();
            assert_eq!(shares, flows(&whole, 100));
        }
    }

    #[test]
    fn one_flow_is_sent_by_all() {
        let whole = spec(vec![(Values::List(vec![7]), Advance::EachPacket)]);
        let (share, is_divided) = whole.share(1, 2);
        assert!(!is_divided && flows(&share, 3) == flows(&whole, 3));
    }

    #[test]
    fn random_values_are_divided_too() {
        let random = Values::Random { first: 100, step: 1, count: 64, seed: 7 };
        let whole = spec(vec![(random, Advance::EachPacket)]);
        let [one, other] = [0, 1].map(|part| flows(&whole.share(part, 2).0, 2_000));
        assert!(one.is_disjoint(&other) && one.len() == 32 && other.len() == 32);
    }

    #[test]
    fn parts_start_one_after_the_other() {
        let whole = Schedule {
            rate_pps: Some(1_000.0),
            arrival: Arrival::Constant,
            packets: Some(5),
            duration_ns: None,
            catch_up: CatchUp::Burst,
        };
        let (second, later_ns) = whole.share(1, 2);
        assert_eq!((second.rate_pps, second.packets, later_ns), (Some(500.0), Some(2), 1_000_000));
    }
}
