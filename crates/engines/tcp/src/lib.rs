//! The TCP stack: frames and the time in, frames and callbacks out. One thread owns one [`Stack`]; stacks share nothing.
//!
//! ```text
//! stack.rs      Stack: a Datapath; the batch pipeline
//! app.rs io.rs  what programs implement, and what they may call meanwhile
//! sharded.rs    Sharded: a stack that is one of several on cores of their own
//! tcb.rs        the control block of a connection: two cache lines
//! send/         what was written and is not acknowledged; what leaves now; loss recovery; congestion control
//! ```
//! There is no clock here: `now_ns` comes with each call. Inside, RTT timestamps are `u32` microseconds and deadlines `u32`
//! milliseconds ([`Now`]); both wrap and are compared by difference.
#![forbid(unsafe_code)]

mod app;
mod arrival;
mod arrive;
mod config;
mod conn;
mod cookie;
mod counters;
mod egress;
mod engine;
mod hash;
mod io;
mod listen;
pub mod machine;
mod owners;
mod ports;
mod receive;
mod segment;
pub mod send;
mod seq;
mod sharded;
mod stack;
mod tcb;
mod time;
mod time_wait;
mod tuple;

pub use app::App;
pub use config::{StackConfig, StackError};
pub use conn::{
    CloseReason, Conn, ConnectError, ConnectOptions, Info, Keepalive, ListenError, ListenOptions, Listener, Origin,
    SoftError,
};
pub use counters::Counters;
pub use io::Io;
pub use linerate_ip::Shard;
pub use linerate_ip::{BindError, Datagram, ErrorKind, ResolveError, ResolveId, Resolver, SendError, UdpId};
pub use seq::Seq;
pub use sharded::{ShardCounters, ShardPort, Sharded, ShardsDone};
pub use stack::Stack;
pub use tcb::{Flags, NONE, State, Tcb};
pub use time::Now;
