//! Nobody reads stdout and stderr: the work goes on, results are stored, and the exit status is that of the work. Results that cannot be
//! written to a file are an error.

use std::path::Path;
use std::process::{Command, Stdio};

/// Runs the binary with both streams closed before it starts; its exit status.
fn status(folder: &Path, line: &str) -> Option<i32> {
    let closed = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        writer
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
    command.args(line.split_whitespace()).env("XDG_RUNTIME_DIR", folder).current_dir(folder);
    command.stdin(Stdio::null()).stdout(closed()).stderr(closed()).status().unwrap().code()
}

fn bytes(folder: &Path, name: &str) -> u64 {
    std::fs::metadata(folder.join(name)).unwrap().len()
}

#[test]
fn a_bench_stores_its_result() {
    let folder = tempfile::tempdir().unwrap();
    let quick = "bench --in-process --trial-ms 50 --repetitions 1 --flows 1x1 --results results";
    // Whether a goal of its own is met depends on the machine; that it cannot be met, and that it is none, does not.
    for (more, codes) in [("", &[0, 1][..]), ("--json --goal 900Gpps", &[1]), ("--goal fast", &[2])] {
        let before = std::fs::read_dir(folder.path().join("results")).map_or(0, Iterator::count);
        let code = status(folder.path(), &format!("{quick} {more}")).unwrap();
        assert!(codes.contains(&code), "{more}: status {code}");
        let stored = std::fs::read_dir(folder.path().join("results")).unwrap().count() - before;
        assert_eq!(stored, usize::from(code < 2), "{more}");
    }
}

#[test]
fn packets_are_sent_received_and_captured() {
    let folder = tempfile::tempdir().unwrap();
    let status = |line: &str| status(folder.path(), line);
    assert_eq!(status("send file:a.pcapng --count 1000 --rate 2kpps --cores none"), Some(0));
    assert!(bytes(folder.path(), "a.pcapng") > 60_000);
    assert_eq!(status("receive file:a.pcapng --expect 1000 --cores none"), Some(0));
    assert_eq!(status("receive file:a.pcapng --expect 1001 --cores none --json"), Some(1));
    assert_eq!(status("receive file:none.pcapng --cores none"), Some(2));
    assert_eq!(status("capture -i file:a.pcapng -w b.pcapng"), Some(0));
    assert!(bytes(folder.path(), "b.pcapng") > 60_000);
    assert_eq!(status("bridge file:a.pcapng file:c.pcapng,write --duration 2s"), Some(0));
    assert_eq!(status("pkt-gen -i null: -f tx -n 1000"), Some(0));
}

#[test]
fn a_switch_runs_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    for line in ["switch --duration 1500ms", "switch --duration 1500ms --json"] {
        let start = std::time::Instant::now();
        assert_eq!(status(folder.path(), line), Some(0), "{line}");
        assert!(start.elapsed().as_millis() >= 1500, "it stopped before its time");
    }
}

#[test]
fn what_only_reads_says_how_it_went() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("wrong.toml"), "nonsense").unwrap();
    for (line, code) in
        [("ports", 0), ("lab list", 0), ("lab check wrong.toml", 1), ("compare none none", 2), ("report none", 2)]
    {
        assert_eq!(status(folder.path(), line), Some(code), "{line}");
    }
}

#[test]
fn results_that_do_not_fit_on_the_disk_are_an_error() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let folder = tempfile::tempdir().unwrap();
    for line in
        ["ports", "lab list", "send null: --count 10 --json", "pkt-gen -i null: -f tx -n 1000", "completions bash"]
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
        command.args(line.split_whitespace()).env("XDG_RUNTIME_DIR", folder.path()).current_dir(folder.path());
        let output = command.stdin(Stdio::null()).stdout(full.try_clone().unwrap()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {said}");
        assert!(said.contains("standard output: No space left on device"), "{line}: {said}");
    }
}
