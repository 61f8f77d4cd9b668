//! The body of the fuzz target `openflow_text`, on mutations that are the same on every run.

use super::mutate;
#[path = "../../../../fuzz/bodies/openflow_text.rs"]
mod openflow_text;

#[test]
fn no_input_breaks_it() {
    mutate::each(&mutate::seeds("openflow_text"), 3_000, openflow_text::run);
}
