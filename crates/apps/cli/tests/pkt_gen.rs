//! The binary as `pkt-gen`, on ports that need no rights: null, pipe and capture files.

use super::common;

use std::os::unix::process::CommandExt;
use std::process::Command;

use common::{Ended, Run};

fn pkt_gen(options: &str) -> Ended {
    Run::start(&format!("pkt-gen {options}")).end()
}

#[test]
fn sends_exactly_as_many_as_asked_over_all_threads() {
    let ended = pkt_gen("-i null -f tx -n 1000003 -p 3 -l 64");
    ended.expect_code(0);
    assert_eq!(ended.totals("Sent"), (1_000_003, 64_000_192));
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines[0], "Sending on null: 1 queues, 3 threads and 1 cpus.");
    assert_eq!(lines[1], "10.0.0.1 -> 10.1.0.1 (00:00:00:00:00:00 -> ff:ff:ff:ff:ff:ff)");
    assert!(lines[2].ends_with(" seconds.") && lines[2].contains(" 64 bytes each in "), "{}", lines[2]);
    assert!(lines[3].starts_with("Speed: ") && lines[3].contains(" Bandwidth: ") && lines[3].ends_with(" pkts"));
    assert_eq!(lines.len(), 4);
    // Two packets in three threads.
    assert_eq!(pkt_gen("-i null -f tx -n 2 -p 3").totals("Sent"), (2, 120));
}

#[test]
fn diagnostics_have_the_originals_shape() {
    let ended = pkt_gen("-i null -f tx -n 200 -R 1000 -T 50 -s 10.0.0.1-10.0.0.9:99");
    ended.expect_code(0);
    for line in ended.stderr.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (seconds, microseconds) = words[0].split_once('.').expect(line);
        assert!(seconds.len() == 3 && microseconds.len() == 6, "{line}");
        assert!((seconds.to_owned() + microseconds).bytes().all(|byte| byte.is_ascii_digit()), "{line}");
        assert!(words[2].starts_with('[') && words[2].ends_with(']'), "{line}");
    }
    assert!(ended.stderr.contains("range is 10.0.0.1:99 to 10.0.0.9:1234"));
    assert!(ended.stderr.contains("Sending 3 packets every  0.003000000 s"));
    assert!(ended.stderr.contains("Wait 0 secs for phy reset") && ended.stderr.contains("Ready..."));
    let reports: Vec<&str> = ended.stderr.lines().filter(|line| line.contains(" main_thread [")).collect();
    assert!(!reports.is_empty());
    for line in reports {
        assert!(line.contains("pps (") && line.contains(" usec) ") && line.ends_with("min_space"), "{line}");
    }
}

#[test]
fn the_counterpart_comes_along_on_a_pipe() {
    let ended = pkt_gen("-i pipe:a -f tx -n 300000");
    ended.expect_code(0);
    assert_eq!(ended.totals("Sent"), ended.totals("Received"));
    assert_eq!(ended.totals("Sent"), (300_000, 18_000_000));

    let ended = pkt_gen("-i pipe:a -f txseq -n 100000");
    assert!(
        ended.stdout.contains("Sequence: 100000 delivered, 0 lost, 0 duplicated, 0 reordered."),
        "{}",
        ended.stdout
    );

    let ended = pkt_gen("-i pipe:a -f ping -n 500");
    ended.expect_code(0);
    assert!(ended.stderr.contains("RTT over 500 packets: min "), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("RTT percentiles: p50 ") && ended.stderr.contains("500 sent, 500 replies, 0 missing")
    );
    assert_eq!(ended.stdout, "Working on pipe:a: 1 queues, 1 threads and 1 cpus.\n");

    let ended = pkt_gen("-i pipe:a -f ping -6 -n 50 -b 5 -R 5000");
    assert!(ended.stderr.contains("50 sent, 50 replies, 0 missing"), "{}", ended.stderr);
}

#[test]
fn packets_of_several_slots_arrive_whole() {
    for options in ["-F 3 -l 1000", "-F 2 -M 100 -l 1000", "-F 63 -l 64", "-F 4 -l 1000 -l 60"] {
        let ended = pkt_gen(&format!("-i pipe:a -f tx -n 5000 {options}"));
        ended.expect_code(0);
        assert_eq!(ended.totals("Sent"), ended.totals("Received"), "{options}");
        assert_eq!(ended.totals("Sent").0, 5000);
    }
    let refused = pkt_gen("-i null -f tx -F 2 -M 1 -l 1000 -n 1");
    assert!(refused.expect_code(2).stderr.contains("packets of 1000 slots"), "{}", refused.stderr);
}

#[test]
fn long_frames_and_uninitialized_go_as_well() {
    assert_eq!(pkt_gen("-i pipe:a -f tx -n 1000 -l 9000").totals("Received"), (1000, 9_000_000));
    assert_eq!(pkt_gen("-i pipe:a -f tx -n 100 -l 65535").totals("Received"), (100, 6_553_500));
    assert_eq!(pkt_gen("-i pipe:a -f tx -r -n 1000 -l 100").totals("Received"), (1000, 100_000));
}

#[test]
fn bytes_of_random_sizes_are_those_that_were_sent() {
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("out.pcap");
    let sent = pkt_gen(&format!("-i file:{} -f tx -n 3000 -l 1000 -l 60", file.display()));
    sent.expect_code(0);
    let (packets, bytes) = sent.totals("Sent");
    assert_eq!(packets, 3000);
    // The mean of sizes from 60 to 999; its deviation over 3,000 packets is 5 bytes.
    assert!((500..560).contains(&(bytes / packets)), "{}", bytes / packets);
    let received = pkt_gen(&format!("-i file:{}", file.display()));
    received.expect_code(0);
    assert_eq!(received.totals("Received"), (packets, bytes));
}

#[test]
fn a_capture_file_is_replayed_whole_and_again() {
    let folder = tempfile::tempdir().expect("folder");
    // A name with what is special in port names.
    let (first, second) = (folder.path().join("a,b@c.pcap"), folder.path().join("second.pcap"));
    let escaped = first.display().to_string().replace(',', "\\,").replace('@', "\\@");
    pkt_gen(&format!("-i file:{escaped} -f tx -n 100 -l 200 -s 10.0.0.1-10.0.0.100")).expect_code(0);
    let replayed = pkt_gen(&format!("-i file:{} -f tx -P {} -n 250", second.display(), first.display()));
    replayed.expect_code(0);
    assert_eq!(replayed.totals("Sent"), (250, 50_000));
    let (first, second) = (std::fs::read(&first).expect("first"), std::fs::read(&second).expect("second"));
    // Records of 16 + 200 bytes behind a header of 24; the last byte of the source address tells them apart.
    let source = |file: &[u8], number: usize| file[24 + number * 216 + 16 + 29];
    for number in 0..250 {
        assert_eq!(source(&second, number), source(&first, number % 100), "packet {number}");
    }
    let missing = pkt_gen("-i null -f tx -P /nowhere/at/all.pcap -n 5");
    assert!(missing.expect_code(2).stderr.contains("/nowhere/at/all.pcap"), "{}", missing.stderr);
}

#[test]
fn every_packet_is_dumped() {
    let ended = pkt_gen("-i null -f tx -n 2 -X -l 60");
    assert_eq!(ended.stdout.matches("[buf").count(), 2);
    assert!(ended.stdout.contains("\n    0: ff ff ff ff ff ff 00 00 00 00 00 00 08 00 45 10 "), "{}", ended.stdout);
    let ended = pkt_gen("-i pipe:a -f txseq -n 1 -X");
    assert_eq!(ended.stdout.matches("[buf").count(), 2, "the packet sent and the packet received");
}

#[test]
fn plain_numbers_averages_and_framing() {
    let ended = pkt_gen("-i null -f tx -n 1000 -N -A -B");
    let line = ended.stdout.lines().find(|line| line.starts_with("Speed:")).expect("totals");
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!((words[2], words[5]), ("pps", "bps"), "{line}");
    let number = |text: &str| text.trim_start_matches('(').parse::<u64>().expect("a whole number") as f64;
    // 60 bytes and 24 of framing.
    assert!((number(words[7]) / number(words[4]) - 84.0 / 60.0).abs() < 0.001 || words[6] == "(raw", "{line}");
    assert!(words[6] == "(raw" && (number(words[7]) / number(words[4]) - 1.4).abs() < 0.001, "{line}");
    let ended = pkt_gen("-i null -f tx -n 300 -R 3000 -T 20 -A");
    assert!(ended.stderr.contains(" pps [avg/std ") || ended.stderr.contains("pps [avg/std "), "{}", ended.stderr);
}

#[test]
fn ctrl_c_prints_totals() {
    for name in ["INT", "TERM"] {
        let run = Run::start("pkt-gen -i null -f tx -R 2000");
        run.wait_until_ready();
        run.wait_for("report", |text| text.contains(" main_thread ["));
        assert!(run.status_kb("VmHWM") < 100_000, "{} kB", run.status_kb("VmHWM"));
        run.signal(name);
        let ended = run.end();
        ended.expect_code(0);
        assert!(ended.totals("Sent").0 > 0, "{}", ended.stdout);
    }
    // During the wait for the link, too.
    let run = Run::start("pkt-gen -i null -f tx -w 1000");
    run.wait_for("wait", |text| text.contains("Wait 1000 secs"));
    run.signal("INT");
    assert_eq!(run.end().expect_code(0).stdout.lines().last(), Some("Sent nothing."));
}

#[test]
fn wrong_arguments_end_with_2_and_one_line() {
    for options in [
        "",
        "-i",
        "-i null -f send",
        "-i null -q",
        "-i null",
        "-i nosuchif0 -f tx",
        "-i vale0:1{2 -f tx",
        "-i null -f tx -z=1",
    ] {
        let ended = pkt_gen(options);
        ended.expect_code(2);
        assert_eq!(ended.stdout, "", "{options}");
        let last = ended.stderr.lines().last().unwrap_or_default();
        assert!(last.starts_with("pkt-gen: "), "{options}: {}", ended.stderr);
        assert_eq!(ended.stderr.lines().filter(|line| line.starts_with("pkt-gen: ")).count(), 1);
    }
}

#[test]
fn the_program_may_be_called_by_the_originals_name() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
    command.arg0("/usr/local/bin/pkt-gen").args(["-i", "null", "-f", "tx", "-n", "7"]);
    assert_eq!(Run::from(&mut command).end().expect_code(0).totals("Sent").0, 7);
    let help = pkt_gen("--help");
    help.expect_code(0);
    assert_eq!(help.stdout, pkt_gen("-h").stdout, "as all other commands have it");
    assert!(help.stdout.contains("Differences from netmap's pkt-gen"));
}
