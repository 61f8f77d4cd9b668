//! Capture files that were tampered with: the body of the fuzz target, on mutations that are the same on every run.

#[path = "../../../../fuzz/bodies/capture.rs"]
mod capture;
mod make;
#[path = "../../../../fuzz/bodies/mutate.rs"]
mod mutate;

#[test]
fn no_file_breaks_the_reader() {
    let mut files = 0;
    mutate::each(&make::seeds(), 20_000, |data| {
        capture::run(data);
        files += 1;
    });
    assert!(files > 20_000);
}
