//! What the benches share: traffic, measured loops, the core's clock in cycles, and the form of a result.
//!
//! Read [`loops`] first: each function that is named there is one hot path of the product, driven the way the product drives it.

pub mod bridge;
pub mod capture;
pub mod classify;
pub mod ends;
pub mod line;
pub mod loops;
pub mod measure;
pub mod ofswitch;
pub mod opened;
pub mod openflow;
pub mod output;
pub mod packet;
pub mod peers;
pub mod switch;
pub mod traffic;
pub mod udp;
