//! The scoreboard (RFC 2018, RFC 6675): marks on chunks say what was SACKED, what is LOST, and what was RESENT.
//!
//! A walk passes over a run of SACKED chunks in few steps, so its cost is that of the chunks that are missing at the peer, and not of
//! the window.

use super::chunk::{Header, Marks};
use super::memory::SendMemory;
use super::queue;
use super::rack::Delivered;
use super::recovery::Recovery;
use crate::{NONE, Now, Seq, Tcb};

/// Most ranges of one SACK option.
pub(super) const RANGES_MAX: usize = 4;
/// Chunks that are missing at the peer and that one acknowledgment makes us look at, at most: a bound for the work that a peer can
/// cause. What is not looked at is looked at again when those before it are repaired.
const MISSING_MAX: usize = 8192;

/// What an acknowledgment delivered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delivery {
    /// Sequence numbers that arrived, by acknowledgment or SACK, and had not been SACKed before.
    pub delivered: u32,
    /// The same, of SACK alone.
    pub newly_sacked: u32,
    /// Round trip of the oldest chunk that was acknowledged, in microseconds, if no chunk of the acknowledgment was sent twice.
    pub rtt_us: Option<u32>,
    /// Round trip of a chunk that was SACKed and was sent once.
    pub sack_rtt_us: Option<u32>,
    /// A chunk that was sent more than once was acknowledged.
    pub resent_acked: bool,
    /// A chunk arrived that was sent after all others that had arrived.
    pub latest: bool,
    /// A chunk that was sent once, before the recovery point, arrived.
    pub original: bool,
    /// SYN and FIN that were acknowledged.
    pub syn: bool,
    /// As `syn`.
    pub fin: bool,
}

/// Chunks in flight that are not SACKED, from one chunk on.
pub(super) struct Walk {
    at: u32,
}

impl Walk {
    /// A walk from chunk `at` on.
    pub fn from(at: u32) -> Walk {
        Walk { at }
    }

    /// The next chunk with its header. Marks of chunks may change meanwhile.
    pub fn next(&mut self, memory: &SendMemory) -> Option<(u32, Header)> {
        while self.at != NONE {
            let (handle, header) = (self.at, memory.header(self.at));
            if header.transmissions == 0 {
                break;
            }
            if !header.marks.has(Marks::SACKED) {
                self.at = header.next;
                return Some((handle, header));
            }
            self.at = memory.header(header.stamp).next;
        }
        None
    }
}

/// Ranges of a SACK option that are about what is in flight, in the order of their numbers.
pub(super) fn ranges_in_flight(tcb: &Tcb, sack: &[(Seq, Seq)], una: Seq) -> ([(Seq, Seq); RANGES_MAX], usize) {
    let mut ranges = [(una, una); RANGES_MAX];
    let mut count = 0;
    for &(from, to) in sack.iter().take(RANGES_MAX) {
        let is_valid = from.before(to) && from.at_least(una) && to.at_most(tcb.snd_nxt) && from.before(tcb.snd_nxt);
        if !is_valid {
            continue;
        }
        let place = ranges[..count].iter().position(|range| from.before(range.0)).unwrap_or(count);
        ranges.copy_within(place..count, place + 1);
        ranges[place] = (from, to);
        count += 1;
    }
    (ranges, count)
}

/// The range that reports a duplicate, if there is one (RFC 2883): the first, if it is acknowledged or inside of the second.
pub(super) fn duplicate(sack: &[(Seq, Seq)], ack: Seq) -> Option<(Seq, Seq)> {
    let first = *sack.first()?;
    let is_inside = sack.get(1).is_some_and(|second| first.0.at_least(second.0) && first.1.at_most(second.1));
    (first.0.before(first.1) && (first.1.at_most(ack) || is_inside)).then_some(first)
}

/// Marks the chunks that lie inside of `ranges`, which are in order.
pub(super) fn take_sack(
    tcb: &Tcb,
    memory: &mut SendMemory,
    recovery: &mut Recovery,
    ranges: &[(Seq, Seq)],
    now: Now,
    delivery: &mut Delivery,
) {
    let (mut at, mut run, mut ranges, mut missing) = (tcb.head, NONE, ranges, 0);
    while at != NONE && missing < MISSING_MAX {
        let mut header = memory.header(at);
        if header.transmissions == 0 {
            break;
        }
        if header.marks.has(Marks::SACKED) {
            // The run goes on, or another begins.
            let last = header.stamp;
            run = extend(memory, run, at, last);
            at = memory.header(last).next;
            continue;
        }
        while ranges.first().is_some_and(|range| range.1.at_most(header.seq)) {
            ranges = &ranges[1..];
        }
        if ranges.is_empty() {
            break;
        }
        if !ranges.iter().any(|range| range.0.at_most(header.seq) && header.end().at_most(range.1)) {
            (run, at, missing) = (NONE, header.next, missing + 1);
            continue;
        }
        // The timestamp that is echoed is that of the last segment in order, so it says nothing of this one.
        arrived(recovery, &header, None, now, delivery);
        if header.transmissions == 1 {
            delivery.sack_rtt_us = Some(now.us.wrapping_sub(header.stamp));
        }
        delivery.newly_sacked += header.span();
        recovery.sacked += header.span();
        recovery.sacked_segments += 1;
        header.marks = header.marks.without(Marks::LOST).without(Marks::RESENT).with(Marks::SACKED);
        header.stamp = at;
        memory.set(at, header);
        run = extend(memory, run, at, at);
        at = header.next;
    }
}

/// The SACKED chunks from `from` to `last` follow the run that begins at `run`, if there is one. Returns the first chunk of the run.
fn extend(memory: &mut SendMemory, run: u32, from: u32, last: u32) -> u32 {
    if run == NONE {
        return from;
    }
    let mut header = memory.header(run);
    header.stamp = last;
    memory.set(run, header);
    run
}

/// A chunk that was not SACKED before arrived at the peer: what RACK and the counts learn from it. Its marks are left to the caller.
fn arrived(recovery: &mut Recovery, header: &Header, ts_echo: Option<u32>, now: Now, delivery: &mut Delivery) {
    let span = header.span();
    delivery.delivered += span;
    let is_resent = header.transmissions > 1;
    if is_resent {
        delivery.resent_acked = true;
    } else if header.end().at_most(recovery.point) {
        delivery.original = true;
    }
    uncount(recovery, header.marks, span);
    // The tick of the last transmission; the echo is one of ticks, too.
    let sent_tick = now.tick.wrapping_sub(now.us.wrapping_sub(header.stamp).div_ceil(1_000));
    let is_older = ts_echo.is_some_and(|echo| (echo.wrapping_sub(sent_tick) as i32) < 0);
    let segment = Delivered { sent_us: header.stamp, end: header.end(), is_resent, is_older };
    delivery.latest |= recovery.rack.delivered(segment, now.us);
}

/// Takes `span` numbers of a chunk with `marks` out of the counts of what is lost and resent.
fn uncount(recovery: &mut Recovery, marks: Marks, span: u32) {
    if marks.has(Marks::LOST) {
        recovery.lost -= span;
        if !marks.has(Marks::RESENT) {
            recovery.to_resend -= span;
        }
    }
    if marks.has(Marks::RESENT) {
        recovery.resent -= span;
    }
}

/// Frees what `ack` acknowledges, all of which is in flight.
pub(super) fn take_ack(
    tcb: &mut Tcb,
    memory: &mut SendMemory,
    recovery: &mut Recovery,
    ack: Seq,
    ts_echo: Option<u32>,
    now: Now,
    delivery: &mut Delivery,
) {
    let mut first_stamp = None;
    while tcb.snd_una != ack && tcb.head != NONE {
        let header = memory.header(tcb.head);
        if header.end().after(ack) {
            let before = header.span();
            let cut = before - queue::trim_head(tcb, memory, ack).span();
            forget(recovery, &header, cut);
            delivery.delivered += if header.marks.has(Marks::SACKED) { 0 } else { cut };
            break;
        }
        if !header.marks.has(Marks::SACKED) {
            arrived(recovery, &header, ts_echo, now, delivery);
            if header.transmissions == 1 {
                first_stamp = first_stamp.or(Some(header.stamp));
            }
        } else if Recovery::has_sack(tcb) {
            recovery.sacked -= header.span();
            recovery.sacked_segments -= 1;
        }
        delivery.syn |= header.marks.has(Marks::SYN);
        delivery.fin |= header.marks.has(Marks::FIN);
        if recovery.resend_from == tcb.head {
            recovery.resend_from = header.next;
        }
        tcb.snd_una = header.end();
        queue::free_head(tcb, memory, &header);
    }
    tcb.snd_una = ack;
    if !delivery.resent_acked {
        delivery.rtt_us = first_stamp.map(|stamp| now.us.wrapping_sub(stamp));
    }
}

/// Takes `span` numbers of a chunk out of the counts that its marks stand in.
fn forget(recovery: &mut Recovery, header: &Header, span: u32) {
    if header.marks.has(Marks::SACKED) {
        recovery.sacked -= span;
    } else {
        uncount(recovery, header.marks, span);
    }
}

/// Marks a chunk in flight lost, or its retransmission.
pub(super) fn mark_lost(memory: &mut SendMemory, recovery: &mut Recovery, handle: u32) {
    let mut header = memory.header(handle);
    uncount(recovery, header.marks, header.span());
    recovery.lost += header.span();
    recovery.to_resend += header.span();
    header.marks = header.marks.without(Marks::RESENT).with(Marks::LOST);
    memory.set(handle, header);
    if recovery.resend_from == NONE || header.seq.before(memory.header(recovery.resend_from).seq) {
        recovery.resend_from = handle;
    }
}

/// Marks what RACK takes for lost now (RFC 8985 section 6.2 step 5). Returns the microseconds after which more may be lost; 0 if the
/// question does not arise.
pub(super) fn detect_lost(tcb: &Tcb, memory: &mut SendMemory, recovery: &mut Recovery, now: Now) -> u32 {
    let window_us = recovery.rack.window_us(recovery.context(tcb));
    let (mut walk, mut wait_us) = (Walk::from(tcb.head), 0);
    for _ in 0..MISSING_MAX {
        let Some((handle, header)) = walk.next(memory) else { break };
        if header.marks.has(Marks::LOST) && !header.marks.has(Marks::RESENT) {
            continue;
        }
        if !recovery.rack.is_overtaken(header.stamp, header.end()) {
            if header.transmissions == 1 {
                // What follows was sent first after this one, and again later still.
                break;
            }
            continue;
        }
        match recovery.rack.until_lost_us(header.stamp, window_us, now.us) {
            0 => mark_lost(memory, recovery, handle),
            rest_us => wait_us = wait_us.max(rest_us),
        }
    }
    wait_us
}

/// Marks what a retransmission time-out takes for lost (RFC 8985 section 6.3): the first chunk, and all to which an answer is overdue.
/// If the first chunk is SACKED, the peer dropped what it had reported, and nothing it reported counts (RFC 2018 section 8); likewise
/// with `forget_sack`.
pub(super) fn mark_timed_out(tcb: &Tcb, memory: &mut SendMemory, recovery: &mut Recovery, forget_sack: bool, now: Now) {
    let is_reneged = tcb.head != NONE && memory.header(tcb.head).marks.has(Marks::SACKED);
    if is_reneged {
        memory.counters.reneged += 1;
    }
    if is_reneged || forget_sack {
        let mut at = tcb.head;
        while at != NONE {
            let mut header = memory.header(at);
            if header.transmissions == 0 {
                break;
            }
            if header.marks.has(Marks::SACKED) {
                header.marks = header.marks.without(Marks::SACKED);
                // Its time is not known any more: long ago.
                header.stamp = now.us.wrapping_sub(u32::MAX / 4);
                header.transmissions = header.transmissions.max(2);
                memory.set(at, header);
            }
            at = header.next;
        }
        (recovery.sacked, recovery.sacked_segments) = (0, 0);
    }
    if !Recovery::has_sack(tcb) {
        recovery.sacked = 0;
    }
    let mut walk = Walk::from(tcb.head);
    while let Some((handle, header)) = walk.next(memory) {
        let is_waiting = header.marks.has(Marks::LOST) && !header.marks.has(Marks::RESENT);
        let is_due = handle == tcb.head || recovery.rack.is_overdue(header.stamp, now.us);
        if !is_waiting && (is_due || !Recovery::has_sack(tcb)) {
            mark_lost(memory, recovery, handle);
        }
    }
}

/// Marks lost what is in flight in segments that are too long for the path. True if there is any.
pub(super) fn mark_too_long(tcb: &Tcb, memory: &mut SendMemory, recovery: &mut Recovery) -> bool {
    let (mut walk, mut found) = (Walk::from(tcb.head), false);
    while let Some((handle, header)) = walk.next(memory) {
        let is_waiting = header.marks.has(Marks::LOST) && !header.marks.has(Marks::RESENT);
        if u32::from(header.len) > queue::payload_max(tcb) && !is_waiting {
            mark_lost(memory, recovery, handle);
            found = true;
        }
    }
    found
}

/// Nothing is lost after all.
pub(super) fn unmark_lost(tcb: &Tcb, memory: &mut SendMemory, recovery: &mut Recovery) {
    let mut walk = Walk::from(tcb.head);
    while let Some((handle, mut header)) = walk.next(memory) {
        if header.marks.has(Marks::LOST) {
            header.marks = header.marks.without(Marks::LOST);
            memory.set(handle, header);
        }
    }
    (recovery.lost, recovery.to_resend, recovery.resend_from) = (0, 0, NONE);
}

/// The first chunk that waits to be sent again.
pub(super) fn first_to_resend(memory: &SendMemory, recovery: &mut Recovery) -> Option<u32> {
    if recovery.to_resend == 0 {
        recovery.resend_from = NONE;
        return None;
    }
    let mut walk = Walk::from(recovery.resend_from);
    while let Some((handle, header)) = walk.next(memory) {
        if header.marks.has(Marks::LOST) && !header.marks.has(Marks::RESENT) {
            recovery.resend_from = handle;
            return Some(handle);
        }
    }
    None
}

/// A chunk is sent again now: marks, counts and time. Returns its header.
pub(super) fn mark_resent(memory: &mut SendMemory, recovery: &mut Recovery, handle: u32, now: Now) -> Header {
    let mut header = memory.header(handle);
    uncount(recovery, header.marks, header.span());
    if header.marks.has(Marks::LOST) {
        recovery.lost += header.span();
    }
    recovery.resent += header.span();
    header.marks = header.marks.with(Marks::RESENT);
    header.stamp = now.us;
    header.transmissions = header.transmissions.saturating_add(1);
    memory.set(handle, header);
    recovery.note_resent(now.tick);
    header
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::send::SendConfig;
    use crate::{Flags, State};

    const LEN: u32 = 10;

    /// Chunks of ten bytes, all sent, each a microsecond after the one before it.
    fn sent(count: u32) -> (Tcb, SendMemory, Recovery) {
        let una = Seq(u32::MAX - 55);
        let mut tcb = Tcb { snd_una: una, snd_nxt: una, state: State::Established, mss: 1_000, ..Tcb::default() };
        tcb.flags.set(Flags::SACK);
        let mut memory = SendMemory::new(SendConfig { connections_max: 1, ..SendConfig::default() }).unwrap();
        for place in 0..count {
            queue::append(&mut tcb, &mut memory, LEN as usize, &[0; LEN as usize], Marks::default()).unwrap();
            tcb.last_sent = tcb.tail;
            memory.stamp(tcb.last_sent, 1_000 + place);
        }
        tcb.snd_nxt = una + tcb.queued;
        let recovery = Recovery::new(&tcb);
        (tcb, memory, recovery)
    }

    fn headers(tcb: &Tcb, memory: &SendMemory) -> Vec<(u32, Header)> {
        let (mut at, mut all) = (tcb.head, Vec::new());
        while at != NONE {
            all.push((at, memory.header(at)));
            at = all[all.len() - 1].1.next;
        }
        all
    }

    #[derive(Clone, Debug)]
    enum Step {
        Sack(Vec<(u32, u32)>),
        Ack(u32),
        Detect,
        Resend,
        TimeOut,
    }

    fn steps() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => prop::collection::vec((0..620u32, 1..60u32), 1..4).prop_map(Step::Sack),
            1 => (0..12u32).prop_map(Step::Ack),
            3 => Just(Step::Detect),
            3 => Just(Step::Resend),
            1 => Just(Step::TimeOut),
        ]
    }

    proptest! {
        /// Against a model that looks at every chunk each time.
        #[test]
        fn marks_are_those_of_a_naive_model(steps in prop::collection::vec(steps(), 1..60)) {
            let (mut tcb, mut memory, mut recovery) = sent(60);
            let first = tcb.snd_una;
            let mut now = Now::new(2_000_000);
            let mut sacked = [false; 60];
            for step in steps {
                now = Now::new(now.ns + 300_000);
                let base = ((tcb.snd_una - first) / LEN) as usize;
                match step {
                    Step::Sack(ranges) => {
                        let ranges: Vec<(Seq, Seq)> =
                            ranges.iter().map(|(from, len)| (first + *from, first + *from + *len)).collect();
                        let (in_flight, count) = ranges_in_flight(&tcb, &ranges, tcb.snd_una);
                        prop_assert!(in_flight[..count].windows(2).all(|pair| pair[0].0.at_most(pair[1].0)));
                        take_sack(&tcb, &mut memory, &mut recovery, &in_flight[..count], now, &mut Delivery::default());
                        for (place, mark) in sacked.iter_mut().enumerate().skip(base) {
                            let (from, to) = (first + place as u32 * LEN, first + (place as u32 + 1) * LEN);
                            *mark |= ranges.iter().any(|range| {
                                range.0.at_least(tcb.snd_una) && range.1.at_most(tcb.snd_nxt)
                                    && range.0.at_most(from) && to.at_most(range.1)
                            });
                        }
                    }
                    Step::Ack(chunks) => {
                        let ack = (tcb.snd_una + chunks * LEN).min(tcb.snd_nxt);
                        let acked = ack - tcb.snd_una;
                        take_ack(&mut tcb, &mut memory, &mut recovery, ack, None, now, &mut Delivery::default());
                        tcb.queued -= acked;
                    }
                    Step::Detect => {
                        let window_us = recovery.rack.window_us(recovery.context(&tcb));
                        let before = headers(&tcb, &memory);
                        let wait_us = detect_lost(&tcb, &mut memory, &mut recovery, now);
                        let mut longest = 0;
                        for (handle, old) in before {
                            let waits = old.marks.has(Marks::LOST) && !old.marks.has(Marks::RESENT);
                            let marks = memory.header(handle).marks;
                            if old.marks.has(Marks::SACKED) || waits {
                                prop_assert_eq!(marks, old.marks);
                                continue;
                            }
                            let overtaken = recovery.rack.is_overtaken(old.stamp, old.end());
                            let rest_us = recovery.rack.until_lost_us(old.stamp, window_us, now.us);
                            let is_lost = overtaken && rest_us == 0;
                            prop_assert_eq!(marks.has(Marks::LOST) && !marks.has(Marks::RESENT), is_lost);
                            longest = longest.max(if overtaken { rest_us } else { 0 });
                        }
                        prop_assert_eq!(wait_us, longest);
                    }
                    Step::Resend => {
                        let waiting = headers(&tcb, &memory)
                            .into_iter()
                            .find(|(_, header)| header.marks.has(Marks::LOST) && !header.marks.has(Marks::RESENT));
                        let chosen = first_to_resend(&memory, &mut recovery);
                        prop_assert_eq!(chosen, waiting.map(|(handle, _)| handle));
                        if let Some(handle) = chosen {
                            mark_resent(&mut memory, &mut recovery, handle, now);
                        }
                    }
                    Step::TimeOut => {
                        let forgets = base < 60 && sacked[base];
                        mark_timed_out(&tcb, &mut memory, &mut recovery, false, now);
                        if forgets {
                            sacked = [false; 60];
                        }
                    }
                }
                let base = ((tcb.snd_una - first) / LEN) as usize;
                let mut counts = [0; 5];
                for (place, (_, header)) in headers(&tcb, &memory).iter().enumerate() {
                    let marks = header.marks;
                    prop_assert_eq!(marks.has(Marks::SACKED), sacked[base + place], "chunk {}", base + place);
                    let waits = marks.has(Marks::LOST) && !marks.has(Marks::RESENT);
                    let all = [marks.has(Marks::SACKED), marks.has(Marks::LOST), waits, marks.has(Marks::RESENT)];
                    for (count, is_set) in counts.iter_mut().zip(all) {
                        *count += if is_set { LEN } else { 0 };
                    }
                    // What is in flight: first transmissions that are neither SACKED nor lost, and all retransmissions.
                    let first_flies = !marks.has(Marks::SACKED) && !marks.has(Marks::LOST);
                    counts[4] += LEN * (u32::from(first_flies) + u32::from(marks.has(Marks::RESENT)));
                }
                let held = [recovery.sacked, recovery.lost, recovery.to_resend, recovery.resent, recovery.pipe(&tcb)];
                prop_assert_eq!(held, counts);
                prop_assert_eq!(recovery.sacked_segments * LEN, recovery.sacked);
            }
        }
    }

    #[test]
    fn an_acknowledgment_causes_bounded_work() {
        let (tcb, mut memory, mut recovery) = sent(3 * MISSING_MAX as u32);
        let now = Now::new(900_000_000);
        let ranges = [MISSING_MAX as u32 - 1, MISSING_MAX as u32 + 1].map(|place| {
            let from = tcb.snd_una + place * LEN;
            (from, from + LEN)
        });
        take_sack(&tcb, &mut memory, &mut recovery, &ranges, now, &mut Delivery::default());
        assert_eq!(recovery.sacked_segments, 1);
        let top = (tcb.snd_nxt - LEN, tcb.snd_nxt);
        recovery.rack.delivered(Delivered { sent_us: 800_000, end: top.1, is_resent: false, is_older: false }, now.us);
        detect_lost(&tcb, &mut memory, &mut recovery, now);
        assert_eq!(recovery.lost, MISSING_MAX as u32 * LEN);
    }

    #[test]
    fn duplicates_are_told_from_reports_of_holes() {
        let seq = |number: u32| Seq(1_000 + number);
        let ack = seq(0);
        let found = |sack: &[(Seq, Seq)]| duplicate(sack, ack);
        assert_eq!((found(&[]), found(&[(seq(10), seq(20))])), (None, None));
        assert_eq!(found(&[(seq(10), seq(20)), (seq(30), seq(40))]), None);
        assert_eq!(found(&[(ack - 10, ack - 20)]), None);
        // RFC 2883 section 4: what is acknowledged, and what is inside of the next range.
        assert_eq!(found(&[(ack - 20, ack - 10), (seq(10), seq(20))]), Some((ack - 20, ack - 10)));
        assert_eq!(found(&[(seq(12), seq(15)), (seq(10), seq(20))]), Some((seq(12), seq(15))));
    }
}
