//! How a loop that sends waits: for the time of a packet, for room, for frames, for completion.

use linerate_port::{Interest, Port, PortError};
use linerate_sys::clock;

/// A pause longer than this is slept through up to [`SPIN_NS`] before its end; a shorter one is spun through.
const SLEEP_MIN_NS: u64 = 120_000;
/// Time that is spun before a packet is due: longer than a wake-up takes.
const SPIN_NS: u64 = 70_000;
/// Longest sleep, so that a request to stop is seen.
const NAP_MAX_NS: u64 = 50_000_000;
/// How long the port may take to complete what it accepted.
const FLUSH_NS: u64 = 1_000_000_000;

/// Waits until a packet is due; meanwhile the port may push on what it holds. Returns until when it meant to wait.
#[inline]
pub(super) fn pause(due_ns: u64, now_ns: u64, port: &mut dyn Port) -> Result<u64, PortError> {
    if due_ns <= now_ns {
        return Ok(now_ns);
    }
    if due_ns - now_ns <= SLEEP_MIN_NS {
        std::hint::spin_loop();
        return Ok(now_ns);
    }
    port.flush()?;
    let until_ns = (due_ns - SPIN_NS).min(now_ns + NAP_MAX_NS);
    clock::sleep_until_ns(until_ns);
    Ok(until_ns)
}

#[cold]
pub(super) fn wait_for_room(port: &mut dyn Port, patience: &mut Patience) -> Result<(), PortError> {
    if port.flush()? > 0 || !port.caps().async_tx {
        patience.wait();
    }
    Ok(())
}

#[cold]
pub(super) fn wait_for_frames(port: &mut dyn Port, patience: &mut Patience) -> Result<(), PortError> {
    port.flush()?;
    patience.wait();
    Ok(())
}

/// Waiting for a far side that is usually quick: spins, longer each time, and only then gives the core away - the far side
/// must get its turn, on this core if need be.
#[derive(Default)]
pub(super) struct Patience {
    turns: u32,
}

impl Patience {
    /// Turns of spinning: 2, 4, 8, 16, 32 and 64 pauses, some microseconds in all.
    const TURNS: u32 = 6;

    fn wait(&mut self) {
        if self.turns == Self::TURNS {
            return std::thread::yield_now();
        }
        self.turns += 1;
        (0..1 << self.turns).for_each(|_| std::hint::spin_loop());
    }
}

/// Waits until what the port took is complete; returns how many packets are not.
pub(super) fn complete(port: &mut dyn Port) -> Result<u64, PortError> {
    let give_up_ns = clock::now_ns() + FLUSH_NS;
    loop {
        let incomplete = port.flush()?;
        if incomplete == 0 || clock::now_ns() > give_up_ns {
            return Ok(incomplete as u64);
        }
        port.wait(Interest::Transmit, 1_000_000)?;
    }
}
