//! The one deadline of the send side: what it is for, when it is set, and what happens when it comes.

use super::TimerOutcome;
use super::config::SendConfig;
use super::congestion;
use super::memory::SendMemory;
use super::queue::payload_max;
use super::recovery::{Frto, Phase, Recovery};
use super::{cold, queue, rtt, scoreboard};
use crate::time::NEVER;
use crate::{Flags, Now, Tcb};

/// Milliseconds after which a write that found no memory is tried again.
const RETRY_MS: u32 = 20;
/// Time-outs in a row from which on the path is in doubt (R1 of RFC 9293: at least three).
const DOUBTFUL: u8 = 3;

/// What the deadline is for: two bits of the flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// Retransmission time-out.
    Timeout,
    /// Tail loss probe (RFC 8985 section 7).
    Probe,
    /// The end of RACK's reordering window.
    Reorder,
    /// Nothing is in flight: the peer's window is closed or too small, or memory was short.
    Window,
}

/// What the deadline is for.
#[inline]
pub(super) fn kind(tcb: &Tcb) -> Timer {
    match (tcb.flags.has(Flags::TIMER_LOW), tcb.flags.has(Flags::TIMER_HIGH)) {
        (false, false) => Timer::Timeout,
        (true, false) => Timer::Probe,
        (false, true) => Timer::Reorder,
        (true, true) => Timer::Window,
    }
}

/// Sets the deadline to `ms` milliseconds from now.
#[inline]
pub(super) fn set(tcb: &mut Tcb, timer: Timer, ms: u32, now: Now) {
    tcb.flags.put(Flags::TIMER_LOW, matches!(timer, Timer::Probe | Timer::Window));
    tcb.flags.put(Flags::TIMER_HIGH, matches!(timer, Timer::Reorder | Timer::Window));
    // The tick may be about to end, so it does not count.
    tcb.send_deadline = now.in_ms(ms.saturating_add(1));
}

/// Sets the deadline of a connection without state of recovery, of which something is in flight, and clears it if nothing is.
#[inline]
pub(super) fn arm_clean(tcb: &mut Tcb, memory: &SendMemory, now: Now) {
    arm_clean_with(tcb, &memory.config, payload_max(tcb), now);
}

/// As [`arm_clean`], if [`payload_max`] is known.
#[inline]
pub(super) fn arm_clean_with(tcb: &mut Tcb, config: &SendConfig, payload: u32, now: Now) {
    if tcb.snd_nxt == tcb.snd_una {
        tcb.send_deadline = NEVER;
        return;
    }
    if tcb.srtt_us == 0 || !tcb.flags.has(Flags::SACK) || !tcb.is_synchronized() {
        return set(tcb, Timer::Timeout, rtt::rto_ms(tcb, config), now);
    }
    let probe_ms = probe_ms(tcb, config, payload);
    // Mostly the time-out need not be computed, because none is shorter than the shortest one.
    let is_short = probe_ms <= config.rto_min_ms;
    let rto_ms = if is_short { config.rto_max_ms } else { rtt::rto_ms(tcb, config) };
    set(tcb, Timer::Probe, probe_ms.min(rto_ms), now);
}

/// New data was sent, which puts a tail loss probe off (RFC 8985 section 7.2), or hastens it where only one segment was in flight before;
/// but never beyond the time-out of the first chunk, whose stamp this is, or data that keep coming would put it off for ever.
#[inline]
pub(super) fn put_off(tcb: &mut Tcb, config: &SendConfig, first_stamp: u32, now: Now) {
    let waited_ms = now.us.wrapping_sub(first_stamp) / 1_000;
    let rest_ms = rtt::rto_ms(tcb, config).saturating_sub(waited_ms);
    set(tcb, Timer::Probe, probe_ms(tcb, config, payload_max(tcb)).min(rest_ms), now);
}

/// The probe time-out (PTO of RFC 8985 section 7.2): two round trips, and the longest delay of an acknowledgment if less than two full
/// segments are in flight, which the peer need not acknowledge at once (RFC 5681 section 4.2).
#[inline]
fn probe_ms(tcb: &Tcb, config: &SendConfig, payload: u32) -> u32 {
    let delay_ms = if tcb.in_flight() < 2 * payload { config.ack_delay_max_ms } else { 2 };
    tcb.srtt_us / 500 + delay_ms
}

/// Sets the deadline of a connection with state of recovery: the time-out, or earlier what may come before it. `reorder_us` is the time
/// after which more may be lost, or 0.
pub(super) fn arm(tcb: &mut Tcb, memory: &SendMemory, recovery: &Recovery, reorder_us: u32, now: Now) {
    if tcb.snd_nxt == tcb.snd_una {
        tcb.send_deadline = NEVER;
        return;
    }
    let rto = time_out_ms(tcb, memory, recovery);
    let reorder_ms = reorder_us.div_ceil(1_000);
    if reorder_us != 0 && reorder_ms < rto {
        set(tcb, Timer::Reorder, reorder_ms, now);
    } else if recovery.may_probe() {
        arm_probe(tcb, memory, recovery, rto, now);
    } else {
        set(tcb, Timer::Timeout, rto, now);
    }
}

/// As [`put_off`], of a connection with state of recovery. While that lasts, segments leave only because others arrived, so that it needs
/// no limit.
pub(super) fn put_off_in_recovery(tcb: &mut Tcb, memory: &SendMemory, recovery: &Recovery, now: Now) {
    let first_stamp = memory.header(tcb.head).stamp;
    let rto_ms = time_out_ms(tcb, memory, recovery);
    if recovery.is_repairing() {
        arm_probe(tcb, memory, recovery, rto_ms, now);
    } else if recovery.probes > 0 {
        let waited_ms = now.us.wrapping_sub(first_stamp) / 1_000;
        arm_probe(tcb, memory, recovery, rto_ms.saturating_sub(waited_ms), now);
    } else {
        put_off(tcb, &memory.config, first_stamp, now);
    }
}

/// Sets the deadline to the next probe, or to the time-out, `rto_ms` from now, if that is not later or there are no probes (without SACK).
fn arm_probe(tcb: &mut Tcb, memory: &SendMemory, recovery: &Recovery, rto_ms: u32, now: Now) {
    if !recovery.is_repairing() && recovery.probes == 0 {
        return arm_clean(tcb, memory, now);
    }
    if tcb.srtt_us == 0 || !tcb.flags.has(Flags::SACK) || !tcb.is_synchronized() {
        return set(tcb, Timer::Timeout, rto_ms, now);
    }
    let probe_ms = probe_ms(tcb, &memory.config, payload_max(tcb)) << recovery.probes;
    if probe_ms < rto_ms {
        set(tcb, Timer::Probe, probe_ms, now);
    } else {
        set(tcb, Timer::Timeout, rto_ms, now);
    }
}

/// The retransmission time-out with its back-off.
pub(super) fn time_out_ms(tcb: &Tcb, memory: &SendMemory, recovery: &Recovery) -> u32 {
    rtt::backed_off(rtt::rto_ms(tcb, &memory.config), recovery.backoffs, &memory.config)
}

/// Does what is due now.
pub(super) fn on_timer(tcb: &mut Tcb, memory: &mut SendMemory, patience_ms: Option<u32>, now: Now) -> TimerOutcome {
    if !now.is_due(tcb.send_deadline) {
        return TimerOutcome::Nothing;
    }
    tcb.send_deadline = NEVER;
    let timer = kind(tcb);
    if timer == Timer::Window && tcb.queued == 0 && !tcb.flags.has(Flags::FIN_OWED) {
        return retry_write(tcb, memory, now);
    }
    let mut recovery = cold::load(tcb, memory);
    recovery.patience_ms = patience_ms;
    let outcome = match timer {
        Timer::Timeout => time_out(tcb, memory, &mut recovery, now),
        Timer::Probe => {
            // Of the probe before this one the end was acknowledged, and no duplicate was reported since.
            if recovery.probe.is_some_and(|probe| probe.is_resent && tcb.snd_una.at_least(probe.end)) {
                cold::count_probe_loss(tcb, memory, &mut recovery);
            }
            recovery.probes += 1;
            recovery.is_measured = false;
            arm(tcb, memory, &recovery, 0, now);
            recovery.probe_due = true;
            TimerOutcome::Send
        }
        Timer::Reorder => {
            let wait_us = scoreboard::detect_lost(tcb, memory, &mut recovery, now);
            cold::enter_recovery_if_lost(tcb, memory, &mut recovery);
            arm(tcb, memory, &recovery, wait_us, now);
            TimerOutcome::Send
        }
        Timer::Window => probe_window(tcb, memory, &mut recovery, now),
    };
    cold::store(tcb, memory, recovery);
    outcome
}

/// A write found no memory, and nothing is queued whose acknowledgment would bring room.
fn retry_write(tcb: &mut Tcb, memory: &SendMemory, now: Now) -> TimerOutcome {
    if !tcb.flags.has(Flags::SEND_BLOCKED) {
        return TimerOutcome::Nothing;
    }
    if queue::room(tcb, memory) == 0 {
        set(tcb, Timer::Window, RETRY_MS, now);
        return TimerOutcome::Nothing;
    }
    tcb.flags.clear(Flags::SEND_BLOCKED);
    TimerOutcome::Room
}

/// A write or a FIN found no memory: another try later, if nothing else is under way.
pub(super) fn arm_retry(tcb: &mut Tcb, now: Now) {
    if tcb.send_deadline == NEVER {
        set(tcb, Timer::Window, RETRY_MS, now);
    }
}

/// A retransmission time-out (RFC 6298 section 5, RFC 5681 section 3.1).
fn time_out(tcb: &mut Tcb, memory: &mut SendMemory, recovery: &mut Recovery, now: Now) -> TimerOutcome {
    let is_syn = !tcb.is_synchronized();
    if is_stuck(memory, recovery, is_syn, now) {
        return give_up(memory);
    }
    memory.counters.timeouts += 1;
    let is_closed = tcb.snd_wnd == 0 && !is_syn;
    // A loss during the recovery from a time-out leaves the threshold as it is (RFC 5681).
    let is_new = recovery.phase != Phase::Loss || tcb.snd_una.after(recovery.point);
    if is_new && !is_syn && !is_closed {
        congestion::reduce(tcb, recovery, &memory.config, true);
    }
    let forget_sack = recovery.backoffs > 0;
    recovery.backoffs = recovery.backoffs.saturating_add(1);
    recovery.probe = None;
    recovery.probe_due = false;
    recovery.is_harmless = false;
    recovery.dup_acks = 0;
    scoreboard::mark_timed_out(tcb, memory, recovery, forget_sack, now);
    if is_closed {
        // The peer took its window back: the first segment is a probe of it, and nothing is known of congestion.
        recovery.is_harmless = true;
    } else {
        recovery.phase = Phase::Loss;
        recovery.point = tcb.snd_nxt;
        tcb.cwnd = recovery.pipe(tcb) + payload_max(tcb);
        let frto = !is_syn && Recovery::has_sack(tcb) && !tcb.flags.has(Flags::TIMESTAMPS);
        recovery.frto = if frto { Frto::Resent } else { Frto::Off };
    }
    recovery.syn_resent |= is_syn;
    set_time_out(tcb, memory, recovery, now);
    if recovery.backoffs == DOUBTFUL { TimerOutcome::Doubt } else { TimerOutcome::Send }
}

/// The peer's window is closed or too small for long: probe it (RFC 9293 section 3.8.6.1), for ever as long as the peer answers.
fn probe_window(tcb: &mut Tcb, memory: &mut SendMemory, recovery: &mut Recovery, now: Now) -> TimerOutcome {
    if tcb.in_flight() != 0 || (tcb.queued == 0 && !tcb.flags.has(Flags::FIN_OWED)) {
        return TimerOutcome::Send;
    }
    if is_stuck(memory, recovery, false, now) {
        return give_up(memory);
    }
    recovery.backoffs = recovery.backoffs.saturating_add(1);
    tcb.flags.set(Flags::WINDOW_PROBE);
    set(tcb, Timer::Window, wait_ms(tcb, memory, recovery, now), now);
    TimerOutcome::Send
}

/// Notes that the peer has not answered, and says whether it has not for too long (R2).
fn is_stuck(memory: &SendMemory, recovery: &mut Recovery, is_syn: bool, now: Now) -> bool {
    if recovery.stuck_since == NEVER {
        recovery.stuck_since = now.tick.max(1);
        return false;
    }
    let usual_ms = if is_syn { memory.config.give_up_syn_ms } else { memory.config.give_up_ms };
    let limit_ms = recovery.patience_ms.unwrap_or(usual_ms);
    now.tick.wrapping_sub(recovery.stuck_since) >= limit_ms
}

/// Sets the deadline to the retransmission time-out from now on.
pub(super) fn set_time_out(tcb: &mut Tcb, memory: &SendMemory, recovery: &Recovery, now: Now) {
    set(tcb, Timer::Timeout, wait_ms(tcb, memory, recovery, now), now);
}

/// The retransmission time-out, or what is left of the patience that the program set for a peer that does not answer.
fn wait_ms(tcb: &Tcb, memory: &SendMemory, recovery: &Recovery, now: Now) -> u32 {
    let left = |patience: u32| patience.saturating_sub(now.tick.wrapping_sub(recovery.stuck_since));
    let most = recovery.patience_ms.filter(|_| recovery.stuck_since != NEVER).map_or(u32::MAX, left);
    time_out_ms(tcb, memory, recovery).min(most)
}

fn give_up(memory: &mut SendMemory) -> TimerOutcome {
    memory.counters.given_up += 1;
    TimerOutcome::GiveUp
}
