//! `linerate capture`: ports of any kind, each ring with a thread of its own, and where every packet is.
//!
//! ```text
//! run.rs      all of it, to its end                 open.rs    from what `-i` says to rings
//! control.rs  what a ring's thread and the one
//!             that reports share                    timestamps.rs  whose clock timestamps the packets of an interface
//! tally.rs    counts of rings, ports, all           thread.rs  the thread of a ring
//! line.rs     what is printed                       ring.rs    an interface's AF_PACKET ring, walked in place
//!                                                   batch.rs   any other port, by the batch
//! ```

pub mod batch;
pub mod control;
pub mod line;
pub mod open;
pub mod ring;
pub mod run;
pub mod tally;
pub mod thread;
pub mod timestamps;
