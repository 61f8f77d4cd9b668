//! The thread of a ring: takes packets out of it, shows its counts when asked, and knows when it has seen all.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Intake;
use linerate_capture::{FillGauge, FillReport};
use linerate_ports::capture::RingCounters;
use linerate_sys::clock;

use crate::control::{Control, Counts};

/// Packets between two looks at whether to stop.
pub const WALK_MAX: usize = 4096;
/// Longest sleep without such a look.
const NAP_NS: u64 = 50_000_000;
/// The same, when the capture ends.
const NAP_AT_END_NS: u64 = 1_000_000;
/// Time between two notes of how full the ring is.
const GAUGE_NS: u64 = 10_000_000;
/// How long packets may take from the last one into the ring to the walk, when the capture ends.
const END_NS: u64 = 2_000_000_000;

/// Where packets come from: one ring.
pub trait Source: Send {
    /// Gives the packets that wait to `sink`, about [`WALK_MAX`] at most; how many it looked at.
    ///
    /// # Errors
    /// What ends the capture, in words.
    fn walk(&mut self, sink: &mut Sink) -> Result<usize, String>;

    /// Sleeps until there may be packets, at most this long. False: nothing will ever come.
    ///
    /// # Errors
    /// What ends the capture, in words.
    fn wait(&mut self, timeout_ns: u64) -> Result<bool, String>;

    /// Takes no packet any more, where that can be; those that are there are still to be walked.
    ///
    /// # Errors
    /// What the system answers.
    fn stop(&mut self) -> Result<(), String>;

    /// After [`Source::stop`], and a walk that looked at `walked` packets: whether all that were there have been seen.
    fn is_walked(&mut self, walked: usize, counts: &Counts) -> bool;

    /// The ring's counts; `sink` says how many packets were taken out so far. Packets that the quota refused are not offered.
    ///
    /// # Errors
    /// What the system answers.
    fn counters(&mut self, sink: &Sink) -> Result<RingCounters, String>;

    /// Bytes in the ring and room in it, where they can be known.
    fn level_bytes(&self) -> Option<(u64, u64)>;
}

/// Where packets go.
pub struct Sink {
    /// The recorder; `None` = they are counted.
    pub intake: Option<Intake>,
    /// Number of the interface in the file.
    pub interface: u32,
    /// Packets that were wanted, and their bytes as they were on the wire.
    pub taken: u64,
    /// See `taken`.
    pub bytes: u64,
    /// Of these packets, those with a timestamp of the NIC's clock.
    pub timestamped_by_nic: u64,
    /// Packets that the rings of the capture may still take together; `None` = any number.
    quota: Option<Arc<AtomicU64>>,
    /// Packets that came when the quota was used up. They count as packets after the end of the capture.
    pub refused: u64,
}

impl Sink {
    /// Nothing taken yet. `quota` is shared by all rings of a capture that ends after so many packets.
    pub fn new(intake: Option<Intake>, interface: u32, quota: Option<Arc<AtomicU64>>) -> Sink {
        Sink { intake, interface, taken: 0, bytes: 0, timestamped_by_nic: 0, quota, refused: 0 }
    }

    /// Counts a packet that had `len` bytes on the wire. False: the capture has as many packets as it was to have, and this one is not taken.
    #[inline]
    pub fn admit(&mut self, len: u64) -> bool {
        if let Some(quota) = &self.quota
            && quota.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err()
        {
            self.refused += 1;
            return false;
        }
        self.taken += 1;
        self.bytes += len;
        true
    }

    /// True when the capture has as many packets as it was to have.
    pub fn is_full(&self) -> bool {
        self.quota.as_ref().is_some_and(|quota| quota.load(Ordering::Relaxed) == 0)
    }
}

/// What the thread found out.
pub struct RingEnd {
    /// The ring, to be dropped when the others of its port have ended, too: they would get its packets.
    pub source: Box<dyn Source>,
    /// How full the ring was, in bytes, where that can be known.
    pub ring: Option<FillReport>,
    /// Time that the thread ran on a core.
    pub cpu_ns: u64,
    /// Why it ended early.
    pub error: Option<String>,
}

/// A ring to be walked.
pub struct RingRun<'a> {
    /// The ring.
    pub source: Box<dyn Source>,
    /// Where its packets go.
    pub sink: Sink,
    /// Shared with the thread that reports.
    pub control: &'a Control,
    /// Look at the ring all the time, instead of sleeping until something comes.
    pub polls: bool,
}

impl RingRun<'_> {
    /// Walks the ring until it is asked to stop, then what is left in it.
    pub fn run(mut self) -> RingEnd {
        let mut gauge = self.source.level_bytes().map(|(_, room)| FillGauge::new(room));
        let result = self.walk_to_end(gauge.as_mut());
        drop(self.sink.intake.take());
        if result.is_err() {
            self.control.ends_capture.store(true, Ordering::Release);
        }
        if let Some(gauge) = &mut gauge {
            gauge.note_overflow(self.control.last().ring.freezes);
        }
        self.control.ended.store(true, Ordering::Release);
        let (ring, cpu_ns) = (gauge.map(|gauge| gauge.report()), clock::thread_cpu_ns());
        RingEnd { source: self.source, ring, cpu_ns, error: result.err() }
    }

    fn walk_to_end(&mut self, mut gauge: Option<&mut FillGauge>) -> Result<(), String> {
        let (mut next_gauge_ns, mut stopped_ns) = (0, None);
        loop {
            let now_ns = clock::now_ns();
            // Also when a poller asks whether anything can come at all.
            let gauges = now_ns >= next_gauge_ns;
            if gauges {
                if let (Some(gauge), Some((level, _))) = (&mut gauge, self.source.level_bytes()) {
                    gauge.note(now_ns, level);
                }
                next_gauge_ns = now_ns + GAUGE_NS;
            }
            let walked = self.source.walk(&mut self.sink);
            let question = self.control.question();
            let mut counts = None;
            if question.is_some() || stopped_ns.is_some() || walked.is_err() {
                counts = Some(self.publish()?);
                question.inspect(|question| self.control.answered(*question));
            }
            let walked = walked?;
            if let (Some(last_ns), Some(counts)) = (stopped_ns, &counts) {
                if self.source.is_walked(walked, counts) {
                    return Ok(());
                }
                // A walk that finds nothing so long after one that did: by then the kernel has handed over every block.
                if walked == 0 && now_ns > last_ns + END_NS {
                    return Err("the kernel keeps packets in the ring that it does not hand over".into());
                }
                if walked > 0 {
                    stopped_ns = Some(clock::now_ns());
                }
            } else if self.control.stop.load(Ordering::Acquire) || self.has_enough() {
                self.source.stop()?;
                stopped_ns = Some(clock::now_ns());
            }
            let sleeps = !self.polls || gauges || stopped_ns.is_some();
            if walked == 0 && sleeps && !self.sleep(stopped_ns.is_some())? {
                self.publish()?;
                return Ok(());
            }
        }
    }

    /// Whether the capture has as many packets as it was to have; then all of it ends.
    fn has_enough(&self) -> bool {
        let enough = self.sink.is_full();
        if enough {
            self.control.ends_capture.store(true, Ordering::Release);
        }
        enough
    }

    /// Hands over what has waited long enough, and sleeps. False: nothing will ever come.
    fn sleep(&mut self, stopped: bool) -> Result<bool, String> {
        if let Some(intake) = &mut self.sink.intake {
            intake.settle(clock::now_ns());
        }
        if stopped {
            // All that counts now is what was there before.
            return Ok(self.source.wait(NAP_AT_END_NS).unwrap_or(true));
        }
        let waited = self.source.wait(if self.polls { 0 } else { NAP_NS });
        if waited.is_err() {
            // An interface that goes away ends its capture; what came before was walked.
            self.publish()?;
        }
        waited
    }

    /// The ring's counts last: then they are not the lower ones.
    fn publish(&mut self) -> Result<Counts, String> {
        let Sink { taken, bytes, timestamped_by_nic, .. } = self.sink;
        let dropped_for_buffers = self.sink.intake.as_ref().map_or(0, |intake| intake.counts().dropped);
        let level_bytes = self.source.level_bytes().map(|(level, _)| level);
        let (ring, cpu_ns) = (self.source.counters(&self.sink)?, clock::thread_cpu_ns());
        let counts = Counts { taken, bytes, timestamped_by_nic, dropped_for_buffers, ring, level_bytes, cpu_ns };
        self.control.show(counts);
        Ok(counts)
    }
}
