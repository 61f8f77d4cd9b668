//! `linerate tcp`: where its stack is in the network, how a program runs until it is stopped, and its documents for people.

pub mod network;
pub mod text;
pub mod watch;
