//! Regions, frames, pools, batches.
