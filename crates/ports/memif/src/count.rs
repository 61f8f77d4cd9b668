//! Counting, for a receiver that reads no packet: a packet costs a look at its descriptor. Its bytes stay where the peer put them.

use linerate_port::{Counted, Interest, Port, PortError, Readiness, RxCounter};

use crate::port::MemifPort;
use crate::receive::Corrupt;

/// Looks at the ring in a row that may find nothing before the call sleeps: some 50 us. A peer that is in the middle of sending would have to ring
/// for each of its batches.
const FRUITLESS_MAX: u32 = 4096;
/// Looks that find packets, of one call: the caller looks after other things in between.
const LOOKS_MAX: u64 = 1024;

impl RxCounter for MemifPort {
    #[inline]
    fn count(&mut self, packets: u64, timeout_ns: u64) -> Result<Counted, PortError> {
        let mut counted = Counted::default();
        self.begin_receiving()?;
        let (mut fruitless, mut slept) = (0, false);
        while counted.packets < packets && counted.batches < LOOKS_MAX {
            let refused = self.refused();
            match self.count_once(&mut counted, packets) {
                Ok(true) => (fruitless, slept) = (0, false),
                // A peer cannot keep the call by packets that are not counted.
                Ok(false) if self.refused() != refused => break,
                Ok(false) if fruitless < FRUITLESS_MAX && timeout_ns > 0 => {
                    fruitless += 1;
                    std::hint::spin_loop();
                }
                // The caller wants to see what came. Or part of a packet woke the sleeper, and the rest does not come.
                Ok(false) if counted.packets > 0 || slept => break,
                Ok(false) if self.wait(Interest::Receive, timeout_ns)? == Readiness::Ready => {
                    (fruitless, slept) = (0, true);
                }
                Ok(false) => {
                    counted.idle_ns = timeout_ns;
                    break;
                }
                // It shows again.
                Err(_) if counted.packets > 0 => break,
                Err(corrupt) => return Err(self.broken(corrupt)),
            }
        }
        Ok(counted)
    }
}

impl MemifPort {
    #[inline]
    fn begin_receiving(&mut self) -> Result<(), PortError> {
        self.refresh_unless(true)?;
        self.take_back(false).map_err(|corrupt| self.broken(corrupt))?;
        if self.armed {
            self.enable_interrupts(false);
        }
        Ok(())
    }

    /// Packets that were thrown away.
    #[inline]
    fn refused(&self) -> u64 {
        self.received.unfit + self.received.empty
    }

    /// True if it found packets.
    #[inline]
    fn count_once(&mut self, counted: &mut Counted, packets: u64) -> Result<bool, Corrupt> {
        let before = self.received;
        let found = self.count_all(packets - counted.packets)?;
        counted.packets += found;
        counted.bytes += self.received.bytes - before.bytes;
        counted.batches += u64::from(found > 0);
        Ok(found > 0)
    }

    #[inline]
    fn count_all(&mut self, packets: u64) -> Result<u64, Corrupt> {
        if self.remains.is_some() {
            let found = self.count_remains(packets);
            if found > 0 {
                return Ok(found);
            }
        }
        let Some(side) = &mut self.receiver else { return Ok(0) };
        MemifPort::check_memory(side.is_lost())?;
        side.count(packets, &mut self.received)
    }

    /// Counts what a peer sent that is gone. If it is nothing, or nonsense, its ring goes, too.
    #[inline]
    #[cold]
    fn count_remains(&mut self, packets: u64) -> u64 {
        let found = self.remains.as_mut().map_or(0, |side| side.count(packets, &mut self.received).unwrap_or(0));
        if found == 0 {
            self.left += self.remains.take().map_or(0, |mut side| side.waiting());
        }
        found
    }
}
