//! One ring and its thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use linerate_capture::{FillGauge, FillReport};
use linerate_pcapng::{Direction, PacketHead};
use linerate_ports::capture::{RingCapture, RingCounters};
use linerate_recorder::Intake;
use linerate_sys::clock;

/// Packets between two looks at whether to stop.
const WALK_MAX: usize = 4096;
/// Longest sleep without such a look.
const NAP_NS: u64 = 50_000_000;
/// Time between two notes of how full the ring is.
const GAUGE_NS: u64 = 10_000_000;
/// How long packets may take from the last one into the ring to the walk, when the capture ends.
const END_NS: u64 = 2_000_000_000;

/// Counts of one port, all of one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct PortCounts {
    /// Packets taken out of the ring.
    pub taken: u64,
    /// Bytes that those packets had.
    pub bytes: u64,
    /// Of the taken ones, those for which there was no buffer.
    pub dropped_for_buffers: u64,
    /// The ring's own, read after the others.
    pub ring: RingCounters,
}

/// What the thread of a port and the one that reports share.
#[derive(Default)]
pub struct Control {
    /// Asks the thread to end.
    pub stop: AtomicBool,
    /// Number of the last question for counts, and of the last one answered.
    asked: AtomicU64,
    answered: AtomicU64,
    counts: Mutex<PortCounts>,
    /// The thread has ended, for whatever reason.
    pub ended: AtomicBool,
}

impl Control {
    /// The counts, no older than this call unless the thread has ended.
    pub fn counts(&self) -> PortCounts {
        let question = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        while self.answered.load(Ordering::Acquire) < question && !self.ended.load(Ordering::Acquire) {
            clock::sleep_until_ns(clock::now_ns() + 1_000_000);
        }
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Packets taken so far, as of the last answer.
    pub fn last(&self) -> PortCounts {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a port's thread found out.
pub struct PortEnd {
    /// How full the ring was, in bytes.
    pub ring: FillReport,
    /// Time that the thread ran on a core.
    pub cpu_ns: u64,
    /// Why it ended early.
    pub error: Option<String>,
}

/// A ring to be walked.
pub struct PortRun<'a> {
    /// The ring.
    pub ring: RingCapture,
    /// Number of the interface in the file.
    pub interface: u32,
    /// Where packets go; `None` = they are counted.
    pub intake: Option<Intake>,
    /// Whether packets that this host sends are captured, too: then each packet says which way it went.
    pub outgoing: bool,
    /// Stop after so many packets.
    pub packets_max: u64,
    /// Shared with the thread that reports.
    pub control: &'a Control,
}

impl PortRun<'_> {
    /// Walks the ring until it is asked to stop, then what is left in it.
    pub fn run(mut self) -> PortEnd {
        let mut gauge = FillGauge::new(self.ring.level_bytes().1);
        let result = self.walk_to_end(&mut gauge);
        drop(self.intake.take());
        gauge.note_overflow(self.control.last().ring.freezes);
        self.control.ended.store(true, Ordering::Release);
        PortEnd { ring: gauge.report(), cpu_ns: clock::thread_cpu_ns(), error: result.err() }
    }

    fn walk_to_end(&mut self, gauge: &mut FillGauge) -> Result<(), String> {
        let mut counts = PortCounts::default();
        let (mut next_gauge_ns, mut stopped_ns) = (0, None);
        loop {
            let now_ns = clock::now_ns();
            if now_ns >= next_gauge_ns {
                gauge.note(now_ns, self.ring.level_bytes().0);
                next_gauge_ns = now_ns + GAUGE_NS;
            }
            let walked = self.walk(&mut counts);
            let asked = self.control.asked.load(Ordering::Acquire);
            if asked > self.control.answered.load(Ordering::Acquire) || stopped_ns.is_some() || walked.is_err() {
                self.publish(&mut counts)?;
                self.control.answered.store(asked, Ordering::Release);
            }
            let walked = walked?;
            if let Some(stopped_ns) = stopped_ns {
                // All that the kernel has put into the ring has been seen.
                if counts.ring.offered - counts.ring.dropped <= counts.taken {
                    return Ok(());
                }
                if now_ns > stopped_ns + END_NS {
                    return Err("the kernel keeps packets in the ring that it does not hand over".into());
                }
            } else if self.control.stop.load(Ordering::Acquire) || counts.taken >= self.packets_max {
                self.ring.stop().map_err(|error| error.to_string())?;
                stopped_ns = Some(now_ns);
            }
            if walked == 0 {
                if let Some(intake) = &mut self.intake {
                    intake.flush();
                }
                let nap_ns = if stopped_ns.is_some() { 1_000_000 } else { NAP_NS };
                let waited = self.ring.wait(nap_ns);
                if stopped_ns.is_none() {
                    // An interface that goes away ends its capture; what came before is walked.
                    if let Err(error) = waited {
                        self.publish(&mut counts)?;
                        return Err(error.to_string());
                    }
                }
            }
        }
    }

    fn walk(&mut self, counts: &mut PortCounts) -> Result<usize, String> {
        let PortRun { ring, intake, interface, outgoing, .. } = self;
        let mut bytes = 0;
        let walked = ring.walk(WALK_MAX, |packet| {
            let original_len = packet.original_len() as u32;
            bytes += u64::from(original_len);
            let Some(intake) = intake else { return };
            let direction = match *outgoing {
                false => Direction::Unknown,
                true if packet.is_outgoing() => Direction::Outbound,
                true => Direction::Inbound,
            };
            let head = PacketHead { interface: *interface, time_ns: packet.time_ns(), original_len, direction };
            intake.packet(&head, packet.len(), |place| packet.copy(place));
        });
        let walked = walked.map_err(|error| error.to_string())?;
        counts.taken += walked as u64;
        counts.bytes += bytes;
        Ok(walked)
    }

    /// The ring's counts last: then they are not the lower ones.
    fn publish(&mut self, counts: &mut PortCounts) -> Result<(), String> {
        if let Some(intake) = &self.intake {
            counts.dropped_for_buffers = intake.counts().dropped;
        }
        counts.ring = self.ring.counters().map_err(|error| error.to_string())?;
        *self.control.counts.lock().unwrap_or_else(PoisonError::into_inner) = *counts;
        Ok(())
    }
}
