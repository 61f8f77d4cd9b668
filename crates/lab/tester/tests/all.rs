//! The tests that can share a process, a module each: one program to link.

mod dut_trials;
mod flow_switches;
mod ledger_causes;
mod probes;
mod scenarios;
mod scenarios_receivers;
mod scenarios_switch;
mod sessions;
mod shared_memory;
mod support;
mod timed;
mod trials;
mod trials_apart;
