//! In which order the lengths of a stream's packets follow each other.

use crate::random;

/// Indices into the list of images, in an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// Image 0 only.
    One,
    /// Images 0 to `count - 1` in turn.
    InTurn {
        /// Number of images.
        count: usize,
    },
    /// In this order, over and over (an IMIX, spelled out).
    Pattern(Vec<usize>),
    /// Uniform among images 0 to `count - 1`, from a seed.
    Random {
        /// Number of images.
        count: usize,
        /// Start of the pseudo-random sequence.
        seed: u64,
    },
    /// Uniform among the entries of this order (an image that occurs twice is taken twice as often), from a seed.
    RandomOf {
        /// The entries.
        order: Vec<usize>,
        /// Start of the pseudo-random sequence.
        seed: u64,
    },
}

pub(crate) enum SizePicker {
    One,
    Pattern { order: Vec<usize>, at: usize },
    Random { count: u64, state: u64 },
    RandomOf { order: Vec<usize>, state: u64 },
}

impl SizePicker {
    pub(crate) fn new(sizes: &Sizes) -> SizePicker {
        match sizes {
            Sizes::One => SizePicker::One,
            Sizes::InTurn { count } => SizePicker::Pattern { order: (0..*count).collect(), at: 0 },
            Sizes::Pattern(order) => SizePicker::Pattern { order: order.clone(), at: 0 },
            Sizes::Random { count, seed } => SizePicker::Random { count: *count as u64, state: *seed },
            Sizes::RandomOf { order, seed } => SizePicker::RandomOf { order: order.clone(), state: *seed },
        }
    }

    #[inline]
    pub(crate) fn next(&mut self) -> usize {
        match self {
            SizePicker::One => 0,
            SizePicker::Pattern { order, at } => {
                let image = order.get(*at).copied().unwrap_or(0);
                *at = if *at + 1 >= order.len() { 0 } else { *at + 1 };
                image
            }
            SizePicker::Random { count, state } => random::below(state, *count) as usize,
            SizePicker::RandomOf { order, state } => {
                order.get(random::below(state, order.len() as u64) as usize).copied().unwrap_or(0)
            }
        }
    }
}

/// The mean of an order of lengths, in bytes; for random orders, the expected one.
pub fn mean_len(lens: &[usize], sizes: &Sizes) -> f64 {
    let mean = |lens: &mut dyn Iterator<Item = usize>, count: usize| lens.sum::<usize>() as f64 / count.max(1) as f64;
    match sizes {
        Sizes::One => lens.first().copied().unwrap_or(0) as f64,
        Sizes::InTurn { .. } | Sizes::Random { .. } => mean(&mut lens.iter().copied(), lens.len()),
        Sizes::Pattern(order) | Sizes::RandomOf { order, .. } => {
            mean(&mut order.iter().filter_map(|image| lens.get(*image).copied()), order.len())
        }
    }
}
