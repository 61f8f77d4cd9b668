//! `-f rx` on a port that counts packets by itself: nobody reads them, so the port hands none out.

use linerate_port::{Counted, PortError};
use linerate_sys::clock;

use super::arrivals::{Arrivals, DRAIN_NS};
use super::counts::Counts;
use super::worker::{Outcome, Task};

/// Longest sleep of a call: a request to stop that no signal brings is seen after it.
const SLEEP_NS: u64 = 50_000_000;
/// How often a port that is down is asked whether it works again.
const DOWN_CHECK_NS: u64 = 10_000_000;

/// True if the packets of this thread need only be counted, and its port counts them: no option looks into them. Several threads that
/// share a number of packets among them take them in batches, since none of them knows how many the others will find.
pub fn is_enough(task: &mut Task) -> bool {
    let shared = task.quota.is_limited() && task.threads > 1;
    !task.dump && !shared && task.port.rx_counter().is_some()
}

/// Counts what arrives until the quota is full, silence follows, or a stop is asked for.
pub fn count(mut task: Task) -> Outcome {
    let start_ns = clock::now_ns();
    let mut arrivals = Arrivals::new(task.ends_in_silence, start_ns);
    let error = run(&mut task, &mut arrivals).and_then(|()| drain(&mut task, &mut arrivals)).err();
    let mut outcome = Outcome { start_ns, end_ns: clock::now_ns(), ..Outcome::default() };
    outcome.error = error.map(|error| error.to_string());
    match task.port.stats() {
        Ok(stats) => outcome.drops = stats.rx_drops,
        Err(error) => outcome.error = outcome.error.or_else(|| Some(error.to_string())),
    }
    arrivals.into_outcome(outcome)
}

fn run(task: &mut Task, arrivals: &mut Arrivals) -> Result<(), PortError> {
    while !task.control.stopping() && !task.quota.is_done() && !arrivals.are_over() {
        // The first packet is counted alone: the time begins with it.
        let packets = if arrivals.have_begun() { task.quota.left() } else { 1 };
        let now_ns = match step(task, arrivals, packets, SLEEP_NS) {
            Ok((_, now_ns)) => now_ns,
            Err(PortError::Down { .. }) => {
                clock::sleep_until_ns(clock::now_ns() + DOWN_CHECK_NS);
                clock::now_ns()
            }
            Err(error) => return Err(error),
        };
        if now_ns >= arrivals.next_deadline_ns() {
            arrivals.tick(now_ns);
        }
    }
    Ok(())
}

/// Counts what waits in the port at the end.
fn drain(task: &mut Task, arrivals: &mut Arrivals) -> Result<(), PortError> {
    let end_ns = clock::now_ns() + DRAIN_NS;
    while !task.quota.is_done() {
        match step(task, arrivals, task.quota.left(), 0) {
            Ok((1.., now_ns)) if now_ns < end_ns => {}
            Ok(_) | Err(PortError::Down { .. }) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// One call of the port's counter; returns how many packets it counted, and the time after it.
fn step(task: &mut Task, arrivals: &mut Arrivals, packets: u64, timeout_ns: u64) -> Result<(u64, u64), PortError> {
    let Some(counter) = task.port.rx_counter() else { return Ok((0, clock::now_ns())) };
    let Counted { packets, bytes, batches, idle_ns } = counter.count(packets, timeout_ns)?;
    let now_ns = clock::now_ns();
    if packets > 0 {
        task.quota.take(packets as usize);
        arrivals.add(&Counts { packets, bytes, events: batches }, now_ns.saturating_sub(idle_ns));
        task.publish(&arrivals.counts);
    }
    Ok((packets, now_ns))
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::{Arc, Mutex};

    use linerate_mem::{Batch, Pool, PoolConfig};
    use linerate_port::{Caps, Drops, Interest, Port, Readiness, RxCounter, Stats};
    use linerate_worker::Control;

    use super::super::quota::Quota;
    use super::*;

    /// Packets and timeout of each call of a counter.
    type Asked = Arc<Mutex<Vec<(u64, u64)>>>;

    /// A port whose counter does as it was told, then asks for the end.
    struct Scripted {
        caps: Caps,
        script: VecDeque<Result<Counted, PortError>>,
        asked: Asked,
        control: Control,
    }

    impl Port for Scripted {
        fn caps(&self) -> &Caps {
            &self.caps
        }

        fn receive(&mut self, _: &mut Batch) -> Result<usize, PortError> {
            panic!("nobody reads packets")
        }

        fn transmit(&mut self, _: &mut Batch) -> Result<usize, PortError> {
            Ok(0)
        }

        fn wait(&mut self, _: Interest, _: u64) -> Result<Readiness, PortError> {
            Ok(Readiness::TimedOut)
        }

        fn stats(&mut self) -> Result<Stats, PortError> {
            let drops = Drops { place: "port".into(), cause: "test".into(), packets: 2 };
            Ok(Stats { rx_drops: vec![drops], ..Stats::default() })
        }

        fn rx_counter(&mut self) -> Option<&mut dyn RxCounter> {
            Some(self)
        }
    }

    impl RxCounter for Scripted {
        fn count(&mut self, packets: u64, timeout_ns: u64) -> Result<Counted, PortError> {
            self.asked.lock().unwrap().push((packets, timeout_ns));
            self.script.pop_front().unwrap_or_else(|| {
                self.control.stop();
                Ok(Counted::default())
            })
        }
    }

    /// A task for one of `threads` threads that takes `count` packets (0: without end).
    fn task(count: u64, threads: usize, script: Vec<Result<Counted, PortError>>) -> (Task, Asked) {
        let (asked, control) = (Asked::default(), Control::default());
        let script = script.into();
        let port = Scripted { caps: Caps::default(), script, asked: Arc::clone(&asked), control: control.clone() };
        let task = Task {
            thread: 0,
            threads,
            count: 0,
            quota: Arc::new(Quota::new(count)),
            burst: 512,
            rate_pps: 0.0,
            ends_in_silence: false,
            dump: false,
            port: Box::new(port),
            pool: Pool::new(PoolConfig { frames: 64, frame_size: 2048 }).unwrap(),
            source_mac: linerate_wire::MacAddress::ZERO,
            control,
        };
        (task, asked)
    }

    fn some(packets: u64) -> Counted {
        Counted { packets, bytes: 60 * packets, batches: 1, idle_ns: 0 }
    }

    fn down() -> PortError {
        PortError::Down { port: "netmap:x".into(), interface: "x".into() }
    }

    #[test]
    fn the_first_packet_begins_the_time_and_what_waits_at_the_end_is_counted() {
        let script = vec![Ok(Counted::default()), Ok(some(1)), Ok(some(500)), Err(down()), Ok(some(9))];
        let (task, asked) = task(0, 1, script);
        let outcome = count(task);
        assert_eq!((outcome.counts.packets, outcome.counts.bytes, outcome.counts.events), (510, 510 * 60, 3));
        let every = (u64::MAX, SLEEP_NS);
        let first = (1, SLEEP_NS);
        assert_eq!(*asked.lock().unwrap(), [first, first, every, every, every, every, (u64::MAX, 0)]);
        assert!(outcome.error.is_none() && outcome.start_ns <= outcome.end_ns);
        assert_eq!(outcome.drops.len(), 1);
    }

    #[test]
    fn no_more_are_counted_than_are_wanted() {
        let (task, asked) = task(100, 1, vec![Ok(some(1)), Ok(some(60)), Ok(some(39))]);
        assert_eq!(count(task).counts.packets, 100);
        assert_eq!(asked.lock().unwrap().iter().map(|(packets, _)| *packets).collect::<Vec<_>>(), [1, 99, 39]);
    }

    #[test]
    fn what_broke_the_port_is_told_beside_what_came_before() {
        let broken = PortError::PeerCorrupt { port: "netmap:x".into(), what: "nonsense".into() };
        let outcome = count(task(0, 1, vec![Ok(some(1)), Err(broken)]).0);
        assert!(outcome.counts.packets == 1 && outcome.error.unwrap().contains("nonsense"));
    }

    #[test]
    fn silence_at_the_end_of_a_call_is_none_of_the_time() {
        let quiet = Counted { idle_ns: 1_500_000_000, ..some(7) };
        let (task, _) = task(0, 1, vec![Ok(some(1)), Ok(quiet)]);
        let outcome = count(Task { ends_in_silence: true, ..task });
        assert!(outcome.counts.packets == 8 && clock::now_ns() - outcome.end_ns >= 1_500_000_000);
    }

    #[test]
    fn packets_that_an_option_looks_into_are_received() {
        for (count, threads, dump, enough) in
            [(0, 1, false, true), (5, 1, false, true), (0, 2, false, true), (5, 2, false, false), (0, 1, true, false)]
        {
            let (task, _) = task(count, threads, Vec::new());
            assert_eq!(is_enough(&mut Task { dump, ..task }), enough, "{count} {threads} {dump}");
        }
    }
}
