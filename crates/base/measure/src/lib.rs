//! Measures for the packet path, without a clock: histograms of times, token buckets, which let a rate pass, and reasons with names.
#![forbid(unsafe_code)]

mod histogram;
mod named;
mod token_bucket;

pub use histogram::{CoarseHistogram, Histogram, LogLinear};
pub use token_bucket::{Rate, TokenBucket};
