//! What packets pass of the tester, and what times itself. It is a crate of its own because it is compiled to run fast; the rest of the tester,
//! which no packet passes, is compiled quickly (`profile.release.package` in the workspace's Cargo.toml).
//!
//! ```text
//! lanes.rs     the sending loop of a trial          timeline.rs when its packets arrived          device.rs   the loop of a device inside this process
//! tcp/         a TCP stack at each end of a path: echoes, datagrams; other stacks beside it
//! cache_line.rs, core_clock.rs, fixed_loop.rs       loops that measure the machine
//! ports.rs     what is asked of ports beside a trial
//! ```

pub mod cache_line;
pub mod core_clock;
pub mod device;
pub mod fixed_loop;
pub mod lanes;
pub mod ports;
pub mod tcp;
pub mod timeline;
