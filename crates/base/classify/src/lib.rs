//! Lookups of a switch with flow tables: rules with masks and priorities, an exact-match cache before them, values by index behind
//! them, counters, and when memory that workers saw is free again.
//!
//! ```text
//! one writer                              any number of workers
//! Classifier  insert, remove, find        ClassifierReader  lookup_batch: up to 64 keys -> ids      shared, without locks
//! Slab<T>     insert, remove              SlabReader        id -> &T                                shared, without locks
//! Counters    read                        WorkerCounters    add                                     a cell a worker
//!                                         Cache             lookup_batch, insert                    of one worker alone
//! Domain      advance, quiesced           Worker            enter (once a batch), park
//! ```
//!
//! Nothing here knows of packets: a [`Key`] is sixteen words that the caller packs, and a rule compares them under a mask.
//!
//! A worker enters once a batch, which is its quiet point. What a writer removes is put out of reach at once and freed when each
//! worker has passed a quiet point, or is parked. A writer that wants to know when its changes are in force everywhere advances the
//! domain's version and asks [`Domain::quiesced`].

mod cache;
mod chunks;
mod classifier;
mod counters;
mod domain;
mod fold;
mod key;
mod memory;
mod primitive;
mod published;
mod slab;
mod tags;

pub use cache::{Cache, CacheConfig};
pub use classifier::{Classifier, ClassifierReader, Overlap, Scratch};
pub use counters::{Counters, Counts, WorkerCounters};
pub use domain::{Domain, Guard, Worker};
pub use key::{BATCH, Key, MISS, Mask, Rule, WORDS, lanes};
pub use slab::{Slab, SlabReader, SlabView};
