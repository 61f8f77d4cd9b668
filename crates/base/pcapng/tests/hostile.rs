//! Capture files that were tampered with: the body of the fuzz target, on mutations that are the same on every run.

#[path = "../../../../fuzz/bodies/capture.rs"]
mod capture;
mod make;
#[path = "../../../../fuzz/bodies/mutate.rs"]
mod mutate;

#[test]
fn no_file_breaks_the_reader() {
    mutate::check_seeds("capture", &make::seeds());
    mutate::each(&make::seeds(), 20_000, capture::run);
}
