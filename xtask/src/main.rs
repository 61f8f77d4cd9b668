//! Checks and chores of the workspace.
fn main() {}
