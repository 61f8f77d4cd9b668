//! What leaves now: retransmissions first, then new segments as far as Nagle, the peer's window and the congestion window allow.

use super::chunk::{Header, Marks};
use super::config::SendConfig;
use super::counters::SendCounters;
use super::memory::SendMemory;
use super::queue::{self, payload_max};
use super::recovery::{Frto, PROBES_MAX, Phase, Recovery, TailProbe};
use super::timer::{self, Timer};
use super::{Outgoing, cold, congestion, mtu, rtt, scoreboard};
use crate::time::NEVER;
use crate::{Flags, NONE, Now, Tcb};

/// The next segment that may leave now.
#[inline]
pub(super) fn next_segment<'a>(tcb: &mut Tcb, memory: &'a mut SendMemory, now: Now) -> Option<Outgoing<'a>> {
    if tcb.cold != NONE || tcb.flags.any(Flags::WINDOW_PROBE | Flags::FIN_OWED) {
        return next_in_recovery(tcb, memory, now);
    }
    let flight = tcb.in_flight();
    if tcb.queued == flight {
        tcb.flags.clear(Flags::CWND_LIMITED);
        return None;
    }
    let mut handle = queue::first_unsent(tcb, memory);
    if !may_send_as_it_is(tcb, memory, handle, flight, now) {
        handle = may_send(tcb, memory, flight, now)?;
    }
    Some(send(tcb, memory, handle, now))
}

/// True in the usual case: the chunk fits into both windows as it is, Nagle does not hold it, and there was no pause.
#[inline]
fn may_send_as_it_is(tcb: &Tcb, memory: &SendMemory, handle: u32, flight: u32, now: Now) -> bool {
    let payload = payload_max(tcb);
    if handle == NONE || !tcb.is_synchronized() {
        return false;
    }
    let header = memory.header(handle);
    fits(tcb, &memory.config, header.len, header.span(), payload, flight, &now)
}

/// True if the first unsent chunk, of `len` bytes and `span` sequence numbers, fits into both windows, Nagle does not hold it, and there was no
/// pause that changes the congestion window. `payload` is [`payload_max`].
#[inline]
pub(super) fn fits(tcb: &Tcb, config: &SendConfig, len: u16, span: u32, payload: u32, flight: u32, now: &Now) -> bool {
    let (len, end) = (u32::from(len), flight + span);
    if (len > payload) | (end > tcb.snd_wnd) {
        return false;
    }
    if flight == 0 {
        idle_ms(tcb, *now) <= config.rto_min_ms || tcb.cwnd <= congestion::initial_window(tcb, config)
    } else {
        (len == payload || tcb.flags.has(Flags::NODELAY)) && end <= tcb.cwnd
    }
}

/// The first unsent chunk, cut to what may leave, if something may; `pipe` bytes are in flight. Where the peer's window is in the way and
/// nothing is in flight, the deadline is set to probe it.
#[inline(never)]
fn may_send(tcb: &mut Tcb, memory: &mut SendMemory, pipe: u32, now: Now) -> Option<u32> {
    let flight = tcb.in_flight();
    if tcb.queued == flight {
        tcb.flags.clear(Flags::CWND_LIMITED);
        return None;
    }
    let handle = queue::first_unsent(tcb, memory);
    if handle == NONE {
        return None;
    }
    let header = memory.header(handle);
    if !tcb.is_synchronized() {
        // Only the SYN leaves before the handshake is over.
        return header.marks.has(Marks::SYN).then_some(handle);
    }
    if flight == 0 {
        begin_again(tcb, memory, now);
    }
    let payload = payload_max(tcb);
    let mut len = u32::from(header.len).min(payload);
    let is_full = len == payload;
    let is_last = header.next == NONE && len == u32::from(header.len);
    if pipe != 0 && pipe + len > tcb.cwnd {
        tcb.flags.set(Flags::CWND_LIMITED);
        return None;
    }
    tcb.flags.clear(Flags::CWND_LIMITED);
    // A tail loss probe (`pipe` is 0 then) may be short.
    if is_last && !is_full && pipe != 0 && is_held_by_nagle(tcb, memory, &header, payload) {
        return None;
    }
    let usable = tcb.snd_wnd.saturating_sub(flight);
    if header.span().min(len + 1) > usable {
        // Sender's silly window avoidance (RFC 9293 section 3.8.6.2.1): a part leaves only if it is half of the largest window.
        if len > usable {
            if flight != 0 || usable == 0 || usable < tcb.max_window() / 2 {
                return wait_for_window(tcb, memory, flight, now);
            }
            len = usable;
        } else if len == 0 {
            // A FIN alone, and no window for it.
            return wait_for_window(tcb, memory, flight, now);
        }
    }
    if len < u32::from(header.len) && !queue::split(tcb, memory, handle, len) {
        timer::arm_retry(tcb, now);
        return None;
    }
    Some(handle)
}

/// Nagle's algorithm (RFC 9293 section 3.7.4), as Minshall modified it and Linux has it: the last, short segment waits if a short one
/// is in flight, and not because of full ones. A FIN pushes.
#[inline]
fn is_held_by_nagle(tcb: &Tcb, memory: &SendMemory, header: &Header, payload: u32) -> bool {
    if tcb.flags.has(Flags::NODELAY) || tcb.last_sent == NONE || header.marks.has(Marks::FIN) {
        return false;
    }
    u32::from(memory.header(tcb.last_sent).len) < payload
}

/// The peer's window is in the way.
#[cold]
fn wait_for_window(tcb: &mut Tcb, memory: &SendMemory, flight: u32, now: Now) -> Option<u32> {
    if flight == 0 && (tcb.send_deadline == NEVER || timer::kind(tcb) != Timer::Window) {
        // Answers of the peer do not make probes more frequent.
        timer::set(tcb, Timer::Window, timer::time_out_ms(tcb, memory, &cold::load(tcb, memory)), now);
    }
    None
}

/// Milliseconds since something was last sent.
#[inline]
fn idle_ms(tcb: &Tcb, now: Now) -> u32 {
    u32::from(coarse(now).wrapping_sub(tcb.sent_at)) << COARSE_SHIFT
}

/// Nothing is in flight: after a pause, what was known of the path counts no more.
#[inline]
fn begin_again(tcb: &mut Tcb, memory: &mut SendMemory, now: Now) {
    let idle_ms = idle_ms(tcb, now);
    if memory.config.idle_restart && idle_ms > rtt::rto_ms(tcb, &memory.config) {
        congestion::restart(tcb, &memory.config);
        let is_clean =
            |recovery: &Recovery| recovery.phase == Phase::Open && recovery.backoffs == 0 && !recovery.syn_resent;
        let knows_path =
            tcb.cold != NONE && memory.recoveries.get(tcb.cold).is_some_and(|recovery| recovery.mtu.mss_max > tcb.mss);
        if !knows_path && tcb.cold != NONE && memory.recoveries.get(tcb.cold).is_some_and(is_clean) {
            cold::drop_state(tcb, memory);
        }
    }
}

/// `Tcb::sent_at` counts in units of 16 ms, which wrap after 17 minutes: a longer pause may look short, and then costs a burst.
pub(super) const COARSE_SHIFT: u32 = 4;

#[inline]
pub(super) fn coarse(now: Now) -> u16 {
    (now.tick >> COARSE_SHIFT) as u16
}

/// Sends a chunk for the first time.
#[inline]
fn send<'a>(tcb: &mut Tcb, memory: &'a mut SendMemory, handle: u32, now: Now) -> Outgoing<'a> {
    let header = mark_sent(tcb, memory, handle, now);
    arm_sent(tcb, &memory.config, memory.header(tcb.head).stamp, payload_max(tcb), &now);
    outgoing(tcb, memory, handle, &header, false)
}

/// The timer after something was sent for the first time. `first_stamp` is that of the first chunk, `payload` is [`payload_max`].
#[inline(always)]
pub(super) fn arm_sent(tcb: &mut Tcb, config: &SendConfig, first_stamp: u32, payload: u32, now: &Now) {
    if tcb.send_deadline == NEVER || timer::kind(tcb) == Timer::Window {
        timer::arm_clean_with(tcb, config, payload, *now);
    } else if timer::kind(tcb) == Timer::Probe {
        timer::put_off(tcb, config, first_stamp, *now);
    }
}

/// Marks and counts of a chunk that is sent for the first time.
#[inline]
fn mark_sent(tcb: &mut Tcb, memory: &mut SendMemory, handle: u32, now: Now) -> Header {
    memory.stamp(handle, now.us);
    let header = memory.header(handle);
    count_sent(tcb, &mut memory.counters, handle, &header, &now);
    header
}

/// As [`mark_sent`], for a chunk that is stamped, and whose header this is.
#[inline(always)]
pub(super) fn count_sent(tcb: &mut Tcb, counters: &mut SendCounters, handle: u32, header: &Header, now: &Now) {
    tcb.last_sent = handle;
    tcb.snd_nxt = header.end();
    tcb.sent_at = coarse(*now);
    if header.marks.has(Marks::FIN) {
        tcb.flags.set(Flags::FIN_SENT);
    }
    counters.segments += 1;
    counters.bytes += u64::from(header.len);
}

/// The segment of a chunk.
#[inline]
fn outgoing<'a>(
    tcb: &mut Tcb,
    memory: &'a SendMemory,
    handle: u32,
    header: &Header,
    retransmission: bool,
) -> Outgoing<'a> {
    let cwr = !retransmission && header.len > 0 && tcb.flags.has(Flags::CWR_OWED);
    if cwr {
        tcb.flags.clear(Flags::CWR_OWED);
    }
    Outgoing {
        seq: header.seq,
        data: &memory.bytes(handle)[..header.len as usize],
        push: header.next == NONE && header.len > 0,
        syn: header.marks.has(Marks::SYN),
        fin: header.marks.has(Marks::FIN),
        retransmission,
        cwr,
    }
}

/// As `next_segment`, for a connection with state of recovery.
#[cold]
#[inline(never)]
fn next_in_recovery<'a>(tcb: &mut Tcb, memory: &'a mut SendMemory, now: Now) -> Option<Outgoing<'a>> {
    if tcb.flags.has(Flags::FIN_OWED) {
        tcb.flags.clear(Flags::FIN_OWED | Flags::FIN_QUEUED);
        super::write::close(tcb, memory);
        if tcb.flags.has(Flags::FIN_OWED) {
            timer::arm_retry(tcb, now);
        }
    }
    if tcb.flags.has(Flags::WINDOW_PROBE) {
        tcb.flags.clear(Flags::WINDOW_PROBE);
        if tcb.in_flight() == 0 && tcb.queued > 0 {
            return probe_window(tcb, memory, now);
        }
    }
    let mut recovery = cold::load(tcb, memory);
    let chosen = choose(tcb, memory, &mut recovery, now);
    if tcb.cold == NONE && chosen.is_none() {
        return None;
    }
    let sent = chosen.map(|(handle, is_resent)| {
        let header = if is_resent {
            memory.header(handle)
        } else {
            let header = mark_sent(tcb, memory, handle, now);
            recovery.prr.sent(header.span());
            if recovery.probe_due {
                recovery.probe_due = false;
                recovery.probe = Some(TailProbe { end: tcb.snd_nxt, is_resent: false });
                memory.counters.probes_new += 1;
            }
            header
        };
        if tcb.send_deadline == NEVER || timer::kind(tcb) == Timer::Window {
            timer::arm(tcb, memory, &recovery, 0, now);
        } else if timer::kind(tcb) == Timer::Probe && recovery.may_probe() {
            timer::put_off_in_recovery(tcb, memory, &recovery, now);
        }
        (handle, header, is_resent)
    });
    // `begin_again` may have given the state back as clean; a state made here is kept only if it says something.
    if tcb.cold != NONE {
        cold::store(tcb, memory, recovery);
    }
    let (handle, header, is_resent) = sent?;
    Some(outgoing(tcb, memory, handle, &header, is_resent))
}

/// Round trips below this are short beside the delay of an acknowledgment. A tail loss probe of new data is a segment that comes alone, which is
/// acknowledged late (40 ms, Linux) if only the acknowledgment of all before it was lost; one that comes again is answered at once (RFC 5681 section 4.2).
/// Where less than two full segments are in flight, the probe has waited for a late acknowledgment anyway.
const SHORT_TRIP_US: u32 = 10_000;

/// Chooses what leaves: the chunk, and whether it was sent before (it is marked as sent again then).
fn choose(tcb: &mut Tcb, memory: &mut SendMemory, recovery: &mut Recovery, now: Now) -> Option<(u32, bool)> {
    let pipe = recovery.pipe(tcb);
    if recovery.probe_due && recovery.is_repairing() {
        recovery.probe_due = false;
        if let Some(handle) = to_probe_in_recovery(tcb, memory, recovery) {
            return resend_as_probe(tcb, memory, recovery, handle, now);
        }
        recovery.probes = PROBES_MAX;
        timer::arm(tcb, memory, recovery, 0, now);
    } else if recovery.probe_due {
        let may_resend = tcb.last_sent != NONE && recovery.phase == Phase::Open && recovery.sacked == 0;
        let is_quick = tcb.srtt_us < SHORT_TRIP_US && tcb.in_flight() >= 2 * payload_max(tcb);
        if !(may_resend && is_quick)
            && let Some(handle) = may_send(tcb, memory, 0, now)
        {
            return Some((handle, false));
        }
        recovery.probe_due = false;
        if may_resend {
            recovery.probe = Some(TailProbe { end: tcb.snd_nxt, is_resent: true });
            return resend_as_probe(tcb, memory, recovery, tcb.last_sent, now);
        }
    }
    if recovery.frto == Frto::NewData {
        let new = may_send(tcb, memory, pipe, now);
        if new.is_some() || pipe != 0 {
            return new.map(|handle| (handle, false));
        }
        recovery.frto = Frto::Off;
    }
    if let Some(handle) = scoreboard::first_to_resend(memory, recovery) {
        let header = memory.header(handle);
        let len = u32::from(header.len).min(payload_max(tcb));
        if handle != tcb.head && header.end().after(tcb.snd_una + tcb.snd_wnd) {
            // The peer took its window back; the first chunk probes it.
            return None;
        }
        if pipe != 0 && pipe + len > tcb.cwnd {
            tcb.flags.set(Flags::CWND_LIMITED);
            return None;
        }
        if handle == tcb.head && tcb.send_deadline != NEVER && timer::kind(tcb) == Timer::Timeout {
            // The time-out counts from the last transmission of the first chunk.
            timer::set_time_out(tcb, memory, recovery, now);
        }
        let counter = match recovery.phase {
            _ if header.marks.has(Marks::SYN) => &mut memory.counters.retransmitted_syn,
            _ if tcb.snd_wnd == 0 => &mut memory.counters.window_probes,
            Phase::Loss => &mut memory.counters.retransmitted_timeout,
            _ if recovery.is_harmless => &mut memory.counters.retransmitted_harmless,
            _ => &mut memory.counters.retransmitted_fast,
        };
        *counter += 1;
        return resend(tcb, memory, recovery, handle, now);
    }
    if recovery.mtu.target != 0
        && let Some(handle) = mtu::build(tcb, memory, recovery, pipe)
    {
        return Some((handle, false));
    }
    may_send(tcb, memory, pipe, now).map(|handle| (handle, false))
}

/// What a probe in recovery sends again: what waits to be sent again, else the first chunk, which was lost again, or whose acknowledgment
/// was. None if the peer took its window back, or dropped what it had reported: a time-out sees to these.
fn to_probe_in_recovery(tcb: &Tcb, memory: &SendMemory, recovery: &mut Recovery) -> Option<u32> {
    if tcb.head == NONE {
        return None;
    }
    let fits = |handle: u32| !memory.header(handle).end().after(tcb.snd_una + tcb.snd_wnd);
    let may_leave = fits(tcb.head) && !memory.header(tcb.head).marks.has(Marks::SACKED);
    may_leave.then(|| scoreboard::first_to_resend(memory, recovery).filter(|handle| fits(*handle)).unwrap_or(tcb.head))
}

/// Marks a chunk as sent again by a probe.
fn resend_as_probe(
    tcb: &mut Tcb,
    memory: &mut SendMemory,
    recovery: &mut Recovery,
    handle: u32,
    now: Now,
) -> Option<(u32, bool)> {
    memory.counters.retransmitted_probe += 1;
    let chosen = resend(tcb, memory, recovery, handle, now);
    recovery.probed = Some(memory.header(handle).end());
    chosen
}

/// Marks a chunk as sent again, cut to what the path takes.
fn resend(
    tcb: &mut Tcb,
    memory: &mut SendMemory,
    recovery: &mut Recovery,
    handle: u32,
    now: Now,
) -> Option<(u32, bool)> {
    mtu::resent(recovery, handle);
    let payload = payload_max(tcb);
    if u32::from(memory.header(handle).len) > payload && !queue::split(tcb, memory, handle, payload) {
        return None;
    }
    let header = scoreboard::mark_resent(memory, recovery, handle, now);
    tcb.sent_at = coarse(now);
    recovery.prr.sent(header.span());
    Some((handle, true))
}

/// A probe of the peer's window: what fits into it, or a segment without data that is before the window and so asks for an answer
/// (RFC 9293 section 3.8.6.1; the form of it is that of Linux and BSD).
fn probe_window<'a>(tcb: &mut Tcb, memory: &'a mut SendMemory, now: Now) -> Option<Outgoing<'a>> {
    memory.counters.window_probes += 1;
    let handle = queue::first_unsent(tcb, memory);
    if tcb.snd_wnd > 0 && handle != NONE {
        // The time for which a small window is not used is over (RFC 9293 section 3.8.6.2.1, rule 4).
        let len = u32::from(memory.header(handle).len);
        let most = len.min(tcb.snd_wnd).min(payload_max(tcb));
        if most == len || queue::split(tcb, memory, handle, most) {
            return Some(send(tcb, memory, handle, now));
        }
    }
    Some(Outgoing {
        seq: tcb.snd_una - 1,
        data: &[],
        push: false,
        syn: false,
        fin: false,
        retransmission: true,
        cwr: false,
    })
}
