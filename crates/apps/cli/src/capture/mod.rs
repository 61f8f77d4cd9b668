//! `linerate capture`: ports of any kind, each ring with a thread of its own, and where every packet is.
//!
//! ```text
//! run.rs      all of it, to its end                 open.rs    from what `-i` says to rings
//! control.rs  what a ring's thread and the one      thread.rs  the thread of a ring
//!             that reports share                    ring.rs    an interface's AF_PACKET ring, walked in place
//! line.rs     what is printed                       batch.rs   any other port, by the batch
//!                                                   stamps.rs  whose clock stamps the packets of an interface
//! ```

pub mod batch;
pub mod control;
pub mod line;
pub mod open;
pub mod ring;
pub mod run;
pub mod stamps;
pub mod thread;
