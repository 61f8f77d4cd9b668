//! `pkt-gen` between two processes over a veth pair: the command lines of published experiments, counts to the packet.

use super::common;

use common::{INTERFACE, Run, Wire, dropped_sending};

/// Receives with `rx` on the right and sends with `tx` on the left, each a line of options behind `-i`.
fn exchange(wire: &Wire, rx: &str, tx: &str) -> (common::Ended, common::Ended) {
    let receiver = Run::start_in(&wire.right, &format!("pkt-gen -i {rx}"));
    receiver.wait_until_ready();
    let sent = Run::start_in(&wire.left, &format!("pkt-gen -i {tx}")).end();
    (sent, receiver.end())
}

#[test]
fn the_commands_of_experiment_a_account_for_every_packet() {
    let Some(wire) = Wire::new(2) else { return };
    let receiver = Run::start_in(&wire.right, &format!("pkt-gen -i {INTERFACE} -f rx -p 2 -c 4 -w 5"));
    receiver.wait_for("wait", |text| text.contains("Wait 5 secs for phy reset"));
    let sender = Run::start_in(
        &wire.left,
        &format!(
            "pkt-gen -p 2 -i {INTERFACE} -f tx -n 950000000 -l 64 -s 192.168.1.1:12345 \
             -d 192.168.1.201-192.168.1.249:12345 -D 00:25:90:64:3b:3f -S 00:25:90:64:3b:3e -w 5"
        ),
    );
    receiver.wait_until_ready();
    sender.wait_for("report with packets", |text| text.lines().filter(|line| is_report(line)).count() >= 2);
    sender.signal("INT");
    let sent = sender.end();
    // A whole interval without a packet: everything under way has arrived.
    let reports = receiver.stderr().lines().count();
    receiver.wait_for("silence", |text| text.lines().skip(reports).any(|line| line.contains(" 0.000 pps")));
    receiver.signal("INT");
    let received = receiver.end();
    sent.expect_code(0);
    received.expect_code(0);
    assert!(sent.stdout.contains(": 2 queues, 2 threads and 1 cpus.\n"), "{}", sent.stdout);
    assert!(
        sent.stdout.contains(
            "192.168.1.1:12345 -> 192.168.1.201-192.168.1.249:12345 (00:25:90:64:3b:3e -> 00:25:90:64:3b:3f)\n"
        ),
        "{}",
        sent.stdout
    );
    assert!(received.stdout.starts_with("Receiving from "), "{}", received.stdout);
    let ((packets, bytes), (arrived, _)) = (sent.totals("Sent"), received.totals("Received"));
    assert!(packets > 0 && bytes == packets * 64);
    // What the link itself dropped between the two ports is in the kernel's count; usually that is nothing.
    let (accounted, on_the_link) = (arrived + received.lost(), dropped_sending(&wire.left));
    assert!(
        accounted <= packets && packets - accounted <= on_the_link,
        "{packets} sent, {accounted} accounted for, {on_the_link} dropped on the link\n{}\n{}",
        sent.stderr,
        received.stderr
    );
}

fn is_report(line: &str) -> bool {
    line.contains(" main_thread [") && line.contains("min_space")
}

#[test]
fn the_sizes_and_flow_patterns_of_experiment_c_arrive_to_the_packet() {
    let Some(wire) = Wire::new(1) else { return };
    let (one, many) = ("-s 192.0.2.1 -d 192.0.2.101", "-s 192.0.2.1-192.0.2.100 -d 192.0.2.101-192.0.2.200");
    for (len, flows) in [(60, one), (124, many), (252, one), (508, many), (1020, one), (1276, many), (1514, many)] {
        let rx = format!("{INTERFACE} -f rx -w 0 -n 2000");
        let tx = format!("{INTERFACE} -f tx -w 0 -n 2000 -l {len} {flows}");
        let (sent, received) = exchange(&wire, &rx, &tx);
        sent.expect_code(0);
        received.expect_code(0);
        assert_eq!(sent.totals("Sent"), (2000, 2000 * len), "{flows}");
        assert_eq!(received.totals("Received"), (2000, 2000 * len), "{flows}");
    }
    // The command lines as published, waits and all; the receiver ends by itself after a second of silence.
    let (sent, received) =
        exchange(&wire, &format!("{INTERFACE} -f rx -w 4 -W"), &format!("{INTERFACE} -f tx -w 5 -n 3000"));
    assert_eq!((sent.totals("Sent").0, received.totals("Received").0), (3000, 3000));
    assert!(received.stderr.contains("Wait 4 secs for phy reset"));
}

#[test]
fn every_kind_of_socket_port_carries_the_same_packets() {
    let Some(wire) = Wire::new(1) else { return };
    for (rx, tx) in [("packet", "packet"), ("packet", "xdp"), ("xdp", "packet"), ("xdp", "xdp")] {
        let rx_line = format!("{rx}:{INTERFACE} -f rx -w 0 -n 1500");
        let tx_line = format!("{tx}:{INTERFACE} -f tx -w 0 -n 1500 -l 1000 -l 60 -zZ");
        let (sent, received) = exchange(&wire, &rx_line, &tx_line);
        assert_eq!(sent.totals("Sent"), received.totals("Received"), "{rx} from {tx}: {}", received.stderr);
        assert_eq!(sent.totals("Sent").0, 1500);
    }
}

#[test]
fn the_libpcap_path_receives_what_is_sent() {
    let Some(wire) = Wire::new(1) else { return };
    let receiver = Run::start_in(&wire.right, &format!("pkt-gen -i pcap:{INTERFACE} -f rx -w 0 -n 1500"));
    receiver.wait_for("start", |text| text.contains("Ready...") || text.contains("pkt-gen: "));
    if receiver.stderr().contains("pkt-gen: ") {
        return eprintln!("skipped: {}", receiver.stderr().lines().last().unwrap_or_default());
    }
    let sent =
        Run::start_in(&wire.left, &format!("pkt-gen -i pcap:{INTERFACE} -f tx -w 0 -n 1500 -l 1000 -l 60")).end();
    assert_eq!(sent.totals("Sent"), receiver.end().totals("Received"));
}

#[test]
fn two_threads_on_one_queue_share_the_flows() {
    let Some(wire) = Wire::new(1) else { return };
    let rx = format!("{INTERFACE} -f rx -p 2 -w 0 -n 3001");
    let tx = format!("{INTERFACE} -f tx -p 2 -w 0 -n 3001 -s 192.0.2.1-192.0.2.100");
    let (sent, received) = exchange(&wire, &rx, &tx);
    assert!(received.stdout.starts_with("Receiving from packet:"), "{}", received.stdout);
    assert_eq!((sent.totals("Sent").0, received.totals("Received").0), (3001, 3001));
    assert!(sent.stderr.contains("thread 1: ") && received.stderr.contains("thread 1: "), "{}", received.stderr);
    assert!(!received.stderr.contains("of the packets of 2 threads"), "{}", received.stderr);
    // One flow stays on one thread, which is worth a word.
    let tx = format!("{INTERFACE} -f tx -w 0 -n 3001");
    let (_, received) = exchange(&wire, &rx, &tx);
    assert!(received.stderr.contains("of the packets of 2 threads: they are of one flow"), "{}", received.stderr);
}

#[test]
fn sequences_and_round_trips_cross_the_wire() {
    let Some(wire) = Wire::new(1) else { return };
    let (sent, received) =
        exchange(&wire, &format!("{INTERFACE} -f rxseq -w 0 -n 4000"), &format!("{INTERFACE} -f txseq -w 0 -n 4000"));
    assert_eq!(sent.totals("Sent").0, 4000);
    assert!(
        received.stdout.contains("Sequence: 4000 delivered, 0 lost, 0 duplicated, 0 reordered."),
        "{}",
        received.stdout
    );

    for port in ["xdp", "packet"] {
        let pong = Run::start_in(&wire.right, &format!("pkt-gen -i {port}:{INTERFACE} -f pong -w 0"));
        pong.wait_until_ready();
        let ping = Run::start_in(&wire.left, &format!("pkt-gen -i {port}:{INTERFACE} -f ping -w 0 -n 100")).end();
        ping.expect_code(0);
        assert!(ping.stderr.contains("100 sent, 100 replies, 0 missing, 0 duplicated"), "{port}: {}", ping.stderr);
        pong.signal("INT");
        assert!(pong.end().expect_code(0).stdout.starts_with("Working on "));
    }
    // Nobody answers: the pings are counted as missing, and the run ends all the same.
    let ping = Run::start_in(&wire.left, &format!("pkt-gen -i {INTERFACE} -f ping -w 0 -n 2")).end();
    ping.expect_code(0);
    assert!(
        ping.stderr.contains("2 sent, 0 replies, 2 missing") && !ping.stderr.contains("RTT over"),
        "{}",
        ping.stderr
    );
}

#[test]
fn live_frames_reach_a_veth_whose_far_end_runs_napi() {
    let Some(wire) = Wire::new(1) else { return };
    // An AF_XDP receiver has a program attached, which switches NAPI on.
    for options in ["-l 60 -s 192.0.2.1-192.0.2.100", "-l 100 -l 60", "-R 20000"] {
        let rx = format!("xdp:{INTERFACE},native -f rx -w 0 -n 3000");
        let receiver = Run::start_in(&wire.right, &format!("pkt-gen -i {rx}"));
        receiver.wait_until_ready();
        let tx = format!("pkt-gen -i xdplive:{INTERFACE} -f tx -w 0 -n 3000 {options}");
        let sent = Run::start_in(&wire.left, &tx).end();
        if sent.stderr.contains("cannot open") {
            return eprintln!("skipped: {}", sent.stderr.lines().last().unwrap_or_default());
        }
        sent.expect_code(0);
        assert_eq!(sent.totals("Sent"), receiver.end().totals("Received"), "{options}");
    }
}

#[test]
fn what_does_not_fit_is_refused_with_the_numbers() {
    let Some(wire) = Wire::new(1) else { return };
    let refused = Run::start_in(&wire.left, &format!("pkt-gen -i {INTERFACE} -f tx -l 1515 -w 0")).end();
    assert!(refused.expect_code(2).stderr.contains("pkt_size (1515) must be <= 1514"), "{}", refused.stderr);
    let refused = Run::start_in(&wire.left, &format!("pkt-gen -i xdp:{INTERFACE}@7 -f tx -w 0")).end();
    assert!(refused.expect_code(2).stderr.contains("queue 7"), "{}", refused.stderr);
}

#[test]
fn an_interface_that_goes_away_ends_the_run_with_totals() {
    let Some(wire) = Wire::new(1) else { return };
    for port in ["xdp", "packet"] {
        let Some(wire) = Wire::new(1) else { return };
        let sender = Run::start_in(&wire.left, &format!("pkt-gen -i {port}:{INTERFACE} -f tx -R 5000 -w 0 -T 100"));
        sender.wait_for("report", is_report_text);
        linerate_sys::veth::delete(&wire.left, INTERFACE).expect("delete");
        let ended = sender.end();
        ended.expect_code(1);
        assert!(ended.stderr.contains("ouch, thread 0 exited with error: "), "{}", ended.stderr);
        assert!(ended.stdout.contains("\nSent "), "{}", ended.stdout);
    }
    drop(wire);
}

fn is_report_text(text: &str) -> bool {
    text.lines().any(is_report)
}

#[test]
fn a_default_run_stays_small() {
    let Some(wire) = Wire::new(1) else { return };
    for options in ["-f rx -w 0", "-f tx -R 1000 -w 0"] {
        let run = Run::start_in(&wire.left, &format!("pkt-gen -i {INTERFACE} {options}"));
        run.wait_for("report", |text| is_report_text(text) || text.contains("waiting for initial packets"));
        let resident = run.status_kb("VmHWM");
        assert!(resident < 100_000, "{options}: {resident} kB");
        run.signal("INT");
        run.end().expect_code(0);
    }
}
