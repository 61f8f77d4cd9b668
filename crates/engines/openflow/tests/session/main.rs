//! Sessions under virtual time: a switch's side against bytes of a controller.

mod common;
mod connection;
mod experimenters;
mod hostile;
mod multipart;
mod roles;
