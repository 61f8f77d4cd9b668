//! The fields of `struct rtnl_link_stats64` that count lost packets, by their meaning in linux/if_link.h.

use super::{Row, Stage};

pub(super) const NO_BUFFER: &str = "no room in the receive queue of the tester's own network card";
pub(super) const FIFO_FULL: &str = "receive FIFO of the tester's own network card full";
pub(super) const DAMAGED: &str = "arrived damaged at the tester's own network card (wrong FCS)";
pub(super) const MISALIGNED: &str = "arrived damaged at the tester's own network card (not a whole number of bytes)";
pub(super) const BAD_LENGTH: &str = "arrived with a length that the tester's own network card does not take";
pub(super) const BAD: &str = "arrived damaged at the tester's own network card";
pub(super) const NOT_SENT: &str = "not transmitted by the tester's own interface";

/// Packets that arrived and were lost before they were received.
pub(super) const fn arriving(counter: &'static str, cause: &'static str) -> Row {
    Row { counter, at: Stage::Arriving, cause, contains: &[], is_unsure: false }
}

/// Packets that were received and then lost in the driver.
pub(super) const fn received(counter: &'static str, cause: &'static str) -> Row {
    Row { counter, at: Stage::Received, cause, contains: &[], is_unsure: false }
}

/// Packets that the network card did not count as transmitted.
pub(super) const fn refused(counter: &'static str, cause: &'static str) -> Row {
    Row { counter, at: Stage::Refused, cause, contains: &[], is_unsure: false }
}

/// Packets that were transmitted for the kernel and lost on their way to the cable.
pub(super) const fn leaving(counter: &'static str, cause: &'static str) -> Row {
    Row { counter, at: Stage::Leaving, cause, contains: &[], is_unsure: false }
}

/// `rx_dropped` is missing, because the kernel's stack counts packets there that a packet socket has got.
pub(super) const ROWS: &[Row] = &[
    arriving("rx_missed_errors", NO_BUFFER),
    // The same as the next one in some drivers.
    arriving("rx_over_errors", FIFO_FULL),
    // Some drivers count missed packets here, too.
    Row { contains: &["rx_over_errors", "rx_missed_errors"], ..arriving("rx_fifo_errors", FIFO_FULL) },
    arriving("rx_crc_errors", DAMAGED),
    arriving("rx_frame_errors", MISALIGNED),
    arriving("rx_length_errors", BAD_LENGTH),
    Row {
        contains: &["rx_crc_errors", "rx_frame_errors", "rx_length_errors", "rx_over_errors", "rx_fifo_errors"],
        ..arriving("rx_errors", BAD)
    },
    leaving("tx_errors", NOT_SENT),
];
