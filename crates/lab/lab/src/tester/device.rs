//! Devices inside this process: what stands between the two ends of an in-process link.

use linerate_mem::{Batch, Pool};
use linerate_port::{Caps, Interest, Port, PortError, Readiness, Stats};

use super::threads::{Priority, pin_and_prioritize};
use linerate_worker::Control;

/// Moves packets between its two ports, as a switch does. It is served by one thread during a trial.
pub trait Device: Send {
    /// Takes what has arrived and sends it on, without waiting; how many packets it moved. What it cannot send yet it keeps.
    ///
    /// # Errors
    /// A port that is broken.
    fn turn(&mut self, ports: &mut [Box<dyn Port>; 2]) -> Result<usize, PortError>;

    /// What it is, in words.
    fn describe(&self) -> String;
}

/// The simplest device: whatever comes in at one port goes out at the other.
pub struct Wire {
    held: [Batch; 2],
}

const BATCH: usize = 64;

impl Wire {
    /// A wire for ports of this pool.
    pub fn new(pool: &Pool) -> Wire {
        Wire { held: [Batch::new(pool, BATCH), Batch::new(pool, BATCH)] }
    }
}

impl Device for Wire {
    fn turn(&mut self, ports: &mut [Box<dyn Port>; 2]) -> Result<usize, PortError> {
        let [one, other] = ports;
        let [forth, back] = &mut self.held;
        Ok(pass(one.as_mut(), other.as_mut(), forth)? + pass(other.as_mut(), one.as_mut(), back)?)
    }

    fn describe(&self) -> String {
        "in-process link with a forwarding thread".into()
    }
}

fn pass(from: &mut dyn Port, to: &mut dyn Port, held: &mut Batch) -> Result<usize, PortError> {
    if held.is_empty() {
        from.receive(held)?;
    }
    if held.is_empty() { Ok(0) } else { to.transmit(held) }
}

/// A device and its ports.
pub(super) struct Installed {
    pub(super) device: Box<dyn Device>,
    pub(super) ports: [Box<dyn Port>; 2],
}

/// Empty turns before the thread gives its core away.
const TURNS_MAX: u32 = 1_000;

impl Installed {
    /// Serves the device until a stop is asked for and nothing moves any more.
    pub(super) fn serve(&mut self, core: Option<usize>, control: &Control) -> Result<(), PortError> {
        pin_and_prioritize(core, Priority::Nice);
        let mut empty_turns = 0;
        loop {
            let stopping = control.stopping();
            match self.device.turn(&mut self.ports)? {
                0 if stopping => return Ok(()),
                0 if empty_turns < TURNS_MAX => {
                    empty_turns += 1;
                    std::hint::spin_loop();
                }
                0 => std::thread::yield_now(),
                _ => empty_turns = 0,
            }
        }
    }
}

/// Two one-way ports as one: the tester's ends are one-way, a device wants both ways in one port.
pub(super) struct Joined {
    pub(super) receives: Box<dyn Port>,
    pub(super) transmits: Box<dyn Port>,
}

impl Port for Joined {
    fn caps(&self) -> &Caps {
        self.receives.caps()
    }

    fn receive(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.receives.receive(batch)
    }

    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.transmits.transmit(batch)
    }

    fn flush(&mut self) -> Result<usize, PortError> {
        self.transmits.flush()
    }

    fn wait(&mut self, interest: Interest, timeout_ns: u64) -> Result<Readiness, PortError> {
        match interest {
            Interest::Receive => self.receives.wait(interest, timeout_ns),
            Interest::Transmit => self.transmits.wait(interest, timeout_ns),
        }
    }

    fn next_deadline_ns(&self) -> Option<u64> {
        self.receives.next_deadline_ns().into_iter().chain(self.transmits.next_deadline_ns()).min()
    }

    fn stats(&mut self) -> Result<Stats, PortError> {
        let (received, sent) = (self.receives.stats()?, self.transmits.stats()?);
        Ok(Stats {
            rx_packets: received.rx_packets,
            rx_bytes: received.rx_bytes,
            rx_duplicated: received.rx_duplicated,
            rx_drops: received.rx_drops,
            ..sent
        })
    }
}
