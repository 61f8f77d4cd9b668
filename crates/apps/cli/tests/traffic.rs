//! `linerate send` and `linerate receive` from the outside, over ports that need no rights.

use super::common;
#[path = "../../../lab/report/tests/common/validate.rs"]
#[allow(dead_code)]
mod validate;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Ended, Run};
use serde_json::Value;

fn json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}\n{}\n{}", ended.stdout, ended.stderr))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// `intended = unsent + sent`, and everything sent of each stream is delivered or lost.
fn check_account(document: &Value) {
    for port in document["ports"].as_array().unwrap() {
        assert_eq!(number(&port["intended"]), number(&port["unsent"]) + number(&port["sent"]), "{port}");
        let by_stream: u64 = port["streams"].as_array().unwrap().iter().map(|stream| number(&stream["sent"])).sum();
        assert_eq!(by_stream, number(&port["sent"]), "{port}");
    }
    for stream in document["received"]["streams"].as_array().into_iter().flatten() {
        assert_eq!(number(&stream["sent"]), number(&stream["delivered"]) + number(&stream["lost"]), "{stream}");
    }
}

fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/streams");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "toml")).collect()
}

#[test]
fn a_pipe_needs_one_command_and_accounts_for_every_packet() {
    let ended = Run::start("send pipe:t --count 50000 --rate 200kpps --flows 100 --json --quiet").end();
    ended.expect_code(0);
    let document = json(&ended);
    assert_eq!(document["schema"], "linerate.send/1");
    check_account(&document);
    let stream = &document["received"]["streams"][0];
    assert_eq!((number(&stream["sent"]), number(&stream["delivered"])), (50_000, 50_000));
    for nothing in ["lost", "duplicated", "reordered"] {
        assert_eq!(number(&stream[nothing]), 0, "{nothing}");
    }
    assert_eq!(number(&document["received"]["other_traffic"]["packets"]), 0);
    assert_eq!(number(&stream["latency"]["samples"]), 50_000);
    assert!(ended.stderr.is_empty(), "{}", ended.stderr);
}

/// What is wrong with a document, by its published schema.
fn schema_errors(document: &Value) -> Vec<String> {
    let name = document["schema"].as_str().unwrap().trim_start_matches("linerate.").replace('/', "-");
    let schema: Value = serde_json::from_str(&validate::read(&format!("schema/{name}.json"))).unwrap();
    validate::errors(&schema, &schema, document, "")
}

fn packets(rows: &Value) -> Vec<u64> {
    rows.as_array().unwrap().iter().map(|row| number(&row["packets"])).collect()
}

#[test]
fn threads_of_a_port_divide_its_packets() {
    let ended =
        Run::start("send null: --queues 3 --cores none --flows 100 --rate 100kpps --count 10001 --json -q").end();
    ended.expect_code(0);
    let document = json(&ended);
    check_account(&document);
    assert_eq!(schema_errors(&document), [""; 0]);
    let port = &document["ports"][0];
    assert_eq!((number(&port["sent"]), packets(&port["queues"])), (10_001, vec![3_334, 3_334, 3_333]));
    assert_eq!(
        (packets(&document["cores"]), &port["intended_pps"]),
        (vec![3_334, 3_334, 3_333], &serde_json::json!(100_000.0))
    );
    let ids: Vec<u64> = port["streams"].as_array().unwrap().iter().map(|stream| number(&stream["id"])).collect();
    assert_eq!(ids, [0, 1, 2]);
    // A duration: what all threads intend is what one would. As much is allowed as one packet of each that is due just at the end.
    let ended =
        Run::start("send null: --queues 3 --cores none --flows 100 --rate 10kpps --duration 500ms --json -q").end();
    let intended = number(&json(&ended)["ports"][0]["intended"]);
    assert!(intended.abs_diff(5_000) <= 1, "{intended}");
    let text = Run::start("send null: --queues 2 --cores none --count 1000 -q").end();
    for part in
        ["queue 0                500   50.0 %", "queue 1                500   50.0 %", "thread 1                 500"]
    {
        assert!(text.stdout.contains(part), "{part}: {}", text.stdout);
    }
}

#[test]
fn documents_are_as_their_schemas_say() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcapng").display().to_string();
    let sent = Run::start(&format!("send file:{path} pipe:s --count 101 --rate 1kpps --flows 3 --json -q")).end();
    assert_eq!(schema_errors(&json(&sent)), [""; 0]);
    let received = Run::start(&format!("receive file:{path} --expect 7 --json -q")).end();
    assert_eq!(schema_errors(&json(&received)), [""; 0]);
    let mut broken = json(&received);
    broken["received"]["streams"][0]["lost"] = Value::Null;
    assert!(!schema_errors(&broken).is_empty());
}

#[test]
fn threads_that_cannot_be_are_refused() {
    for (line, words) in [
        ("send pipe:a --queues 2", "fewer than the 2 threads"),
        ("send null: --queues 3 --cores 0", "name 3 cores"),
        ("send null: --replay x.pcap --queues 2 --cores none", "packets of a capture leave in their order"),
        ("receive file:x.pcap --queues 1 --cores 0,0", "2 threads for 1 queues"),
    ] {
        let ended = Run::start(line).end();
        ended.expect_code(2);
        assert!(ended.stderr.contains(words), "{line}: {}", ended.stderr);
    }
}

#[test]
fn several_ports_and_streams_are_told_apart() {
    let file = examples().into_iter().find(|path| path.ends_with("mixed.toml")).unwrap();
    let ended =
        Run::start(&format!("send pipe:a pipe:b --file {} --rate 100kpps --count 10000 --json", file.display())).end();
    ended.expect_code(0);
    let document = json(&ended);
    check_account(&document);
    let rows = |field: &str| -> Vec<u64> {
        document["received"]["streams"].as_array().unwrap().iter().map(|stream| number(&stream[field])).collect()
    };
    assert_eq!(rows("id"), [100, 101, 102, 103, 104, 105]);
    assert_eq!(rows("delivered"), [6000, 3000, 1000, 6000, 3000, 1000]);
    assert!(ended.stderr.contains("\"web\"") && ended.stderr.contains("varies tcp.sequence"), "{}", ended.stderr);
}

#[test]
fn text_says_the_same_numbers() {
    let ended = Run::start("send pipe:t null: --count 1234 --rate 100kpps").end();
    ended.expect_code(0);
    let sent =
        ended.stdout.lines().filter(|line| line.trim_start().starts_with("sent ") && line.contains("1,234")).count();
    assert_eq!(sent, 3, "two ports, and the stream that can arrive:\n{}", ended.stdout);
    for word in
        ["intended", "unsent", "rate error", "lateness", "gap error", "delivered", "reordered", "latency", "p99.99"]
    {
        assert!(ended.stdout.contains(word), "{word}\n{}", ended.stdout);
    }
}

/// Capture files hold what the examples say; Linerate reads them back, and so does tshark.
#[test]
fn every_example_is_captured_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    for path in examples() {
        let capture = folder.path().join("capture.pcapng");
        let sent = Run::start(&format!(
            "send file:{} --file {} --rate 1Mpps --count 600 --json -q",
            capture.display(),
            path.display()
        ))
        .end();
        sent.expect_code(0);
        let sent = json(&sent);
        check_account(&sent);
        let counted = Run::start(&format!("receive file:{} --expect 600 --json -q", capture.display())).end();
        counted.expect_code(0);
        let counted = json(&counted);
        assert_eq!(
            (counted["schema"].as_str(), number(&counted["received"]["packets"])),
            (Some("linerate.receive/1"), 600)
        );
        let pairs = |list: &Value, field: &str| -> Vec<(u64, u64)> {
            let mut pairs: Vec<(u64, u64)> =
                list.as_array().unwrap().iter().map(|stream| (number(&stream["id"]), number(&stream[field]))).collect();
            pairs.sort_unstable();
            pairs
        };
        assert_eq!(pairs(&counted["received"]["streams"], "delivered"), pairs(&sent["ports"][0]["streams"], "sent"));
        assert!(counted["received"]["streams"][0]["latency"].is_null(), "a capture has another clock");
        judge_with_tshark(&capture, &path);
    }
}

/// tshark finds no malformed packet and no wrong checksum.
fn judge_with_tshark(capture: &Path, example: &Path) {
    let filter = "_ws.malformed || ip.checksum.status == 0 || udp.checksum.status == 0 || tcp.checksum.status == 0 || \
                  icmp.checksum.status == 0 || icmpv6.checksum.status == 0";
    let checks = ["ip", "udp", "tcp"].map(|protocol| format!("{protocol}.check_checksum:TRUE"));
    let mut command = Command::new("tshark");
    command.arg("-r").arg(capture);
    checks.iter().for_each(|check| {
        command.args(["-o", check]);
    });
    match command.args(["-Y", filter]).output() {
        Ok(output) if output.status.success() => {
            let verdict = String::from_utf8_lossy(&output.stdout);
            assert!(verdict.trim().is_empty(), "{}: {verdict}", example.display());
        }
        Ok(output) => eprintln!("skipped: tshark: {}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => eprintln!("skipped: no tshark: {error}"),
    }
}

#[test]
fn a_capture_is_replayed_to_the_packet() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("a,b.pcapng");
    let written = capture.display().to_string().replace(',', "\\,");
    Run::start(&format!("send file:{written} --size 64:7,594:4,1518:1 --count 500 --rate 100kpps -q"))
        .end()
        .expect_code(0);
    for how in [
        "--speed full",
        "--speed 0.5x",
        "--rate 50kpps",
        "",
        "--loops 3",
        "--count 100",
        "--speed full --loops 0 --count 1700",
    ] {
        let line = format!("send pipe:r --replay {} {how} --json -q", capture.display());
        let ended = Run::start(&line).end();
        let document = json(&ended);
        let expected = match how {
            "--loops 3" => 1500,
            "--count 100" => 100,
            _ if how.contains("1700") => 1700,
            _ => 500,
        };
        let port = &document["ports"][0];
        assert_eq!(
            (number(&port["sent"]), number(&port["intended"]), number(&port["unsent"])),
            (expected, expected, 0),
            "{how}"
        );
        assert_eq!(number(&document["received"]["packets"]), expected, "{how}");
        assert!(document["replay"].as_str().unwrap().contains("a\\,b.pcapng"), "{document}");
        let stream = &document["received"]["streams"][0];
        assert_eq!(number(&stream["delivered"]) + number(&stream["duplicated"]), expected, "{how} {stream}");
        assert_eq!(port["lateness"].is_null(), how.contains("full"), "{how}");
    }
    // File to file at full speed is a copy, times included.
    let copy = folder.path().join("copy.pcapng");
    Run::start(&format!("send file:{} --replay {} --speed full -q", copy.display(), capture.display()))
        .end()
        .expect_code(0);
    let bytes = |path: &Path| std::fs::read(path).unwrap();
    assert_eq!(bytes(&copy), bytes(&capture));
}

#[test]
fn replays_that_cannot_be_are_refused() {
    for (flags, words) in [
        ("--replay /nonexistent.pcap", "/nonexistent.pcap"),
        ("--replay x.pcap --speed 2", "a factor as 2x"),
        ("--replay x.pcap --rate 1Gbit/s", "its rate is in packets"),
        ("--replay packet:x --loops 2", "is no file"),
        ("--replay x.pcap --size 64", "cannot be used with"),
        ("--speed 2x", "--replay"),
    ] {
        let ended = Run::start(&format!("send null: {flags}")).end();
        ended.expect_code(2);
        assert!(ended.stderr.contains(words), "{flags}\n{}", ended.stderr);
    }
}

#[test]
fn an_interrupted_run_keeps_its_totals() {
    let run = Run::start("send pipe:t --rate 10kpps --json");
    run.wait_for("progress", |text| text.contains(" s  sent ") && text.contains("received"));
    run.signal("INT");
    let ended = run.end();
    ended.expect_code(0);
    let document = json(&ended);
    assert_eq!(document["interrupted"], true);
    check_account(&document);
    let stream = &document["received"]["streams"][0];
    assert!(number(&stream["delivered"]) > 0);
    assert_eq!(number(&stream["lost"]), 0, "the receiver ends after the sender");
}

#[test]
fn what_flags_say_is_a_stream_file() {
    let flags = "--size imix --layers ethernet/vlan/ipv4/udp --vary vlan.id=1..4094,cycle --rate 10kpps";
    let wrong = Run::start(&format!("send --dry-run {flags}")).end();
    wrong.expect_code(2);
    assert!(
        wrong.stderr.contains("no rule before it") && wrong.stderr.contains("each = \"cycle\""),
        "{}",
        wrong.stderr
    );
    let shown = Run::start(
        "send --dry-run --size 82:7,594:4 --layers ethernet/vlan/ipv4/udp --vary vlan.id=1..4094 --rate 10kpps",
    )
    .end();
    shown.expect_code(0);
    assert!(shown.stdout.contains("# stream 0: 7 x 82, 4 x 594 B on the wire, mean 268.2"), "{}", shown.stdout);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("streams.toml");
    std::fs::write(&path, &shown.stdout).unwrap();
    let sent = Run::start(&format!("send null: --file {} --count 220 --json -q", path.display())).end();
    sent.expect_code(0);
    let port = &json(&sent)["ports"][0];
    assert_eq!((number(&port["sent"]), number(&port["bytes"])), (220, 20 * (7 * 78 + 4 * 590)));
    assert_eq!(port["intended_pps"].as_f64(), Some(10_000.0));
}

/// What a replay intends is what it then sends.
#[test]
fn a_replay_says_what_it_intends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcap");
    let path = path.display();
    Run::start(&format!("send file:{path} --count 101 --rate 1kpps --cores none -q")).end().expect_code(0);
    let intended = |flags: &str| {
        let shown = Run::start(&format!("send --replay {path} --dry-run {flags}")).end();
        shown.expect_code(0);
        shown.stdout.lines().last().unwrap().to_string()
    };
    let shown = Run::start(&format!("send --replay {path} --speed 2x --dry-run")).end();
    shown.expect_code(0);
    for words in ["2 times as fast", "101 packets of Ethernet, 6,060 bytes", "intended: 101 packets, in about "] {
        assert!(shown.stdout.contains(words), "{words}: {}", shown.stdout);
    }
    assert!(intended("--loops 3").starts_with("intended: 303 packets"));
    assert!(intended("--rate 10kpps --loops 0 --duration 1s").starts_with("intended: 10,000 packets, in about "));
    assert_eq!(intended("--speed full --count 7"), "intended: 7 packets");
    assert_eq!(intended("--speed full --loops 0"), "intended: packets until Ctrl-C");
    assert!(intended("--speed full --loops 0 --duration 2s").ends_with("for 2.00 s at most"));
    let sent = Run::start(&format!("send null: --replay {path} --loops 3 --speed full --json -q --cores none")).end();
    assert_eq!(number(&json(&sent)["ports"][0]["sent"]), 303);
    let sent = Run::start(&format!("send null: --replay {path} --speed 2x -q --cores none")).end();
    sent.expect_code(0);
    assert!(sent.stdout.contains("at its recorded times, 2 times as fast"), "{}", sent.stdout);
    assert!(!sent.stdout.contains("as fast as it goes"), "{}", sent.stdout);
    Run::start("send --replay /nonexistent --dry-run").end().expect_code(2);
}

#[test]
fn what_cannot_be_is_said_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.toml");
    std::fs::write(&path, "[[stream]]\nsize = 64\nlayers = ['ethernet', 'ipv6', 'udp']\n").unwrap();
    let bad = path.display();
    for (line, words) in [
        (format!("send null: --file {bad}"), "line 2, column 8: a packet of 64 bytes on the wire has"),
        ("send null: --rate 50%".into(), "the rate of this link is not known"),
        ("send nil:".into(), "there is no backend nil"),
        ("send null: --duration 5".into(), "write 5s"),
        ("send null: --size 64 --set ipv4.ttl=300".into(), "300"),
        ("send null: --cores 4000".into(), "core 4000 is not among those"),
        ("send null: --receive null:".into(), "cannot receive"),
        ("send".into(), "PORT"),
        ("receive pipe:a".into(), "linerate send pipe:a"),
        ("receive null:".into(), "cannot receive"),
        ("receive file:/nonexistent".into(), "/nonexistent"),
        ("receive null: --duration 5".into(), "--duration"),
    ] {
        let ended = Run::start(&line).end();
        ended.expect_code(2);
        assert!(ended.stderr.contains(words) && ended.stdout.is_empty(), "{line}\n{}", ended.stderr);
    }
}

#[test]
fn fewer_packets_than_expected_are_a_missed_goal() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("capture.pcap");
    Run::start(&format!("send file:{} --count 10 -q", capture.display())).end().expect_code(0);
    let ended = Run::start(&format!("receive file:{} --expect 11 --json -q", capture.display())).end();
    ended.expect_code(1);
    let document = json(&ended);
    assert_eq!((number(&document["expected"]), number(&document["received"]["packets"])), (11, 10));
    assert_eq!(document["ended_by"], "ports");
}

#[test]
fn a_rate_that_cannot_be_shows_as_unsent() {
    let ended = Run::start("send null: --rate 900Gpps --duration 50ms --json -q").end();
    ended.expect_code(1);
    let document = json(&ended);
    check_account(&document);
    let port = &document["ports"][0];
    assert!((number(&port["intended"]) as f64 / 45e9 - 1.0).abs() < 1e-6, "{port}");
    assert!(number(&port["unsent"]) > 0 && port["rate_error"].as_f64().unwrap() < -0.9, "{port}");
}

#[test]
fn jumbo_frames_go_over_a_pipe() {
    let ended = Run::start("send pipe:j --size 64:1,9018:1,65000:1 --count 300 --rate 20kpps --json -q").end();
    ended.expect_code(0);
    let document = json(&ended);
    check_account(&document);
    assert_eq!(number(&document["received"]["streams"][0]["delivered"]), 300);
    assert_eq!(number(&document["received"]["bytes"]), 100 * (60 + 9014 + 64_996));
}

/// Under 100 MB at default settings, and no more after more packets.
#[test]
fn memory_is_bounded_and_flat() {
    let run = Run::start("send pipe:t --size imix --flows 10000 --rate 50kpps");
    let lines = |text: &str| text.lines().filter(|line| line.contains(" s  sent ")).count();
    run.wait_for("progress", |text| lines(text) >= 1);
    // The kernel does not count huge pages as resident.
    let resident = |run: &Run| run.status_kb("VmHWM") + run.status_kb("HugetlbPages");
    let before = resident(&run);
    run.wait_for("more progress", |text| lines(text) >= 3);
    let after = resident(&run);
    run.signal("INT");
    run.end().expect_code(0);
    assert!(after < 100_000, "{after} kB");
    assert!(after <= before + 512, "from {before} to {after} kB");
}

#[test]
fn help_teaches() {
    for command in ["send", "receive"] {
        let ended = Run::start(&format!("{command} --help")).end();
        ended.expect_code(0);
        assert!(ended.stdout.contains("Examples") && ended.stdout.contains("Exit status"), "{}", ended.stdout);
        assert!(ended.stdout.trim_end().ends_with('.'), "examples and exit status are at the end");
    }
}

/// Every example of `send` but for the one that replays says something that can be sent.
#[test]
fn the_examples_of_the_help_are_right() {
    let help = Run::start("send --help").end();
    let lines = help.stdout.lines().filter_map(|line| line.trim().strip_prefix("linerate "));
    let examples: Vec<&str> = lines.filter(|line| !line.contains("--replay")).collect();
    assert!(examples.len() >= 7, "{examples:?}");
    for line in examples {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
        command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.."));
        let ended =
            Run::from(command.args(line.split_whitespace().filter(|word| *word != "--dry-run")).arg("--dry-run")).end();
        ended.expect_code(0);
        assert!(ended.stdout.contains("# stream 0"), "{line}\n{}", ended.stdout);
    }
}

/// Keys of the terminal change the rate of a sender that runs. `script` gives it a terminal.
#[test]
fn keys_change_the_rate() {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result.json");
    let line = format!(
        "{} send null: --rate 1kpps --duration 60s --cores none --json > {}",
        env!("CARGO_BIN_EXE_linerate"),
        path.display()
    );
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return eprintln!("skipped: script: {error}"),
    };
    let mut keyboard = child.stdin.take().unwrap();
    let mut screen = BufReader::new(child.stdout.take().unwrap())
        .split(b'\n')
        .map(|line| String::from_utf8_lossy(&line.unwrap()).into_owned());
    let mut wait_for = |words: &str| assert!(screen.any(|line| line.contains(words)), "no {words}");
    wait_for("keys: + and -");
    keyboard.write_all(b"*").unwrap();
    wait_for("the rate is 2.000 kpps from now on");
    keyboard.write_all(b"***").unwrap();
    wait_for("the rate is 16.00 kpps from now on");
    keyboard.write_all(b"/q").unwrap();
    wait_for("the rate is 8.000 kpps from now on");
    child.wait().unwrap();
    let document: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let port = &document["ports"][0];
    assert_eq!(number(&port["intended"]), number(&port["sent"]) + number(&port["unsent"]), "{port}");
    assert!(port["intended_pps"].as_f64().unwrap() > 1_000.5, "{port}");
}
