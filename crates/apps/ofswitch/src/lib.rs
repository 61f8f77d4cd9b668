//! The OpenFlow switch as a program: any ports, the pipeline of `linerate-pipeline` between them, controllers over TCP and TLS.
#![forbid(unsafe_code)]

mod channel;
pub mod config;
pub mod target;
pub mod tls;

pub use config::Config;
