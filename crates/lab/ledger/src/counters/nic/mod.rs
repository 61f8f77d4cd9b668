//! What the counters of a network card say about packets that it lost, driver by driver.
//!
//! Drivers count the same loss under different names, and one counter often contains another: `rx_fifo_errors` of igb is the sum of
//! its queues' drops and of `rx_missed_errors`. So each driver has a table ([`drivers`]) with a row for each counter of lost packets:
//! its meaning, where the packet was lost, and which other counters it contains. Counters of events that cost no packet (a buffer that
//! was allocated later, a queue that was stopped) have no row. A driver without a table has the kernel's own fields
//! ([`standard`]; `struct rtnl_link_stats64` in linux/if_link.h).
//!
//! No packet is in two rows: a row has what its counter says less what the counters that it contains say, and a counter that only
//! repeats another one has no row. The tables are printed in docs/nic-counters.md.

mod drivers;
mod standard;

use super::InterfaceCounters;

/// A counter of lost packets.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Its name. `*` stands for the number of a queue; a row then has the sum over all queues.
    pub counter: &'static str,
    /// Where the packets were lost.
    pub at: Stage,
    /// Why they were lost, in words.
    pub cause: &'static str,
    /// Other counters, the packets of which are in this one, too.
    pub contains: &'static [&'static str],
    /// The counter has packets that were not lost, too, so that a row is an inference.
    pub is_unsure: bool,
}

/// Where a network card loses a packet, by the kernel's totals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// On reception, before the packet is in `rx_packets`.
    Arriving,
    /// On reception, after the packet is in `rx_packets`.
    Received,
    /// On transmission, and the packet is neither in `tx_packets` nor in `tx_dropped`.
    Refused,
    /// On transmission, after the packet is in `tx_packets`.
    Leaving,
}

/// The counters of the network cards of one driver.
#[derive(Debug)]
pub struct Driver {
    /// As `ethtool -i` prints it.
    pub name: &'static str,
    /// The files of the kernel's source that the rows were written from, below `drivers/net/`.
    pub source: &'static str,
    /// Counters of lost packets.
    pub rows: &'static [Row],
    /// Counters of pause frames received. Of several in one list, each counts other frames.
    pub pause_received: &'static [&'static str],
    /// Counters of pause frames sent.
    pub pause_sent: &'static [&'static str],
    /// Counters of packets that a program or a socket of XDP took before they were counted in `rx_packets`.
    pub beside_received: &'static [&'static str],
}

/// Packets that a network card lost for one cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// The counter that says so.
    pub counter: &'static str,
    /// Why.
    pub cause: &'static str,
    /// How many.
    pub packets: u64,
    /// As [`Row::is_unsure`].
    pub is_unsure: bool,
}

/// Every driver that has a table.
pub fn drivers() -> &'static [Driver] {
    drivers::DRIVERS
}

/// The rows of a driver without a table.
pub fn standard() -> &'static [Row] {
    standard::ROWS
}

/// Whether the counters of a driver have a table.
pub fn has_table(driver: &str) -> bool {
    table(driver).is_some()
}

fn table(driver: &str) -> Option<&'static Driver> {
    drivers::DRIVERS.iter().find(|known| known.name == driver)
}

impl InterfaceCounters {
    /// Packets that this network card lost at a stage, each in one row; rows without packets are left out.
    pub fn lost_at(&self, stage: Stage) -> Vec<Lost> {
        let rows = table(&self.driver_name).map_or(standard::ROWS, |driver| driver.rows);
        let row = |row: &Row| {
            let contained: u64 = row.contains.iter().map(|counter| self.counted(counter)).sum();
            let packets = self.counted(row.counter).saturating_sub(contained);
            Lost { counter: row.counter, cause: row.cause, packets, is_unsure: row.is_unsure }
        };
        rows.iter().filter(|row| row.at == stage).map(row).filter(|lost| lost.packets > 0).collect()
    }

    /// Packets that the network card handed to the host, those included that XDP took before `rx_packets`.
    pub fn taken_in(&self) -> u64 {
        let beside = table(&self.driver_name).map_or(&[][..], |driver| driver.beside_received);
        self.rx_packets + beside.iter().map(|counter| self.counted(counter)).sum::<u64>()
    }

    /// Pause frames (IEEE 802.3 annex 31B) received and sent. A driver without a table is asked for names that say so.
    pub fn pause_frames(&self) -> [u64; 2] {
        match table(&self.driver_name) {
            Some(driver) => [driver.pause_received, driver.pause_sent]
                .map(|counters| counters.iter().map(|counter| self.counted(counter)).sum()),
            None => ["rx", "tx"].map(|direction| {
                let is_pause =
                    |name: &&String| name.contains("pause") && name.contains(direction) && !name.contains("duration");
                // Names of such drivers may repeat each other.
                self.driver.iter().filter(|(name, _)| is_pause(name)).map(|(_, frames)| *frames).max().unwrap_or(0)
            }),
        }
    }

    /// A counter by name: the driver's own, summed over queues, or the kernel's field of that name.
    fn counted(&self, counter: &str) -> u64 {
        let mut own =
            self.driver.iter().filter(|(name, _)| matches(counter, name.trim())).map(|(_, value)| value).peekable();
        match own.peek() {
            Some(_) => own.sum(),
            None => self.fields.get(counter).copied().unwrap_or(0),
        }
    }
}

/// Whether a driver's name of a counter fits a pattern: `*` is a number.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == name };
    let Some(rest) = name.strip_prefix(before) else { return false };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    digits > 0 && &rest[digits..] == after
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
