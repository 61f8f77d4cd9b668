//! The control messages of memif version 2: 128 bytes each, packed, in the byte order of the machine.
//!
//! ```text
//!   0 type u16, then by type:
//!   1 ack          -
//!   2 hello        name[32] min_version u16 max_version u16 max_region u16 max_s2c_ring u16 max_c2s_ring u16 max_log2_ring_size u8
//!   3 init         version u16 id u32 mode u8 secret[24] name[32]
//!   4 add region   index u16 size u64                                                        + the file
//!   5 add ring     flags u16 index u16 region u16 offset u32 log2_ring_size u8 private u16   + the eventfd
//!   6 connect      name[32]          7 connected   name[32]          8 disconnect   code u32 text[96]
//! ```
//! Source: libmemif's and DPDK's `memif.h`. The "maxima" are highest indices. Server and client are called master and slave there.

/// Bytes of every message.
pub(crate) const MESSAGE_BYTES: usize = 128;

/// Version 2.0.
pub(crate) const VERSION: u16 = 0x0200;

/// Packets with Ethernet headers, the one mode that is spoken here.
pub(crate) const MODE_ETHERNET: u8 = 0;

/// Flag of a ring that carries packets from the client to the server.
const RING_TO_SERVER: u16 = 1;

/// Bytes of a name.
pub(crate) const NAME_BYTES: usize = 32;
/// Bytes of a secret.
pub(crate) const SECRET_BYTES: usize = 24;
const TEXT_BYTES: usize = 96;

/// One control message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// Answers each message of a client up to its rings.
    Ack,
    /// The server's first word: what it can take.
    Hello(Hello),
    /// Which interface the client wants.
    Init(Init),
    /// A piece of shared memory; its file comes with the message.
    AddRegion { index: u16, bytes: u64 },
    /// A ring in it; its eventfd comes with the message.
    AddRing(AddRing),
    /// The client has named all.
    Connect { name: String },
    /// The server has taken all.
    Connected { name: String },
    /// Either side ends it.
    Disconnect { code: u32, text: String },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) name: String,
    pub(crate) version_min: u16,
    pub(crate) version_max: u16,
    pub(crate) region_max: u16,
    /// Highest index of rings from the server to the client.
    pub(crate) to_client_max: u16,
    /// Highest index of rings from the client to the server.
    pub(crate) to_server_max: u16,
    pub(crate) log2_slots_max: u8,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Init {
    pub(crate) version: u16,
    pub(crate) id: u32,
    pub(crate) mode: u8,
    /// Up to 24 bytes, the rest zeros.
    pub(crate) secret: [u8; SECRET_BYTES],
    pub(crate) name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddRing {
    /// Carries packets from the client to the server.
    pub(crate) to_server: bool,
    pub(crate) index: u16,
    pub(crate) region: u16,
    pub(crate) offset: u32,
    pub(crate) log2_slots: u8,
}

impl Message {
    /// The message as it is sent.
    pub(crate) fn encode(&self) -> [u8; MESSAGE_BYTES] {
        let mut out = Writer { bytes: [0; MESSAGE_BYTES], at: 0 };
        match self {
            Message::Ack => out.put(&1u16.to_ne_bytes()),
            Message::Hello(hello) => {
                out.put(&2u16.to_ne_bytes());
                out.text(&hello.name, NAME_BYTES);
                for number in
                    [hello.version_min, hello.version_max, hello.region_max, hello.to_client_max, hello.to_server_max]
                {
                    out.put(&number.to_ne_bytes());
                }
                out.put(&[hello.log2_slots_max]);
            }
            Message::Init(init) => {
                out.put(&3u16.to_ne_bytes());
                out.put(&init.version.to_ne_bytes());
                out.put(&init.id.to_ne_bytes());
                out.put(&[init.mode]);
                out.put(&init.secret);
                out.text(&init.name, NAME_BYTES);
            }
            Message::AddRegion { index, bytes } => {
                out.put(&4u16.to_ne_bytes());
                out.put(&index.to_ne_bytes());
                out.put(&bytes.to_ne_bytes());
            }
            Message::AddRing(ring) => {
                out.put(&5u16.to_ne_bytes());
                let flags = if ring.to_server { RING_TO_SERVER } else { 0 };
                for number in [flags, ring.index, ring.region] {
                    out.put(&number.to_ne_bytes());
                }
                out.put(&ring.offset.to_ne_bytes());
                out.put(&[ring.log2_slots]);
            }
            Message::Connect { name } => {
                out.put(&6u16.to_ne_bytes());
                out.text(name, NAME_BYTES);
            }
            Message::Connected { name } => {
                out.put(&7u16.to_ne_bytes());
                out.text(name, NAME_BYTES);
            }
            Message::Disconnect { code, text } => {
                out.put(&8u16.to_ne_bytes());
                out.put(&code.to_ne_bytes());
                out.text(text, TEXT_BYTES);
            }
        }
        out.bytes
    }

    /// The message that these bytes are; `None` for a type that does not exist.
    pub(crate) fn decode(bytes: &[u8; MESSAGE_BYTES]) -> Option<Message> {
        let mut from = Reader { rest: bytes };
        Some(match from.u16() {
            1 => Message::Ack,
            2 => Message::Hello(Hello {
                name: from.text(NAME_BYTES),
                version_min: from.u16(),
                version_max: from.u16(),
                region_max: from.u16(),
                to_client_max: from.u16(),
                to_server_max: from.u16(),
                log2_slots_max: from.u8(),
            }),
            3 => Message::Init(Init {
                version: from.u16(),
                id: from.u32(),
                mode: from.u8(),
                secret: from.array(),
                name: from.text(NAME_BYTES),
            }),
            4 => Message::AddRegion { index: from.u16(), bytes: u64::from_ne_bytes(from.array()) },
            5 => Message::AddRing(AddRing {
                to_server: from.u16() & RING_TO_SERVER != 0,
                index: from.u16(),
                region: from.u16(),
                offset: from.u32(),
                log2_slots: from.u8(),
            }),
            6 => Message::Connect { name: from.text(NAME_BYTES) },
            7 => Message::Connected { name: from.text(NAME_BYTES) },
            8 => Message::Disconnect { code: from.u32(), text: from.text(TEXT_BYTES) },
            _ => return None,
        })
    }
}

struct Writer {
    bytes: [u8; MESSAGE_BYTES],
    at: usize,
}

impl Writer {
    fn put(&mut self, bytes: &[u8]) {
        if let Some(place) = self.bytes.get_mut(self.at..self.at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        self.at += bytes.len();
    }

    /// A text in `room` bytes, ended by a zero.
    fn text(&mut self, text: &str, room: usize) {
        let mut len = text.len().min(room - 1);
        while !text.is_char_boundary(len) {
            len -= 1;
        }
        let after = self.at + room;
        self.put(&text.as_bytes()[..len]);
        self.at = after;
    }
}

/// Reads fields one after the other; past the end there are zeros.
struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        let len = N.min(self.rest.len());
        let (now, later) = self.rest.split_at(len);
        out[..len].copy_from_slice(now);
        self.rest = later;
        out
    }

    fn u8(&mut self) -> u8 {
        u8::from_ne_bytes(self.array())
    }

    fn u16(&mut self) -> u16 {
        u16::from_ne_bytes(self.array())
    }

    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.array())
    }

    /// A text for people: up to the first zero, what cannot be shown replaced.
    fn text(&mut self, room: usize) -> String {
        let (now, later) = self.rest.split_at(room.min(self.rest.len()));
        self.rest = later;
        let text = now.split(|byte| *byte == 0).next().unwrap_or_default();
        let shown = |letter: char| if letter.is_control() { '\u{fffd}' } else { letter };
        String::from_utf8_lossy(text).chars().map(shown).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Message> {
        vec![
            Message::Ack,
            Message::Hello(Hello {
                name: "someone".into(),
                version_min: VERSION,
                version_max: VERSION,
                region_max: 255,
                to_client_max: 1,
                to_server_max: 2,
                log2_slots_max: 14,
            }),
            Message::Init(Init {
                version: VERSION,
                id: 0x0102_0304,
                mode: MODE_ETHERNET,
                secret: *b"twenty-four bytes, full!",
                name: "other".into(),
            }),
            Message::AddRegion { index: 3, bytes: 0x0102_0304_0506_0708 },
            Message::AddRing(AddRing { to_server: true, index: 1, region: 2, offset: 0x1000, log2_slots: 10 }),
            Message::Connect { name: "a".into() },
            Message::Connected { name: "b".into() },
            Message::Disconnect { code: 9, text: "x".repeat(95) },
        ]
    }

    #[test]
    fn what_is_written_is_read() {
        for message in all() {
            assert_eq!(Message::decode(&message.encode()), Some(message));
        }
        for kind in [0u16, 9, 0xffff] {
            let mut bytes = [0xff; MESSAGE_BYTES];
            bytes[..2].copy_from_slice(&kind.to_ne_bytes());
            assert_eq!(Message::decode(&bytes), None);
        }
    }

    /// Places of fields as the packed C structures of `memif.h` have them.
    #[test]
    #[cfg(target_endian = "little")]
    fn fields_lie_where_the_headers_put_them() {
        let bytes: Vec<[u8; MESSAGE_BYTES]> = all().iter().map(Message::encode).collect();
        assert_eq!(bytes[1][34..45], [0, 2, 0, 2, 255, 0, 1, 0, 2, 0, 14]);
        assert_eq!(bytes[2][2..9], [0, 2, 4, 3, 2, 1, 0]);
        assert_eq!((bytes[2][9], bytes[2][33]), (b't', b'o'));
        assert_eq!(bytes[3][2..12], [3, 0, 8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(bytes[4][2..13], [1, 0, 1, 0, 2, 0, 0, 0x10, 0, 0, 10]);
        assert_eq!(bytes[7][2..7], [9, 0, 0, 0, b'x']);
    }

    #[test]
    fn texts_are_cut_and_made_fit_to_show() {
        let long = Message::Connect { name: "ä".repeat(30) };
        assert_eq!(Message::decode(&long.encode()), Some(Message::Connect { name: "ä".repeat(15) }));
        let mut bytes = Message::Disconnect { code: 0, text: String::new() }.encode();
        bytes[6..].fill(0x1b);
        let Some(Message::Disconnect { text, .. }) = Message::decode(&bytes) else { panic!("no disconnect") };
        assert_eq!(text, "\u{fffd}".repeat(96));
    }
}
