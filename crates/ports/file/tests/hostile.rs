//! Capture files that were tampered with, as a port: the body of the fuzz target, on mutations that are the same on every run.

#[path = "../../../../fuzz/bodies/file_port.rs"]
mod file_port;
#[path = "../../../../fuzz/bodies/mutate.rs"]
mod mutate;

#[test]
fn no_file_breaks_the_port_that_reads_it() {
    // As the seeds of the reader alone, read once, three times and for ever.
    let files = mutate::seeds("capture");
    let made: Vec<Vec<u8>> =
        (0_u8..).zip(&files).map(|(how, file)| [&[how | (how & 1) << 7][..], file].concat()).collect();
    mutate::check_seeds("file_port", &made);
    mutate::each(&made, 3_000, file_port::run);
}
