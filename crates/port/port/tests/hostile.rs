//! The body of the fuzz target `port_spec`, on mutations that are the same on every run.

#[path = "../../../../fuzz/bodies/mutate.rs"]
mod mutate;
#[path = "../../../../fuzz/bodies/port_spec.rs"]
mod port_spec;

#[test]
fn no_input_breaks_it() {
    mutate::each(&mutate::seeds("port_spec"), 50_000, port_spec::run);
}
