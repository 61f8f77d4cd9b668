//! Memory of engines that keep millions of small records: one thread owns each structure, and a `u32` index names a record.
//!
//! ```text
//! Array<T>    elements that never move, in one reserved mapping on huge pages; the kernel gives memory when an element is first written
//! Slab<T>     an array with a stack of free indexes
//! ```
//! None of them allocates after it was made, and each has a fixed capacity: what does not fit is refused.

mod array;
mod slab;

pub use array::{Array, ReserveError};
pub use slab::Slab;
