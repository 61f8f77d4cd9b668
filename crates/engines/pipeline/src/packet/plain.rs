//! The headers and the key of the most frequent packets in one go: IPv4 without options and without a tag, with a header of TCP or UDP.

use linerate_classify::Key;

use super::key::SHAPE_AT;
use super::read::{be16, be32, be64, byte};
use super::{Fragment, Headers, PipelineFields, shape};

/// Bytes up to the end of TCP's header.
const LEN_MIN: usize = 54;
/// What the IP header says of these bytes, at least.
const IP_LEN_MIN: u16 = 40;
const TCP: u8 = 6;
const UDP: u8 = 17;

impl Headers {
    /// As [`Headers::parse`] and [`Headers::fill_key`], if the packet is plain; false, and the key is as before, if it is not. Its headers are
    /// [`Headers::of_plain`] then.
    #[inline]
    pub fn fill_plain_key(bytes: &[u8], fields: &PipelineFields, key: &mut Key) -> bool {
        let Some(bytes) = bytes.first_chunk::<LEN_MIN>() else { return false };
        let protocol = byte(bytes, 23);
        let is_plain = be32(bytes, 12) & 0xffff_ff00 == 0x0800_4500
            && be16(bytes, 16) >= IP_LEN_MIN
            && be16(bytes, 20) & 0x3fff == 0
            && matches!(protocol, TCP | UDP);
        if !is_plain {
            return false;
        }
        let shape = shape_of(protocol);
        let words = &mut key.words;
        words[0] = be64(bytes, 0) & !0xffff | 0x0800;
        words[1] = be64(bytes, 6) & !0xffff;
        words[2] = be64(bytes, 26);
        words[3] = u64::from(fields.in_phy_port) << 32 | u64::from(be32(bytes, 34));
        words[4] = u64::from(protocol) << 56 | u64::from(byte(bytes, 15)) << 48;
        words[5] = fields.metadata;
        words[6] = fields.tunnel_id;
        words[7] = u64::from(shape) << SHAPE_AT | u64::from(fields.in_port);
        true
    }

    /// The headers of a plain packet.
    pub fn of_plain(bytes: &[u8]) -> Headers {
        let protocol = byte(bytes, 23);
        let shape = shape_of(protocol);
        Headers {
            shape,
            visible: shape,
            fragment: Fragment::Whole,
            protocol,
            ethertype_at: 12,
            network: 14,
            protocol_at: 23,
            transport: 34,
            ..Headers::default()
        }
    }
}

#[inline]
fn shape_of(protocol: u8) -> u32 {
    shape::IP | shape::IPV4 | if protocol == TCP { shape::TCP } else { shape::UDP }
}
