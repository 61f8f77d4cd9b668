//! Whether packets go by the cache of a worker, or by the tables at once.
//!
//! Where packets do not repeat, the cache finds none of their keys, and to ask it and to note what missed is for nothing. So it rests when hardly any
//! key is found for long. While it rests, one pass in [`TURNS`] goes by it, so that it learns if packets repeat. All of this is counted, not
//! timed: the same packets lead to the same decisions.

/// Of passes while the cache rests, one in so many goes by it.
const TURNS: u32 = 16;
/// Keys that the cache is asked about between two decisions.
const ASKED: u64 = 1 << 14;
/// Decisions in a row that find hardly any hits before the cache rests: four million keys, since a flow is found when it comes for the third time.
const PATIENCE: u32 = 1 << 8;
/// One hit among so many keys is hardly any; the cache is asked again when there are twice as many.
const ONE_IN: u64 = 8;

/// What is known of the worth of a cache.
#[derive(Debug, Default)]
pub(super) struct Rest {
    is_resting: bool,
    passes: u32,
    /// Keys that the cache was asked about since the last decision, and those whose way it knew.
    asked: u64,
    hits: u64,
    /// Decisions in a row that found hardly any hits.
    fruitless: u32,
}

impl Rest {
    /// True if the next pass goes by the cache.
    #[inline]
    pub(super) fn is_turn(&mut self) -> bool {
        if !self.is_resting {
            return true;
        }
        self.passes = self.passes.wrapping_add(1);
        self.passes.is_multiple_of(TURNS)
    }

    /// Notes of how many keys the cache knew the way.
    #[inline]
    pub(super) fn note(&mut self, keys: u32, hits: u32) {
        self.asked += u64::from(keys);
        self.hits += u64::from(hits);
        if self.asked >= ASKED {
            self.decide();
        }
    }

    #[cold]
    fn decide(&mut self) {
        let wanted = if self.is_resting { 2 * self.asked / ONE_IN } else { self.asked / ONE_IN };
        self.fruitless = if self.hits < wanted { self.fruitless.saturating_add(1) } else { 0 };
        self.is_resting = self.fruitless >= PATIENCE;
        (self.asked, self.hits) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rests_where_packets_do_not_repeat_and_returns_when_they_do() {
        let mut rest = Rest::default();
        let turns = |rest: &mut Rest| (0..160).filter(|_| rest.is_turn()).count();
        let few = ASKED as u32 / 8 - 1;
        (1..PATIENCE).for_each(|_| rest.note(ASKED as u32, few));
        assert_eq!(turns(&mut rest), 160);
        rest.note(ASKED as u32, few);
        assert_eq!(turns(&mut rest), 10);
        rest.note(ASKED as u32, 2 * few);
        assert_eq!(turns(&mut rest), 10);
        rest.note(ASKED as u32, 2 * few + 2);
        assert_eq!(turns(&mut rest), 160);
        rest.note(ASKED as u32, 0);
        assert_eq!(turns(&mut rest), 160, "patience begins anew");
    }
}
