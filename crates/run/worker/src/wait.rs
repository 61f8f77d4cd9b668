//! How a loop that sends by a schedule waits: for the time of a packet, for room, for frames.

use linerate_port::{Interest, Port, PortError};
use linerate_sys::clock;

/// A pause longer than this is slept through up to [`SPIN_NS`] before its end; a shorter one is spun through.
const SLEEP_MIN_NS: u64 = 120_000;
/// Time that is spun before a packet is due: longer than a wake-up takes.
const SPIN_NS: u64 = 70_000;
/// Longest sleep, so that a request to stop is seen.
const NAP_MAX_NS: u64 = 50_000_000;
/// Longest sleep until a port has room, so that the end of a schedule is seen, too.
const ROOM_NS: u64 = 1_000_000;

/// Waits until a packet is due; meanwhile the port may push on what it holds. Returns until when it meant to wait.
///
/// # Errors
/// The port broke.
#[inline]
pub fn pause(due_ns: u64, now_ns: u64, port: &mut dyn Port) -> Result<u64, PortError> {
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

/// Waiting for a far side that is usually quick: spins, longer each time, and only then gives the core away - the far side
/// must get its turn, on this core if need be.
#[derive(Default)]
pub struct Backoff {
    turns: u32,
}

impl Backoff {
    /// Turns of spinning: 2, 4, 8, 16, 32 and 64 pauses, some microseconds in all.
    const TURNS: u32 = 6;

    /// The port took nothing: pushes on what it holds, and waits for room.
    ///
    /// # Errors
    /// The port broke.
    #[cold]
    pub fn wait_for_room(&mut self, port: &mut dyn Port) -> Result<(), PortError> {
        if port.caps().sleep_syncs {
            return port.wait(Interest::Transmit, ROOM_NS).map(drop);
        }
        if port.flush()? > 0 || !port.caps().async_tx {
            self.wait();
        }
        Ok(())
    }

    /// There are no frames to send: waits until the port gives some back.
    ///
    /// # Errors
    /// The port broke.
    #[cold]
    pub fn wait_for_frames(&mut self, port: &mut dyn Port) -> Result<(), PortError> {
        port.flush()?;
        self.wait();
        Ok(())
    }

    /// Waits a little, longer each time.
    pub fn wait(&mut self) {
        if self.turns == Self::TURNS {
            return std::thread::yield_now();
        }
        self.turns += 1;
        (0..1 << self.turns).for_each(|_| std::hint::spin_loop());
    }
}
