//! Control of a worker while it runs: clients of a socket, ports by name that come and go, one instance a name.
//!
//! ```text
//!   worker thread    moves packets (linerate-worker); between two rounds it does jobs
//!        ^  | jobs; events of ports                                                        ports.rs
//!        |  v
//!   control thread   serves clients of the socket; opens ports, and opens broken ones again   server/ reopener.rs
//! ```
//! A program brings a [`Service`]: the datapath, and the commands and documents that only this datapath has. [`start`] runs both threads.
//! The commands that every datapath has are [`Command`]; `docs/switch.md` describes the socket.
#![forbid(unsafe_code)]

mod connection;
mod document;
mod event_log;
mod instance;
mod opening;
mod port_config;
mod ports;
mod protocol;
mod reopener;
mod runtime_dir;
mod server;
mod service;
mod stop;
mod value;

pub use connection::Connection;
pub use document::{
    PortDocument, QueueDocument, WorkerDocument, add_drops, add_port_stats, port_documents, worker_document,
};
pub use instance::{Ended, Instance, RunWorker, Setup, StartError, refused, start};
pub use opening::{PoolShape, open_options, pool};
pub use port_config::{PortConfig, is_name, split_setting};
pub use ports::{PortManager, PortTable, View};
pub use protocol::{
    Answer, Command, ControlError, Envelope, ErrorKind, REQUEST_LEN_MAX, VERSION, read_command, read_reply,
    read_request, reply_line, request_line,
};
pub use runtime_dir::{FileLock, InstanceLock, RuntimeDir, RuntimeDirError};
pub use service::{Handoff, Service};
pub use value::{SettingValue, Settings, merged, yes_or_no};
