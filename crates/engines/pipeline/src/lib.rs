//! The OpenFlow switch's pipeline: tables, groups, meters and statistics, and what they do to packets. No sockets, no clock.
#![forbid(unsafe_code)]

pub mod packet;
