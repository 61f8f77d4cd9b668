//! TCP between the tester's two ends: a stack at each, with the device under test in between.
//!
//! ```text
//!   client: Stack, Worker, port --> path (counters.rs reads it) --> port, Worker, Stack: server
//! ```
//! `ends.rs` opens the ports and gives the stacks addresses, `pair.rs` puts both stacks over them, `sessions.rs` is a trial of
//! connections and requests with its accounts, `echo.rs` one of echoes over connections that stand, `udp_loop.rs` one of datagrams. What packets
//! pass of them, and the threads that both ends work on, are in `linerate_tester_loop::tcp`.

pub mod echo;
mod ends;
mod pair;
pub mod peers;
mod sessions;
pub mod udp_loop;

pub use ends::Ends;
pub use linerate_tester_loop::tcp::PairError;
pub use pair::Pair;
pub use sessions::{SessionLoad, SessionOutcome, SessionSpec, run as run_sessions};
