//! The tests that can share a process, a module each: one program to link.

mod bounds;
mod browser;
mod compare;
mod compare_inconclusive;
#[path = "common/experiment.rs"]
#[allow(dead_code)]
mod experiment;
mod experiment_schema;
#[path = "common/hostile.rs"]
mod hostile;
mod hostile_results;
mod outputs;
mod storage;
mod trial;
