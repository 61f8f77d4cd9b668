//! The congestion window: how it begins, grows, and is reduced (RFC 5681, RFC 6928, RFC 9438).

use super::config::{Congestion, SendConfig};
use super::cubic::Growth;
use super::queue::payload_max;
use super::recovery::{Phase, Recovery, Undo};
use crate::{Flags, Now, Tcb};

/// Segments by which one acknowledgment may let the window grow in slow start (RFC 3465, with the limit of RFC 9406 without pacing).
const SLOW_START_LIMIT: u32 = 8;

/// The initial window in bytes (RFC 6928).
pub(super) fn initial_window(tcb: &Tcb, config: &SendConfig) -> u32 {
    let mss = payload_max(tcb);
    (config.initial_window * mss).min((2 * mss).max(14_600))
}

/// True if the congestion window, rather than the application or the peer's window, held the sender back while `flight` was in flight.
#[inline]
pub(super) fn is_limited(tcb: &Tcb, flight: u32) -> bool {
    tcb.flags.has(Flags::CWND_LIMITED) || (2 * u64::from(flight) > u64::from(tcb.cwnd) && tcb.cwnd < tcb.ssthresh)
}

/// Lets the window grow by what slow start gives for `acked` bytes; the bytes that are left count for congestion avoidance.
#[inline]
pub(super) fn slow_start(tcb: &mut Tcb, acked: u32) -> u32 {
    if tcb.cwnd >= tcb.ssthresh {
        return acked;
    }
    let more = acked.min(SLOW_START_LIMIT * payload_max(tcb)).min(tcb.ssthresh - tcb.cwnd);
    tcb.cwnd = tcb.cwnd.saturating_add(more);
    if tcb.cwnd < tcb.ssthresh { 0 } else { acked - more }
}

/// Lets the window grow in congestion avoidance.
pub(super) fn avoid(
    tcb: &mut Tcb,
    recovery: &mut Recovery,
    config: &SendConfig,
    acked: u32,
    is_limited: bool,
    now: Now,
) {
    let mss = payload_max(tcb);
    let more = match config.congestion {
        Congestion::Cubic => recovery.cubic.grow(Growth {
            cwnd: tcb.cwnd,
            mss,
            acked,
            srtt_us: tcb.srtt_us,
            now_ns: now.ns.max(1),
            is_limited,
        }),
        // RFC 5681 equation 3, for as many segments as were acknowledged.
        Congestion::NewReno if is_limited => {
            (u64::from(mss) * u64::from(acked) / u64::from(tcb.cwnd.max(1))).min(u64::from(mss)).max(1) as u32
        }
        Congestion::NewReno => 0,
    };
    tcb.cwnd = tcb.cwnd.saturating_add(more);
}

/// A congestion event: what can be undone is kept, `ssthresh` is set. The caller sets the window.
pub(super) fn reduce(tcb: &mut Tcb, recovery: &mut Recovery, config: &SendConfig, is_timeout: bool) {
    recovery.undo = Some(Undo {
        cwnd: tcb.cwnd,
        ssthresh: tcb.ssthresh,
        cubic: recovery.cubic,
        resent_at: 0,
        resent: 0,
        duplicates: 0,
        until: None,
    });
    let mss = payload_max(tcb);
    // A window that was not used says nothing of the path, but the initial one is always granted.
    let used = tcb.cwnd.min(tcb.in_flight().max(initial_window(tcb, config)));
    tcb.ssthresh = match config.congestion {
        Congestion::Cubic if is_timeout => recovery.cubic.reduce_after_timeout(used, mss),
        Congestion::Cubic => recovery.cubic.reduce(used, mss),
        // RFC 5681 equation 4.
        Congestion::NewReno => (used / 2).max(2 * mss),
    };
    if tcb.flags.has(Flags::ECN) {
        tcb.flags.set(Flags::CWR_OWED);
    }
}

/// Takes the last reduction back, because nothing had been lost (RFC 4015 gives the whole window back, too, if the path is not changed).
pub(super) fn undo(tcb: &mut Tcb, recovery: &mut Recovery) {
    let Some(undo) = recovery.undo.take() else { return };
    tcb.cwnd = tcb.cwnd.max(undo.cwnd);
    tcb.ssthresh = tcb.ssthresh.max(undo.ssthresh);
    recovery.cubic = undo.cubic;
    recovery.phase = Phase::Open;
}

/// Nothing was sent for a while: the window begins again (RFC 5681 section 4.1), but slow start may go to three quarters of what the
/// path carried before (RFC 7661).
pub(super) fn restart(tcb: &mut Tcb, config: &SendConfig) {
    let window = initial_window(tcb, config);
    if tcb.cwnd > window {
        tcb.ssthresh = tcb.ssthresh.max(tcb.cwnd / 4 * 3);
        tcb.cwnd = window;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn established(mss: u16) -> Tcb {
        let mut tcb = Tcb { mss, ..Tcb::default() };
        tcb.cwnd = initial_window(&tcb, &SendConfig::default());
        tcb
    }

    #[test]
    fn the_initial_window_is_that_of_rfc_6928() {
        let windows: Vec<u32> = [536, 1_460, 2_000, 8_960].iter().map(|mss| established(*mss).cwnd).collect();
        assert_eq!(windows, [5_360, 14_600, 14_600, 17_920]);
    }

    #[test]
    fn slow_start_grows_by_what_was_acknowledged_up_to_the_threshold() {
        let mut tcb = established(1_000);
        assert_eq!((slow_start(&mut tcb, 2_000), tcb.cwnd), (0, 12_000));
        assert_eq!((slow_start(&mut tcb, 50_000), tcb.cwnd), (0, 20_000));
        tcb.ssthresh = 21_000;
        assert_eq!((slow_start(&mut tcb, 3_000), tcb.cwnd), (2_000, 21_000));
        assert_eq!((slow_start(&mut tcb, 3_000), tcb.cwnd), (3_000, 21_000));
    }

    #[test]
    fn reno_grows_by_a_segment_a_window_and_halves() {
        let config = SendConfig { congestion: Congestion::NewReno, ..SendConfig::default() };
        let mut tcb = established(1_000);
        let mut recovery = Recovery::new(&tcb);
        tcb.ssthresh = tcb.cwnd;
        for _ in 0..10 {
            avoid(&mut tcb, &mut recovery, &config, 1_000, true, Now::new(1));
        }
        assert!((10_900..=11_000).contains(&tcb.cwnd), "{}", tcb.cwnd);
        avoid(&mut tcb, &mut recovery, &config, 1_000, false, Now::new(1));
        tcb.cwnd = 40_000;
        tcb.snd_nxt = tcb.snd_una + 40_000;
        reduce(&mut tcb, &mut recovery, &config, false);
        assert_eq!((tcb.ssthresh, recovery.undo.unwrap().cwnd), (20_000, 40_000));
        tcb.cwnd = 20_000;
        undo(&mut tcb, &mut recovery);
        assert_eq!((tcb.cwnd, recovery.undo.is_none()), (40_000, true));
    }

    #[test]
    fn an_unused_window_counts_only_as_far_as_it_was_used() {
        let config = SendConfig::default();
        let mut tcb = established(1_000);
        let mut recovery = Recovery::new(&tcb);
        tcb.cwnd = 1_000_000;
        tcb.snd_nxt = tcb.snd_una + 100_000;
        reduce(&mut tcb, &mut recovery, &config, false);
        assert_eq!(tcb.ssthresh, 70_000);
    }

    #[test]
    fn an_idle_connection_begins_again_with_the_initial_window() {
        let mut tcb = established(1_000);
        (tcb.cwnd, tcb.ssthresh) = (100_000, 50_000);
        restart(&mut tcb, &SendConfig::default());
        assert_eq!((tcb.cwnd, tcb.ssthresh), (10_000, 75_000));
        restart(&mut tcb, &SendConfig::default());
        assert_eq!((tcb.cwnd, tcb.ssthresh), (10_000, 75_000));
    }
}
