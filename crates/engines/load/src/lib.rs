//! What a load of the TCP programs is to be: flags or a file, checked, as the load generator of `linerate-programs` takes it. It is a crate
//! of its own because it is compiled quickly (`profile.release.package` in the workspace's Cargo.toml); what begins requests by it is
//! compiled to run fast.
//!
//! ```text
//! config.rs    flags and files -> Plan            url.rs rate.rs    their words
//! plan.rs      what is to be done, checked
//! ```
#![forbid(unsafe_code)]

mod config;
mod plan;
mod rate;
mod url;

pub use config::{Config, RequestConfig, Text};
pub use plan::{Answer, Expected, Kind, NUMBER_LEN, Pacing, Plan, Target};
pub use rate::{Gaps, Piece, Rate};
pub use url::{Host, Scheme, Url};
