//! Command lines: those of published experiments, defaults, and what must be refused.

use proptest::prelude::*;

use super::super::parse::{Request, parse};
use super::*;

fn request(line: &str) -> Result<Request, UsageError> {
    let words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
    parse(&words)
}

fn options(line: &str) -> Options {
    match request(line) {
        Ok(Request::Run(options)) => *options,
        other => panic!("{line}: {other:?}"),
    }
}

fn refused(line: &str) -> UsageError {
    request(line).expect_err(line)
}

#[test]
fn defaults_are_the_originals_but_for_the_burst() {
    let run = options("-i eth1");
    assert_eq!((run.function, run.len, run.burst, run.threads, run.report_ms), (Function::Rx, 60, 128, 1, 1000));
    assert_eq!((run.count, run.wait_s, run.rate_pps, run.fragments), (0, 2, 0, 1));
    assert_eq!(run.source.to_string(), "10.0.0.1:1234 to 10.0.0.1:1234");
    assert_eq!(run.destination.to_string(), "10.1.0.1:1234 to 10.1.0.1:1234");
    assert_eq!((run.source_mac, run.destination_mac), (None, MacAddress::BROADCAST));
    assert_eq!(run.warnings, Vec::<String>::new());
    assert_eq!(options("-i null -f tx").wait_s, 0);
    assert_eq!(options("-i null -f tx -w 3").wait_s, 3);
    assert_eq!((options("-i e -f ping").burst, options("-i e -f pong -b 8").burst), (1, 8));
    // The headers of IPv6 do not fit into 60 bytes.
    assert_eq!((options("-i e -f tx -6").len, options("-i e -f ping -6").len), (62, 74));
}

#[test]
fn published_command_lines_are_taken() {
    let run = options("-i ix1 -f rx -p 2 -c 4 -w 5");
    assert_eq!((run.function, run.threads, run.cpus, run.wait_s), (Function::Rx, 2, Some(4), 5));
    let run = options(
        "-p 2 -i ix0 -f tx -n 950000000 -l 64 -s 192.168.1.1:12345 -d 192.168.1.201-192.168.1.249:12345 \
         -D 00:25:90:64:3b:3f -S 00:25:90:64:3b:3e -w 5",
    );
    assert_eq!((run.function, run.count, run.len), (Function::Tx, 950_000_000, 64));
    assert_eq!(run.range_texts.1, "192.168.1.201-192.168.1.249:12345");
    assert_eq!(run.destination.address_count(), 49);
    assert_eq!(run.source_mac, Some(MacAddress([0x00, 0x25, 0x90, 0x64, 0x3b, 0x3e])));
    assert_eq!(options("-i ix0 -f rx -w 4").wait_s, 4);
    for len in [60, 124, 252, 508, 1020, 1276, 1514] {
        let run = options(&format!("-i x -f tx -w 5 -l {len} -s 192.0.2.1-192.0.2.100 -d 192.0.2.101-192.0.2.200"));
        assert_eq!(run.len, len);
        assert_eq!(run.source.address_count() * run.destination.address_count(), 10_000);
    }
}

#[test]
fn letters_may_be_clustered_and_joined() {
    let run = options("-XAl100 -NBvv -ieth1 -ftx -R1000 -zZ -b 16");
    assert!(run.dump && run.averages && run.style.raw && run.random_source && run.random_destination);
    assert_eq!((run.len, run.verbose, run.rate_pps, run.burst), (100, 2, 1000, 16));
    assert_eq!(run.style.framing_bits, 192);
    let run = options("-i eth1 -f tx -l 1000 -l 60");
    assert_eq!((run.len, run.len_min), (1000, Some(60)));
}

#[test]
fn bits_of_o_are_the_letters() {
    let run = options("-i e -f tx -o 3648 -o 1");
    assert!(run.dump && run.random_source && run.random_destination && run.averages);
    assert_eq!(run.warnings.len(), 1);
    assert!(options("-i e -f tx -r").uninitialized && options("-i e -f tx -o 256").uninitialized);
    assert!(options("-i e -f tx -o 16").timestamp);
    assert!(refused("-i e -o 128").problem.contains("128"));
    assert!(options("-i e -I").warnings[0].contains("-I"));
}

#[test]
fn what_is_wrong_is_refused_with_a_cure() {
    for line in [
        "",
        "-i",
        "eth1",
        "-i eth1 eth2",
        "-i eth1 -q",
        "-i eth1 -t 100",
        "-i eth1 -n 1e6",
        "-i eth1 -n -1",
        "-i eth1 -n",
        "-i eth1 -n 99999999999999999999",
        "-i eth1 -f transmit",
        "-i eth1 -l 15",
        "-i eth1 -l 65536",
        "-i eth1 -f tx -l 41",
        "-i eth1 -f tx -6 -l 60",
        "-i eth1 -f tx -l 60 -l 100",
        "-i eth1 -f txseq -l 45",
        "-i eth1 -f ping -l 53",
        "-i eth1 -f ping -l 100 -l 60",
        "-i eth1 -b 5000",
        "-i eth1 -p 0",
        "-i eth1 -f ping -p 2",
        "-i eth1 -f pong -p 2",
        "-i eth1 -f txseq -p 2",
        "-i eth1 -f rxseq -p 2",
        "-i eth1@0 -p 2",
        "-i pipe:a -f tx -p 2",
        "-i pipe:a",
        "-i null",
        "-i eth1 -s 10.0.0.300",
        "-i eth1 -d ::1",
        "-i eth1 -6 -d 10.0.0.1",
        "-i eth1 -S 00:11:22:33:44",
        "-i eth1 -D 00:11:22:33:44:55-00:11:22:33:44:66",
        "-i eth1 -F 0",
        "-i eth1 -F 64",
        "-i eth1 -F 2",
        "-i eth1 -f tx -M 10",
        "-i eth1 -f txseq -F 2",
        "-i eth1 -H 10",
        "-i eth1 -H 11",
        "-i eth1 -T 0",
        "-i eth1 -R 1M",
        "-i eth1 -w x",
        "-i eth1 -a -1",
        "-i eth1 -C 1,2,3,4,5",
        "-i eth1 -C a",
        "-i eth1 -P f.pcap",
        "-i eth1 -f tx -P f.pcap -r",
        "-i eth1 -f tx -P f.pcap -l 60",
        "-i eth1 -f tx -P f.pcap -z",
        "-i eth1 -f tx -r -z",
        "-i eth1 -f tx -o 16 -l 57",
        "-i vale0:1{2",
    ] {
        let error = refused(line);
        assert!(!error.problem.is_empty() && !error.cure.is_empty() && !error.cure.contains('\n'), "{line}: {error}");
    }
    assert_eq!(
        refused("-i eth1 -R 1M").to_string(),
        "-R \"1M\" is no number; -R takes a number of packets per second from 0 to 1000000000"
    );
    assert!(refused("-i eth1 -t 5").cure.contains("-f tx -n N"));
}

#[test]
fn a_deprecated_option_warns() {
    assert!(options("-i e -C 1024,2048").warnings[0].starts_with("WARNING: the 'C' option is deprecated"));
    assert_eq!(options("-i e -H 0").warnings, Vec::<String>::new());
}

#[test]
fn help_needs_nothing_else() {
    assert_eq!(request("-i eth1 -h"), Ok(Request::Help));
    assert_eq!(request("-h"), Ok(Request::Help));
    assert_eq!(request("-n x -h"), Ok(Request::Help));
}

proptest! {
    #[test]
    fn never_panics(words in proptest::collection::vec("(-[46afFNniIldsDSbcopTwWvRXCHrPzZAhBM]|[a-z0-9:.,-]{0,8})", 0..10)) {
        let _ = parse(&words);
    }
}
