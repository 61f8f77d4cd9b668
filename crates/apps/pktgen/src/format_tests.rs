//! Golden lines: each is written out as the original's format strings give it.

use linerate_pktgen_loop::log::diagnostic;

use super::*;

const PLAIN: Style = Style { raw: false, framing_bits: 0 };
const RAW: Style = Style { raw: true, framing_bits: 0 };
const FRAMED: Style = Style { raw: false, framing_bits: FRAMING_BITS };

fn counts(packets: u64, bytes: u64, events: u64) -> Counts {
    Counts { packets, bytes, events }
}

#[test]
fn numbers_have_three_decimals_and_a_prefix_or_none_at_all() {
    for (value, shown, raw) in [
        (0.0, "0.000 ", "0 "),
        (999.0, "999.000 ", "999 "),
        (1000.0, "1.000 K", "1000 "),
        (14_880_952.0, "14.881 M", "14880952 "),
        (9.614e9, "9.614 G", "9614000000 "),
        (1e12, "1.000 T", "1000000000000 "),
        (5e15, "5000.000 T", "5000000000000000 "),
    ] {
        assert_eq!(PLAIN.number(value), shown);
        assert_eq!(RAW.number(value), raw);
    }
}

#[test]
fn a_report_is_one_line() {
    let interval = counts(14_895_881, 14_895_881 * 60, 29_094);
    assert_eq!(
        PLAIN.report(&interval, 1_001_000, None),
        "14.881 Mpps (14.896 Mpkts 7.143 Gbps in 1001000 usec) 511.99 avg_batch 99999 min_space"
    );
    assert_eq!(
        FRAMED.report(&interval, 1_001_000, None),
        "14.881 Mpps (14.896 Mpkts 10.000 Gbps in 1001000 usec) 511.99 avg_batch 99999 min_space"
    );
    assert_eq!(
        RAW.report(&counts(10, 600, 5), 1_000_000, None),
        "10 pps (10 pkts 4800 bps in 1000000 usec) 2.00 avg_batch 99999 min_space"
    );
    assert_eq!(
        PLAIN.report(&counts(0, 0, 0), 1_000_000, None),
        "0.000 pps (0.000 pkts 0.000 bps in 1000000 usec) 0.00 avg_batch 99999 min_space"
    );
    // An interval of no length divides nothing by zero.
    assert!(PLAIN.report(&counts(1, 60, 1), 0, None).contains("in 1 usec"));
}

#[test]
fn averages_stand_right_before_the_parenthesis() {
    let mut window = Window::default();
    assert_eq!(window.mean_and_deviation(), (0.0, 0.0));
    for rate in [0, 0, 0, 1000, 3000] {
        window.add(rate);
    }
    assert_eq!(window.mean_and_deviation().0, 800.0);
    for rate in [1000, 3000].into_iter().cycle().take(14) {
        window.add(rate);
    }
    let (mean, deviation) = window.mean_and_deviation();
    assert!((mean - 2066.667).abs() < 0.001 && (deviation - 997.775).abs() < 0.001, "{mean} {deviation}");
    assert_eq!(
        PLAIN.report(&counts(3000, 180_000, 10), 1_000_000, Some(&window)),
        "3.000 Kpps [avg/std 2.067 K/997.775  pps](3.000 Kpkts 1.440 Mbps in 1000000 usec) 300.00 avg_batch 99999 min_space"
    );
}

#[test]
fn totals_are_two_lines_or_nothing() {
    assert_eq!(
        PLAIN.totals("Sent", &counts(950_000_000, 60_800_000_000, 4_430_000), 66.89),
        "Sent 950000000 packets 60800000000 bytes 4430000 events 64 bytes each in 66.89 seconds.\n\
         Speed: 14.202 Mpps Bandwidth: 7.272 Gbps (raw 7.272 Gbps). Average batch: 214.45 pkts"
    );
    assert_eq!(
        FRAMED.totals("Received", &counts(1000, 60_000, 10), 0.5),
        "Received 1000 packets 60000 bytes 10 events 60 bytes each in 0.50 seconds.\n\
         Speed: 2.000 Kpps Bandwidth: 960.000 Kbps (raw 1.344 Mbps). Average batch: 100.00 pkts"
    );
    assert_eq!(RAW.totals("Sent", &counts(0, 0, 0), 2.0), "Sent nothing.");
    assert!(RAW.totals("Sent", &counts(1, 60, 1), 0.0).contains("in 0.00 seconds."));
}

#[test]
fn the_lines_around_a_run() {
    assert_eq!(start("Sending on", "xdp:ix0", 2, 2, 4), "Sending on xdp:ix0: 2 queues, 2 threads and 4 cpus.");
    assert_eq!(
        addresses("10.0.0.1", "10.1.0.1-10.1.0.9", "00:25:90:64:3b:3e", "ff:ff:ff:ff:ff:ff"),
        "10.0.0.1 -> 10.1.0.1-10.1.0.9 (00:25:90:64:3b:3e -> ff:ff:ff:ff:ff:ff)"
    );
    assert_eq!(pacing(512, 0), "Sending 512 packets every  0.000000000 s");
    assert_eq!(pacing(33, 3_300_000), "Sending 33 packets every  0.003300000 s");
    assert_eq!(pacing(1, 2_500_000_000), "Sending 1 packets every  2.500000000 s");
}

/// Takes a report line apart the way awk scripts do: by words and by the parenthesis.
#[test]
fn a_script_finds_its_numbers() {
    let text = diagnostic(0, "main_thread", 1, &PLAIN.report(&counts(5000, 300_000, 100), 1_000_000, None));
    let words: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(words[1], "main_thread");
    assert!(words[2].starts_with('[') && words[2].ends_with(']'));
    assert_eq!((words[3].parse::<f64>(), words[4]), (Ok(5.0), "Kpps"));
    assert_eq!(words[5].strip_prefix('(').map(str::parse::<f64>), Some(Ok(5.0)));
    assert_eq!((words[6], words[8], words[9], words[11]), ("Kpkts", "Mbps", "in", "usec)"));
    assert_eq!((words[12].parse::<f64>(), words[13]), (Ok(50.0), "avg_batch"));

    let text = PLAIN.totals("Sent", &counts(5000, 300_000, 100), 2.0);
    let words: Vec<&str> = text.split_whitespace().collect();
    let after = |key: &str| words.iter().position(|word| *word == key).map(|at| words[at + 1]);
    let before = |key: &str| words.iter().position(|word| *word == key).map(|at| words[at - 1]);
    assert_eq!((after("Sent"), before("bytes"), before("events")), (Some("5000"), Some("300000"), Some("100")));
    assert_eq!(
        (before("seconds."), after("Speed:"), after("Bandwidth:")),
        (Some("2.00"), Some("2.500"), Some("1.200"))
    );
}
