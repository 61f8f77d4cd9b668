//! What packets pass of the tester, and what times itself. It is a crate of its own because it is compiled to run fast; the rest of the tester,
//! which no packet passes, is compiled quickly (`profile.release.package` in the workspace's Cargo.toml).
//!
//! ```text
//! lanes.rs     the sending loop of a trial          timeline.rs when its packets arrived          device.rs   the loop of a device inside this process
//! tcp/         a TCP stack at each end of a path: connections, echoes, datagrams; other stacks beside it
//! cache_line.rs, core_clock.rs, fixed_loop.rs       loops that measure the machine
//! cores.rs, phases.rs, delays.rs, ports.rs          what both of them have in common
//! ```

pub mod cache_line;
pub mod core_clock;
mod cores;
mod delays;
pub mod device;
pub mod fixed_loop;
pub mod lanes;
mod phases;
pub mod ports;
pub mod tcp;
pub mod timeline;

pub use cores::Cores;
pub use delays::Delays;
pub use phases::{Learning, Phases, pause_ns};
