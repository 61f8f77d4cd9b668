//! A meter as workers see it: a token bucket for each band, in one word, which all workers share.
//!
//! A band's word holds the time at which its bucket would be full again (the generic cell rate algorithm of ITU-T I.371, in its
//! virtual-scheduling form). A packet conforms if that time is at most the burst's time ahead of now; it then moves the time on by
//! its own length at the band's rate. Times are in units of 1/16 ns, so that rates of up to 100 Gbit/s are exact to 1 %.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use linerate_openflow::{Band, BandKind, BandStats, MeterFlags};

use crate::tally::{Pair, PerWorker};

/// Bits of a kilobit. The certification suite's checker counts 1,024, and so does the meter.
const KILOBIT: u64 = 1024;
const UNITS_PER_NS: u64 = 16;
const UNITS_PER_S: u64 = 1_000_000_000 * UNITS_PER_NS;
/// Burst of a band whose meter gives none: the packets of so much time.
const DEFAULT_BURST_NS: u64 = 50_000_000;

/// A band.
#[derive(Debug)]
struct BandView {
    band: Band,
    /// Bits, or packets, in a second.
    rate: u64,
    burst_units: u64,
    full_at: AtomicU64,
    tally: PerWorker<Pair>,
}

/// A meter, immutable but for its buckets and counters.
#[derive(Debug)]
pub struct MeterView {
    counts_packets: bool,
    bands: Vec<BandView>,
    tally: PerWorker<Pair>,
    /// Entries that use it; counted by the control thread alone.
    flows: AtomicU32,
}

/// What a meter says of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Metered {
    Pass,
    Drop,
    Remark(u8),
}

impl MeterView {
    /// A meter that so many entries use, for so many workers.
    pub fn new(flags: MeterFlags, bands: &[Band], flows: u32, workers: usize) -> MeterView {
        let counts_packets = flags.has(MeterFlags::PKTPS);
        let view = |band: &Band| BandView::new(band.clone(), flags, counts_packets, workers);
        MeterView {
            counts_packets,
            bands: bands.iter().map(view).collect(),
            tally: PerWorker::new(workers),
            flows: AtomicU32::new(flows),
        }
    }

    /// Packets and bytes of the meter.
    pub fn counts(&self) -> (u64, u64) {
        self.tally.total()
    }

    /// Counters of each band.
    pub fn band_stats(&self) -> Vec<BandStats> {
        let mut stats = Vec::new();
        for band in &self.bands {
            let (packets, bytes) = band.tally.total();
            stats.push(BandStats { packets, bytes });
        }
        stats
    }

    /// Entries that use it.
    pub fn flows(&self) -> u32 {
        self.flows.load(Ordering::Relaxed)
    }

    /// Notes that one entry more uses it, or one less. By the control thread.
    pub(crate) fn note_flow(&self, added: bool) {
        let before = self.flows();
        self.flows.store(if added { before + 1 } else { before.saturating_sub(1) }, Ordering::Relaxed);
    }

    /// True if the meter may change packets.
    pub(crate) fn remarks(&self) -> bool {
        self.bands.iter().any(|band| matches!(band.band.kind, BandKind::DscpRemark(_)))
    }

    /// Lets a packet through the meter. Of the bands whose rate it exceeds, the one with the highest rate acts.
    pub(crate) fn pass(&self, worker: usize, bytes: u64, now_ns: u64) -> Metered {
        self.tally.of(worker).add(1, bytes);
        let amount = if self.counts_packets { 1 } else { bytes * 8 };
        let exceeded = self.bands.iter().filter(|band| !band.conforms(amount, now_ns));
        let Some(band) = exceeded.max_by_key(|band| band.rate) else { return Metered::Pass };
        band.tally.of(worker).add(1, bytes);
        match &band.band.kind {
            BandKind::Drop => Metered::Drop,
            BandKind::DscpRemark(levels) => Metered::Remark(*levels),
            // Refused before a meter has it.
            BandKind::Experimenter(_) => Metered::Pass,
        }
    }
}

impl BandView {
    fn new(band: Band, flags: MeterFlags, counts_packets: bool, workers: usize) -> BandView {
        let unit = if counts_packets { 1 } else { KILOBIT };
        let rate = u64::from(band.rate) * unit;
        let burst = u64::from(band.burst_size) * unit;
        let burst_units = match flags.has(MeterFlags::BURST) && burst > 0 && rate > 0 {
            true => {
                (u128::from(burst) * u128::from(UNITS_PER_S) / u128::from(rate)).min(u128::from(u64::MAX >> 2)) as u64
            }
            false => DEFAULT_BURST_NS * UNITS_PER_NS,
        };
        BandView { band, rate, burst_units, full_at: AtomicU64::new(0), tally: PerWorker::new(workers) }
    }

    fn conforms(&self, amount: u64, now_ns: u64) -> bool {
        if self.rate == 0 {
            return false;
        }
        let now = now_ns.wrapping_mul(UNITS_PER_NS);
        let cost = (u128::from(amount) * u128::from(UNITS_PER_S) / u128::from(self.rate)) as u64;
        let mut full_at = self.full_at.load(Ordering::Relaxed);
        loop {
            let begin = full_at.max(now);
            if begin - now > self.burst_units {
                return false;
            }
            let next = begin.saturating_add(cost);
            match self.full_at.compare_exchange_weak(full_at, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(other) => full_at = other,
            }
        }
    }
}
