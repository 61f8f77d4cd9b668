//! The worker between ports that do as they are told, and on threads of its own.
#![allow(missing_docs)]

mod common;
mod rest;
mod rounds;
mod shares;
mod steering;
mod threads;
