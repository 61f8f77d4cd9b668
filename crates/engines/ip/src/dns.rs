//! A stub resolver (RFC 1035, RFC 5452): names to IPv4 and IPv6 addresses, by asking servers over UDP. The codec is smoltcp's.
//!
//! Each question has a socket of its own, so that an answer must have its port and its number right to be believed. The program hands it
//! every datagram for a socket that [`Resolver::owns`].

use std::collections::{HashMap, VecDeque};

use core::net::{IpAddr, SocketAddr};

use smoltcp::wire::{
    DnsFlags, DnsOpcode, DnsPacket, DnsQueryType, DnsQuestion, DnsRcode, DnsRecord, DnsRecordData, DnsRepr,
};

use crate::ip::Ip;
use crate::output::Output;
use crate::random::Random;
use crate::udp::{Datagram, Udp, UdpId};

const PORT: u16 = 53;
const SECOND_NS: u64 = 1_000_000_000;
/// Time for an answer to the first try; each further try has twice as long.
const TIMEOUT_NS: u64 = SECOND_NS;
const TRIES: u32 = 4;
/// Names that are being looked up, at most.
const QUERIES_MAX: usize = 64;
/// Names that are remembered, at most.
const CACHE_MAX: usize = 256;
/// Longest time for which an answer is remembered, in seconds.
const TTL_MAX_S: u32 = 3600;
/// Addresses of an answer, at most.
const ADDRESSES_MAX: usize = 32;
/// Records of an answer that are looked at.
const RECORDS_MAX: u16 = 64;

/// Number of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ResolveId(u64);

/// Why a name has no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// No server is known.
    #[error("no name server is known; give one, or use DHCP or a router that tells one")]
    NoServer,
    /// The name breaks the rules of RFC 1035.
    #[error("not a host name: labels of 1 to 63 letters, digits and hyphens, 253 in all")]
    Name,
    /// There is no such name, or it has no address.
    #[error("there is no such name, or it has no address")]
    NotFound,
    /// No server answered in time.
    #[error("no name server answered in time; check its address and the way to it")]
    TimedOut,
    /// The server refused, or failed.
    #[error("the name server refused to answer, or failed")]
    Server,
    /// There are as many lookups as there may be.
    #[error("64 names are being looked up; ask again when some are done")]
    TooMany,
}

/// One question of a lookup.
struct Question {
    kind: DnsQueryType,
    id: u16,
    socket: Option<UdpId>,
    server: SocketAddr,
    outcome: Option<Result<(Vec<IpAddr>, u32), ResolveError>>,
}

struct Query {
    id: ResolveId,
    text: String,
    name: Vec<u8>,
    questions: Vec<Question>,
    tries: u32,
    next_ns: u64,
}

struct Known {
    addresses: Vec<IpAddr>,
    until_ns: u64,
}

/// The resolver.
pub struct Resolver {
    servers: Vec<IpAddr>,
    queries: Vec<Query>,
    answers: VecDeque<(ResolveId, Result<Vec<IpAddr>, ResolveError>)>,
    cache: HashMap<String, Known>,
    random: Random,
    next_id: u64,
}

impl Resolver {
    /// A resolver that asks `servers`, the first one first.
    pub fn new(servers: &[IpAddr], secret: [u8; 16]) -> Resolver {
        Resolver {
            servers: servers.to_vec(),
            queries: Vec::new(),
            answers: VecDeque::new(),
            cache: HashMap::new(),
            random: Random::new(secret, "dns"),
            next_id: 0,
        }
    }

    /// Begins to look a name up; [`Resolver::next_answer`] has the addresses later. An address as text is its own answer.
    ///
    /// # Errors
    /// The name cannot be asked for.
    pub fn resolve(&mut self, name: &str, now_ns: u64) -> Result<ResolveId, ResolveError> {
        let text = name.trim_end_matches('.').to_ascii_lowercase();
        let id = ResolveId(self.next_id);
        let known = match text.parse::<IpAddr>() {
            Ok(address) => Some(vec![address]),
            Err(_) => {
                self.cache.get(&text).filter(|known| known.until_ns > now_ns).map(|known| known.addresses.clone())
            }
        };
        if let Some(addresses) = known {
            self.next_id += 1;
            self.answers.push_back((id, Ok(addresses)));
            return Ok(id);
        }
        let name = encode(&text).ok_or(ResolveError::Name)?;
        let server = *self.servers.first().ok_or(ResolveError::NoServer)?;
        if self.queries.len() >= QUERIES_MAX {
            return Err(ResolveError::TooMany);
        }
        self.next_id += 1;
        let question =
            |kind| Question { kind, id: 0, socket: None, server: SocketAddr::new(server, PORT), outcome: None };
        let questions = vec![question(DnsQueryType::A), question(DnsQueryType::Aaaa)];
        self.queries.push(Query { id, text, name, questions, tries: 0, next_ns: now_ns });
        Ok(id)
    }

    /// The oldest lookup that is done.
    pub fn next_answer(&mut self) -> Option<(ResolveId, Result<Vec<IpAddr>, ResolveError>)> {
        self.answers.pop_front()
    }

    /// True if the socket is of this resolver.
    pub fn owns(&self, socket: UdpId) -> bool {
        let mut questions = self.queries.iter().flat_map(|query| &query.questions);
        questions.any(|question| question.socket == Some(socket))
    }

    /// When [`Resolver::tick`] has something to do, in nanoseconds.
    pub fn next_deadline_ns(&self) -> u64 {
        self.queries.iter().map(|query| query.next_ns).min().unwrap_or(u64::MAX)
    }

    /// Asks, asks again and gives up, as is due.
    pub fn tick(&mut self, udp: &mut Udp, ip: &mut Ip, out: &mut Output<'_>) {
        for index in 0..self.queries.len() {
            let query = &mut self.queries[index];
            if out.now_ns < query.next_ns {
                continue;
            }
            if query.tries >= TRIES {
                for question in query.questions.iter_mut().filter(|question| question.outcome.is_none()) {
                    question.outcome = Some(Err(ResolveError::TimedOut));
                }
                continue;
            }
            let server = self.servers[query.tries as usize % self.servers.len()];
            query.next_ns = out.now_ns + (TIMEOUT_NS << query.tries);
            query.tries += 1;
            for question in query.questions.iter_mut().filter(|question| question.outcome.is_none()) {
                if let Some(socket) = question.socket.take() {
                    udp.close(socket);
                }
                question.id = self.random.next() as u16;
                question.server = SocketAddr::new(server, PORT);
                question.socket = udp.connect(None, question.server, ip, out).ok();
                let bytes = encode_question(question.id, &query.name, question.kind);
                if let Some(socket) = question.socket {
                    // What does not leave is asked again.
                    let _ = udp.send(socket, None, None, &bytes, false, ip, out);
                }
            }
        }
        self.finish(udp, out.now_ns);
    }

    /// Takes a datagram for a socket that it [`owns`](Resolver::owns).
    pub fn receive(&mut self, datagram: &Datagram, data: &[u8], udp: &mut Udp, now_ns: u64) {
        for query in &mut self.queries {
            let is_of =
                |question: &&mut Question| question.socket == Some(datagram.socket) && question.outcome.is_none();
            if let Some(question) = query.questions.iter_mut().find(is_of)
                && datagram.from == question.server
            {
                question.outcome = read_answer(data, question.id, &query.name, question.kind);
            }
        }
        self.finish(udp, now_ns);
    }

    /// Hands out lookups of which all questions have an outcome.
    fn finish(&mut self, udp: &mut Udp, now_ns: u64) {
        let mut index = 0;
        while let Some(query) = self.queries.get(index) {
            if query.questions.iter().any(|question| question.outcome.is_none()) {
                index += 1;
                continue;
            }
            let query = self.queries.swap_remove(index);
            let (mut addresses, mut ttl_s, mut error) = (Vec::new(), TTL_MAX_S, None);
            for question in query.questions {
                if let Some(socket) = question.socket {
                    udp.close(socket);
                }
                match question.outcome {
                    Some(Ok((found, ttl))) => {
                        addresses.extend(found);
                        ttl_s = ttl_s.min(ttl);
                    }
                    Some(Err(why)) => error = Some(error.unwrap_or(why)),
                    None => {}
                }
            }
            let result = match (addresses.is_empty(), error) {
                (false, _) => Ok(addresses),
                (true, error) => Err(error.unwrap_or(ResolveError::NotFound)),
            };
            if let Ok(addresses) = &result {
                self.remember(query.text, addresses, now_ns + u64::from(ttl_s) * SECOND_NS, now_ns);
            }
            self.answers.push_back((query.id, result));
        }
    }

    fn remember(&mut self, name: String, addresses: &[IpAddr], until_ns: u64, now_ns: u64) {
        if self.cache.len() >= CACHE_MAX {
            self.cache.retain(|_, known| known.until_ns > now_ns);
        }
        if self.cache.len() < CACHE_MAX {
            self.cache.insert(name, Known { addresses: addresses.to_vec(), until_ns });
        }
    }
}

/// A name as labels with their lengths; `None` if it breaks the rules.
fn encode(name: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(name.len() + 2);
    for label in name.split('.') {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if label.is_empty() || label.len() > 63 || !label.bytes().all(is_allowed) {
            return None;
        }
        bytes.push(label.len() as u8);
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.push(0);
    (bytes.len() <= 255).then_some(bytes)
}

fn encode_question(id: u16, name: &[u8], kind: DnsQueryType) -> Vec<u8> {
    let question = DnsQuestion { name, type_: kind };
    let repr = DnsRepr { transaction_id: id, opcode: DnsOpcode::Query, flags: DnsFlags::RECURSION_DESIRED, question };
    let mut bytes = vec![0; repr.buffer_len()];
    repr.emit(&mut DnsPacket::new_unchecked(&mut bytes[..]));
    bytes
}

/// What a datagram says about a question; `None` if it is no answer to it. Addresses come with the time to remember them, in seconds.
fn read_answer(
    data: &[u8],
    id: u16,
    name: &[u8],
    kind: DnsQueryType,
) -> Option<Result<(Vec<IpAddr>, u32), ResolveError>> {
    let packet = DnsPacket::new_checked(data).ok()?;
    let is_answer = packet.flags().contains(DnsFlags::RESPONSE) && packet.opcode() == DnsOpcode::Query;
    if packet.transaction_id() != id || !is_answer || packet.question_count() != 1 {
        return None;
    }
    let (mut rest, question) = DnsQuestion::parse(packet.payload()).ok()?;
    let mut current = decode(&packet, name)?;
    if question.type_ != kind || decode(&packet, question.name)? != current {
        return None;
    }
    match packet.rcode() {
        DnsRcode::NoError => {}
        DnsRcode::NXDomain => return Some(Err(ResolveError::NotFound)),
        _ => return Some(Err(ResolveError::Server)),
    }
    let (mut addresses, mut ttl_s) = (Vec::new(), TTL_MAX_S);
    for _ in 0..packet.answer_record_count().min(RECORDS_MAX) {
        // A record that is cut ends the answer.
        let Ok((behind, record)) = DnsRecord::parse(rest) else { break };
        rest = behind;
        if decode(&packet, record.name)? != current {
            continue;
        }
        let address = match record.data {
            DnsRecordData::A(four) if kind == DnsQueryType::A => IpAddr::V4(four),
            DnsRecordData::Aaaa(six) if kind == DnsQueryType::Aaaa => IpAddr::V6(six),
            DnsRecordData::Cname(name) => {
                current = decode(&packet, name)?;
                continue;
            }
            _ => continue,
        };
        ttl_s = ttl_s.min(record.ttl);
        if addresses.len() < ADDRESSES_MAX {
            addresses.push(address);
        }
    }
    // A cut answer without an address says nothing; there is no way to ask for more but TCP.
    if addresses.is_empty() && packet.flags().contains(DnsFlags::TRUNCATED) {
        return Some(Err(ResolveError::Server));
    }
    Some(Ok((addresses, ttl_s)))
}

/// A name in small letters; `None` if it is malformed.
fn decode(packet: &DnsPacket<&[u8]>, name: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    for label in packet.parse_name(name) {
        text.extend(label.ok()?.iter().map(u8::to_ascii_lowercase));
        text.push(b'.');
        if text.len() > 255 {
            return None;
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer: the question as it was, and records.
    fn answer(question: &[u8], flags: u16, records: &[&[u8]]) -> Vec<u8> {
        let mut bytes = question.to_vec();
        bytes[2..4].copy_from_slice(&flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&(records.len() as u16).to_be_bytes());
        records.iter().for_each(|record| bytes.extend_from_slice(record));
        bytes
    }

    const A: &[u8] = &[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 7];

    #[test]
    fn answers_are_read_and_strangers_are_not_believed() {
        let name = encode("www.example.org").unwrap();
        let question = encode_question(7, &name, DnsQueryType::A);
        let read = |bytes: &[u8]| read_answer(bytes, 7, &name, DnsQueryType::A);
        let ours = vec![IpAddr::from([192, 0, 2, 7])];
        assert_eq!(read(&answer(&question, 0x8180, &[A])), Some(Ok((ours.clone(), 60))));
        // By way of another name, "x".
        let cname = [0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 60, 0, 3, 1, b'x', 0];
        let other = [1, b'X', 0, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 192, 0, 2, 7];
        assert_eq!(read(&answer(&question, 0x8180, &[&cname, &other])), Some(Ok((ours, 9))));
        assert_eq!(read(&answer(&question, 0x8180, &[&other])), Some(Ok((vec![], TTL_MAX_S))), "of another name");
        assert_eq!(read(&answer(&question, 0x8183, &[])), Some(Err(ResolveError::NotFound)));
        assert_eq!(read(&answer(&question, 0x8185, &[])), Some(Err(ResolveError::Server)));
        assert_eq!(read(&answer(&question, 0x8380, &[])), Some(Err(ResolveError::Server)), "cut");
        assert_eq!(read(&question), None, "a question is no answer");
        assert_eq!(read_answer(&answer(&question, 0x8180, &[A]), 8, &name, DnsQueryType::A), None);
        let wrong = encode_question(7, &encode("www.example.com").unwrap(), DnsQueryType::A);
        assert_eq!(read(&answer(&wrong, 0x8180, &[A])), None);
        for len in 0..question.len() {
            assert_eq!(read(&answer(&question, 0x8180, &[A])[..len]), None, "{len}");
        }
    }

    #[test]
    fn names_follow_the_rules() {
        for name in ["", ".", "a..b", "a b", "ä.org", &"a".repeat(64), &["a"; 130].join(".")] {
            assert_eq!(encode(name), None, "{name}");
        }
        assert_eq!(encode("a.bc").unwrap(), [1, b'a', 2, b'b', b'c', 0]);
    }
}
