//! What `linerate bridge` does: packets of one port to another, both ways, by handing slots over.
//!
//! ```text
//! document.rs  the account, as JSON and for people
//! forward.rs   one worker for both ports, or one for each with rings between them
//! ```
//! What the far port does not take stays here, and nothing more is received in that direction until it has gone: the near
//! port's own ring is the queue, and what it loses then is in its counters. So nothing is lost without a place.

pub mod document;
pub mod forward;
