//! How long a port stays closed to peers after one of them broke the rules, so that a peer that does nothing else cannot hold the
//! port's worker up again and again, nor fill its log.

/// The first pause.
const FIRST_NS: u64 = 100_000_000;
/// No pause is longer.
const LONGEST_NS: u64 = 10_000_000_000;

/// The pauses of a port: each is twice as long as the one before, from 100 ms to 10 s, and the first one again after 10 s without
/// a fault. Times are nanoseconds of the monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct FaultPause {
    length_ns: u64,
    until_ns: u64,
}

impl FaultPause {
    /// A peer was turned away for what it did. Returns when the next may come.
    pub fn fault(&mut self, now_ns: u64) -> u64 {
        let is_new = now_ns.saturating_sub(self.until_ns) > LONGEST_NS;
        self.length_ns = if is_new || self.length_ns == 0 { FIRST_NS } else { (2 * self.length_ns).min(LONGEST_NS) };
        self.until_ns = now_ns.saturating_add(self.length_ns);
        self.until_ns
    }

    /// When the next peer may come; in the past, or 0, when it may come now.
    pub fn until_ns(&self) -> u64 {
        self.until_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_are_forgotten() {
        let mut pause = FaultPause::default();
        assert_eq!(pause.until_ns(), 0);
        let mut now_ns = 5_000_000_000;
        let mut lengths = Vec::new();
        for _ in 0..9 {
            let until_ns = pause.fault(now_ns);
            lengths.push((until_ns - now_ns) / 1_000_000);
            now_ns = until_ns;
        }
        assert_eq!(lengths, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        now_ns += LONGEST_NS;
        assert_eq!(pause.fault(now_ns) - now_ns, LONGEST_NS, "not forgotten yet");
        now_ns = pause.until_ns() + LONGEST_NS + 1;
        assert_eq!(pause.fault(now_ns) - now_ns, FIRST_NS);
    }
}
