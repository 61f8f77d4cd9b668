//! The memory that the transmit program and this process share: one array element of 64-bit words.

use crate::programs::histogram::BUCKETS;

/// Sequence number of the next packet, which is also how many were handed to the kernel.
pub const SEQUENCE: usize = 0;
/// The program stops at this sequence number.
pub const LIMIT: usize = 8;
/// When the next packet is due: CLOCK_MONOTONIC, ns.
pub const DUE: usize = 16;
/// The fraction of that, in units of 2^-32 ns.
pub const DUE_FRACTION: usize = 24;
/// Time between packets, whole ns.
pub const GAP: usize = 32;
/// The fraction of that, in units of 2^-32 ns.
pub const GAP_FRACTION: usize = 40;
/// The clock as last read, when it is not read for each packet.
pub const CLOCK: usize = 48;
/// State of the random numbers; never 0.
pub const RANDOM: usize = 56;
/// Index of each rule.
pub const INDICES: usize = 64;
/// Runs of the program that sent nothing, because the limit was reached or no packet was due.
pub const HELD: usize = 128;
/// Frames that were shorter than the template, which the kernel never makes.
pub const MALFORMED: usize = 136;
/// How late packets were sent, as a histogram in ns.
pub const LATENESS: usize = 192;
/// The size of all.
pub const BYTES: usize = LATENESS + 8 * BUCKETS;
