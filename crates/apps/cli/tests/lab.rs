//! `linerate lab` from the outside: an experiment from its file to its reports, resumed, refused, and without its tools.

use super::lab_support;

use lab_support::{Experiment, TINY, assert_accounts, can_measure, load};

#[test]
fn a_tiny_experiment_runs_to_its_reports() {
    let place = Experiment::new(TINY);
    let ended = place.lab(&["run", &place.file(), "--json"]);
    if !can_measure(&ended) {
        return;
    }
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let results: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON on stdout");
    assert_eq!(results["schema"], "linerate.experiment-result/1");
    assert_eq!(results["complete"], true);
    assert_eq!(results["cells"].as_array().map(Vec::len), Some(2));
    assert!(results["environment"]["kernel"].is_string());
    assert!(assert_accounts(&results) >= 4, "at least one trial behind each finding");
    let folder = place.only_run();
    assert_eq!(load(&folder), results, "what is kept is what is printed");
    for report in ["report.html", "report.md", "report.txt", "results.csv", "metrics.txt", "experiment.toml"] {
        assert!(folder.join(report).metadata().is_ok_and(|file| file.len() > 100), "{report}");
    }
    let words = folder.display().to_string();
    for format in ["html", "md", "csv", "openmetrics", "json", "text"] {
        let ended = place.linerate(&["report", &words, "--format", format]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert!(ended.stdout.contains("plain/64/1/one-way") || ended.stdout.contains("plain"), "{format}");
    }
    for format in ["", "--json", "--markdown", "--html"] {
        let arguments = ["compare", &words, &words, format];
        let compared = place.linerate(&arguments[..if format.is_empty() { 3 } else { 4 }]);
        assert_eq!(compared.code, Some(3), "one repetition is inconclusive: {}{}", compared.stdout, compared.stderr);
        assert!(compared.stdout.len() > 100, "{format}: {}", compared.stderr);
    }
    let other = place.linerate(&["compare", &words, &place.file()]);
    assert_eq!(other.code, Some(2), "{}", other.stderr);
    assert!(other.stderr.contains("tiny.toml"), "{}", other.stderr);
    let listed = place.lab(&["list"]);
    assert!(listed.stdout.contains("complete, 4 findings in 2 cells"), "{}", listed.stdout);
    assert!(listed.stdout.contains("quick"), "{}", listed.stdout);
    place.assert_nothing_left();
}

#[test]
fn a_stopped_run_is_resumed_and_a_fresh_one_is_not() {
    let place = Experiment::new(TINY);
    let ended = place.stop_after_trials(3);
    if !can_measure(&ended) {
        return;
    }
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("stopped"), "{}", ended.stderr);
    let before = load(&place.only_run());
    assert_eq!(before["complete"], false);
    assert!(assert_accounts(&before) >= 3, "the trials made so far are kept");
    let listed = place.lab(&["list"]);
    assert!(listed.stdout.contains("stopped after"), "{}", listed.stdout);
    let ended = place.lab(&["run", &place.file(), "--plain"]);
    assert!(ended.stderr.contains("going on"), "{}", ended.stderr);
    let after = load(&place.only_run());
    assert_eq!(after["complete"], true, "{}", ended.stderr);
    for (cell, earlier) in
        after["cells"].as_array().into_iter().flatten().zip(before["cells"].as_array().into_iter().flatten())
    {
        let findings = earlier["findings"].as_array().expect("findings").iter();
        let finished: Vec<_> = findings.filter(|finding| !finding["result"].is_null()).collect();
        let now = cell["findings"].as_array().expect("findings");
        assert!(now.iter().zip(finished).all(|(now, then)| now == then), "finished findings are not made again");
    }
    let ended = place.stop_after_trials(1);
    assert_eq!(ended.code, Some(2), "a complete run is not gone on with: {}", ended.stderr);
    assert_eq!(place.runs().len(), 2);
    let ended = place.lab(&["run", &place.file(), "--fresh", "--only", "no-such-cell"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("plain/64/1/one-way"), "what there is, is named: {}", ended.stderr);
    assert_eq!(place.runs().len(), 2);
    place.assert_nothing_left();
}

#[test]
fn missing_tools_cost_their_cell_and_nothing_else() {
    let duts = "[[dut]]\nname = \"nat\"\nkind = \"router\"\nfirewall = \"nft\"\nsnat = true\n[[dut]]\nname = \"plain\"\nkind = \"router\"\n";
    let place = Experiment::new(&TINY.replace("[[dut]]\nname = \"plain\"\nkind = \"router\"\n", duts));
    // Programs of administrators are looked for beside PATH too: for this process, their folders are empty.
    let script = format!(
        "for dir in /usr/sbin /sbin /usr/local/sbin; do [ -d $dir ] && mount -t tmpfs none $dir; done; \
         PATH=/nonexistent exec '{}' lab run '{}' --plain --json",
        env!("CARGO_BIN_EXE_linerate"),
        place.file(),
    );
    let mut command = std::process::Command::new("unshare");
    let output = command.args(["--mount", "sh", "-c", &script]).current_dir(place.path("")).output();
    let Ok(output) = output else { return eprintln!("skipped: no unshare(1)") };
    let ended = lab_support::Ended::from(output);
    if ended.stderr.contains("unshare failed") || ended.stderr.contains("mount: ") {
        return eprintln!("skipped: no mount namespace here: {}", ended.stderr);
    }
    if !can_measure(&ended) {
        return;
    }
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let results: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
    for cell in results["cells"].as_array().expect("cells") {
        let missing = cell["dut_name"] == "nat";
        for finding in cell["findings"].as_array().expect("findings") {
            let why = finding["error"].as_str().unwrap_or("");
            assert_eq!(why.contains("nft"), missing, "{finding}");
            assert_eq!(finding["result"].is_null(), missing, "{finding}");
        }
    }
    place.assert_nothing_left();
}

#[test]
fn the_commands_of_a_file_are_shown_and_agreed_to_before_its_first_run() {
    let text = TINY.replace("kind = \"router\"", "kind = \"router\"\nsetup = [\"touch '/nonexistent/mark'\"]");
    let place = Experiment::new(&text);
    let refused = place.lab(&["run", &place.file()]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    for words in ["with your rights", "plain: touch '/nonexistent/mark'", "--yes"] {
        assert!(refused.stderr.contains(words), "{words}: {}", refused.stderr);
    }
    // Agreed to, it is run: it fails, and that is told.
    let agreed = place.lab(&["run", &place.file(), "--yes", "--plain"]);
    if !can_measure(&agreed) {
        return;
    }
    assert!(agreed.stderr.contains("with your rights") && agreed.stderr.contains("touch"), "{}", agreed.stderr);
    // Shipped ones and files without commands ask nothing: what is wrong here is the cell.
    for experiment in ["ledger-causes", &Experiment::new(TINY).file()] {
        let ended = place.lab(&["run", experiment, "--only", "no-such-cell"]);
        assert!(!ended.stderr.contains("with your rights"), "{}", ended.stderr);
    }
}

#[test]
fn a_command_that_crashes_is_told_with_its_last_words() {
    let dut = "kind = \"command\"\nstart = [\"sh\", \"-c\", \"echo last words; sleep 0.3; exit 7\"]\n";
    let place = Experiment::new(&TINY.replace("kind = \"router\"\n", dut));
    let ended = place.lab(&["run", &place.file(), "--plain", "--yes"]);
    if !can_measure(&ended) {
        return;
    }
    assert_eq!(ended.code, Some(2), "nothing could be measured: {}", ended.stderr);
    let results = load(&place.only_run());
    let why: Vec<&str> =
        results["cells"][0]["findings"].as_array().into_iter().flatten().filter_map(|f| f["error"].as_str()).collect();
    assert!(why.iter().any(|why| why.contains("last words") || why.contains("died")), "{why:?}\n{}", ended.stderr);
    assert_eq!(results["complete"], true, "there is nothing left to try");
    place.assert_nothing_left();
}

/// No namespace is needed: the switch shares memory with the tester.
#[test]
fn a_switch_that_shares_memory_is_measured_and_every_packet_is_accounted_for() {
    let file = TINY
        .replace("kind = \"router\"\n", "kind = \"switch\"\nports = \"memif\"\n")
        .replace("flows = [1, 100]\n", "flows = [1]\ndirections = [\"one-way\", \"both-ways\"]\n")
        .replace(
            "[[test]]\nkind = \"load\"\n",
            "[[test]]\nkind = \"latency\"\ntrial = \"50ms\"\n[[test]]\nkind = \"load\"\n",
        )
        + "[[test]]\nkind = \"load\"\ntrial = \"50ms\"\n";
    let place = Experiment::new(&file);
    let ended = place.lab(&["run", &place.file(), "--json"]);
    // A machine that is too busy for any load without loss is told by status 1.
    assert!(matches!(ended.code, Some(0 | 1)), "{}", ended.stderr);
    let results: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON on stdout");
    assert_eq!(results["complete"], true);
    assert!(assert_accounts(&results) >= 8, "at least one trial behind each finding");
    for cell in results["cells"].as_array().expect("cells") {
        assert!(cell["baseline_pps"].as_f64().is_some_and(|pps| pps > 0.0), "{cell}");
        assert!(cell["mode"].as_str().is_some_and(|mode| mode.contains("shared memory") && mode.contains("DUT on")));
        let findings = cell["findings"].as_array().expect("findings");
        assert_eq!(findings.len(), 4);
        for trial in findings.iter().flat_map(|finding| finding["trials"].as_array().expect("trials")) {
            assert_eq!(trial["trial"]["unexplained"], 0, "{trial}");
            let lost = trial["trial"]["lost"].as_array().expect("rows");
            assert!(lost.iter().all(|row| row["cause"] == "egress-full" && row["counter"].is_string()), "{trial}");
        }
    }
    place.assert_nothing_left();
}

#[test]
fn bad_files_are_refused_with_their_lines() {
    let place = Experiment::new(&TINY.replace("router", "rooter").replace("sizes = [64]", "sizes = [10]"));
    for arguments in [["check", &place.file()], ["run", &place.file()]] {
        let ended = place.lab(&arguments);
        assert_eq!(ended.code, Some(if arguments[0] == "check" { 1 } else { 2 }), "{}", ended.stderr);
        assert!(ended.stderr.contains("tiny.toml:5:8: unknown kind of DUT \"rooter\""), "{}", ended.stderr);
        assert!(ended.stderr.contains("tiny.toml:7:"), "all errors at once: {}", ended.stderr);
    }
    assert!(place.runs().is_empty());
    for (arguments, words) in [
        (["run", "no-such-file"], "no shipped experiment"),
        (["check", "/dev/null"], "title"),
        (["check", "/proc/self/mem"], "linerate lab: "),
        (["run", "/"], "linerate lab: "),
    ] {
        let ended = place.lab(&arguments);
        assert!(matches!(ended.code, Some(1 | 2)) && ended.stderr.contains(words), "{arguments:?}: {}", ended.stderr);
    }
    assert_eq!(place.lab(&["check", "quick", "linux-router-2019"]).code, Some(0));
}

#[test]
fn a_results_folder_that_cannot_be_used_is_told_before_anything_is_measured() {
    let place = Experiment::new(TINY);
    let taken = place.path("taken");
    std::fs::write(&taken, "a file").expect("a file");
    let ended = place.command(&["lab", "run", &place.file(), "--results", &taken]).output().expect("starts");
    let ended = lab_support::Ended::from(ended);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("taken") && ended.stderr.contains("--results"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("baseline"), "{}", ended.stderr);
}

#[test]
fn a_full_disk_ends_a_run_with_what_it_had() {
    let place = Experiment::new(TINY);
    // A file system of its own, seen by nothing else, that has room for some trials only.
    let script = format!(
        "mount -t tmpfs -o size=40k none '{0}' && '{1}' lab run '{2}' --plain --results '{0}'; code=$?; \
         cp -r '{0}/.' '{3}' 2>/dev/null; exit $code",
        place.path("disk"),
        env!("CARGO_BIN_EXE_linerate"),
        place.file(),
        place.path("copy"),
    );
    for folder in ["disk", "copy"] {
        std::fs::create_dir(place.path(folder)).expect("a folder");
    }
    let output = std::process::Command::new("unshare").args(["--mount", "sh", "-c", &script]).output();
    let Ok(output) = output else { return eprintln!("skipped: no unshare(1)") };
    let ended = lab_support::Ended::from(output);
    if ended.stderr.contains("unshare failed") || ended.stderr.contains("mount: ") {
        return eprintln!("skipped: no mount namespace here: {}", ended.stderr);
    }
    if !can_measure(&ended) {
        return;
    }
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("No space left"), "{}", ended.stderr);
    let kept = std::fs::read_dir(place.path("copy")).expect("the copy").flatten().find(|entry| entry.path().is_dir());
    let results = load(&kept.expect("a run").path());
    assert_eq!(results["complete"], false);
    assert_accounts(&results);
    place.assert_nothing_left();
}
