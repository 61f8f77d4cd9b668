//! Stored runs that were tampered with: the body of the fuzz target, on mutations that are the same on every run.

use super::experiment;
#[path = "../../../../fuzz/bodies/mutate.rs"]
mod mutate;
#[path = "../../../../fuzz/bodies/results.rs"]
mod results;

use linerate_report::{Results, fuzzing};

/// A run whose trials are in its journal, the same as one document, and that one with three other numbers.
fn seeds() -> Vec<Vec<u8>> {
    let exchanged = [0, 0x40, 0, 4, 0x81, 0, 9, 0x03, 1, 10];
    vec![journalled(), whole(&experiment::small()), exchanged.to_vec()]
}

fn whole(results: &Results) -> Vec<u8> {
    linerate_report::results_json(results).into_bytes()
}

fn journalled() -> Vec<u8> {
    let all = experiment::small();
    let mut early = all.clone();
    early.complete = false;
    for cell in &mut early.cells {
        for finding in &mut cell.findings {
            (finding.result, _) = (None, finding.trials.clear());
        }
    }
    let lines = fuzzing::journal_lines(&early, &all).expect("nothing was taken away");
    [whole(&early), vec![0], lines.into_bytes()].concat()
}

#[test]
fn no_stored_run_breaks_what_reads_and_shows_it() {
    mutate::check_seeds("results", &seeds());
    mutate::each(&seeds(), 1_000, results::run);
}

#[test]
fn no_number_breaks_what_shows_it() {
    // The largest number at each place, and each number at many places at once.
    for place in 0..400_u16 {
        let [low, high] = place.to_le_bytes();
        results::run(&[0, low, high, 10]);
    }
    for number in 0..12 {
        for every in [2, 3, 5] {
            let places = (0..400_u16).filter(|place| place % every == 0).map(u16::to_le_bytes);
            let choices = places.flat_map(|[low, high]| [low, high, number]);
            results::run(&std::iter::once(0).chain(choices).collect::<Vec<u8>>());
        }
    }
}
