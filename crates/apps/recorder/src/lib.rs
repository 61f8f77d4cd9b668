//! Writes captures to disk, in a thread of its own.
//!
//! ```text
//! thread of a ring:  Intake  --- full buffers --->  the writer's thread  --->  file, next file, ...
//!                            <-- empty buffers ---
//! ```
//! There are so many buffers and no more. An [`Intake`] that finds none free counts packets as dropped by the writer and goes on:
//! **a slow disk never stalls a ring.** Files end behind whole records, so one that is killed, or whose disk is full, reads up to
//! its last complete record.
//!
//! ```text
//! settings.rs  what is asked for          writer.rs  the thread
//! intake.rs    a ring's side              file.rs    one file: large aligned writes, compression, cutting off
//! ```
#![forbid(unsafe_code)]

pub mod capture;
mod file;
mod intake;
mod message;
mod settings;
mod writer;

pub use intake::{Intake, IntakeCounts};
pub use settings::{Method, RecorderError, Settings};
pub use writer::{Recorder, Report};
