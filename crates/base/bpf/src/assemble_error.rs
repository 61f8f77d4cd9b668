//! What can be wrong with a program that is put together.

/// Why a program could not be assembled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssembleError {
    /// A jump goes to a label that was never bound.
    #[error("slot {slot} jumps to label {label}, which is not bound")]
    Unbound {
        /// The jump.
        slot: usize,
        /// The label's number, from 0 in order of creation.
        label: usize,
    },
    /// A label was bound twice.
    #[error("label {label} is bound twice")]
    BoundTwice {
        /// The label's number, from 0 in order of creation.
        label: usize,
    },
    /// A jump is longer than the 16-bit offset allows.
    #[error("slot {slot} jumps {distance} slots; at most 32,767 are possible")]
    TooFar {
        /// The jump.
        slot: usize,
        /// The distance in slots.
        distance: i64,
    },
    /// A byte swap of a width other than 16, 32 or 64 bits.
    #[error("slot {slot} swaps {bits} bits; 16, 32 and 64 are possible")]
    SwapWidth {
        /// The instruction.
        slot: usize,
        /// The width asked for.
        bits: i32,
    },
}
