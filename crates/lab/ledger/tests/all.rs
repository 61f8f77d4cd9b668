//! The tests that can share a process, a module each: one program to link.

mod dut_commands;
mod duts;
mod ledger;
#[path = "support/made_up.rs"]
mod made_up;
mod ping;
mod places;
mod places_captured;
mod places_cards;
mod places_inferred;
mod places_switched;
mod support;
