//! What packets pass of TCP between the tester's two ends: a stack at each, with the device under test in between.
//!
//! `pair.rs` makes both ends work on one core or two; `echo.rs` and `udp_loop.rs` are programs over their stacks, beside those of
//! `linerate-programs`; `peers/` has other stacks. Ports, tests and their accounts are in `linerate-tester`.

pub mod echo;
mod error;
pub mod pair;
pub mod peers;
pub mod udp_loop;

pub use error::PairError;
