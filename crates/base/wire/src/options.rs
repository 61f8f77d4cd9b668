//! [`Options`]: the option bytes of an IPv4 or TCP header.

use crate::{LayerKind, ParseError};

/// Option bytes of an IPv4 (RFC 791 section 3.1) or TCP (RFC 9293 section 3.1) header: at most 40,
/// in whole 32-bit words.
///
/// ```
/// use linerate_wire::{LayerKind, Options};
/// let mss = Options::new(LayerKind::Tcp, &[2, 4, 0x05, 0xb4, 1]).unwrap();
/// assert_eq!(mss.as_slice(), [2, 4, 0x05, 0xb4, 1, 0, 0, 0]); // padded with end-of-list
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    bytes: [u8; Options::MAX_LEN],
    len: u8,
}

impl Options {
    /// Most bytes that an IPv4 or TCP header has room for.
    pub const MAX_LEN: usize = 40;
    /// No options.
    pub const NONE: Options = Options { bytes: [0; Options::MAX_LEN], len: 0 };

    /// Options of a header of kind `layer`, padded with zero bytes (end of list) to whole words.
    ///
    /// # Errors
    /// `Malformed` if there are more than [`Options::MAX_LEN`] bytes.
    pub fn new(layer: LayerKind, options: &[u8]) -> Result<Options, ParseError> {
        let fits = options.len() <= Options::MAX_LEN;
        ParseError::check_field(fits, layer, "options length", u32::try_from(options.len()).unwrap_or(u32::MAX))?;
        Ok(Options::from_header(options))
    }

    /// Options as they lie in a header; whatever exceeds the 40 bytes a header can hold is ignored.
    pub(crate) fn from_header(options: &[u8]) -> Options {
        let mut bytes = [0; Options::MAX_LEN];
        let len = options.len().min(Options::MAX_LEN);
        bytes[..len].copy_from_slice(&options[..len]);
        Options { bytes, len: len.next_multiple_of(4) as u8 }
    }

    /// The bytes with their padding.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len()]
    }

    /// Length in bytes, a multiple of 4.
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Default for Options {
    fn default() -> Self {
        Options::NONE
    }
}
