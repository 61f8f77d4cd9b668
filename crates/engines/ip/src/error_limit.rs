//! Limits of ICMP errors (RFC 1812 section 4.3.2.8, RFC 4443 section 2.4 (f)): a bucket for all, and one for each destination by its hash,
//! so that one sender of nonsense does not use up the errors of others. The bucket of all loses a token at random now and then, because
//! its exact state would tell others about ports (CVE-2020-25705).

use core::net::IpAddr;

use linerate_measure::{Rate, TokenBucket};

use crate::random::Random;

const DESTINATIONS: usize = 256;
const EACH: Rate = Rate { per_second: 10, burst: 6 };

/// The limits.
pub struct ErrorLimit {
    all: TokenBucket,
    each: Vec<TokenBucket>,
    random: Random,
}

impl ErrorLimit {
    /// Full buckets.
    pub fn new(per_second: u32, secret: [u8; 16]) -> ErrorLimit {
        let all = Rate { per_second: per_second.into(), burst: u64::from(per_second / 20).max(1) };
        ErrorLimit {
            all: TokenBucket::new(all),
            each: vec![TokenBucket::new(EACH); DESTINATIONS],
            random: Random::new(secret, "icmp errors"),
        }
    }

    /// True if an error may be sent to `dst` now; it is then counted.
    pub fn allows(&mut self, dst: IpAddr, now_ns: u64) -> bool {
        let each = &mut self.each[self.random.hash(&dst) as usize % DESTINATIONS];
        each.fill(now_ns);
        self.all.fill(now_ns);
        if !each.take(1) {
            return false;
        }
        let is_allowed = self.all.take(1);
        if !is_allowed {
            each.give(1);
        }
        if is_allowed && self.random.below(8) == 0 {
            self.all.take(1);
        }
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_destination_does_not_use_up_the_errors_of_others() {
        let mut limit = ErrorLimit::new(1000, [7; 16]);
        let [noisy, quiet]: [IpAddr; 2] = ["192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap()];
        let mut sent = 0;
        for step in 0..10_000_u64 {
            sent += u32::from(limit.allows(noisy, step * 100_000));
        }
        // A second: the burst, and the rate.
        assert!((10..=17).contains(&sent), "{sent}");
        assert!(limit.allows(quiet, 1_000_000_000));
    }

    #[test]
    fn all_destinations_together_are_limited() {
        let mut limit = ErrorLimit::new(1000, [7; 16]);
        let allowed = |step: u32| IpAddr::from(step.to_be_bytes());
        let sent = (0..100_000_u32).filter(|step| limit.allows(allowed(*step), u64::from(*step) * 10_000)).count();
        assert!((800..=1060).contains(&sent), "{sent} errors");
    }
}
