//! Pseudo-random numbers (xorshift64*, Vigna 2016): the same in every run.

/// A generator.
#[derive(Clone, Debug)]
pub struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Numbers {
        let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        numbers.next();
        numbers.next();
        numbers
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 16) % limit
    }

    /// True in so many of a hundred cases.
    pub fn percent(&mut self, parts: u64) -> bool {
        self.below(100) < parts
    }
}
