//! One flow: what the runner, as the peer, knows of it. Turns relative numbers into segments, and segments into relative numbers.

use std::collections::VecDeque;

use crate::frame::Wire;
use crate::pattern::stream_byte;
use crate::script::{Bound, Numbers, Segment, Stamp};
use crate::subject::{Endpoints, Event};

/// Flags of the TCP header.
pub const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;
const FIN: u8 = 0x01;

/// The peer's timestamps: this at the start, and one more each millisecond.
const STAMP_BASE: u32 = 1000;

/// Options of one side's SYN.
#[derive(Clone, Copy, Debug, Default)]
struct Agreed {
    timestamps: bool,
    window_scale: Option<u8>,
}

/// A flow.
#[derive(Debug)]
pub struct Flow {
    /// Its addresses.
    pub endpoints: Endpoints,
    /// The peer's initial sequence number.
    pub peer_isn: u32,
    /// The stack's, once it is known.
    pub local_isn: Option<u32>,
    peer_syn: Agreed,
    local_syn: Agreed,
    peer_window: i64,
    /// The end of what the stack has sent, relative.
    local_end: i64,
    /// The stack's latest timestamp.
    stamp: u32,
    /// What the program has sent.
    pub sent: Vec<u8>,
    /// Bytes that the program got, all and since the script asked.
    got: u64,
    pub got_new: usize,
    /// What the peer sends is not the stream, so contents are not compared.
    other_data: bool,
    /// What the program was told, but for bytes.
    pub events: VecDeque<Event>,
}

impl Flow {
    /// A flow that nothing has happened to.
    pub fn new(endpoints: Endpoints, peer_isn: u32) -> Flow {
        Flow {
            endpoints,
            peer_isn,
            local_isn: None,
            peer_syn: Agreed::default(),
            local_syn: Agreed::default(),
            peer_window: 65_535,
            local_end: 0,
            stamp: 0,
            sent: Vec::new(),
            got: 0,
            got_new: 0,
            other_data: false,
            events: VecDeque::new(),
        }
    }

    /// The window of the segments that the peer sends from now on, in bytes.
    pub fn set_window(&mut self, bytes: i64) {
        self.peer_window = bytes;
    }

    fn timestamps(&self) -> bool {
        self.peer_syn.timestamps && self.local_syn.timestamps
    }

    /// Shifts of the windows of the peer and of the stack.
    fn shifts(&self) -> (u8, u8) {
        match (self.peer_syn.window_scale, self.local_syn.window_scale) {
            (Some(peer), Some(local)) => (peer, local),
            _ => (0, 0),
        }
    }

    /// Absolute number of a place in the peer's stream.
    pub fn peer_seq(&self, relative: i64) -> u32 {
        self.peer_isn.wrapping_add(relative as u32)
    }

    /// Absolute number of a place in the stack's stream; counted from 0 while its initial number is not known.
    pub fn local_seq(&self, relative: i64) -> u32 {
        self.local_isn.unwrap_or(0).wrapping_add(relative as u32)
    }

    fn relative_peer(&self, seq: u32) -> i64 {
        i64::from(seq.wrapping_sub(self.peer_isn) as i32)
    }

    fn relative_local(&self, seq: u32) -> i64 {
        i64::from(seq.wrapping_sub(self.local_isn.unwrap_or(0)) as i32)
    }

    /// The segment that the peer sends `at_ns` after the start of the scenario.
    pub fn build(&mut self, segment: &Segment, at_ns: u64) -> Result<Wire, String> {
        let flags = segment.flags.ok_or("a segment that arrives needs flags")?;
        let seq = segment.seq.ok_or("a segment that arrives needs a sequence number")?;
        if let Bound::Is(window) = segment.window {
            self.peer_window = window;
        }
        let data = self.data(segment, seq);
        let options = match &segment.raw_options {
            Some(raw) => padded(raw.clone()),
            None => self.options(segment, flags, at_ns)?,
        };
        let shift = if flags & SYN != 0 { 0 } else { self.shifts().0 };
        let ack = match segment.ack {
            Bound::Is(ack) => self.local_seq(ack),
            _ if flags & ACK != 0 => self.local_seq(self.local_end),
            _ => 0,
        };
        let endpoints = self.endpoints;
        Ok(Wire {
            src: Some(segment.src.unwrap_or(endpoints.remote)),
            dst: Some(segment.dst.unwrap_or(endpoints.local)),
            src_port: endpoints.remote_port,
            dst_port: endpoints.local_port,
            seq: self.peer_seq(seq),
            ack,
            flags: flags | if segment.push == Some(true) { PSH } else { 0 },
            window: (self.peer_window >> shift).clamp(0, 65_535) as u16,
            urgent: segment.urgent.unwrap_or(0),
            options,
            data,
            tos: segment.tos.unwrap_or(0) | segment.ecn.map_or(0, |ecn| ecn as u8),
            ttl: match segment.ttl {
                Bound::Is(ttl) => ttl as u8,
                _ => 64,
            },
            dont_fragment: segment.dont_fragment.unwrap_or(true),
            data_offset: segment.data_offset,
            bad_checksum: segment.bad_checksum,
            ip_options: segment.ip_options.clone().unwrap_or_default(),
        })
    }

    /// Bytes of the stream from `seq` on; the first is number 1, behind the SYN.
    fn data(&mut self, segment: &Segment, seq: i64) -> Vec<u8> {
        if let Some(data) = &segment.data {
            self.other_data = true;
            return data.clone();
        }
        // Data in a SYN begins one later.
        let first = seq - 1 + i64::from(segment.flags.unwrap_or(0) & SYN != 0);
        (0..segment.len.unwrap_or(0) as i64).map(|offset| stream_byte((first + offset) as u64)).collect()
    }

    fn options(&mut self, segment: &Segment, flags: u8, at_ns: u64) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        let is_syn = flags & SYN != 0;
        if let Numbers::Is(mss) = segment.mss {
            bytes.extend_from_slice(&[2, 4, (mss >> 8) as u8, mss as u8]);
        }
        let stamped = match &segment.timestamps {
            Numbers::Absent => false,
            Numbers::Unsaid => !is_syn && self.timestamps() && flags & RST == 0,
            _ => true,
        };
        if segment.sack_permitted == Numbers::Any {
            bytes.extend_from_slice(if stamped { &[4, 2] } else { &[1, 1, 4, 2] });
        } else if stamped {
            bytes.extend_from_slice(&[1, 1]);
        }
        if stamped {
            let (value, echo) = self.stamps(segment, flags, at_ns);
            bytes.extend_from_slice(&[8, 10]);
            bytes.extend_from_slice(&value.to_be_bytes());
            bytes.extend_from_slice(&echo.to_be_bytes());
        }
        if let Numbers::Is(shift) = segment.window_scale {
            bytes.extend_from_slice(&[1, 3, 3, shift]);
        }
        if let Numbers::Is(blocks) = &segment.sack {
            bytes.extend_from_slice(&[1, 1, 5, 2 + 8 * blocks.len() as u8]);
            for (start, end) in blocks {
                bytes.extend_from_slice(&self.local_seq(*start).to_be_bytes());
                bytes.extend_from_slice(&self.local_seq(*end).to_be_bytes());
            }
        }
        if is_syn {
            let window_scale = if let Numbers::Is(shift) = segment.window_scale { Some(shift.min(14)) } else { None };
            self.peer_syn = Agreed { timestamps: stamped, window_scale };
        }
        if bytes.len() > 40 { Err("more than 40 bytes of options".into()) } else { Ok(padded(bytes)) }
    }

    fn stamps(&self, segment: &Segment, flags: u8, at_ns: u64) -> (u32, u32) {
        let usual = STAMP_BASE.wrapping_add((at_ns / 1_000_000) as u32);
        let echo = if flags & ACK != 0 { self.stamp } else { 0 };
        let of = |bound, usual| if let Bound::Is(value) = bound { value as u32 } else { usual };
        match segment.timestamps {
            Numbers::Is(stamp) => (of(stamp.value, usual), of(stamp.echo, echo)),
            _ => (usual, echo),
        }
    }

    /// True if the stack sent this segment in this flow. A first SYN names the stack's port.
    pub fn takes(&mut self, wire: &Wire) -> bool {
        let endpoints = &mut self.endpoints;
        let first_syn = endpoints.local_port == 0 && wire.flags & (SYN | ACK) == SYN;
        let is = wire.src == Some(endpoints.local)
            && wire.dst == Some(endpoints.remote)
            && wire.dst_port == endpoints.remote_port
            && (wire.src_port == endpoints.local_port || first_syn);
        if is && first_syn {
            endpoints.local_port = wire.src_port;
        }
        is
    }

    /// Learns from a segment of the stack.
    pub fn note(&mut self, wire: &Wire) {
        let options = Options::read(&wire.options);
        if wire.flags & SYN != 0 {
            self.local_isn = Some(wire.seq);
            self.local_syn = Agreed { timestamps: options.timestamps.is_some(), window_scale: options.window_scale };
        }
        if let Some((value, _)) = options.timestamps {
            self.stamp = value;
        }
        if wire.flags & RST == 0 {
            let flags = i64::from(wire.flags & SYN != 0) + i64::from(wire.flags & FIN != 0);
            self.local_end = self.local_end.max(self.relative_local(wire.seq) + wire.data.len() as i64 + flags);
        }
    }

    /// The segment in relative numbers, as a script would have it.
    pub fn seen(&self, wire: &Wire) -> Segment {
        let options = Options::read(&wire.options);
        let shift = if wire.flags & SYN != 0 { 0 } else { self.shifts().1 };
        let blocks: Vec<(i64, i64)> =
            options.sack.iter().map(|(start, end)| (self.relative_peer(*start), self.relative_peer(*end))).collect();
        Segment {
            flags: Some(wire.flags),
            seq: Some(self.relative_local(wire.seq)),
            len: Some(wire.data.len()),
            ack: if wire.flags & ACK != 0 {
                Bound::Is(self.relative_peer(wire.ack))
            } else {
                Bound::Is(i64::from(wire.ack))
            },
            window: Bound::Is(i64::from(wire.window) << shift),
            push: Some(wire.flags & PSH != 0),
            urgent: Some(wire.urgent),
            mss: present(options.mss),
            window_scale: present(options.window_scale),
            sack_permitted: present(options.sack_permitted.then_some(())),
            timestamps: present(
                options.timestamps.map(|(value, echo)| Stamp {
                    value: Bound::Is(i64::from(value)),
                    echo: Bound::Is(i64::from(echo)),
                }),
            ),
            sack: present((!blocks.is_empty()).then_some(blocks)),
            ecn: None,
            ttl: Bound::Is(i64::from(wire.ttl)),
            dont_fragment: Some(wire.dont_fragment),
            tos: Some(wire.tos),
            bad_checksum: wire.bad_checksum,
            ..Segment::default()
        }
    }

    /// What is wrong with the data, or with options that have to be there always.
    pub fn faults(&self, wire: &Wire) -> Vec<String> {
        let mut faults = Vec::new();
        if wire.bad_checksum {
            faults.push("the checksum is wrong".to_string());
        }
        if let Err(fault) = Options::check(&wire.options) {
            faults.push(fault);
        }
        let reset = wire.flags & RST != 0;
        let stamped = Options::read(&wire.options).timestamps.is_some();
        if wire.flags & (SYN | RST) == 0 && stamped != self.timestamps() {
            let text =
                if stamped { "a timestamp that was not agreed on" } else { "no timestamp, although both sides agreed" };
            faults.push(text.to_string());
        }
        // The one byte of a keep-alive before the window is not compared.
        let first = self.relative_local(wire.seq) - 1;
        if !reset && first >= 0 && !wire.data.is_empty() {
            let wanted = self.sent.get(first as usize..first as usize + wire.data.len());
            match wanted {
                None => faults.push(format!("data beyond the {} bytes that the program sent", self.sent.len())),
                Some(wanted) if wanted != wire.data => {
                    faults.push("the data is not what the program sent there".into())
                }
                Some(_) => {}
            }
        }
        faults
    }

    /// Takes what the program was told.
    pub fn take(&mut self, event: Event) -> Result<(), String> {
        let Event::Received(bytes) = event else {
            self.events.push_back(event);
            return Ok(());
        };
        let good = |(offset, byte): (usize, &u8)| *byte == stream_byte(self.got + offset as u64);
        if !self.other_data && !bytes.iter().enumerate().all(good) {
            return Err(format!(
                "the program got wrong bytes between {} and {}",
                self.got,
                self.got + bytes.len() as u64
            ));
        }
        self.got += bytes.len() as u64;
        self.got_new += bytes.len();
        Ok(())
    }
}

fn present<T>(value: Option<T>) -> Numbers<T> {
    value.map_or(Numbers::Absent, Numbers::Is)
}

fn padded(mut bytes: Vec<u8>) -> Vec<u8> {
    while !bytes.len().is_multiple_of(4) {
        bytes.push(0);
    }
    bytes
}

/// Options of a segment that left.
#[derive(Debug, Default)]
struct Options {
    mss: Option<u16>,
    window_scale: Option<u8>,
    sack_permitted: bool,
    timestamps: Option<(u32, u32)>,
    sack: Vec<(u32, u32)>,
}

impl Options {
    fn read(bytes: &[u8]) -> Options {
        let mut options = Options::default();
        for (kind, value) in Options::each(bytes) {
            let word = |at: usize| {
                value.get(at..at + 4).map_or(0, |word| u32::from_be_bytes(word.try_into().unwrap_or_default()))
            };
            match (kind, value.len()) {
                (2, 2) => options.mss = Some(u16::from_be_bytes([value[0], value[1]])),
                (3, 1) => options.window_scale = Some(value[0]),
                (4, 0) => options.sack_permitted = true,
                (8, 8) => options.timestamps = Some((word(0), word(4))),
                (5, _) => {
                    options.sack = (0..value.len() / 8).map(|block| (word(block * 8), word(block * 8 + 4))).collect()
                }
                _ => {}
            }
        }
        options
    }

    /// Kind and value of each option; ends at the first that does not fit.
    fn each(bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
        let mut rest = bytes;
        std::iter::from_fn(move || {
            loop {
                match *rest {
                    [1, ..] => rest = &rest[1..],
                    [kind, len, ..] if kind != 0 && len >= 2 && usize::from(len) <= rest.len() => {
                        let (option, after) = rest.split_at(usize::from(len));
                        rest = after;
                        return Some((kind, &option[2..]));
                    }
                    _ => return None,
                }
            }
        })
    }

    /// RFC 9293 sections 3.1 and 3.2: every option has a right length, behind the end of the list lie zeros.
    fn check(bytes: &[u8]) -> Result<(), String> {
        let mut rest = bytes;
        while let [kind, after @ ..] = rest {
            match kind {
                0 if after.iter().any(|byte| *byte != 0) => return Err("the padding of the options is not zero".into()),
                0 => return Ok(()),
                1 => rest = after,
                _ => {
                    let len = usize::from(after.first().copied().unwrap_or(0));
                    if len < 2 || len > rest.len() {
                        return Err(format!("an option of kind {kind} has a wrong length: {len}"));
                    }
                    rest = &rest[len..];
                }
            }
        }
        Ok(())
    }
}
