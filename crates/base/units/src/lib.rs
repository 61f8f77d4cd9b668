//! Numbers with units as users write them in flags, port names and files, and as they are shown; moments in UTC; who wrote a document; the words
//! that a misspelt one was meant to be, and the places of errors in files.
//!
//! This crate holds the one grammar of numbers, see [`quantity`](duration_ns) for it, and the one place where they are written, [`show`].
#![forbid(unsafe_code)]

mod quantity;
mod rate;
pub mod show;
mod suggest;
mod text_error;
mod timestamp;
mod tool;

pub use quantity::{
    UnitError, bits_per_second, bytes, count, duration_ns, packets_per_second, percent, positive_duration_ns, share,
};
pub use rate::{Rate, RateError};
pub use suggest::nearest;
pub use text_error::TextError;
pub use timestamp::Timestamp;
pub use tool::Tool;
