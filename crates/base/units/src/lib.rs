//! Numbers with units as users write them in flags, port names and files, and the words that a misspelt one was meant to be.
//!
//! This crate holds the one grammar of numbers; see [`quantity`](duration_ns) for it.
#![forbid(unsafe_code)]

mod quantity;
mod suggest;

pub use quantity::{
    UnitError, bits_per_second, bytes, count, duration_ns, packets_per_second, percent, positive_duration_ns, share,
};
pub use suggest::nearest;
