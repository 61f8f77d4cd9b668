//! Acknowledgments: what they free, what they tell of loss, and what the congestion window makes of them.

use super::chunk::Marks;
use super::memory::SendMemory;
use super::queue::{self, payload_max};
use super::rack::DUP_THRESH;
use super::recovery::{Frto, Phase, Recovery};
use super::scoreboard::{self, Delivery};
use super::timer::{self, Timer};
use super::{Ack, AckOutcome, cold, congestion, rtt, write};
use crate::time::NEVER;
use crate::{Flags, NONE, Now, Seq, Tcb};

/// Takes an acknowledgment and updates the window.
#[inline]
pub(super) fn on_ack(tcb: &mut Tcb, memory: &mut SendMemory, ack: &Ack<'_>, now: Now) -> AckOutcome {
    if ack.ack.before(tcb.snd_una) || ack.ack.after(tcb.snd_nxt) {
        if !ack.sack.is_empty() && tcb.cold != NONE && ack.ack.before(tcb.snd_una) {
            // It was overtaken, but its reports count, above all those of duplicates.
            return recover(tcb, memory, ack, false, now);
        }
        return AckOutcome::default();
    }
    let window_before = tcb.snd_wnd;
    take_window(tcb, ack.seq, ack.wnd);
    let is_plain = ack.sack.is_empty() && !(ack.ece && tcb.flags.has(Flags::ECN));
    let mut outcome = if tcb.cold == NONE && is_plain && ack.ack != tcb.snd_una {
        advance(tcb, memory, ack, now)
    } else {
        let may_be_duplicate = tcb.in_flight() != 0 && !tcb.flags.has(Flags::SACK) && ack.len == 0;
        if tcb.cold != NONE || !is_plain || (may_be_duplicate && ack.wnd == window_before) {
            recover(tcb, memory, ack, ack.wnd == window_before, now)
        } else {
            AckOutcome::default()
        }
    };
    outcome.room_again = tcb.flags.has(Flags::SEND_BLOCKED) && write::take_room_again(tcb, memory);
    outcome
}

/// Updates the window (RFC 9293 section 3.10.7.4). Where it opens, `next_segment` sends, and a probe is not needed.
#[inline(always)]
pub(super) fn take_window(tcb: &mut Tcb, seq: Seq, wnd: u32) {
    if tcb.snd_wl1.after(seq) {
        return;
    }
    tcb.snd_wl1 = seq;
    tcb.snd_wnd = wnd;
    let unscaled = (wnd >> tcb.snd_scale()).min(0xffff) as u16;
    tcb.max_wnd = tcb.max_wnd.max(unscaled);
}

/// The fast path: the acknowledgment brings `snd_una` on, nothing was ever lost, and there is nothing else in it.
#[inline]
fn advance(tcb: &mut Tcb, memory: &mut SendMemory, ack: &Ack<'_>, now: Now) -> AckOutcome {
    let flight = tcb.in_flight();
    let acked = ack.ack - tcb.snd_una;
    let (mut numbers, mut outcome) = (0, AckOutcome::default());
    let mut stamp = None;
    while tcb.snd_una != ack.ack && tcb.head != NONE {
        let header = memory.header(tcb.head);
        if header.end().after(ack.ack) {
            queue::trim_head(tcb, memory, ack.ack);
            break;
        }
        stamp = stamp.or(Some(header.stamp));
        if header.marks != Marks::default() {
            numbers += header.marks.numbers();
            outcome.syn_acked |= header.marks.has(Marks::SYN);
            outcome.fin_acked |= header.marks.has(Marks::FIN);
        }
        tcb.snd_una = header.end();
        queue::free_head(tcb, memory, &header);
    }
    tcb.snd_una = ack.ack;
    tcb.queued -= acked;
    if let Some(stamp) = stamp {
        rtt::sample(tcb, now.us.wrapping_sub(stamp));
    }
    if congestion::is_limited(tcb, flight) {
        grow(tcb, memory, acked, now);
    }
    timer::arm_clean(tcb, memory, now);
    outcome.bytes_acked = acked - numbers;
    outcome
}

/// The window held the sender back and grows. State is made for congestion avoidance, which a connection without state comes to only
/// if its state was given back.
#[inline(never)]
pub(super) fn grow(tcb: &mut Tcb, memory: &mut SendMemory, acked: u32, now: Now) {
    let rest = congestion::slow_start(tcb, acked);
    if rest > 0 {
        let mut recovery = cold::load(tcb, memory);
        congestion::avoid(tcb, &mut recovery, &memory.config, rest, true, now);
        cold::store(tcb, memory, recovery);
    }
}

/// The other path: something was lost, reordered or reported.
#[cold]
#[inline(never)]
fn recover(tcb: &mut Tcb, memory: &mut SendMemory, ack: &Ack<'_>, same_window: bool, now: Now) -> AckOutcome {
    let mut recovery = cold::load(tcb, memory);
    let state = &mut recovery;
    let (una, flight, pipe_before) = (tcb.snd_una, tcb.in_flight(), state.pipe(tcb));
    let has_moved = ack.ack.after(una);
    let up_to = ack.ack.max(una);
    let mut delivery = Delivery::default();

    let duplicate = take_duplicate(tcb, memory, state, ack);
    let (ranges, count) = scoreboard::ranges_in_flight(tcb, ack.sack, up_to);
    scoreboard::take_ack(tcb, memory, state, up_to, ack.ts_echo, now, &mut delivery);
    if Recovery::has_sack(tcb) {
        scoreboard::take_sack(tcb, memory, state, &ranges[..count], now, &mut delivery);
    }
    let acked = up_to - una;
    tcb.queued -= acked;
    if has_moved || tcb.snd_wnd == 0 || timer::kind(tcb) == Timer::Window {
        // The peer answers.
        state.stuck_since = NEVER;
    }
    if has_moved || (timer::kind(tcb) == Timer::Window && tcb.snd_wnd != 0) {
        state.backoffs = 0;
    }
    if delivery.delivered > 0 {
        state.probes = 0;
    }
    take_round_trip(tcb, state, &delivery, has_moved, ack, now);

    let is_duplicate = !has_moved && flight != 0 && ack.len == 0 && same_window;
    if !Recovery::has_sack(tcb) {
        count_duplicates(tcb, memory, state, is_duplicate, acked, &mut delivery);
    }
    take_probe(tcb, memory, state, ack, has_moved, is_duplicate, duplicate, &delivery);
    let undone = detect_spurious(tcb, memory, state, ack, has_moved, is_duplicate, &delivery);
    if undone {
        scoreboard::unmark_lost(tcb, memory, state);
        memory.counters.undone += 1;
    }
    end_phase(tcb, state);

    let lost_before = state.lost;
    let mut wait_us = 0;
    if Recovery::has_sack(tcb) && (delivery.latest || timer::kind(tcb) == Timer::Reorder) {
        wait_us = scoreboard::detect_lost(tcb, memory, state, now);
    }
    let entered = !undone && cold::enter_recovery_if_lost(tcb, memory, state);
    if state.lost == 0 {
        state.is_harmless = false;
    }
    if ack.ece && tcb.flags.has(Flags::ECN) && state.phase == Phase::Open {
        reduce_for_ecn(tcb, memory, state);
    }

    match state.phase {
        Phase::Recovery if delivery.delivered > 0 || entered => {
            let (pipe, mss) = (state.pipe(tcb), payload_max(tcb));
            let is_good = has_moved && state.lost <= lost_before;
            let mut room = state.prr.on_ack(delivery.delivered, pipe, tcb.ssthresh, mss, is_good);
            // The first loss is repaired at once, and without SACK each further one that a partial acknowledgment shows (RFC 6582
            // section 3.2 step 3).
            if entered || has_moved && !Recovery::has_sack(tcb) {
                room = room.max(mss);
            }
            tcb.cwnd = pipe.saturating_add(room).max(mss);
        }
        Phase::Open | Phase::Loss if has_moved => {
            let is_limited = congestion::is_limited(tcb, pipe_before.max(flight));
            let rest = if is_limited { congestion::slow_start(tcb, acked) } else { acked };
            if tcb.cwnd >= tcb.ssthresh && rest > 0 {
                congestion::avoid(tcb, state, &memory.config, rest, is_limited, now);
            }
        }
        _ => {}
    }
    // What brought nothing on puts neither the time-out off nor a tail loss probe (RFC 8985 section 7.2).
    let keeps = match timer::kind(tcb) {
        Timer::Timeout => true,
        Timer::Probe => state.may_probe() && !(state.is_repairing() && delivery.delivered > 0),
        Timer::Reorder | Timer::Window => false,
    };
    let keeps = keeps && tcb.send_deadline != NEVER && wait_us == 0;
    if has_moved || entered || undone || !keeps {
        timer::arm(tcb, memory, state, wait_us, now);
    }
    cold::store(tcb, memory, recovery);
    AckOutcome {
        bytes_acked: acked - u32::from(delivery.syn) - u32::from(delivery.fin),
        syn_acked: delivery.syn,
        fin_acked: delivery.fin,
        room_again: false,
    }
}

/// A duplicate that the peer reports (RFC 2883): the reordering window grows, and an undo counts it. Returns the range.
fn take_duplicate(
    tcb: &Tcb,
    memory: &mut SendMemory,
    recovery: &mut Recovery,
    ack: &Ack<'_>,
) -> Option<(crate::Seq, crate::Seq)> {
    if !Recovery::has_sack(tcb) {
        return None;
    }
    let range = scoreboard::duplicate(ack.sack, ack.ack)?;
    // What was never sent, or so long ago that nothing is known of it, is no report.
    if range.1.after(tcb.snd_nxt) || ack.ack - range.0 > tcb.max_window().max(1 << 16) && range.1.at_most(ack.ack) {
        return None;
    }
    memory.counters.duplicates += 1;
    if recovery.probed != Some(range.1) {
        recovery.rack.duplicate(tcb.snd_una.max(ack.ack), tcb.snd_nxt);
    }
    if let Some(undo) = &mut recovery.undo {
        undo.duplicates += (range.1 - range.0).div_ceil(payload_max(tcb)).min(undo.resent);
    }
    Some(range)
}

/// A round-trip time, by Karn's rule from what was sent once, else from the timestamp that is echoed (RFC 7323 section 4).
fn take_round_trip(
    tcb: &mut Tcb,
    recovery: &mut Recovery,
    delivery: &Delivery,
    has_moved: bool,
    ack: &Ack<'_>,
    now: Now,
) {
    let by_echo = || {
        let echo = ack.ts_echo.filter(|_| has_moved)?;
        let ms = now.tick.wrapping_sub(echo);
        // A clock of milliseconds cannot say less than one.
        (ms < 1 << 20).then(|| ms.max(1) * 1_000)
    };
    let by_sack = || delivery.sack_rtt_us.filter(|_| recovery.phase == Phase::Open);
    if let Some(rtt_us) = delivery.rtt_us.or_else(by_echo).or_else(by_sack) {
        rtt::sample(tcb, rtt_us);
        recovery.is_measured = true;
    }
}

/// Without SACK: each duplicate acknowledgment stands for a segment that left the network, the third for a loss, and in a recovery each
/// partial acknowledgment for another (RFC 5681 section 3.2, RFC 6582).
fn count_duplicates(
    tcb: &Tcb,
    memory: &mut SendMemory,
    recovery: &mut Recovery,
    is_duplicate: bool,
    acked: u32,
    delivery: &mut Delivery,
) {
    let mss = payload_max(tcb);
    if is_duplicate {
        let most = tcb.in_flight().saturating_sub(recovery.lost).saturating_sub(mss);
        let more = mss.min(most.saturating_sub(recovery.sacked));
        recovery.sacked += more;
        delivery.delivered += more;
        recovery.dup_acks += 1;
        // A duplicate of what was sent before the last recovery ended says nothing new (RFC 6582 section 3.2 step 1).
        let is_new = recovery.phase == Phase::Open && tcb.snd_una.after(recovery.point);
        if recovery.dup_acks == DUP_THRESH && is_new && tcb.head != NONE {
            scoreboard::mark_lost(memory, recovery, tcb.head);
        }
    } else if acked > 0 {
        recovery.dup_acks = 0;
        recovery.sacked = recovery.sacked.saturating_sub(acked.saturating_sub(mss));
        let is_partial = recovery.phase == Phase::Recovery && tcb.snd_una.before(recovery.point);
        if !is_partial {
            recovery.sacked = 0;
        } else if tcb.head != NONE && !memory.header(tcb.head).marks.has(Marks::LOST) {
            scoreboard::mark_lost(memory, recovery, tcb.head);
        }
        let most = tcb.in_flight().saturating_sub(recovery.lost);
        recovery.sacked = recovery.sacked.min(most);
    }
}

/// What an acknowledgment says of a tail loss probe (RFC 8985 section 7.4).
#[allow(clippy::too_many_arguments)]
fn take_probe(
    tcb: &mut Tcb,
    memory: &mut SendMemory,
    recovery: &mut Recovery,
    ack: &Ack<'_>,
    has_moved: bool,
    is_duplicate: bool,
    duplicate: Option<(crate::Seq, crate::Seq)>,
    delivery: &Delivery,
) {
    let Some(probe) = recovery.probe.filter(|probe| ack.ack.at_least(probe.end)) else { return };
    let is_reported = duplicate.is_some_and(|range| range.1 == probe.end);
    if !probe.is_resent || is_reported || (is_duplicate && delivery.newly_sacked == 0) {
        // New data arrived, or the probe and what it repeated both did: nothing was lost.
        recovery.probe = None;
    } else if has_moved && ack.ack.after(probe.end) {
        cold::count_probe_loss(tcb, memory, recovery);
    }
}

/// True if the last reduction was for nothing, which is then taken back: by the echoed timestamp (Eifel), by F-RTO, or because all that was
/// sent again was reported twice.
fn detect_spurious(
    tcb: &mut Tcb,
    memory: &SendMemory,
    recovery: &mut Recovery,
    ack: &Ack<'_>,
    has_moved: bool,
    is_duplicate: bool,
    delivery: &Delivery,
) -> bool {
    let frto = forward_rto(tcb, memory, recovery, has_moved, is_duplicate, delivery);
    // A late segment that fills the first hole says nothing of other holes that are being repaired.
    let speaks_for_all = match recovery.phase {
        Phase::Loss => true,
        Phase::Recovery => recovery.resent == 0 || tcb.snd_una.at_least(recovery.point),
        Phase::Open | Phase::Reduced => false,
    };
    let by_time = has_moved && speaks_for_all && recovery.is_spurious(ack.ts_echo);
    let is_spurious = recovery.undo.is_some() && (frto || by_time || recovery.was_all_in_vain());
    if is_spurious {
        congestion::undo(tcb, recovery);
        recovery.frto = Frto::Off;
    }
    is_spurious
}

/// F-RTO with SACK (RFC 5682 section 3), where there are no timestamps.
fn forward_rto(
    tcb: &Tcb,
    memory: &SendMemory,
    recovery: &mut Recovery,
    has_moved: bool,
    is_duplicate: bool,
    delivery: &Delivery,
) -> bool {
    if recovery.frto == Frto::Off || recovery.phase != Phase::Loss {
        return false;
    }
    if delivery.original {
        // What was sent before the time-out, and not again, arrives after all.
        return true;
    }
    let may_send = tcb.queued > tcb.in_flight() && tcb.in_flight() < tcb.snd_wnd;
    let goes_on = recovery.frto == Frto::Resent && has_moved && tcb.snd_una.before(recovery.point) && may_send;
    if goes_on && memory.available_bytes() > 0 {
        recovery.frto = Frto::NewData;
    } else if has_moved || is_duplicate || delivery.newly_sacked > 0 {
        recovery.frto = Frto::Off;
    }
    false
}

/// The phase ends when all that had been sent at its beginning is acknowledged.
fn end_phase(tcb: &mut Tcb, recovery: &mut Recovery) {
    if recovery.undo.and_then(|undo| undo.until).is_some_and(|until| tcb.snd_una.at_least(until)) {
        recovery.undo = None;
    }
    if recovery.phase == Phase::Open || tcb.snd_una.before(recovery.point) {
        return;
    }
    match recovery.phase {
        Phase::Recovery => {
            tcb.cwnd = tcb.ssthresh;
            recovery.rack.recovered();
        }
        Phase::Loss => recovery.rack.recovered(),
        Phase::Open | Phase::Reduced => {}
    }
    recovery.phase = Phase::Open;
    recovery.frto = Frto::Off;
    if let Some(undo) = &mut recovery.undo {
        undo.until = Some(tcb.snd_nxt);
    }
}

/// The path marked a segment: once a round trip, the window is reduced as after a loss (RFC 3168 section 6.1.2).
fn reduce_for_ecn(tcb: &mut Tcb, memory: &mut SendMemory, recovery: &mut Recovery) {
    congestion::reduce(tcb, recovery, &memory.config, false);
    recovery.undo = None;
    recovery.phase = Phase::Reduced;
    recovery.point = tcb.snd_nxt;
    tcb.cwnd = tcb.ssthresh;
    memory.counters.ecn_reductions += 1;
}
