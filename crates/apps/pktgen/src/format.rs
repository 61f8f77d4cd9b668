//! The lines that `pkt-gen` prints, letter for letter, because scripts parse them. Pure functions: numbers in, text out.
//!
//! On stdout: [`start`], [`addresses`], [`Style::totals`]. On stderr, each behind a timestamp and a place as
//! [`linerate_pktgen_loop::log::diagnostic`] writes them: everything else.

use linerate_pktgen_loop::counts::Counts;

/// Bits that a frame takes on the wire beyond its bytes without FCS: 7 preamble, 1 delimiter, 4 FCS, 12 gap (`-B`).
pub const FRAMING_BITS: u64 = 24 * 8;

/// Reports over which `-A` averages.
const WINDOW: usize = 15;

/// How numbers are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Whole numbers without a prefix (`-N`) instead of three decimals with K, M, G or T.
    pub raw: bool,
    /// Bits added to each frame in bit rates ([`FRAMING_BITS`] with `-B`).
    pub framing_bits: u64,
}

impl Style {
    /// A number with its prefix: `14.881 M`; the unit follows without a space.
    pub fn number(&self, value: f64) -> String {
        if self.raw {
            return format!("{value:.0} ");
        }
        let mut value = value;
        let mut prefix = "";
        for next in ["K", "M", "G", "T"] {
            if value < 1000.0 {
                break;
            }
            value /= 1000.0;
            prefix = next;
        }
        format!("{value:.3} {prefix}")
    }

    /// One report: rate, counts and length of an interval, preceded by mean and deviation with `-A`.
    pub fn report(&self, counts: &Counts, interval_us: u64, window: Option<&Window>) -> String {
        let interval_us = interval_us.max(1);
        let rate = rate_pps(counts.packets, interval_us);
        let bits = counts.bytes as f64 * 8.0 + counts.packets as f64 * self.framing_bits as f64;
        let averages = window.map_or(String::new(), |window| {
            let (mean, deviation) = window.mean_and_deviation();
            format!("[avg/std {}/{} pps]", self.number(mean), self.number(deviation))
        });
        format!(
            "{}pps {averages}({}pkts {}bps in {interval_us} usec) {:.2} avg_batch {MIN_SPACE} min_space",
            self.number(rate as f64),
            self.number(counts.packets as f64),
            self.number(bits * 1e6 / interval_us as f64),
            average_batch(counts),
        )
    }

    /// The two lines of totals; `did` is `Sent` or `Received`.
    pub fn totals(&self, did: &str, counts: &Counts, seconds: f64) -> String {
        if counts.packets == 0 {
            return format!("{did} nothing.");
        }
        let Counts { packets, bytes, events } = *counts;
        let each = bytes / packets;
        let divisor = if seconds > 0.0 { seconds } else { 1e-6 };
        let raw_bits = bytes as f64 * 8.0 + packets as f64 * self.framing_bits as f64;
        format!(
            "{did} {packets} packets {bytes} bytes {events} events {each} bytes each in {seconds:.2} seconds.\n\
             Speed: {}pps Bandwidth: {}bps (raw {}bps). Average batch: {:.2} pkts",
            self.number(packets as f64 / divisor),
            self.number(bytes as f64 * 8.0 / divisor),
            self.number(raw_bits / divisor),
            average_batch(counts),
        )
    }
}

/// What the original prints where it has no ring to look into; a port does not tell its free slots.
const MIN_SPACE: u32 = 99_999;

/// Packets per second, rounded to the nearest.
pub fn rate_pps(packets: u64, interval_us: u64) -> u64 {
    let interval = u128::from(interval_us.max(1));
    ((u128::from(packets) * 1_000_000 + interval / 2) / interval) as u64
}

fn average_batch(counts: &Counts) -> f64 {
    if counts.events == 0 { 0.0 } else { counts.packets as f64 / counts.events as f64 }
}

/// The rates of the last reports, for `-A`.
#[derive(Clone, Debug, Default)]
pub struct Window {
    rates_pps: [u64; WINDOW],
    seen: usize,
}

impl Window {
    /// Adds the rate of one report.
    pub fn add(&mut self, rate_pps: u64) {
        self.rates_pps[self.seen % WINDOW] = rate_pps;
        self.seen += 1;
    }

    /// Mean and standard deviation of the last fifteen rates, of as many as there are.
    pub fn mean_and_deviation(&self) -> (f64, f64) {
        let rates = &self.rates_pps[..self.seen.min(WINDOW)];
        if rates.is_empty() {
            return (0.0, 0.0);
        }
        let count = rates.len() as f64;
        let mean = rates.iter().map(|rate| *rate as f64).sum::<f64>() / count;
        let variance = rates.iter().map(|rate| (*rate as f64 - mean).powi(2)).sum::<f64>() / count;
        (mean, variance.sqrt())
    }
}

/// The first line: what is done where, with how many queues, threads and CPUs.
pub fn start(doing: &str, interface: &str, queues: usize, threads: usize, cpus: usize) -> String {
    format!("{doing} {interface}: {queues} queues, {threads} threads and {cpus} cpus.")
}

/// A sender's second line: both ranges as the user wrote them, both hardware addresses.
pub fn addresses(source: &str, destination: &str, source_mac: &str, destination_mac: &str) -> String {
    format!("{source} -> {destination} ({source_mac} -> {destination_mac})")
}

/// Burst and pause of a sender; the pause is 0 without `-R`.
pub fn pacing(burst: usize, gap_ns: u64) -> String {
    let (seconds, nanoseconds) = (gap_ns / 1_000_000_000, gap_ns % 1_000_000_000);
    format!("Sending {burst} packets every  {seconds}.{nanoseconds:09} s")
}

#[cfg(test)]
#[path = "format_tests.rs"]
mod tests;
