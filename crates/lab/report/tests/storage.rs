//! Runs on disk: cheap to save, whole after a kill, resumed by their experiment file.

use super::experiment;

use experiment::{rich, small};
use linerate_report::*;
use std::fs;
use std::path::Path;

/// The results as they were after so many trials.
fn after(results: &Results, trials: usize) -> Results {
    let mut left = trials;
    let mut early = results.clone();
    early.complete = false;
    early.ended = Timestamp::from_unix_ms(results.started.unix_ms() + trials as u64);
    early.cells.retain_mut(|cell| {
        let any = left > 0;
        cell.findings.retain_mut(|finding| {
            let any = left > 0;
            let taken = left.min(finding.trials.len());
            if taken < finding.trials.len() {
                finding.result = None;
            }
            finding.trials.truncate(taken);
            left -= taken;
            any
        });
        any
    });
    early
}

/// A document above the size up to which it is written whole.
fn long() -> Results {
    let mut results = rich(1);
    results.cells.extend(rich(2).cells);
    results
}

fn trials(results: &Results) -> usize {
    results.cells.iter().flat_map(|cell| &cell.findings).map(|finding| finding.trials.len()).sum()
}

#[test]
fn what_is_loaded_is_what_was_saved_last() {
    let dir = tempfile::tempdir().unwrap();
    let all = long();
    let mut folder = ResultsFolder::create(dir.path(), &after(&all, 0)).unwrap();
    let mut journalled = 0;
    for number in (1..=trials(&all)).step_by(3).chain([trials(&all)]) {
        let now = after(&all, number);
        folder.save(&now).unwrap();
        journalled += usize::from(folder.path().join("trials.jsonl").exists());
        if number % 40 == 0 || number == trials(&all) {
            assert_eq!(load_results(folder.path()).unwrap(), now, "after {number} trials");
        }
    }
    assert!(journalled > 10, "the journal was never used");
    folder.finish(&all).unwrap();
    assert_eq!(load_results(folder.path()).unwrap(), all);
    assert!(!folder.path().join("trials.jsonl").exists());
    assert_eq!(fs::read_to_string(folder.path().join("experiment.toml")).unwrap(), all.file);
}

#[test]
fn a_kill_at_any_byte_of_the_journal_loses_at_most_one_trial() {
    let dir = tempfile::tempdir().unwrap();
    let all = long();
    let count = trials(&all);
    let mut folder = ResultsFolder::create(dir.path(), &after(&all, count - 4)).unwrap();
    let states: Vec<Results> = (count - 4..=count).map(|number| after(&all, number)).collect();
    for state in &states {
        folder.save(state).unwrap();
    }
    let journal = folder.path().join("trials.jsonl");
    let bytes = fs::read(&journal).unwrap();
    for cut in (0..bytes.len()).step_by(bytes.len() / 17 + 1) {
        fs::write(&journal, &bytes[..cut]).unwrap();
        let loaded = load_results(folder.path()).unwrap();
        assert!(states.iter().any(|state| trials(state) == trials(&loaded)), "cut at {cut}");
    }
    // A line in the middle that is damaged is told, not passed over.
    let mut damaged = bytes.clone();
    let second = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 3;
    damaged[second] = b'#';
    fs::write(&journal, damaged).unwrap();
    let words = load_results(folder.path()).unwrap_err().to_string();
    assert!(words.contains("trials.jsonl: line 2"), "{words}");
}

#[test]
fn a_journal_of_an_older_document_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let all = long();
    let count = trials(&all);
    let mut folder = ResultsFolder::create(dir.path(), &after(&all, count - 1)).unwrap();
    folder.save(&after(&all, count)).unwrap();
    let journal = folder.path().join("trials.jsonl");
    let old = fs::read(&journal).unwrap();
    folder.finish(&all).unwrap();
    // As if it had been killed between the rename of the document and the removal of the journal.
    fs::write(&journal, old).unwrap();
    assert_eq!(load_results(folder.path()).unwrap(), all);
}

#[test]
fn resume_finds_the_newest_incomplete_run_of_the_same_file() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("none");
    assert!(ResultsFolder::resume(&missing, "x").unwrap().is_none());
    let mut early = after(&small(), 1);
    drop(ResultsFolder::create(dir.path(), &early).unwrap());
    early.started = Timestamp::from_unix_ms(early.started.unix_ms() + 60_000);
    let newest = ResultsFolder::create(dir.path(), &early).unwrap();
    let newest_path = newest.path().to_owned();
    let other_file = Results { file: "name = \"other\"".to_owned(), ..early.clone() };
    drop(ResultsFolder::create(dir.path(), &other_file).unwrap());
    let mut done = small();
    done.started = Timestamp::from_unix_ms(early.started.unix_ms() + 120_000);
    drop(ResultsFolder::create(dir.path(), &done).unwrap());
    // Another process has the newest one.
    let (older, _) = ResultsFolder::resume(dir.path(), &early.file).unwrap().unwrap();
    assert_ne!(older.path(), newest_path);
    let busy = ResultsFolder::open(&newest_path).unwrap_err().to_string();
    assert!(busy.contains("another process is writing"), "{busy}");
    drop((older, newest));
    let (mut folder, results) = ResultsFolder::resume(dir.path(), &early.file).unwrap().unwrap();
    assert_eq!((folder.path(), &results), (newest_path.as_path(), &early));
    folder.finish(&Results { complete: true, ..results }).unwrap();
    drop(folder);
    let (older, _) = ResultsFolder::resume(dir.path(), &early.file).unwrap().unwrap();
    assert_ne!(older.path(), newest_path);
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let words = ResultsFolder::create(&file, &small()).unwrap_err().to_string();
    assert!(words.contains("file"), "{words}");
    let mut folder = ResultsFolder::create(dir.path(), &small()).unwrap();
    fs::remove_dir_all(folder.path()).unwrap();
    let words = folder.save(&small()).unwrap_err().to_string();
    assert!(words.contains("bridge-sizes"), "{words}");
    let words = load_results(dir.path()).unwrap_err().to_string();
    assert!(words.contains("result.json"), "{words}");
}

/// The part of the next test that runs where a small disk is mounted.
fn fill_the_disk(dir: &Path) {
    let all = long();
    let count = trials(&all);
    let mut folder = ResultsFolder::create(dir, &after(&all, 40)).unwrap();
    let mut saved = 40;
    let failed = (41..=count).find_map(|number| match folder.save(&after(&all, number)) {
        Ok(()) => {
            saved = number;
            None
        }
        Err(error) => Some(error.to_string()),
    });
    let failed = failed.expect("the disk is meant to be too small");
    assert!(failed.contains("No space left"), "{failed}");
    assert_eq!(trials(&load_results(folder.path()).unwrap()), saved);
    // The next attempt fails in the same way and harms nothing.
    assert!(folder.save(&after(&all, count)).is_err() && folder.finish(&all).is_err());
    assert_eq!(trials(&load_results(folder.path()).unwrap()), saved);
    println!("disk full after {saved} trials: {failed}");
}

#[test]
fn a_full_disk_leaves_what_was_saved() {
    if let Some(dir) = std::env::var_os("LINERATE_SMALL_DISK") {
        return fill_the_disk(Path::new(&dir));
    }
    for size_kib in [600, 1_500] {
        let dir = tempfile::tempdir().unwrap();
        let script = format!(
            "mount -t tmpfs -o size={size_kib}k tmpfs \"$1\" || exit 77; exec \"$2\" --exact storage::a_full_disk_leaves_what_was_saved --nocapture"
        );
        let child = std::process::Command::new("unshare")
            .args(["--mount", "sh", "-c", &script, "sh"])
            .args([dir.path(), &std::env::current_exe().unwrap()])
            .env("LINERATE_SMALL_DISK", dir.path())
            .output();
        match child {
            Ok(child) if child.status.success() => print!("{}", String::from_utf8_lossy(&child.stdout)),
            Ok(child) if child.status.code() == Some(101) => panic!("{}", String::from_utf8_lossy(&child.stderr)),
            Ok(child) => {
                println!("skipped: cannot mount a small disk: {}", String::from_utf8_lossy(&child.stderr).trim());
            }
            Err(error) => println!("skipped: unshare: {error}"),
        }
    }
}

#[test]
fn what_a_device_showed_is_kept_in_a_file_of_its_trial() {
    let dir = tempfile::tempdir().unwrap();
    let mut folder = ResultsFolder::create(dir.path(), &small()).unwrap();
    let long = format!("{}/64/1/one-way", "ofswitch-1000000".repeat(4));
    for (cell, trial, text) in [
        ("of-10/64/1x100/one-way", "load 1, trial 1", "first"),
        ("of-10/64/1x100/one-way", "load 1, trial 1", "again"),
        (&format!("{long}/xdp"), "../..", "x"),
        (&long, "load 1, trial 1", "y"),
    ] {
        folder.keep_shown(cell, trial, text).unwrap();
    }
    let shown = folder.path().join("shown");
    assert_eq!(fs::read_to_string(shown.join("of-10-64-1x100-one-way/load-1--trial-1.txt")).unwrap(), "again");
    assert_eq!(fs::read_to_string(shown.join(format!("{}/..-...txt", long.replace('/', "-") + "-xdp"))).unwrap(), "x");
    assert_eq!(fs::read_dir(&shown).unwrap().count(), 3, "long names stay apart, and none leaves its folder");
    assert_eq!(
        ResultsFolder::open(folder.path()).err().map(|error| error.to_string().contains("another process")),
        Some(true)
    );
}
