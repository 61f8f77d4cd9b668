//! The receiver sink, given frames one by one.

mod common;

use common::frames::udp4;
use common::in_namespace;
use linerate_bpf::BpfError;
use linerate_bpf::insn::action;
use linerate_bpf::programs::count_rx::{CountRx, CountRxSpec, OtherCounts, StreamCounts, Timeline};
use linerate_bpf::programs::signature::Signature;
use linerate_bpf::run::run_once;
use linerate_sys::clock::now_ns;

const SPEC: CountRxSpec =
    CountRxSpec { streams: 3, sequences: 128, several_queues: false, latency: true, frags: false };

/// All ways to make the same sink.
fn variants() -> Vec<CountRx> {
    let mut made = Vec::new();
    for (several_queues, frags) in [(false, false), (true, false), (false, true), (true, true)] {
        made.push(CountRx::load(CountRxSpec { several_queues, frags, ..SPEC }).unwrap());
    }
    made
}

fn give(sink: &CountRx, stream: u16, sequence: u64, time_ns: u64, bytes: usize) -> i32 {
    let mut frame = udp4(bytes);
    frame[bytes - 16..].copy_from_slice(&Signature { stream, sequence, time_ns }.encode());
    run_once(sink.program(), &frame).unwrap().action as i32
}

#[test]
fn arrivals_are_judged_by_their_sequence() {
    in_namespace(|| {
        for sink in variants() {
            for sequence in [0, 1, 4, 2, 4, 3, 2, 5, 127, 128, 1 << 39] {
                assert_eq!(give(&sink, 2, sequence, now_ns(), 70), action::DROP);
            }
            let expected = StreamCounts {
                packets: 11,
                bytes: 770,
                distinct: 7,
                duplicates: 2,
                reordered: 2,
                next_expected: 128,
                beyond: 2,
            };
            assert_eq!(sink.stream(2), expected);
            assert_eq!(sink.latency(2).count(), 7);
            let seen: Vec<u64> = (0..128).filter(|n| sink.seen(2, *n) == Some(true)).collect();
            assert_eq!(seen, [0, 1, 2, 3, 4, 5, 127]);
            assert_eq!((sink.seen(2, 128), sink.seen(3, 0)), (None, None));
            // The same from the other side: below a given number, in one word and over several, at the very ends.
            assert_eq!(missing(&sink, 2, 128), [(6, 121)]);
            assert_eq!(missing(&sink, 2, 1 << 40), [(6, 121)]);
            assert_eq!((missing(&sink, 2, 100), missing(&sink, 2, 6)), (vec![(6, 94)], vec![]));
            assert_eq!((missing(&sink, 1, 70), missing(&sink, 3, 70)), (vec![(0, 70)], vec![]));
            assert_eq!(sink.packets(2), sink.stream(2).packets);
            assert_eq!(sink.stream(1), StreamCounts::default());
            assert_eq!(give(&sink, 1, 0, 0, 60), action::DROP);
            assert_eq!((sink.stream(1).distinct, sink.seen(0, 0)), (1, Some(false)));
            sink.start(0);
            assert_eq!((sink.stream(2), sink.seen(2, 0)), (StreamCounts::default(), Some(false)));
        }
    });
}

#[test]
fn latencies_land_in_their_buckets() {
    in_namespace(|| {
        for sink in variants() {
            let before = now_ns();
            give(&sink, 0, 0, before - 5_000_000, 60);
            let after = now_ns();
            let measured = sink.latency(0).quantile(1.0).unwrap();
            assert!(measured >= 5_000_000 && measured <= (5_000_000 + after - before) * 65 / 64 + 1, "{measured}");
            // A time ahead of the clock, and one that wraps at 2^48.
            give(&sink, 0, 1, now_ns() + 1_000_000_000, 60);
            assert_eq!(sink.latency(0).counts()[0], 1);
            give(&sink, 0, 2, now_ns().wrapping_sub(1 << 47), 60);
            assert_eq!(sink.latency(0).count(), 3);
        }
    });
}

#[test]
fn silences_and_losses_have_times() {
    in_namespace(|| {
        for sink in variants() {
            assert!((0..1000).any(|_| has_times(&sink)), "this thread has no core at all");
        }
    });
}

/// Runs of numbers that have not arrived.
fn missing(sink: &CountRx, stream: u16, end: u64) -> Vec<(u64, u64)> {
    let mut runs = Vec::new();
    sink.missing(stream, end, &mut |first, count| runs.push((first, count)));
    runs
}

/// False when this thread was kept from its core elsewhere for longer than it slept: the longest silence was another one.
fn has_times(sink: &CountRx) -> bool {
    sink.start(0);
    assert_eq!(sink.timeline(0), Timeline::default());
    let scheduled = [1_000_000, 3_000_000, 2_000_000].map(|age_ns| now_ns() - age_ns);
    let begin = now_ns();
    give(sink, 0, 0, scheduled[0], 60);
    give(sink, 0, 1, scheduled[1], 60);
    let before_silence = now_ns();
    std::thread::sleep(std::time::Duration::from_millis(3));
    let in_silence = now_ns();
    // 2 and 3 are lost; 4 comes again, which is no arrival.
    give(sink, 0, 4, scheduled[2], 60);
    let after_loss = now_ns();
    give(sink, 0, 4, scheduled[2], 60);
    give(sink, 0, 5, scheduled[2], 60);
    let end = now_ns();
    if (before_silence - begin).max(end - in_silence) >= in_silence - before_silence {
        return false;
    }
    let times = sink.timeline(0);
    assert!((begin..before_silence).contains(&times.first_ns), "{times:?}");
    assert!((after_loss..end).contains(&times.last_ns), "{times:?}");
    assert!((in_silence..after_loss).contains(&times.silence_end_ns), "{times:?}");
    assert!(times.silence_ns >= in_silence - before_silence, "{times:?}");
    assert!(times.silence_ns <= after_loss - begin, "{times:?}");
    assert_eq!(times.loss_arrived_ns, times.silence_end_ns);
    assert_eq!(times.loss_scheduled_ns, scheduled[2] & ((1 << 48) - 1));
    assert!(times.latency_min_ns >= 1_000_000 && times.latency_min_ns <= end - scheduled[0], "{times:?}");
    assert!(times.latency_max_ns >= 3_000_000 && times.latency_max_ns <= end - scheduled[1], "{times:?}");
    assert!(times.latency_sum_ns >= 8_000_000 && times.latency_sum_ns <= 4 * times.latency_max_ns, "{times:?}");
    true
}

#[test]
fn other_frames_pass() {
    in_namespace(|| {
        for sink in variants() {
            assert_eq!(run_once(sink.program(), &udp4(60)).unwrap().action as i32, action::PASS);
            assert_eq!(run_once(sink.program(), &[0; 14]).unwrap().action as i32, action::PASS);
            assert_eq!(give(&sink, 3, 0, 0, 60), action::PASS);
            assert_eq!(give(&sink, 0xffff, 0, 0, 60), action::PASS);
            let expected = OtherCounts { unsigned_packets: 2, unsigned_bytes: 74, foreign_packets: 2 };
            assert_eq!(sink.others(), expected);
        }
    });
}

/// Ids wrap at 2^16: streams 65,535, 0 and 1 are counted, each once for all.
#[test]
fn counting_begins_anew_with_other_streams() {
    in_namespace(|| {
        for sink in variants() {
            assert_eq!(give(&sink, 0, 5, 0, 60), action::DROP);
            sink.start(65_535);
            for (stream, counted) in [(65_534, false), (65_535, true), (0, true), (1, true), (2, false)] {
                assert_eq!(give(&sink, stream, 5, 0, 60), if counted { action::DROP } else { action::PASS });
                assert_eq!(sink.stream(stream).distinct, u64::from(counted), "{stream}");
                assert_eq!(sink.seen(stream, 5), counted.then_some(true), "{stream}");
                assert_eq!(sink.latency(stream).count(), u64::from(counted), "{stream}");
                assert_eq!(sink.packets(stream), u64::from(counted), "{stream}");
                let not_arrived = if counted { vec![(0, 5), (6, 1)] } else { Vec::new() };
                assert_eq!(missing(&sink, stream, 7), not_arrived, "{stream}");
            }
            assert_eq!(sink.others().foreign_packets, 2);
            sink.start(2);
            assert_eq!((sink.stream(2).packets, sink.stream(65_535).packets, sink.others().foreign_packets), (0, 0, 2));
        }
    });
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    let refuse = |spec: CountRxSpec| assert!(matches!(CountRx::load(spec), Err(BpfError::Argument(_))), "{spec:?}");
    refuse(CountRxSpec { streams: 0, ..SPEC });
    refuse(CountRxSpec { streams: 65, ..SPEC });
    refuse(CountRxSpec { sequences: 32, ..SPEC });
    refuse(CountRxSpec { sequences: 100, ..SPEC });
    refuse(CountRxSpec { sequences: 1 << 31, ..SPEC });
}
