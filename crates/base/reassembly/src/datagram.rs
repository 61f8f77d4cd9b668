//! One packet that is put together.

use linerate_wire::{ipv4, ipv6};

use crate::FragmentDrop;
use crate::part::{HEADERS_MAX, Identity, Part};

/// Bytes that the headers and data of one packet take.
const BUFFER_LEN: usize = HEADERS_MAX + 65_536;
/// Runs of data with a gap between them, at most; more are an attack.
const RUNS_MAX: usize = 64;

/// A buffer, and the packet in it.
pub struct Datagram {
    /// Headers end and data begin at `HEADERS_MAX`. Bytes that were not received are of packets before.
    buffer: Box<[u8]>,
    /// Data that are there: from, to; in their order, with gaps between them.
    runs: Vec<(usize, usize)>,
    identity: Option<Identity>,
    /// It was given up, and its other fragments are refused.
    is_refused: bool,
    deadline_ns: u64,
    fragments: u64,
    /// Where the data end, as soon as the last fragment is there.
    end: Option<usize>,
    /// What the first fragment says, as soon as it is there.
    first: Option<First>,
    /// Each value of the ECN bits that a fragment had, as a bit.
    ecn: u8,
}

#[derive(Clone, Copy)]
struct First {
    headers_len: usize,
    network: usize,
    next_header: Option<(usize, u8)>,
}

/// What became of a fragment's data.
pub enum Added {
    New,
    /// The same bytes were there.
    Repeated,
}

impl Datagram {
    pub fn new() -> Datagram {
        Datagram {
            buffer: vec![0; BUFFER_LEN].into(),
            runs: Vec::with_capacity(RUNS_MAX + 1),
            identity: None,
            is_refused: false,
            deadline_ns: u64::MAX,
            fragments: 0,
            end: None,
            first: None,
            ecn: 0,
        }
    }

    /// When it is given up; `u64::MAX` if there is none.
    pub fn deadline_ns(&self) -> u64 {
        self.deadline_ns
    }

    pub fn fragments(&self) -> u64 {
        self.fragments
    }

    pub fn is_of(&self, part: &Part<'_>) -> bool {
        self.identity.as_ref() == Some(&part.identity)
    }

    /// True if the fragments are of the sender of `part`.
    pub fn is_from(&self, part: &Part<'_>) -> bool {
        self.identity.as_ref().is_some_and(|identity| identity.src() == part.identity.src())
    }

    /// Headers and first data, if the first fragment is there.
    pub fn start(&self) -> Option<&[u8]> {
        let first = self.first?;
        let run = self.runs.first().filter(|run| run.0 == 0)?;
        self.buffer.get(HEADERS_MAX - first.headers_len..HEADERS_MAX + run.1)
    }

    pub fn clear(&mut self) {
        self.runs.clear();
        (self.identity, self.end, self.first) = (None, None, None);
        (self.is_refused, self.deadline_ns, self.fragments, self.ecn) = (false, u64::MAX, 0, 0);
    }

    pub fn begin(&mut self, part: &Part<'_>, deadline_ns: u64) {
        self.clear();
        self.identity = Some(part.identity);
        self.deadline_ns = deadline_ns;
    }

    /// Gives the packet up until it is forgotten.
    pub fn refuse(&mut self) {
        self.is_refused = true;
        self.fragments = 0;
        self.runs.clear();
    }

    /// Takes the data of a fragment.
    ///
    /// # Errors
    /// The packet must be given up.
    pub fn add(&mut self, part: &Part<'_>) -> Result<Added, FragmentDrop> {
        let (from, to) = (part.offset, part.offset + part.data.len());
        if self.is_refused {
            return Err(FragmentDrop::Overlap);
        }
        let is_beyond = self.end.is_some_and(|end| to > end || !part.more && to != end);
        let is_before = !part.more && self.runs.last().is_some_and(|last| last.1 > to);
        if is_beyond || is_before {
            return Err(FragmentDrop::Overlap);
        }
        let at = self.runs.partition_point(|run| run.1 <= from);
        if self.runs.get(at).is_some_and(|run| run.0 < to) {
            return self.repeat(at, part).ok_or(FragmentDrop::Overlap);
        }
        self.keep(at, from, to)?;
        let data = HEADERS_MAX + from..HEADERS_MAX + to;
        self.buffer.get_mut(data).ok_or(FragmentDrop::TooLarge)?.copy_from_slice(part.data);
        if !part.more {
            self.end = Some(to);
        }
        if from == 0 {
            self.keep_headers(part);
        }
        self.ecn |= 1 << part.ecn;
        self.fragments += 1;
        Ok(Added::New)
    }

    /// A fragment whose data overlap those of run `at`: it may be one that came twice.
    fn repeat(&self, at: usize, part: &Part<'_>) -> Option<Added> {
        let (from, to) = (part.offset, part.offset + part.data.len());
        let is_inside = self.runs[at].0 <= from && to <= self.runs[at].1;
        let is_same = is_inside && self.buffer[HEADERS_MAX + from..HEADERS_MAX + to] == *part.data;
        is_same.then_some(Added::Repeated)
    }

    /// Notes data in front of run `at`, joined to their neighbours.
    fn keep(&mut self, at: usize, from: usize, to: usize) -> Result<(), FragmentDrop> {
        let joins_before = at > 0 && self.runs[at - 1].1 == from;
        let joins_behind = self.runs.get(at).is_some_and(|run| run.0 == to);
        match (joins_before, joins_behind) {
            (true, true) => {
                self.runs[at - 1].1 = self.runs[at].1;
                self.runs.remove(at);
            }
            (true, false) => self.runs[at - 1].1 = to,
            (false, true) => self.runs[at].0 = from,
            (false, false) if self.runs.len() < RUNS_MAX => self.runs.insert(at, (from, to)),
            (false, false) => return Err(FragmentDrop::TooLarge),
        }
        Ok(())
    }

    fn keep_headers(&mut self, part: &Part<'_>) {
        let [outer, extensions] = part.headers;
        let headers_len = outer.len() + extensions.len();
        let start = HEADERS_MAX - headers_len;
        self.buffer[start..start + outer.len()].copy_from_slice(outer);
        self.buffer[start + outer.len()..HEADERS_MAX].copy_from_slice(extensions);
        self.first = Some(First { headers_len, network: part.network, next_header: part.next_header });
    }

    pub fn is_whole(&self) -> bool {
        self.end.is_some_and(|end| self.runs == [(0, end)])
    }

    /// The whole packet, whose place is free then. `None` if it is longer than IP allows, or if its ECN bits contradict each other.
    pub fn finish(&mut self) -> Option<&[u8]> {
        let (first, end, ecn) = (self.first, self.end, self.ecn);
        self.clear();
        let (First { headers_len, network, next_header }, end) = (first?, end?);
        // A router marked a fragment of a packet whose sender does not know such marks.
        let (is_marked, is_plain) = (ecn & 1 << 3 != 0, ecn & 1 != 0);
        if is_marked && is_plain {
            return None;
        }
        let packet = &mut self.buffer[HEADERS_MAX - headers_len..HEADERS_MAX + end];
        let ip = &mut packet[network..];
        let len = ip.len();
        match next_header {
            None => {
                let mut header = ipv4::Packet::new_unchecked(&mut ip[..]);
                header.set_total_len(u16::try_from(len).ok()?);
                header.set_fragment(false, false, 0);
                let tos = header.tos();
                header.set_tos(if is_marked { tos | 3 } else { tos });
                header.fill_checksum();
            }
            Some((number_at, number)) => {
                let mut header = ipv6::Packet::new_unchecked(&mut ip[..]);
                header.set_payload_len(u16::try_from(len - ipv6::HEADER_LEN).ok()?);
                let class = header.traffic_class();
                header.set_traffic_class(if is_marked { class | 3 } else { class });
                *packet.get_mut(number_at)? = number;
            }
        }
        Some(packet)
    }
}
