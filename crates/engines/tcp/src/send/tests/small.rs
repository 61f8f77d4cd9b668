//! The short ways of small segments, beside the general ones: both come to the same, whatever a connection is like.

use proptest::prelude::*;

use crate::send::{self, Ack, SendConfig, SendMemory};
use crate::{Flags, NONE, Now, Seq, State, Tcb};

/// What happens to a connection.
#[derive(Clone, Copy, Debug)]
enum Step {
    Write(usize),
    /// Everything that may leave leaves.
    Send,
    /// The peer acknowledges all that is in flight, with this window.
    Acknowledge(u16),
    /// So many microseconds pass.
    Wait(u64),
}

#[derive(Clone, Debug)]
struct Start {
    flags: u32,
    mss: u16,
    srtt_us: u32,
    cwnd: u32,
    snd_wnd: u32,
    seq: u32,
    ack_delay_max_ms: u32,
}

fn starts() -> impl Strategy<Value = Start> {
    let flags = (0..64u32).prop_map(|bits| {
        let rare = [Flags::SACK.0, Flags::NODELAY.0, Flags::CWR_OWED.0, Flags::CWND_LIMITED.0];
        // The first two are usual, the others rare.
        let usual = !bits & 3;
        let rest = if bits & 48 == 0 { bits & 12 } else { 0 };
        (0..4).filter(|bit| (usual | rest) >> bit & 1 != 0).fold(Flags::TIMESTAMPS.0, |all, bit| all | rare[bit])
    });
    let mss = prop_oneof![4 => Just(1_460u16), 1 => 13..80u16];
    let srtt_us = prop_oneof![1 => Just(0u32), 4 => 1..1_500u32, 1 => 1_500..300_000u32];
    let cwnd = prop_oneof![4 => Just(14_600u32), 1 => 20..120u32];
    let snd_wnd = prop_oneof![4 => Just(65_535u32), 1 => 0..60u32];
    let delay = prop_oneof![4 => Just(200u32), 1 => 0..400u32];
    (flags, mss, srtt_us, cwnd, snd_wnd, any::<u32>(), delay).prop_map(
        |(flags, mss, srtt_us, cwnd, snd_wnd, seq, ack_delay_max_ms)| Start {
            flags,
            mss,
            srtt_us,
            cwnd,
            snd_wnd,
            seq,
            ack_delay_max_ms,
        },
    )
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let wait = prop_oneof![2 => Just(0u64), 4 => 1..2_000u64, 1 => 100_000..500_000u64];
    let step = prop_oneof![
        3 => prop_oneof![5 => Just(1usize), 2 => 1..50usize, 1 => 50..200usize].prop_map(Step::Write),
        4 => Just(Step::Send),
        3 => prop_oneof![4 => Just(65_535u16), 1 => 0..60u16].prop_map(Step::Acknowledge),
        2 => wait.prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..60)
}

struct Side {
    tcb: Tcb,
    memory: SendMemory,
    /// Times that a short way was taken: of a write, of what leaves, of an acknowledgment.
    short: [usize; 3],
}

impl Side {
    fn new(start: &Start) -> Side {
        let config = SendConfig {
            budget_bytes: 1 << 16,
            connections_max: 4,
            ack_delay_max_ms: start.ack_delay_max_ms,
            ..SendConfig::default()
        };
        let Ok(memory) = SendMemory::new(config) else { unreachable!("there is address space") };
        let tcb = Tcb {
            state: State::Established,
            flags: Flags(start.flags),
            mss: start.mss,
            srtt_us: start.srtt_us,
            rttvar_us: start.srtt_us / 2,
            cwnd: start.cwnd,
            snd_wnd: start.snd_wnd,
            snd_una: Seq(start.seq),
            snd_nxt: Seq(start.seq),
            ..Tcb::default()
        };
        Side { tcb, memory, short: [0; 3] }
    }

    fn write(&mut self, bytes: &[u8], is_short: bool, now: Now) -> usize {
        if is_short && send::takes_small(&self.tcb, &self.memory, bytes.len()) {
            self.short[0] += 1;
            send::write_small(&mut self.tcb, &mut self.memory, bytes);
            return bytes.len();
        }
        send::write(&mut self.tcb, &mut self.memory, bytes, now)
    }

    fn send(&mut self, is_short: bool, now: Now) -> Vec<(Seq, Vec<u8>)> {
        let (mut sent, Side { tcb, memory, short }) = (Vec::new(), self);
        if is_short && let Some(last) = send::next_small(tcb, memory, &now) {
            assert!(!last.fin);
            short[1] += 1;
            sent.push((last.seq, last.data.to_vec()));
        }
        while let Some(segment) = send::next_segment(tcb, memory, now) {
            sent.push((segment.seq, segment.data.to_vec()));
        }
        sent
    }

    fn acknowledge(&mut self, seq: Seq, wnd: u32, is_short: bool, now: Now) -> bool {
        let Side { tcb, memory, short } = self;
        let up_to = tcb.snd_nxt;
        let may_be_short = up_to != tcb.snd_una && !tcb.flags.any(Flags::SEND_BLOCKED | Flags::CWND_LIMITED);
        if is_short && may_be_short && send::on_small_ack(tcb, memory, up_to, seq, wnd, &now) {
            short[2] += 1;
            return false;
        }
        let ack = Ack { ack: up_to, seq, wnd, sack: &[], ts_echo: Some(now.tick), ece: false, len: 1 };
        send::on_ack(tcb, memory, &ack, now).room_again
    }
}

/// Both sides go through the same, one by the short ways where they apply. Returns how often these were taken.
fn run(start: &Start, steps: &[Step]) -> Result<[usize; 3], TestCaseError> {
    let (mut short, mut general) = (Side::new(start), Side::new(start));
    let (mut now_ns, mut peer_seq) = (5_000_000_000u64, Seq(7));
    for step in steps {
        let now = Now::new(now_ns);
        match *step {
            Step::Write(len) => {
                let bytes: Vec<u8> = (0..len).map(|at| at as u8 ^ peer_seq.0 as u8).collect();
                prop_assert_eq!(short.write(&bytes, true, now), general.write(&bytes, false, now));
            }
            Step::Send => prop_assert_eq!(short.send(true, now), general.send(false, now)),
            Step::Acknowledge(wnd) => {
                peer_seq += 1;
                let both = [(&mut short, true), (&mut general, false)];
                let [a, b] = both.map(|(side, is_short)| side.acknowledge(peer_seq, wnd.into(), is_short, now));
                prop_assert_eq!(a, b);
            }
            Step::Wait(us) => now_ns += 1_000 * us,
        }
        // Handles may differ: only which chunks are used again first.
        let seen = |side: &Side| {
            let lists = [side.tcb.head, side.tcb.tail, side.tcb.last_sent].map(|handle| handle == NONE);
            let tcb = Tcb { head: 0, tail: 0, last_sent: 0, ..side.tcb };
            (format!("{tcb:?}"), lists, side.memory.used_bytes(), format!("{:?}", side.memory.counters()))
        };
        prop_assert_eq!(seen(&short), seen(&general));
    }
    Ok(short.short)
}

proptest! {
    #[test]
    fn short_ways_come_to_the_same_as_the_general_ones(start in starts(), steps in steps()) {
        run(&start, &steps)?;
    }
}

#[test]
fn requests_and_answers_go_the_short_ways() {
    let flags = (Flags::TIMESTAMPS | Flags::SACK | Flags::NODELAY).0;
    let (mss, srtt_us, cwnd, snd_wnd, seq, ack_delay_max_ms) = (1_460, 0, 14_600, 65_535, 9, 200);
    let start = Start { flags, mss, srtt_us, cwnd, snd_wnd, seq, ack_delay_max_ms };
    let turn = [Step::Write(1), Step::Send, Step::Wait(50), Step::Acknowledge(65_535)];
    let taken = run(&start, &turn.repeat(10)).unwrap();
    // The first chunk is new, and the first round trip is not known.
    assert_eq!(taken, [9, 9, 9]);
}
