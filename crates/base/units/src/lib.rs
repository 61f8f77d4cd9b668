//! Numbers with units as users write them in flags, port names and files, the words that a misspelt one was meant to be, and the places of
//! errors in files.
//!
//! This crate holds the one grammar of numbers; see [`quantity`](duration_ns) for it.
#![forbid(unsafe_code)]

mod quantity;
mod suggest;
mod text_error;

pub use quantity::{
    UnitError, bits_per_second, bytes, count, duration_ns, packets_per_second, percent, positive_duration_ns, share,
};
pub use suggest::nearest;
pub use text_error::TextError;
