//! Rules of the specification about what belongs together: prerequisites, arguments, order. None needs the state of a switch.

mod actions;
mod matches;
mod messages;
mod protocols;

pub use actions::check_actions;
