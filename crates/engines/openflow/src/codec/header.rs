//! The header of every message (`ofp_header`, section 7.1.1).

/// The version that this crate speaks: OpenFlow 1.3.
pub const VERSION: u8 = 4;
/// Bytes of a header.
pub const HEADER_BYTES: usize = 8;
/// Most bytes of a message.
pub const MESSAGE_BYTES_MAX: usize = u16::MAX as usize;

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Version of the protocol.
    pub version: u8,
    /// Type of the message (`OFPT_*`).
    pub kind: u8,
    /// Length of the message in bytes, with this header.
    pub length: u16,
    /// Transaction: replies have that of their request.
    pub xid: u32,
}

impl Header {
    /// Reads the first 8 bytes; `None` if there are fewer.
    #[inline]
    pub fn read(bytes: &[u8]) -> Option<Header> {
        let [version, kind, l0, l1, x0, x1, x2, x3] = *bytes.first_chunk::<HEADER_BYTES>()?;
        Some(Header { version, kind, length: u16::from_be_bytes([l0, l1]), xid: u32::from_be_bytes([x0, x1, x2, x3]) })
    }

    /// Appends the header.
    pub(super) fn write(self, out: &mut Vec<u8>) {
        let [l0, l1] = self.length.to_be_bytes();
        let [x0, x1, x2, x3] = self.xid.to_be_bytes();
        out.extend_from_slice(&[self.version, self.kind, l0, l1, x0, x1, x2, x3]);
    }
}
