//! Measures for the packet path, without a clock: histograms of times, and token buckets, which let a rate pass.
#![forbid(unsafe_code)]

mod histogram;
mod token_bucket;

pub use histogram::{CoarseHistogram, Histogram, LogLinear};
pub use token_bucket::{Rate, TokenBucket};
