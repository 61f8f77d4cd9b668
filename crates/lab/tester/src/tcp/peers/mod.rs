//! Other TCP stacks under the load of `echo.rs`, as peers: the kernel's, smoltcp, lwIP. All of them are optional.
//!
//! `measure.rs` opens connections, lets bytes go back and forth in each order, and closes the connections again. The ends of the kernel and of
//! smoltcp, which work in rounds as ours do, are in `linerate_tester_loop::tcp::peers`.

mod linux;
mod lwip;
mod measure;
mod smoltcp;

pub use linux::run as linux;
pub use lwip::run as lwip;
pub use smoltcp::run as smoltcp;
