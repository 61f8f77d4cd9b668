//! What each primitive tests, for Ethernet: the same bytes that libpcap's compiler tests (pcap-filter(7), gencode.c of libpcap
//! 1.10).

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{Condition, Tags, Test};
use crate::Instruction;
use crate::instruction::{ANCILLARY, code, fact};

pub(super) const IP: u32 = 0x0800;
const ARP: u32 = 0x0806;
const RARP: u32 = 0x8035;
pub(super) const IP6: u32 = 0x86dd;
const MPLS: u32 = 0x8847;
const TAGS: [u32; 3] = [0x8100, 0x88a8, 0x9100];

const TCP: u32 = 6;
const UDP: u32 = 17;
const SCTP: u32 = 132;
/// The fragment header of IPv6.
const FRAGMENT: u32 = 44;

/// A protocol that a primitive names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Ether,
    /// An EtherType.
    Network(u32),
    /// Number of a protocol over IPv4, over IPv6, or over both.
    Transport(u32, Over),
}

/// What a transport protocol may lie over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    Both,
    Ip,
    Ip6,
}

impl Protocol {
    pub fn of(word: &str) -> Option<Protocol> {
        Some(match word {
            "ether" | "link" => Protocol::Ether,
            "ip" => Protocol::Network(IP),
            "ip6" => Protocol::Network(IP6),
            "arp" => Protocol::Network(ARP),
            "rarp" => Protocol::Network(RARP),
            "tcp" => Protocol::Transport(TCP, Over::Both),
            "udp" => Protocol::Transport(UDP, Over::Both),
            "sctp" => Protocol::Transport(SCTP, Over::Both),
            "icmp" => Protocol::Transport(1, Over::Ip),
            "igmp" => Protocol::Transport(2, Over::Ip),
            "icmp6" => Protocol::Transport(58, Over::Ip6),
            _ => return None,
        })
    }

    /// Whether `broadcast` and `multicast` may follow.
    pub fn has_casts(self) -> bool {
        matches!(self, Protocol::Ether | Protocol::Network(IP | IP6))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Source,
    Destination,
    /// The one or the other.
    Either,
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Host,
    Net,
    Port,
    PortRange,
    Protocol,
    /// A protocol behind extension headers.
    Chain,
}

impl Kind {
    pub fn wanted(self) -> &'static str {
        match self {
            Kind::Host => "an address",
            Kind::Net => "a network, such as 10.0.0.0/8",
            Kind::Port => "a port",
            Kind::PortRange => "a range of ports, such as 1000-2000",
            Kind::Protocol | Kind::Chain => "the number of a protocol",
        }
    }
}

/// What stands in front of a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Qualifiers {
    pub protocol: Option<Protocol>,
    pub direction: Direction,
    pub kind: Kind,
}

/// Where the headers of a packet lie, as far as the text has been read.
pub(super) struct Link {
    tags: Tags,
    /// Tags named so far.
    depth: u32,
    /// Bytes of the tags in the packet that were named so far.
    tag_bytes: u32,
    /// MPLS labels named so far.
    labels: u32,
}

/// Where a protocol's header begins.
pub(super) struct Header {
    /// What has to hold for the header to be there.
    pub check: Option<Condition>,
    /// From the start of the packet.
    pub at: u32,
    /// The length of the IPv4 header comes on top.
    pub behind_ip_header: bool,
}

type Made = Result<Condition, String>;

impl Link {
    pub fn new(tags: Tags) -> Link {
        Link { tags, depth: 0, tag_bytes: 0, labels: 0 }
    }

    /// A tag, of this id or any; what follows looks behind it.
    pub fn vlan(&mut self, id: Option<u32>) -> Made {
        if self.labels > 0 {
            return Err("vlan stands in front of mpls, not behind it".into());
        }
        let first = self.depth == 0;
        self.depth += 1;
        if first && self.tags == Tags::Beside {
            let load = |which| vec![Instruction::new(code::LD_B_ABS, ANCILLARY + which)];
            let present = equal(load(fact::TAG_PRESENT), 1);
            return Ok(match id {
                None => present,
                Some(id) => present.and(equal(masked(load(fact::TAG), 0xfff), id)),
            });
        }
        let any = TAGS.map(|tag| self.ethertype(tag)).into_iter().reduce(Condition::or);
        let any = any.unwrap_or_else(|| self.ethertype(TAGS[0]));
        let control = self.network(code::LD_H_ABS, 0);
        self.tag_bytes += 4;
        Ok(match id {
            None => any,
            Some(id) => any.and(equal(masked(control, 0xfff), id)),
        })
    }

    /// A label, of this number or any; what follows looks behind it.
    pub fn mpls(&mut self, label: Option<u32>) -> Condition {
        let there = match self.labels {
            0 => self.ethertype(MPLS),
            _ => self.bottom_of_stack().not(),
        };
        let entry = self.network(code::LD_W_ABS, 0);
        self.labels += 1;
        match label {
            None => there,
            Some(label) => there.and(equal(masked(entry, 0xffff_f000), label << 12)),
        }
    }

    /// The label named last is the last one of the packet.
    fn bottom_of_stack(&self) -> Condition {
        let load = load(code::LD_B_ABS, self.at(0) - 2);
        Condition::Test(Test { load, jump: code::JSET, k: 1 })
    }

    /// A length of at least, or at most.
    pub fn len(&self, at_least: bool, len: u32) -> Condition {
        let load = vec![Instruction::new(code::LD_LEN, 0)];
        match at_least {
            true => Condition::Test(Test { load, jump: code::JGE, k: len }),
            false => Condition::Test(Test { load, jump: code::JGT, k: len }).not(),
        }
    }

    /// Destination address of all, or of many.
    pub fn cast(&self, protocol: Option<Protocol>, broadcast: bool) -> Made {
        let byte = |at| self.network(code::LD_B_ABS, at);
        Ok(match (protocol, broadcast) {
            (Some(Protocol::Network(IP)), false) => {
                self.ethertype(IP).and(Condition::Test(Test { load: byte(16), jump: code::JGE, k: 224 }))
            }
            (Some(Protocol::Network(IP6)), false) => self.ethertype(IP6).and(equal(byte(24), 255)),
            (Some(Protocol::Network(_)), true) => {
                return Err("no mask of a network is known here; write `ip dst host ADDRESS` instead".into());
            }
            (_, true) => mac_at(0, [0xff; 6]),
            (_, false) => Condition::Test(Test { load: load(code::LD_B_ABS, 0), jump: code::JSET, k: 1 }),
        })
    }

    /// Where the header of a protocol begins whose bytes are asked for.
    pub fn header(&self, protocol: Protocol) -> Header {
        match protocol {
            Protocol::Ether => Header { check: None, at: 0, behind_ip_header: false },
            Protocol::Network(ethertype) => {
                Header { check: Some(self.ethertype(ethertype)), at: self.at(0), behind_ip_header: false }
            }
            Protocol::Transport(number, Over::Ip6) => {
                let check = self.ethertype(IP6).and(equal(self.network(code::LD_B_ABS, 6), number));
                Header { check: Some(check), at: self.at(40), behind_ip_header: false }
            }
            Protocol::Transport(number, _) => {
                let check = self.transport(number, Over::Ip).and(self.no_later_fragment());
                Header { check: Some(check), at: self.at(0), behind_ip_header: true }
            }
        }
    }

    /// A whole IPv4 packet, or its first fragment.
    fn no_later_fragment(&self) -> Condition {
        Condition::Test(Test { load: self.network(code::LD_H_ABS, 6), jump: code::JSET, k: 0x1fff }).not()
    }

    /// A protocol by itself.
    pub fn protocol(&self, protocol: Protocol) -> Made {
        match protocol {
            Protocol::Ether => Err("ether needs host, src, dst, proto, broadcast or multicast behind it".into()),
            Protocol::Network(ethertype) => Ok(self.ethertype(ethertype)),
            Protocol::Transport(number, over) => Ok(self.transport(number, over)),
        }
    }

    /// A value with its qualifiers.
    pub fn value(&self, qualifiers: Qualifiers, word: &str, mask: Option<&str>) -> Made {
        match (qualifiers.kind, qualifiers.protocol) {
            (Kind::Host, Some(Protocol::Ether)) => self.mac(qualifiers.direction, word),
            (Kind::Host | Kind::Net, protocol) => self.address(qualifiers, protocol, word, mask),
            (Kind::Port | Kind::PortRange, protocol) => {
                let range = if qualifiers.kind == Kind::Port {
                    let port = number(word, 65_535).map_err(|problem| named(word, "a port", &problem))?;
                    (port, port)
                } else {
                    ports(word)?
                };
                match protocol {
                    None => Ok(self.port(&[TCP, UDP, SCTP], qualifiers.direction, range)),
                    Some(Protocol::Transport(number @ (TCP | UDP | SCTP), _)) => {
                        Ok(self.port(&[number], qualifiers.direction, range))
                    }
                    Some(_) => Err("ports are of tcp, udp and sctp only".into()),
                }
            }
            (Kind::Protocol | Kind::Chain, protocol) => self.numbered(qualifiers, protocol, word),
        }
    }

    fn numbered(&self, qualifiers: Qualifiers, protocol: Option<Protocol>, word: &str) -> Made {
        if qualifiers.direction != Direction::Either {
            return Err("proto has no direction".into());
        }
        if protocol == Some(Protocol::Ether) && qualifiers.kind == Kind::Protocol {
            let ethertype = match word.strip_prefix('\\').map(Protocol::of) {
                Some(Some(Protocol::Network(ethertype))) => ethertype,
                Some(_) => return Err(format!("`{word}` is no name of an EtherType; write its number")),
                None => number(word, 65_535).map_err(|problem| named(word, "an EtherType", &problem))?,
            };
            // Lengths, and what libpcap finds by other means than the type.
            if ethertype < 1536 || [0x809b, 0x80f3].contains(&ethertype) {
                return Err(format!("ether proto {word} needs libpcap's compiler (install libpcap)"));
            }
            return Ok(self.ethertype(ethertype));
        }
        let over = match protocol {
            None => Over::Both,
            Some(Protocol::Network(IP)) => Over::Ip,
            Some(Protocol::Network(IP6)) => Over::Ip6,
            Some(_) => return Err("proto is of ether, ip or ip6".into()),
        };
        let number = match word.strip_prefix('\\').map(Protocol::of) {
            Some(Some(Protocol::Transport(number, _))) => number,
            Some(_) => return Err(format!("`{word}` is no name of a protocol; write its number")),
            None => number(word, 255).map_err(|problem| named(word, "a protocol", &problem))?,
        };
        Ok(match (qualifiers.kind, over) {
            (Kind::Chain, Over::Ip) => self.chain(IP, number),
            (Kind::Chain, Over::Ip6) => self.chain(IP6, number),
            (Kind::Chain, Over::Both) => self.chain(IP, number).or(self.chain(IP6, number)),
            (_, over) => self.transport(number, over),
        })
    }

    fn mac(&self, direction: Direction, word: &str) -> Made {
        let mac = mac_address(word).ok_or_else(|| format!("`{word}` is no MAC address, such as 02:00:00:00:00:01"))?;
        Ok(directed(direction, |source| mac_at(if source { 6 } else { 0 }, mac)))
    }

    fn address(&self, qualifiers: Qualifiers, protocol: Option<Protocol>, word: &str, mask: Option<&str>) -> Made {
        let is_net = qualifiers.kind == Kind::Net;
        let network = match protocol {
            None => None,
            Some(Protocol::Network(ethertype)) => Some(ethertype),
            Some(Protocol::Ether) => return Err("ether goes with host, not with net".into()),
            Some(Protocol::Transport(..)) => return Err("addresses are of ip, ip6, arp and rarp only".into()),
        };
        let (text, prefix) = match word.split_once('/') {
            Some((text, prefix)) if is_net && mask.is_none() => (text, Some(prefix)),
            Some(_) => return Err(format!("`{word}`: a prefix length goes with net, and not together with mask")),
            None => (word, None),
        };
        if text.contains(':') {
            if mask.is_some() || !matches!(network, None | Some(IP6)) {
                return Err(format!("`{word}` is an IPv6 address; that goes with ip6, and with /LENGTH"));
            }
            let (address, mask) = network_v6(text, prefix)?;
            return Ok(self.address_v6(qualifiers.direction, address, mask));
        }
        if network == Some(IP6) {
            return Err(format!("`{word}` is no IPv6 address"));
        }
        let (address, mask) = if is_net { network_v4(text, prefix, mask)? } else { (host_v4(text)?, u32::MAX) };
        let over = |ethertype| self.address_v4(ethertype, qualifiers.direction, address, mask);
        Ok(match network {
            Some(ethertype) => over(ethertype),
            None => over(IP).or(over(ARP)).or(over(RARP)),
        })
    }

    fn address_v4(&self, ethertype: u32, direction: Direction, address: u32, mask: u32) -> Condition {
        let (source_at, destination_at) = if ethertype == IP { (12, 16) } else { (14, 24) };
        let addresses = directed(direction, |source| {
            let load = self.network(code::LD_W_ABS, if source { source_at } else { destination_at });
            equal(if mask == u32::MAX { load } else { masked(load, mask) }, address)
        });
        self.ethertype(ethertype).and(addresses)
    }

    fn address_v6(&self, direction: Direction, address: u128, mask: u128) -> Condition {
        let addresses = directed(direction, |source| {
            let start = if source { 8 } else { 24 };
            let word = |index: u32| {
                let shift = 96 - 32 * index;
                let (value, mask) = ((address >> shift) as u32, (mask >> shift) as u32);
                let load = self.network(code::LD_W_ABS, start + 4 * index);
                equal(if mask == u32::MAX { load } else { masked(load, mask) }, value)
            };
            word(0).and(word(1)).and(word(2)).and(word(3))
        });
        self.ethertype(IP6).and(addresses)
    }

    fn transport(&self, number: u32, over: Over) -> Condition {
        let byte = |at| self.network(code::LD_B_ABS, at);
        let v4 = || self.ethertype(IP).and(equal(byte(9), number));
        let v6 = || {
            // Also behind one fragment header.
            let behind = equal(byte(6), FRAGMENT).and(equal(byte(40), number));
            self.ethertype(IP6).and(equal(byte(6), number).or(behind))
        };
        match over {
            Over::Ip => v4(),
            Over::Ip6 => v6(),
            Over::Both => v4().or(v6()),
        }
    }

    /// Ports of whole IPv4 packets and of first fragments, and of IPv6 packets without extension headers.
    fn port(&self, numbers: &[u32], direction: Direction, range: (u32, u32)) -> Condition {
        let is_one_of = |at: u32| {
            let tests = numbers.iter().map(|number| equal(self.network(code::LD_B_ABS, at), *number));
            tests.reduce(Condition::or).unwrap_or_else(|| equal(self.network(code::LD_B_ABS, at), TCP))
        };
        let v4 = directed(direction, |source| {
            let header = Instruction::new(code::LDX_MSH, self.at(0));
            let port = Instruction::new(code::LD_H_IND, self.at(if source { 0 } else { 2 }));
            within(|| vec![header, port], range)
        });
        let v6 =
            directed(direction, |source| within(|| self.network(code::LD_H_ABS, if source { 40 } else { 42 }), range));
        let v4 = self.ethertype(IP).and(is_one_of(9)).and(self.no_later_fragment()).and(v4);
        let v6 = self.ethertype(IP6).and(is_one_of(6)).and(v6);
        v6.or(v4)
    }

    /// What the network header is. Behind labels that is seen from its first four bits.
    pub(super) fn ethertype(&self, value: u32) -> Condition {
        let version = |version| equal(masked(self.network(code::LD_B_ABS, 0), 0xf0), version);
        match (self.labels, value) {
            (0, _) => equal(load(code::LD_H_ABS, 12 + self.tag_bytes), value),
            (_, IP) => self.bottom_of_stack().and(version(0x40)),
            (_, IP6) => self.bottom_of_stack().and(version(0x60)),
            // No packet is longer than this.
            _ => Condition::Test(Test { load: load(code::LD_LEN, 0), jump: code::JGT, k: u32::MAX }),
        }
    }

    /// A load from the network header.
    fn network(&self, code: u16, at: u32) -> Vec<Instruction> {
        load(code, self.at(at))
    }

    pub(super) fn at(&self, at: u32) -> u32 {
        14 + self.tag_bytes + 4 * self.labels + at
    }
}

/// A number in decimal, or hexadecimal with 0x.
pub(super) fn number(word: &str, max: u32) -> Result<u32, String> {
    let parsed = match word.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => word.parse(),
    };
    parsed.ok().filter(|number| *number <= max).ok_or_else(|| format!("`{word}` is no number from 0 to {max}"))
}

fn named(word: &str, what: &str, problem: &str) -> String {
    let is_name = word.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '\\');
    if is_name {
        format!("`{word}`: {what} is a number here; names need libpcap (install libpcap)")
    } else {
        problem.into()
    }
}

fn ports(word: &str) -> Result<(u32, u32), String> {
    let (first, last) = word.split_once('-').ok_or_else(|| format!("`{word}` is no range, such as 1000-2000"))?;
    let port = |text| number(text, 65_535).map_err(|problem| named(text, "a port", &problem));
    let (first, last) = (port(first)?, port(last)?);
    Ok((first.min(last), first.max(last)))
}

fn mac_address(word: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut parts = word.split([':', '-']);
    for byte in &mut mac {
        let part = parts.next().filter(|part| part.len() <= 2 && !part.starts_with('+'))?;
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(mac)
}

fn host_v4(text: &str) -> Result<u32, String> {
    let address: Ipv4Addr = text.parse().map_err(|_| {
        format!("`{text}` is no address such as 10.0.0.1; names of hosts need libpcap (install libpcap)")
    })?;
    Ok(address.into())
}

/// `10`, `10.1`, `10.1.2` and `10.1.2.3` are networks of 8 to 32 bits if nothing else is said.
fn network_v4(text: &str, prefix: Option<&str>, mask: Option<&str>) -> Result<(u32, u32), String> {
    let refuse = || format!("`{text}` is no network such as 10.0.0.0/8; names need libpcap (install libpcap)");
    let (mut address, mut octets) = (0u32, 0u32);
    for part in text.split('.') {
        let octet = number(part, 255).ok().filter(|_| octets < 4 && part.len() <= 3).ok_or_else(refuse)?;
        address = address << 8 | octet;
        octets += 1;
    }
    let address = if octets == 4 { address } else { address << (32 - 8 * octets) };
    let mask = match (prefix, mask) {
        (Some(prefix), _) => mask_of(number(prefix, 32)?),
        (None, Some(mask)) => host_v4(mask)?,
        (None, None) => mask_of(8 * octets),
    };
    if address & !mask != 0 {
        return Err(format!("`{text}` has bits outside of the mask {}", Ipv4Addr::from(mask)));
    }
    Ok((address, mask))
}

fn mask_of(bits: u32) -> u32 {
    u32::MAX.checked_shl(32 - bits).unwrap_or(0)
}

fn network_v6(text: &str, prefix: Option<&str>) -> Result<(u128, u128), String> {
    let address: Ipv6Addr = text.parse().map_err(|_| format!("`{text}` is no IPv6 address"))?;
    let bits = prefix.map_or(Ok(128), |prefix| number(prefix, 128))?;
    let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
    let address = u128::from(address);
    if address & !mask != 0 {
        return Err(format!("`{text}` has bits outside of the first {bits}"));
    }
    Ok((address, mask))
}

/// `test(true)` of the source, `test(false)` of the destination.
fn directed(direction: Direction, test: impl Fn(bool) -> Condition) -> Condition {
    match direction {
        Direction::Source => test(true),
        Direction::Destination => test(false),
        Direction::Either => test(true).or(test(false)),
        Direction::Both => test(true).and(test(false)),
    }
}

fn within(load: impl Fn() -> Vec<Instruction>, (first, last): (u32, u32)) -> Condition {
    if first == last {
        return equal(load(), first);
    }
    let from = Condition::Test(Test { load: load(), jump: code::JGE, k: first });
    from.and(Condition::Test(Test { load: load(), jump: code::JGT, k: last }).not())
}

/// A MAC address as libpcap compares it: its last four bytes, then its first two.
fn mac_at(at: u32, mac: [u8; 6]) -> Condition {
    let [a, b, c, d, e, f] = mac;
    let low = equal(load(code::LD_W_ABS, at + 2), u32::from_be_bytes([c, d, e, f]));
    low.and(equal(load(code::LD_H_ABS, at), u32::from_be_bytes([0, 0, a, b])))
}

fn load(code: u16, at: u32) -> Vec<Instruction> {
    vec![Instruction::new(code, at)]
}

fn masked(mut load: Vec<Instruction>, mask: u32) -> Vec<Instruction> {
    load.push(Instruction::new(code::AND, mask));
    load
}

fn equal(load: Vec<Instruction>, k: u32) -> Condition {
    Condition::Test(Test { load, jump: code::JEQ, k })
}
