//! What packets pass of a capture: from the rings into files on disk, written in a thread of its own. It is a crate of its own because it
//! is compiled to run fast; the rest of `linerate-recorder`, which no packet passes, is compiled quickly (`profile.release.package` in the
//! workspace's Cargo.toml).
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
//! settings.rs  what is asked for                          writer.rs  the thread
//! intake.rs    a ring's side                              file.rs    one file: large aligned writes, compression, cutting off
//! thread.rs    the thread of a ring                       ring.rs    an interface's AF_PACKET ring, walked in place
//! control.rs   what it and the one that reports share     batch.rs   any other port, by the batch
//! ```
#![forbid(unsafe_code)]

pub mod batch;
pub mod control;
mod file;
mod intake;
mod message;
pub mod ring;
mod settings;
pub mod thread;
mod writer;

pub use intake::{Intake, IntakeCounts};
pub use settings::{Method, RecorderError, Settings};
pub use writer::{Recorder, Report};
