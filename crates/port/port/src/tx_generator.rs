//! Generation inside the backend: a stream reduced to what a small program in the kernel can apply to each packet.
//!
//! The generator compiles a stream to an [`GeneratorStream`] when its rules are simple enough; the backend either loads all of
//! it or says what it cannot do. Nothing is left out silently.

use crate::PortError;

/// A template and what changes from packet to packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratorStream {
    /// The packet, without FCS, with right checksums for the fields' first values.
    pub template: Vec<u8>,
    /// What changes, fastest first.
    pub rules: Vec<FieldRule>,
    /// Checksum fields (of the template) that cover something that changes.
    pub checksums: Vec<ChecksumFix>,
    /// Stream id of a signature in the last 16 bytes (the L4 checksum among `checksums` covers them), or none.
    pub signature: Option<u16>,
    /// Sequence number of the first packet.
    pub first_sequence: u64,
    /// Pause between packets in nanoseconds as 32.32 fixed point; 0 = as fast as possible.
    pub gap_ns_fixed: u64,
}

/// One field, by place and width, and how its value goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRule {
    /// First byte of the field in the packet.
    pub offset: u16,
    /// Bytes of the field: 1, 2 or 4 (big-endian).
    pub width: u8,
    /// How values follow each other.
    pub kind: FieldRuleKind,
    /// First (lowest) value.
    pub first: u32,
    /// Number of values; the field takes `first`, `first + step`, ... `first + (count - 1) * step`, then starts again.
    pub count: u32,
    /// Difference between neighbouring values.
    pub step: u32,
}

/// How the values of a field follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldRuleKind {
    /// Next value for each packet.
    Each,
    /// Next value each time the rule before it starts again (an odometer's next wheel).
    Carry,
    /// Uniform among the values, from a seed.
    Random {
        /// Start of the pseudo-random sequence.
        seed: u32,
    },
}

/// A checksum to keep right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChecksumFix {
    /// First byte of the 16-bit checksum field.
    pub offset: u16,
    /// Indices into [`GeneratorStream::rules`] of the rules whose fields it covers.
    pub rules: Vec<usize>,
    /// True when it also covers the signature.
    pub covers_signature: bool,
    /// True for UDP: a result of 0 is sent as 0xffff (RFC 768).
    pub zero_as_ones: bool,
}

/// What one call of [`TxGenerator::run`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GeneratorRun {
    /// Packets that the program made.
    pub made: u64,
    /// Packets that the far side took.
    pub sent: u64,
}

/// A backend that makes the packets itself.
pub trait TxGenerator {
    /// Prepares the stream; packets of earlier streams are forgotten, totals are kept.
    fn load(&mut self, stream: &GeneratorStream) -> Result<(), PortError>;

    /// Makes and sends about `packets` packets (the backend may round to its own unit, never past `packets`) and returns
    /// what was done. The call lasts as long as the sending does.
    fn run(&mut self, packets: u64) -> Result<GeneratorRun, PortError>;

    /// Packets that one call should make so that the call's own cost does not show.
    fn packets_per_run(&self) -> u64;

    /// Returns true if the port also sends packets that were made elsewhere about as well, so that nobody needs to be told of a stream that
    /// [`TxGenerator::load`] refuses.
    fn is_shortcut(&self) -> bool {
        false
    }
}
