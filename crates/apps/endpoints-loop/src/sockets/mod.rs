//! Sockets over the stack for other threads and for async tasks: [`TcpListener`], [`TcpStream`], by way of [`Caller`].
//!
//! ```text
//! a thread, a task    TcpStream --bytes--> line.rs: two bounded queues, two wakers --bytes--> program.rs    the stack's thread
//!                               <--bytes--                                         <--bytes--
//! ```
//! The stack works on a thread of its own. A stream has tokio's `AsyncRead` and `AsyncWrite`, so hyper and other programs for tokio run on it, in any
//! executor; and the standard library's `Read` and `Write`, which wait. Each byte is copied twice more than by a [`linerate_programs::Program`], which is
//! the way to be fast.

mod block;
mod caller;
mod line;
mod listener;
mod program;
mod stream;

pub use caller::Caller;
pub use listener::TcpListener;
pub use program::{Sockets, SocketsDocument};
pub use stream::TcpStream;
