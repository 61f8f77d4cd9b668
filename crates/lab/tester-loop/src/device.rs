//! A device inside this process: what stands between the two ends of an in-process link.

use std::io;

use linerate_mem::{Batch, Pool};
use linerate_port::{Context, Datapath, Port, PortError, PortIndex};
use linerate_report::Loss;
use linerate_worker::{Config, Control, Eagerness, End, Role, Worker};

use linerate_testbed::threads::{Priority, pin_and_prioritize};

const BATCH: usize = 64;
/// How long packets that have arrived when the trial ends may still pass: longer than the kernel lets threads of the real-time class keep a
/// core from others.
const DRAIN_NS: u64 = 2_000_000_000;

/// A wire: packets that come from port 0 leave by port 1, those from port 2 by port 3.
struct Wire {
    queues: [Batch; 2],
}

impl Wire {
    /// The queue of the way that has this port at one of its ends.
    fn queue(&mut self, port: PortIndex) -> Option<&mut Batch> {
        self.queues.get_mut(usize::from(port.0) / 2)
    }
}

impl Datapath for Wire {
    #[inline]
    fn input(&mut self, from: PortIndex, batch: &mut Batch, _: &mut Context<'_>) {
        if let Some(queue) = self.queue(from) {
            batch.move_to(queue, batch.len());
        }
    }

    #[inline]
    fn output(&mut self, to: PortIndex) -> Option<&mut Batch> {
        self.queue(to).filter(|_| to.0 % 2 == 1)
    }

    fn tx_done(&mut self, _: PortIndex, _: usize, _: u64) {}

    /// Packets of a trial have one slot.
    fn waiting(&self, to: PortIndex) -> u64 {
        self.queues.get(usize::from(to.0) / 2).filter(|_| to.0 % 2 == 1).map_or(0, |queue| queue.len() as u64)
    }

    fn too_long(&mut self, to: PortIndex, _: usize, context: &mut Context<'_>) {
        if let Some(queue) = self.queue(to) {
            context.pool.free_front(queue, 1);
        }
    }
}

/// A device and its ports.
pub struct Installed {
    worker: Worker<Wire>,
    /// By direction.
    passed: [Passed; 2],
}

/// What a device did with the packets of one direction since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Taken out of the link into it.
    received: u64,
    /// Put into the link out of it.
    sent: u64,
    /// Those that it had taken out at the end of the last trial, and that the link out of it had no room for.
    kept: u64,
}

impl Installed {
    /// A wire between ports of `pool`: from the first to the second, from the third to the fourth.
    ///
    /// # Errors
    /// There is no descriptor to wake the worker.
    pub fn wire(pool: &Pool, ports: [Box<dyn Port>; 4]) -> io::Result<Installed> {
        let wire = Wire { queues: [Batch::new(pool, BATCH), Batch::new(pool, BATCH)] };
        let config =
            Config { batch: BATCH, eagerness: Eagerness::Yields, drain_input_ns: DRAIN_NS, ..Config::default() };
        let (mut worker, _) = Worker::new(wire, pool, config, Box::new(|_| ()))?;
        for (number, port) in ports.into_iter().enumerate() {
            worker.attach(port, pool, Role { receives: number % 2 == 0, ..Role::default() });
        }
        Ok(Installed { worker, passed: [Passed::default(); 2] })
    }

    /// Serves the device until a stop is asked for and nothing moves any more.
    ///
    /// # Errors
    /// A port broke.
    pub fn serve(&mut self, core: Option<usize>, control: &Control) -> Result<(), PortError> {
        pin_and_prioritize(core, Priority::Nice);
        let end = self.worker.run(control);
        let passed = |way: u16| {
            let queued = self.worker.datapath.waiting(PortIndex(2 * way + 1));
            Passed::at_end(&end, way, queued)
        };
        self.passed = [passed(0), passed(1)];
        end.error.map_or(Ok(()), Err)
    }

    /// What it did by now, forward first.
    pub fn passed(&self) -> [Passed; 2] {
        self.passed
    }
}

impl Passed {
    fn at_end(end: &End, way: u16, queued: u64) -> Passed {
        let port = |number| end.port(PortIndex(number)).map(|port| (&port.stats, port.held));
        let (received, held) = port(2 * way).map_or((0, 0), |(stats, held)| (stats.rx_packets, held));
        let sent = port(2 * way + 1).map_or(0, |(stats, _)| stats.tx_packets);
        Passed { received, sent, kept: queued + held }
    }
}

/// Where the last packets of a direction stayed, of a link inside this process: all its ports count, since they were made, what they hand over
/// and take out. `sent` is the sending port's count, `received` the receiving one's, and `missing` is how many packets of the trial did not arrive.
pub fn left_behind(sent: u64, device: Option<Passed>, received: u64, missing: u64) -> Vec<Loss> {
    let places = match device {
        None => [("link inside this process", sent.saturating_sub(received)), ("", 0), ("", 0)],
        Some(device) => [
            ("link into the device", sent.saturating_sub(device.received)),
            ("device", device.kept),
            ("link out of the device", device.sent.saturating_sub(received)),
        ],
    };
    let mut missing = missing;
    // Packets keep their order, so those that came least far are the trial's own, and those of earlier trials are behind them.
    let row = |(place, packets): (&str, u64)| {
        let packets = packets.min(missing);
        missing -= packets;
        let loss = Loss::new(place, "not taken out before the trial ended", packets);
        (packets > 0).then(|| loss.counted_by("packets that the ports at both ends counted"))
    };
    places.into_iter().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(device: Option<Passed>, missing: u64) -> Vec<(String, u64)> {
        let rows = left_behind(5_000, device, 4_012, missing);
        rows.into_iter().map(|row| (row.place, row.packets)).collect()
    }

    #[test]
    fn packets_that_stay_behind_are_named_where_they_stay() {
        assert_eq!(rows(None, 988), [("link inside this process".into(), 988)]);
        assert_eq!(rows(None, 0), []);
        let device = Passed { received: 4_500, sent: 4_400, kept: 100 };
        let places = ["link into the device", "device", "link out of the device"];
        let expected = |packets: [u64; 3]| places.map(String::from).into_iter().zip(packets).collect::<Vec<_>>();
        assert_eq!(rows(Some(device), 988), expected([500, 100, 388]));
        assert_eq!(rows(Some(device), 700), expected([500, 100, 100]), "the others are of an earlier trial");
        assert_eq!(rows(Some(device), 400), expected([400, 0, 0])[..1]);
    }
}
