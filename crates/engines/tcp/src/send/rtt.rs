//! Round-trip times and the retransmission time-out (RFC 6298).

use super::config::SendConfig;
use crate::Tcb;

/// Longest round trip that is believed, in microseconds.
const RTT_MAX_US: u32 = 120_000_000;

/// Takes a measured round trip in microseconds into the smoothed ones (RFC 6298 section 2: alpha is 1/8, beta 1/4).
#[inline(always)]
pub(super) fn sample(tcb: &mut Tcb, rtt_us: u32) {
    if tcb.srtt_us == 0 {
        tcb.srtt_us = believable(rtt_us);
        tcb.rttvar_us = tcb.srtt_us / 2;
        return;
    }
    smooth(tcb, rtt_us);
}

/// As [`sample`], of a connection of which a round trip was measured before.
#[inline(always)]
pub(super) fn smooth(tcb: &mut Tcb, rtt_us: u32) {
    let rtt = believable(rtt_us);
    let error = rtt.abs_diff(tcb.srtt_us);
    tcb.rttvar_us = tcb.rttvar_us - tcb.rttvar_us / 4 + error / 4;
    // What the divisions cut off does not pull a short round trip to nothing: an eighth of it, rounded down, is always less than itself.
    tcb.srtt_us = tcb.srtt_us - tcb.srtt_us / 8 + rtt / 8;
}

#[inline(always)]
fn believable(rtt_us: u32) -> u32 {
    rtt_us.clamp(1, RTT_MAX_US)
}

/// The retransmission time-out in milliseconds without back-off: SRTT + max(`rto_min_ms`, 4 * RTTVAR), rounded up. The floor is added to
/// the smoothed round trip as Linux does it, because an acknowledgment may be delayed by a constant time beyond any variation seen.
#[inline]
pub(super) fn rto_ms(tcb: &Tcb, config: &SendConfig) -> u32 {
    if tcb.srtt_us == 0 {
        return config.rto_initial_ms;
    }
    let spread_us = (4 * tcb.rttvar_us).max(config.rto_min_ms.saturating_mul(1_000));
    (tcb.srtt_us.saturating_add(spread_us) / 1_000 + 1).min(config.rto_max_ms)
}

/// `rto_ms` doubled `backoffs` times (RFC 6298 rule 5.5), at most `rto_max_ms`.
pub(super) fn backed_off(rto_ms: u32, backoffs: u8, config: &SendConfig) -> u32 {
    rto_ms.saturating_mul(1 << backoffs.min(16)).min(config.rto_max_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sample_sets_both_and_later_ones_smooth() {
        let (mut tcb, config) = (Tcb::default(), SendConfig::default());
        assert_eq!(rto_ms(&tcb, &config), 1_000);
        sample(&mut tcb, 100_000);
        assert_eq!((tcb.srtt_us, tcb.rttvar_us, rto_ms(&tcb, &config)), (100_000, 50_000, 301));
        sample(&mut tcb, 180_000);
        // RTTVAR = 3/4 * 50 + 1/4 * 80 ms; SRTT = 7/8 * 100 + 1/8 * 180 ms.
        assert_eq!((tcb.srtt_us, tcb.rttvar_us), (110_000, 57_500));
        assert_eq!(rto_ms(&tcb, &config), 341);
    }

    #[test]
    fn a_constant_round_trip_is_learned_and_the_floor_stays() {
        let (mut tcb, config) = (Tcb::default(), SendConfig::default());
        for _ in 0..200 {
            sample(&mut tcb, 20_000);
        }
        assert_eq!((tcb.srtt_us, rto_ms(&tcb, &config)), (20_000, 221));
        assert!(tcb.rttvar_us < 10);
        for _ in 0..100 {
            sample(&mut tcb, 0);
        }
        assert!(tcb.srtt_us >= 1 && tcb.srtt_us < 10);
    }

    #[test]
    fn hostile_samples_neither_overflow_nor_pass_the_limit() {
        let (mut tcb, config) = (Tcb::default(), SendConfig::default());
        for _ in 0..50 {
            sample(&mut tcb, u32::MAX);
            sample(&mut tcb, 0);
            assert!(rto_ms(&tcb, &config) <= config.rto_max_ms);
        }
    }

    #[test]
    fn backing_off_doubles_to_the_limit() {
        let config = SendConfig::default();
        let series: Vec<u32> = (0..12).map(|count| backed_off(200, count, &config)).collect();
        assert_eq!(series, [200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 51_200, 102_400, 120_000, 120_000]);
        assert_eq!(backed_off(u32::MAX, 255, &config), 120_000);
    }
}
