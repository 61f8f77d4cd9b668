//! How long the interface of a closed loop collects packets before anybody is woken for them: a part of the time that an answer takes, which
//! changes with the load.

use linerate_port::PortSpec;
use linerate_sys::napi::Deferral;

/// An answer may be late by this part of the time that it takes.
const PART: f64 = 0.1;
/// Longest time, in microseconds: beyond it hardly a wake-up is saved.
const LONGEST_US: u64 = 500;
/// Shortest time, in microseconds: below it nothing is collected, because no second answer comes within it.
const SHORTEST_US: u64 = 20;
/// Fewer answers say nothing of the time that one takes.
const ANSWERS_MIN: u64 = 50;

/// An interface that collects packets for as long as a closed loop does not feel it. Dropping it puts back what the interface had.
pub struct AdaptiveDeferral {
    interface: String,
    held: Option<Deferral>,
    /// Time and answers of the call before.
    before: (f64, u64),
    time_us: u64,
    longest_us: u64,
    /// It cannot be set here, or somebody else sets it.
    is_over: bool,
}

impl AdaptiveDeferral {
    /// Of the interface of a port; `None` if the port has none that can collect packets, or was given a time by its option `defer`.
    pub fn of(port: &str) -> Option<AdaptiveDeferral> {
        let spec: PortSpec = port.parse().ok()?;
        let interface = linerate_ports::deferrable(&spec)?.to_owned();
        Some(AdaptiveDeferral { interface, held: None, before: (0.0, 0), time_us: 0, longest_us: 0, is_over: false })
    }

    /// Looks at the load after `seconds`, with `answers` until now and `waiting` requests under way, and changes the interface's time if it
    /// is another by much. Must be called in the network namespace of the interface. Where the time cannot be set, nothing is.
    pub fn adapt(&mut self, seconds: f64, answers: u64, waiting: u64) {
        let (before_s, before) = self.before;
        let answered = answers.saturating_sub(before);
        if self.is_over || answered < ANSWERS_MIN || seconds <= before_s {
            return;
        }
        self.before = (seconds, answers);
        // Little's law: the requests under way are the rate times what one takes.
        let answer_s = waiting as f64 * (seconds - before_s) / answered as f64;
        let time_us = wanted_us(answer_s);
        if differs(self.time_us, time_us) {
            self.is_over = self.set(time_us).is_none();
        }
    }

    /// Longest time for which the interface collected packets, in microseconds; `None` if it did not.
    pub fn longest_us(&self) -> Option<u64> {
        (self.longest_us > 0).then_some(self.longest_us)
    }

    fn set(&mut self, time_us: u64) -> Option<()> {
        match &mut self.held {
            held if time_us == 0 => *held = None,
            Some(held) => held.change(time_us).ok()?.then_some(())?,
            held => *held = Some(Deferral::hold(&self.interface, Some(time_us)).ok()??),
        }
        self.time_us = time_us;
        self.longest_us = self.longest_us.max(time_us);
        Some(())
    }
}

/// Microseconds for answers that take so many seconds; 0 for none.
fn wanted_us(answer_s: f64) -> u64 {
    let us = (answer_s * 1e6 * PART) as u64;
    if us < SHORTEST_US { 0 } else { us.min(LONGEST_US) }
}

/// By more than a quarter: a change takes some milliseconds, and a load is never quite steady.
fn differs(now_us: u64, wanted_us: u64) -> bool {
    now_us.abs_diff(wanted_us) * 4 > now_us
}

#[cfg(test)]
mod tests {
    use linerate_sys::netns::NetNs;
    use linerate_sys::veth::{self, VethEnd};

    use super::*;

    #[test]
    fn it_is_a_tenth_of_an_answer_and_none_for_quick_ones() {
        let wanted = [50e-6, 199e-6, 200e-6, 3e-3, 5e-3, 1.0, 0.0].map(wanted_us);
        assert_eq!(wanted, [0, 0, 20, 300, 500, 500, 0]);
        assert_eq!(
            [(0, 20), (100, 120), (100, 126), (100, 0), (0, 0)].map(|(now, then)| differs(now, then)),
            [true, false, true, true, false]
        );
    }

    #[test]
    fn only_interfaces_that_nobody_gave_a_time_collect_packets() {
        let of = |port| AdaptiveDeferral::of(port).map(|deferral| deferral.interface);
        assert_eq!(
            ["veth1", "packet:veth1", "xdp:veth1@2,native"].map(of),
            [const { Some("veth1") }; 3].map(|name| name.map(str::to_owned))
        );
        assert_eq!(["packet:veth1,defer=100", "tap:a", "pipe:a", "memif:/run/a"].map(of), [const { None }; 4]);
    }

    #[test]
    fn the_time_follows_the_answers_and_comes_back() {
        let namespace = match NetNs::anonymous() {
            Ok(namespace) => namespace,
            Err(error) => return eprintln!("skipped: no network namespace: {error}"),
        };
        let end = |name| VethEnd { name, namespace: &namespace };
        veth::create(end("near"), end("far"), 1).unwrap();
        let work = || {
            match Deferral::hold("near", Some(77)) {
                Err(error) => return eprintln!("skipped: no fresh sysfs: {error}"),
                Ok(held) => drop(held),
            }
            let mut deferral = AdaptiveDeferral::of("packet:near").unwrap();
            // Ten answers say nothing yet, 1,000 a second with two under way take 2 ms each.
            deferral.adapt(0.01, 10, 2);
            assert_eq!((deferral.time_us, deferral.longest_us()), (0, None));
            deferral.adapt(1.0, 1000, 2);
            assert_eq!((deferral.time_us, deferral.longest_us()), (200, Some(200)));
            // The interface has that time, so another cannot have it.
            let busy = Deferral::hold("near", Some(9)).unwrap_err();
            assert_eq!(busy.kind(), std::io::ErrorKind::ResourceBusy);
            deferral.adapt(2.0, 2100, 2);
            assert_eq!(deferral.time_us, 200, "nearly the same");
            deferral.adapt(3.0, 2600, 2);
            assert_eq!(deferral.time_us, 400);
            deferral.adapt(4.0, 102_600, 2);
            assert_eq!((deferral.time_us, deferral.longest_us()), (0, Some(400)));
            let others = Deferral::hold("near", Some(9)).unwrap().unwrap();
            deferral.adapt(5.0, 103_600, 2);
            assert!(deferral.is_over && deferral.held.is_none(), "it is another's");
            drop(others);
        };
        namespace.run(work).unwrap();
    }
}
