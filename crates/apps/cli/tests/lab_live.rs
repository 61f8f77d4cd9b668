//! The live view of `linerate lab run`: lines at the bottom of a terminal that say what goes on, and plain lines where there is none.

use super::lab_support;

use std::process::{Command, Stdio};

use lab_support::{Experiment, TINY, can_measure};

/// Two devices: a router whose bounds close in, and a program that forwards nothing, so that there are losses to show.
fn with_losses() -> String {
    TINY.replacen(
        "[matrix]",
        "[[dut]]\nname = \"hole\"\nkind = \"command\"\nstart = [\"sleep\", \"1000\"]\n[matrix]",
        1,
    )
}

/// Runs it on a pseudo terminal, which `script` makes; none where that is not installed.
fn on_a_terminal(place: &Experiment) -> Option<String> {
    let command = format!("{} lab run {} --yes", env!("CARGO_BIN_EXE_linerate"), place.file());
    let mut script = Command::new("script");
    script.args(["-qec", &command, "/dev/null"]).env("TERM", "xterm").stdin(Stdio::null());
    script.current_dir(std::path::Path::new(&place.file()).parent().expect("a folder"));
    match script.output() {
        Ok(output) => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        Err(error) => {
            eprintln!("skipped: no pseudo terminal by `script`: {error}");
            None
        }
    }
}

#[test]
fn a_terminal_sees_bounds_rates_losses_and_the_time_left() {
    let place = Experiment::new(&with_losses());
    let Some(text) = on_a_terminal(&place) else { return };
    if text.contains("no network namespace can be made") {
        return eprintln!("skipped: no network namespace can be made");
    }
    for (what, words) in [
        ("lines that are written anew", "\x1b["),
        ("the cell", "cell 1 of 4  plain/64/1/one-way"),
        ("the findings", "of 8 findings"),
        ("the time left", " left"),
        ("the trial", "  now   throughput 1, trial"),
        ("bounds that close in", "bounds 0 .. "),
        ("rates", "pps delivered of"),
        ("where packets are lost", "sleep: the device took it in and did not"),
        ("a finding that stays", "plain/64/1/one-way  throughput: NDR"),
    ] {
        assert!(text.contains(words), "{what}: {words:?} is not in\n{text}");
    }
    // After each erasing comes as much as was erased: what was found stays above, once for each finding.
    assert_eq!(text.matches("plain/64/1/one-way  load: ").count(), 1, "{text}");
}

#[test]
fn without_a_terminal_there_are_plain_lines() {
    let place = Experiment::new(&with_losses());
    let ended = place.lab(&["run", &place.file(), "--yes"]);
    if !can_measure(&ended) {
        return;
    }
    assert!(!ended.stderr.contains('\x1b') && !ended.stderr.contains('\r'), "{}", ended.stderr);
    for words in ["cell 1 of 4: plain/64/1/one-way", "pps delivered of", "=> throughput: NDR", " left"] {
        assert!(ended.stderr.contains(words), "{words:?} is not in\n{}", ended.stderr);
    }
}
