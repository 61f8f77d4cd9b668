//! The transmit program: each frame that it makes, and what a run of live frames does.

mod common;

use common::frames::{check_tcp6, check_udp4, tcp6, udp4, vxlan};
use common::{FAR, NEAR, in_namespace, make_pair, transmit_drops, wait_until};
use linerate_bpf::insn::action;
use linerate_bpf::programs::count_rx::{CountRx, CountRxSpec};
use linerate_bpf::programs::live_tx::checksum::Checksum;
use linerate_bpf::programs::live_tx::field::{FieldKind, FieldRule};
use linerate_bpf::programs::live_tx::{Exit, LiveTx, LiveTxSpec, Pacing, SignatureSpec, WAIT_MAX_NS};
use linerate_bpf::programs::signature::Signature;
use linerate_bpf::run::run_once;
use linerate_bpf::{AttachMode, BpfError, XdpLink};
use linerate_sys::clock::now_ns;

fn spec(template: &[u8]) -> LiveTxSpec<'_> {
    LiveTxSpec {
        template,
        rewrite_bytes: template.len(),
        rules: &[],
        checksums: Checksum::all_of(template),
        signature: None,
        pacing: Pacing::None,
        exit: Exit::Tx,
        seed: 1,
    }
}

fn rule(offset: usize, width: usize, kind: FieldKind, min: u32, count: u64, step: i64) -> FieldRule {
    FieldRule { offset, width, kind, min, count, step }
}

/// The frames that the program makes of pages full of `0xff`.
fn frames(sender: &LiveTx, bytes: usize, count: usize) -> Vec<Vec<u8>> {
    let page = vec![0xff; bytes];
    let make = |_| {
        let verdict = run_once(sender.program(), &page).unwrap();
        assert_eq!(verdict.action, action::TX as u32);
        verdict.frame
    };
    (0..count).map(make).collect()
}

fn number(frame: &[u8], offset: usize, width: usize) -> u64 {
    frame[offset..offset + width].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[test]
fn the_whole_template_is_written_with_right_checksums() {
    in_namespace(|| {
        for bytes in [42, 43, 60, 61, 67, 1514, 3000] {
            let template = udp4(bytes);
            let sender = LiveTx::load(&spec(&template)).unwrap();
            let made = frames(&sender, bytes, 1).remove(0);
            check_udp4(&made, 14);
            for (position, byte) in template.iter().enumerate() {
                let checksum = [24, 25, 40, 41].contains(&position);
                assert!(checksum || made[position] == *byte, "byte {position} of {bytes}");
            }
        }
        let template = udp4(100);
        let sender = LiveTx::load(&LiveTxSpec { rewrite_bytes: 42, ..spec(&template) }).unwrap();
        let made = frames(&sender, 100, 1).remove(0);
        assert_eq!((&made[..24], &made[42..]), (&template[..24], &[0xff; 58][..]));
    });
}

#[test]
fn odometers_count_through_all_combinations() {
    in_namespace(|| {
        let template = udp4(60);
        let rules = [
            rule(33, 1, FieldKind::Odometer, 1, 3, 1),
            rule(34, 2, FieldKind::Odometer, 1000, 2, 500),
            rule(26, 4, FieldKind::Odometer, 0xc612_0001, 2, -2),
            rule(36, 2, FieldKind::Independent, 65_530, 5, 3),
        ];
        let sender = LiveTx::load(&LiveTxSpec { rules: &rules, ..spec(&template) }).unwrap();
        for (n, frame) in frames(&sender, 60, 30).iter().enumerate() {
            let n = n as u64;
            assert_eq!(number(frame, 33, 1), 1 + n % 3);
            assert_eq!(number(frame, 34, 2), 1000 + n / 3 % 2 * 500);
            assert_eq!(number(frame, 26, 4), 0xc612_0001 - n / 6 % 2 * 2);
            assert_eq!(number(frame, 36, 2), (65_530 + n % 5 * 3) % 65_536);
            check_udp4(frame, 14);
        }
        assert_eq!(sender.sequence(), 30);
    });
}

#[test]
fn random_fields_stay_in_range_and_repeat_with_the_seed() {
    in_namespace(|| {
        let template = udp4(60);
        let rules = [
            rule(26, 4, FieldKind::Random, 0, 1 << 32, 1),
            rule(35, 1, FieldKind::Random, 10, 4, 2),
            rule(36, 2, FieldKind::Random, 0, 3, 0x7fff_ffff),
        ];
        let make = |seed| {
            let sender = LiveTx::load(&LiveTxSpec { rules: &rules, seed, ..spec(&template) }).unwrap();
            frames(&sender, 60, 200)
        };
        let made = make(7);
        assert_eq!(made, make(7));
        assert_ne!(made, make(8));
        assert_ne!(make(0)[0], make(0)[1], "a seed of 0 is no dead end");
        let mut seen = [0; 4];
        for frame in &made {
            let value = number(frame, 35, 1) as usize;
            assert!([10, 12, 14, 16].contains(&value));
            seen[(value - 10) / 2] += 1;
            check_udp4(frame, 14);
        }
        assert!(seen.iter().all(|times| (20..=80).contains(times)), "{seen:?}");
        let mut addresses: Vec<u64> = made.iter().map(|frame| number(frame, 26, 4)).collect();
        addresses.sort();
        addresses.dedup();
        assert_eq!(addresses.len(), 200);
    });
}

#[test]
fn checksums_hold_behind_tags_tunnels_and_at_odd_places() {
    in_namespace(|| {
        let six = tcp6(95);
        let rules = [rule(57, 1, FieldKind::Odometer, 0, 256, 1), rule(61, 4, FieldKind::Random, 0, 1 << 32, 1)];
        let signature = Some(SignatureSpec { stream: 5, clock_every: 1 });
        let sender = LiveTx::load(&LiveTxSpec { rules: &rules, signature, ..spec(&six) }).unwrap();
        frames(&sender, 95, 300).iter().for_each(|frame| check_tcp6(frame));

        let tunnel = vxlan(&udp4(71));
        let (outer, inner) = (14, 64);
        let rules =
            [rule(inner + 15, 4, FieldKind::Random, 0, 1 << 32, 1), rule(34, 2, FieldKind::Random, 0, 65_536, 1)];
        let sender = LiveTx::load(&LiveTxSpec { rules: &rules, signature, ..spec(&tunnel) }).unwrap();
        for frame in frames(&sender, tunnel.len(), 300) {
            check_udp4(&frame, inner);
            check_udp4(&frame, outer);
        }

        let mut none = udp4(60);
        none[40..42].fill(0);
        let rules = [rule(30, 4, FieldKind::Random, 0, 1 << 32, 1)];
        let sender = LiveTx::load(&LiveTxSpec { rules: &rules, ..spec(&none) }).unwrap();
        assert!(frames(&sender, 60, 5).iter().all(|frame| frame[40..42] == [0, 0]));
    });
}

#[test]
fn udp_checksums_of_zero_are_sent_as_ffff() {
    in_namespace(|| {
        let template = udp4(60);
        let rules = [rule(42, 2, FieldKind::Odometer, 0, 65_536, 1)];
        let sender = LiveTx::load(&LiveTxSpec { rules: &rules, ..spec(&template) }).unwrap();
        let made = frames(&sender, 60, 65_536);
        let ones = made.iter().filter(|frame| frame[40..42] == [0xff, 0xff]).count();
        made.iter().for_each(|frame| check_udp4(frame, 14));
        assert!(ones >= 1, "one of all payloads has this sum");
    });
}

#[test]
fn signatures_number_the_packets_and_stop_at_the_limit() {
    in_namespace(|| {
        let template = udp4(60);
        let signature = Some(SignatureSpec { stream: 0xabcd, clock_every: 4 });
        let sender = LiveTx::load(&LiveTxSpec { signature, ..spec(&template) }).unwrap();
        let before = now_ns();
        let signatures: Vec<Signature> =
            frames(&sender, 60, 8).iter().map(|frame| Signature::decode(frame).unwrap()).collect();
        let window = (before & ((1 << 48) - 1))..=(now_ns() & ((1 << 48) - 1));
        for (n, signature) in signatures.iter().enumerate() {
            assert_eq!((signature.stream, signature.sequence), (0xabcd, n as u64));
            assert!(window.contains(&signature.time_ns));
            assert_eq!(signature.time_ns, signatures[n / 4 * 4].time_ns, "read once in four");
        }
        sender.set_limit(9);
        frames(&sender, 60, 1);
        assert_eq!(run_once(sender.program(), &template).unwrap().action, action::DROP as u32);
        assert_eq!((sender.sequence(), sender.held()), (9, 1));
    });
}

#[test]
fn paced_packets_bear_their_scheduled_times() {
    in_namespace(|| {
        let template = udp4(60);
        for pacing in [Pacing::Wait, Pacing::Skip] {
            let signature = Some(SignatureSpec { stream: 1, clock_every: 1 });
            let sender = LiveTx::load(&LiveTxSpec { signature, pacing, ..spec(&template) }).unwrap();
            let start = now_ns() - 1_000_000;
            sender.set_schedule(start, (1000 << 32) + (1 << 31));
            for (n, frame) in frames(&sender, 60, 10).iter().enumerate() {
                let due = start + 1000 * n as u64 + n as u64 / 2;
                assert_eq!(Signature::decode(frame).unwrap().time_ns, due & ((1 << 48) - 1));
            }
            assert_eq!(sender.lateness().count(), 10);
            assert!(sender.lateness().quantile(0.0).unwrap() >= 900_000);
            // An hour ahead: neither waits.
            sender.set_schedule(now_ns() + 3_600_000_000_000, 1 << 32);
            assert_eq!(run_once(sender.program(), &template).unwrap().action, action::DROP as u32);
            assert_eq!((sender.sequence(), sender.held()), (10, 1));
        }
    });
}

#[test]
fn a_waiting_program_sends_when_the_packet_is_due() {
    in_namespace(|| {
        let template = udp4(60);
        let sender = LiveTx::load(&LiveTxSpec { pacing: Pacing::Wait, ..spec(&template) }).unwrap();
        let mut due = now_ns() + 1_000_000;
        sender.set_schedule(due, 0);
        // Far from due the program returns at once; within its bound it waits.
        while run_once(sender.program(), &template).unwrap().action == action::DROP as u32 {
            assert!(now_ns() < due + 1_000_000_000);
        }
        assert!(now_ns() >= due && sender.sequence() == 1);
        due = now_ns() + WAIT_MAX_NS / 2;
        sender.set_schedule(due, 0);
        assert_eq!(run_once(sender.program(), &template).unwrap().action, action::TX as u32);
        assert!(now_ns() >= due);
    });
}

#[test]
fn what_cannot_be_is_refused() {
    in_namespace(|| {
        let template = udp4(60);
        let refuse = |spec: LiveTxSpec<'_>, words: &str| {
            let error = LiveTx::load(&spec).unwrap_err();
            assert!(matches!(&error, BpfError::Argument(text) if text.contains(words)), "{error}");
        };
        let good = rule(30, 4, FieldKind::Odometer, 0, 10, 1);
        let signature = Some(SignatureSpec { stream: 0, clock_every: 1 });
        refuse(LiveTxSpec { rules: &[FieldRule { width: 3, ..good }], ..spec(&template) }, "width of 3");
        refuse(LiveTxSpec { rules: &[FieldRule { offset: 57, ..good }], ..spec(&template) }, "outside the frame");
        refuse(LiveTxSpec { rules: &[FieldRule { count: 0, ..good }], ..spec(&template) }, "count of 0");
        refuse(LiveTxSpec { rules: &[FieldRule { width: 1, min: 256, ..good }], ..spec(&template) }, "does not fit");
        refuse(LiveTxSpec { rules: &[good, FieldRule { offset: 33, ..good }], ..spec(&template) }, "overlap");
        refuse(LiveTxSpec { rules: &[FieldRule { offset: 22, ..good }], ..spec(&template) }, "checksum at 24");
        refuse(LiveTxSpec { rules: &[good; 9], ..spec(&template) }, "at most 8");
        refuse(LiveTxSpec { rules: &[FieldRule { offset: 50, ..good }], signature, ..spec(&template) }, "overlap");
        refuse(LiveTxSpec { signature, ..spec(&template[..15]) }, "no room");
        refuse(LiveTxSpec { rewrite_bytes: 61, ..spec(&template) }, "61 bytes to rewrite");
    });
}

#[test]
fn live_frames_are_accounted_for_to_the_packet() {
    in_namespace(|| {
        if !make_pair() {
            return;
        }
        let sink = CountRx::load(CountRxSpec {
            streams: 4,
            sequences: 1 << 20,
            several_queues: false,
            latency: true,
            frags: false,
        })
        .unwrap();
        let _link = XdpLink::attach(sink.program(), FAR, AttachMode::Native).unwrap();
        let template = udp4(60);
        let rules = [
            rule(26, 4, FieldKind::Odometer, 0xc612_0001, 100, 1),
            rule(30, 4, FieldKind::Odometer, 0xc613_0001, 100, 1),
        ];
        for (stream, exit) in [(1, Exit::Tx), (2, Exit::Redirect(NEAR))] {
            let lost_before = transmit_drops("near");
            let signature = Some(SignatureSpec { stream, clock_every: 16 });
            let spec = LiveTxSpec { rules: &rules, signature, exit, ..spec(&template) };
            let sender = LiveTx::load(&spec).unwrap();
            let ingress = if exit == Exit::Tx { NEAR } else { 0 };
            sender.run(ingress, 50_000, 128).unwrap();
            sender.set_limit(60_000);
            sender.run(ingress, 20_000, 64).unwrap();
            assert_eq!((sender.sequence(), sender.held()), (60_000, 10_000));
            let lost = || transmit_drops("near") - lost_before;
            wait_until(|| sink.stream(stream).packets + lost() >= 60_000);
            let counts = sink.stream(stream);
            assert_eq!(counts.packets + lost(), 60_000);
            assert_eq!(counts.bytes, counts.packets * 60);
            assert_eq!((counts.distinct, counts.duplicates, counts.reordered), (counts.packets, 0, 0));
            assert_eq!(sink.latency(stream).count(), counts.packets);
            let arrived = (0..60_000).filter(|n| sink.seen(stream, *n) == Some(true)).count();
            assert_eq!(arrived as u64, counts.distinct);
        }
        assert_eq!(sink.stream(0), sink.stream(3));
        assert_eq!(sink.others(), Default::default());
    });
}

/// What /proc/PID/net/dev counts as received packets.
fn received(interface: &str) -> u64 {
    common::device_count(interface, 1)
}

#[test]
fn a_peer_without_xdp_takes_frames_if_it_has_gro() {
    in_namespace(|| {
        if !make_pair() {
            return;
        }
        let template = udp4(60);
        let sender = LiveTx::load(&spec(&template)).unwrap();
        sender.run(NEAR, 1000, 64).unwrap();
        // Without NAPI the peer takes nothing, and no counter of the device tells.
        assert_eq!((sender.sequence(), received("far"), transmit_drops("near")), (1000, 0, 0));
        let far = linerate_sys::netdev::Netdev::open("far").unwrap();
        if let Err(error) = far.set_features(&[("rx-gro", true)]) {
            eprintln!("skipped: GRO cannot be switched on: {error}");
            return;
        }
        sender.run(NEAR, 1000, 64).unwrap();
        wait_until(|| received("far") + transmit_drops("near") >= 1000);
        assert_eq!(received("far") + transmit_drops("near"), 1000);
        assert!(received("far") > 500);
    });
}
