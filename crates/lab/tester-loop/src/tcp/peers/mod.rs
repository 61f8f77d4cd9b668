//! Other TCP stacks under the load of `echo.rs`, as peers: the kernel's, smoltcp, lwIP. All of them are optional.
//!
//! Each end works in rounds as ours do, both in turn on one core, or each on a core of its own; `measure.rs` opens connections, lets bytes go
//! back and forth in each order, and closes the connections again.

mod linux;
mod lwip;
mod measure;
mod smoltcp;

pub use linux::run as linux;
pub use lwip::run as lwip;
pub use smoltcp::run as smoltcp;
