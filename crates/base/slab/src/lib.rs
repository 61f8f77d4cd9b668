//! Memory of engines that keep millions of small records: one thread owns each structure, and a `u32` index names a record.
//!
//! ```text
//! Array<T>    elements that never move, in one reserved mapping on huge pages; the kernel gives memory when an element is first written
//! Slab<T>     an array with a stack of free indexes
//! Fifo<T>     an array as a queue
//! TagTable    hashes to indexes, in buckets of one line whose tags are compared at once
//! Wheel       ids by deadline, for timers that are moved more often than they expire
//! ```
//! None of them allocates after it was made, and each has a fixed capacity: what does not fit is refused. Memory comes from the kernel when
//! it is first written, or in advance by `populate`.

mod array;
mod available;
mod fifo;
mod slab;
mod tag_table;
mod wheel;

pub use array::{Array, PopulateError, ReserveError};
pub use fifo::Fifo;
pub use slab::Slab;
pub use tag_table::TagTable;
pub use wheel::{Expired, Wheel};
