//! [`ParseError`]: why bytes are not the header they were taken for.

use crate::LayerKind;
use std::fmt;

/// Why bytes are not a header of the expected kind.
///
/// ```
/// use linerate_wire::udp;
/// let error = udp::Packet::new_checked([0u8; 3]).unwrap_err();
/// assert_eq!(error.to_string(), "UDP: needs 8 bytes, has 3");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// The buffer ends before the header, or before the length that the header gives.
    Truncated {
        /// The layer that is cut.
        layer: LayerKind,
        /// Bytes needed, counted from the start of that layer.
        need: usize,
        /// Bytes there.
        have: usize,
    },
    /// A field has a value that the format does not allow.
    Malformed {
        /// The layer that has the field.
        layer: LayerKind,
        /// The field.
        field: &'static str,
        /// Its value.
        value: u32,
    },
}

impl ParseError {
    /// `Ok` if `have` reaches `need`.
    #[inline]
    pub(crate) fn check_len(layer: LayerKind, need: usize, have: usize) -> Result<(), ParseError> {
        if have < need { Err(ParseError::Truncated { layer, need, have }) } else { Ok(()) }
    }

    /// `Ok` if `valid`, else a malformed field.
    #[inline]
    pub(crate) fn check_field(
        valid: bool,
        layer: LayerKind,
        field: &'static str,
        value: impl Into<u32>,
    ) -> Result<(), ParseError> {
        if valid { Ok(()) } else { Err(ParseError::Malformed { layer, field, value: value.into() }) }
    }

    /// The layer at fault.
    pub const fn layer(&self) -> LayerKind {
        match self {
            ParseError::Truncated { layer, .. } | ParseError::Malformed { layer, .. } => *layer,
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParseError::Truncated { layer, need, have } => {
                write!(f, "{layer}: needs {need} bytes, has {have}")
            }
            ParseError::Malformed { layer, field, value } => write!(f, "{layer}: {field} cannot be {value}"),
        }
    }
}

impl std::error::Error for ParseError {}
