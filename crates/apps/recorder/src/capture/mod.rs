//! `linerate capture`: ports of any kind, each ring with a thread of its own, and where every packet is.
//!
//! ```text
//! run.rs      all of it, to its end                 open.rs    from what `-i` says to rings
//! tally.rs    counts of rings, ports, all           timestamps.rs  whose clock timestamps the packets of an interface
//! line.rs     what is printed
//! ```

pub mod line;
pub mod open;
pub mod run;
pub mod tally;
pub mod timestamps;
