//! A switch's side of the connection to a controller, without I/O: bytes and time in, requests and bytes out.
//!
//! ```text
//! socket -> receive -> Framer -> next_request -> the switch -> reply, refuse -+
//!                                                packet_in, flow_removed, ... +-> output -> socket
//! ```
//! Requests come out in order. After a barrier, and while a multipart reply is not written yet or much output waits, none comes out: the program then
//! leaves bytes in its socket, which holds the controller back. `Controllers` is what the sessions of one switch share: roles and async masks.

mod assembly;
mod controllers;
mod keepalive;
mod output;
mod request;
mod switch_side;

pub use controllers::{ControllerId, Controllers};
pub use request::{Reply, Request, RequestBody};
pub use switch_side::{CloseReason, Delivery, Session, SessionConfig};
