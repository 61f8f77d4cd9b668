//! Numbers that others cannot guess: made of the secret of this run.

use std::hash::{DefaultHasher, Hash, Hasher};

/// A source of numbers, and a hash with a key.
#[derive(Clone, Debug)]
pub struct Random {
    secret: [u8; 16],
    count: u64,
}

impl Random {
    /// A source of one purpose; others have other numbers.
    pub fn new(secret: [u8; 16], purpose: &str) -> Random {
        let mut random = Random { secret, count: 0 };
        let [one, other] = [random.hash(&(purpose, 0)), random.hash(&(purpose, 1))];
        random.secret[..8].copy_from_slice(&one.to_ne_bytes());
        random.secret[8..].copy_from_slice(&other.to_ne_bytes());
        random
    }

    /// SipHash of the secret and `value`.
    pub fn hash(&self, value: &impl Hash) -> u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write(&self.secret);
        value.hash(&mut hasher);
        hasher.finish()
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.count += 1;
        self.hash(&self.count)
    }

    /// A number below `bound`, which is at least 1.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}
