//! Body of the fuzz target `results`: any text as a stored run, and runs with any numbers. Also run by the tests of `linerate-report`.

use std::path::Path;

use linerate_report::{
    Results, Thresholds, capture_recommendation_terminal, compare_with, comparison_html, comparison_json,
    comparison_markdown, comparison_terminal, figures_csv, fuzzing, html, ledger_csv, openmetrics, read_results,
    results_json, results_markdown, results_screen, results_terminal, trials_csv, trials_terminal,
};

/// The document of a run in which the numbers are exchanged.
const DOCUMENT: &str = include_str!("../seeds/results/01");
/// What they are exchanged for.
const NUMBERS: [&str; 12] = [
    "0",
    "1",
    "-1",
    "0.5",
    "1e-300",
    "1e300",
    "-1e300",
    "4294967296",
    "9007199254740993",
    "9223372036854775808",
    "18446744073709551615",
    "null",
];

/// A document, and behind a byte 0 the lines of its journal; or, behind a first byte 0, three bytes for each number that is exchanged: which
/// one (least significant byte first), and for what. A run that can be read is shown in every form, compared, and read again as it is written.
pub fn run(data: &[u8]) {
    let mut parts = data.splitn(2, |byte| *byte == 0);
    let document = match parts.next().unwrap_or(&[]) {
        [] => exchanged(parts.next().unwrap_or(&[])),
        text => String::from_utf8_lossy(text).into_owned(),
    };
    let journal = parts.next().map(|lines| [fuzzing::journal_start(&document).as_bytes(), lines].concat());
    match read_results(Path::new("result.json"), &document, journal.as_deref()) {
        Ok(results) => show(results),
        Err(error) => assert!(error.to_string().contains(": "), "{error}"),
    }
}

/// Behind a colon and a space, or alone in a line of an array, stands a number, as the document is written.
fn exchanged(choices: &[u8]) -> String {
    let mut lines: Vec<String> = DOCUMENT.lines().map(str::to_owned).collect();
    let is_number = |line: &String| number_in(line).is_some();
    let places: Vec<usize> = (0..lines.len()).filter(|at| is_number(&lines[*at])).collect();
    for choice in choices.chunks_exact(3) {
        let at = places[usize::from(u16::from_le_bytes([choice[0], choice[1]])) % places.len()];
        let Some((start, end)) = number_in(&lines[at]) else { continue };
        lines[at].replace_range(start..end, NUMBERS[usize::from(choice[2]) % NUMBERS.len()]);
    }
    lines.join("\n")
}

/// Where the number of a line begins and ends.
fn number_in(line: &str) -> Option<(usize, usize)> {
    let start = line.rfind([' ', ':']).map_or(0, |at| at + 1);
    let end = line.trim_end_matches(',').len();
    line.get(start..end)?.parse::<f64>().is_ok().then_some((start, end))
}

fn show(results: Results) {
    for text in [html(&results), results_markdown(&results), openmetrics(&results)] {
        assert!(!text.is_empty());
    }
    for text in [figures_csv(&results), ledger_csv(&results), trials_csv(&results)] {
        assert!(text.ends_with("\r\n"), "{text}");
    }
    for columns in [0, 40, 200] {
        for text in [results_screen, results_terminal, trials_terminal, capture_recommendation_terminal]
            .map(|shown| shown(&results, columns, false))
        {
            assert!(!text.contains('\x1b'), "colours, or an escape sequence out of the document: {text:?}");
        }
    }
    let written = results_json(&results);
    let again = read_results(Path::new("result.json"), &written, None).expect("what was written can be read");
    assert_eq!(results_json(&again), written);
    let comparison = compare_with(&[results, again], &Thresholds::default());
    comparison_terminal(&comparison, 80, false);
    comparison_markdown(&comparison);
    comparison_html(&comparison);
    comparison_json(&comparison);
}
