//! What the receiver says about bytes behind gaps: SACK blocks (RFC 2018), the first of which may report a duplicate (RFC 2883).

use crate::Seq;

/// Ranges that are remembered.
const RANGES: usize = 4;

/// Ranges of bytes behind gaps, the one that changed last first, and a duplicate that is to be reported once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sacks {
    ranges: [(Seq, Seq); RANGES],
    count: u8,
    has_duplicate: bool,
    duplicate: (Seq, Seq),
}

impl Sacks {
    pub(crate) const NONE: Sacks =
        Sacks { ranges: [(Seq(0), Seq(0)); RANGES], count: 0, has_duplicate: false, duplicate: (Seq(0), Seq(0)) };

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0 && !self.has_duplicate
    }

    /// Bytes from `start` to before `end` arrived behind a gap. Ranges that touch become one; beyond four, the oldest is forgotten.
    pub(crate) fn add(&mut self, mut start: Seq, mut end: Seq) {
        let mut kept = [(Seq(0), Seq(0)); RANGES];
        let mut count = 0;
        for range in &self.ranges[..usize::from(self.count)] {
            if range.0.at_most(end) && start.at_most(range.1) {
                (start, end) = (start.min(range.0), end.max(range.1));
            } else {
                kept[count] = *range;
                count += 1;
            }
        }
        self.ranges[0] = (start, end);
        let rest = count.min(RANGES - 1);
        self.ranges[1..=rest].copy_from_slice(&kept[..rest]);
        self.count = rest as u8 + 1;
    }

    /// Bytes arrived that were there already.
    pub(crate) fn duplicate(&mut self, start: Seq, end: Seq) {
        (self.has_duplicate, self.duplicate) = (true, (start, end));
    }

    /// All bytes before `next` are in order now.
    pub(crate) fn advance(&mut self, next: Seq) {
        let mut count = 0;
        for at in 0..usize::from(self.count) {
            let (start, end) = self.ranges[at];
            if end.after(next) {
                self.ranges[count] = (start.max(next), end);
                count += 1;
            }
        }
        self.count = count as u8;
    }

    /// Writes up to `max` blocks into `blocks` and returns how many. A duplicate comes first, and is reported once.
    pub(crate) fn report(&mut self, max: usize, blocks: &mut [(Seq, Seq); RANGES]) -> usize {
        let max = max.min(RANGES);
        let mut count = 0;
        if std::mem::take(&mut self.has_duplicate) && max > 0 {
            blocks[0] = self.duplicate;
            count = 1;
        }
        for range in &self.ranges[..usize::from(self.count)] {
            if count == max {
                break;
            }
            blocks[count] = *range;
            count += 1;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(sacks: &mut Sacks, max: usize) -> Vec<(u32, u32)> {
        let mut blocks = [(Seq(0), Seq(0)); RANGES];
        let count = sacks.report(max, &mut blocks);
        blocks[..count].iter().map(|block| (block.0.0, block.1.0)).collect()
    }

    #[test]
    fn the_last_change_comes_first_and_neighbours_join() {
        let mut sacks = Sacks::NONE;
        for (start, end) in [(10, 20), (30, 40), (50, 60)] {
            sacks.add(Seq(start), Seq(end));
        }
        assert_eq!(report(&mut sacks, 3), [(50, 60), (30, 40), (10, 20)]);
        sacks.add(Seq(20), Seq(30));
        assert_eq!(report(&mut sacks, 4), [(10, 40), (50, 60)]);
        sacks.advance(Seq(40));
        assert_eq!(report(&mut sacks, 4), [(50, 60)]);
        sacks.advance(Seq(60));
        assert!(sacks.is_empty());
    }

    #[test]
    fn a_fifth_range_pushes_the_oldest_out() {
        let mut sacks = Sacks::NONE;
        (1..=5).for_each(|at| sacks.add(Seq(at * 10), Seq(at * 10 + 5)));
        assert_eq!(report(&mut sacks, 4), [(50, 55), (40, 45), (30, 35), (20, 25)]);
        assert_eq!(report(&mut sacks, 2), [(50, 55), (40, 45)]);
    }

    #[test]
    fn a_duplicate_is_reported_once_and_first() {
        let mut sacks = Sacks::NONE;
        sacks.add(Seq(u32::MAX), Seq(5));
        sacks.duplicate(Seq(1), Seq(2));
        assert_eq!(report(&mut sacks, 3), [(1, 2), (u32::MAX, 5)]);
        assert_eq!(report(&mut sacks, 3), [(u32::MAX, 5)]);
    }
}
