//! The send side as a whole, against an ideal receiver over a path with faults, under a virtual clock.

mod audit;
mod bulk;
mod path;
mod random;
mod receiver;
mod recovery;
mod small;
mod windows;
