//! Ethernet addresses where the path is not of the lab's making: a gateway's is asked for by ARP (RFC 826) or neighbour discovery
//! (RFC 4861 section 7.2) before each trial, and asked for again while the load runs, which also keeps ours fresh in its table. The
//! load itself never waits for it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use linerate_sys::clock;
use linerate_sys::netns::NetNs;
use linerate_sys::raw::RawSocket;
use linerate_wire::{EtherType, MacAddress, Protocol, Sum, arp, ethernet, icmpv6, ipv6};

use linerate_worker::Control;

/// Who asks, and for whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Question {
    /// Index of the interface in this thread's network namespace.
    pub(super) interface: u32,
    pub(super) own_mac: [u8; 6],
    /// Of the gateway's family.
    pub(super) own: IpAddr,
    pub(super) gateway: IpAddr,
}

/// Whose gateway, and how it is asked.
pub(super) struct Gateway {
    /// Number of the end.
    pub(super) end: usize,
    pub(super) question: Question,
    /// Where the interface is.
    pub(super) namespace: NetNs,
    /// Sends on it.
    pub(super) socket: RawSocket,
}

impl Gateway {
    /// Its Ethernet address, by asking for it.
    ///
    /// # Errors
    /// As [`Question::ask`].
    pub(super) fn ask(&self) -> io::Result<[u8; 6]> {
        // A socket that receives is open only while it is needed: each packet of a load would go to it too.
        self.namespace.run(|| self.question.ask())?
    }
}

/// Shortest Ethernet frame, without FCS.
const FRAME_LEN: usize = 60;
/// A neighbour solicitation: type, code, checksum, reserved, target, source link-layer address.
const MESSAGE_LEN: usize = 32;
const SOLICITATION_LEN: usize = 14 + 40 + MESSAGE_LEN;
/// Of all neighbour discovery: no router has passed it on.
const HOP_LIMIT: u8 = 255;
/// RFC 4861 section 4.6.1.
const SOURCE_ADDRESS_OPTION: u8 = 1;
const TARGET_ADDRESS_OPTION: u8 = 2;
const TRIES: u32 = 5;
const ANSWER_NS: u64 = 500_000_000;
/// Between two questions while the load runs. A Linux neighbour that is in doubt of an address gives it up after some seconds.
const REFRESH_NS: u64 = 500_000_000;

impl Question {
    fn frame(&self) -> Vec<u8> {
        match (self.own, self.gateway) {
            (IpAddr::V4(own), IpAddr::V4(gateway)) => self.request(own, gateway),
            (IpAddr::V6(own), IpAddr::V6(gateway)) => self.solicitation(own, gateway),
            // An experiment's addresses are of one family.
            _ => Vec::new(),
        }
    }

    fn ethernet(&self, dst: MacAddress, ethertype: EtherType) -> (Vec<u8>, usize) {
        let mut frame = vec![0; SOLICITATION_LEN];
        let link = ethernet::Header { src: MacAddress::from(self.own_mac), dst, ethertype };
        link.emit(&mut frame);
        (frame, link.header_len())
    }

    fn request(&self, own: Ipv4Addr, gateway: Ipv4Addr) -> Vec<u8> {
        let (mut frame, offset) = self.ethernet(MacAddress::BROADCAST, EtherType::ARP);
        frame.truncate(FRAME_LEN);
        let question = arp::Header {
            sender_mac: MacAddress::from(self.own_mac),
            sender_ip: own,
            target_ip: gateway,
            ..arp::Header::default()
        };
        question.emit(&mut frame[offset..]);
        frame
    }

    /// RFC 4861 section 4.3, to the solicited-node address of RFC 4291 section 2.7.1.
    fn solicitation(&self, own: Ipv6Addr, gateway: Ipv6Addr) -> Vec<u8> {
        let [.., high, middle, low] = gateway.octets();
        let (mut frame, offset) =
            self.ethernet(MacAddress::from([0x33, 0x33, 0xff, high, middle, low]), EtherType::IPV6);
        let [high, low] = [u16::from(high) | 0xff00, u16::from(middle) << 8 | u16::from(low)];
        let dst = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, high, low);
        let network = ipv6::Header {
            payload_len: MESSAGE_LEN as u16,
            next_header: Protocol::ICMPV6,
            hop_limit: HOP_LIMIT,
            src: own,
            dst,
            ..ipv6::Header::default()
        };
        network.emit(&mut frame[offset..]);
        let message = &mut frame[offset + network.header_len()..];
        message[8..24].copy_from_slice(&gateway.octets());
        message[24..26].copy_from_slice(&[SOURCE_ADDRESS_OPTION, 1]);
        message[26..32].copy_from_slice(&self.own_mac);
        let mut message = icmpv6::Packet::new_unchecked(message);
        message.set_kind(icmpv6::NEIGHBOR_SOLICITATION);
        message.fill_checksum(Sum::pseudo_ipv6(own, dst, Protocol::ICMPV6.0, MESSAGE_LEN as u32));
        frame
    }

    /// The address in a frame, if it is the answer.
    fn answer(&self, frame: &[u8]) -> Option<[u8; 6]> {
        let packet = ethernet::Packet::new_checked(frame).ok()?;
        match packet.ethertype() {
            EtherType::ARP => {
                let header = arp::Header::parse(packet.payload()).ok()?;
                let is_ours = header.operation == arp::REPLY
                    && IpAddr::V4(header.sender_ip) == self.gateway
                    && IpAddr::V4(header.target_ip) == self.own;
                is_ours.then_some(header.sender_mac.0)
            }
            EtherType::IPV6 => self.advertised(packet.payload()),
            _ => None,
        }
    }

    /// RFC 4861 section 4.4, checked as section 7.1.2 asks. A unicast answer may leave its address option out; then the frame's source
    /// is not taken for it, and the next question is waited for.
    fn advertised(&self, packet: &[u8]) -> Option<[u8; 6]> {
        let network = ipv6::Packet::new_checked(packet).ok()?;
        let message = icmpv6::Packet::new_checked(network.payload()).ok()?;
        let pseudo = network.pseudo_sum(Protocol::ICMPV6, network.payload().len() as u32);
        let is_advertisement = network.next_header() == Protocol::ICMPV6
            && network.hop_limit() == HOP_LIMIT
            && IpAddr::V6(network.dst()) == self.own
            && message.kind() == icmpv6::NEIGHBOR_ADVERTISEMENT
            && message.code() == 0
            && message.verify_checksum(pseudo);
        if !is_advertisement {
            return None;
        }
        let (target, mut options) = message.payload().split_at_checked(16)?;
        let target: [u8; 16] = target.try_into().ok()?;
        if IpAddr::V6(target.into()) != self.gateway {
            return None;
        }
        // Options: type, length in units of eight bytes, never 0.
        while let [kind, units, ..] = *options
            && units > 0
        {
            let (option, rest) = options.split_at_checked(usize::from(units) * 8)?;
            if let (TARGET_ADDRESS_OPTION, Some(mac)) = (kind, option.get(2..8)) {
                return mac.try_into().ok();
            }
            options = rest;
        }
        None
    }

    /// Asks until there is an answer.
    ///
    /// # Errors
    /// `TimedOut` when none comes in 2.5 s; else what the socket says.
    fn ask(&self) -> io::Result<[u8; 6]> {
        let socket = RawSocket::receiver(self.interface, Duration::from_nanos(ANSWER_NS / 10))?;
        let mut buffer = [0; 2048];
        for _ in 0..TRIES {
            socket.send(&self.frame())?;
            let give_up_ns = clock::now_ns() + ANSWER_NS;
            while clock::now_ns() < give_up_ns {
                match socket.receive(&mut buffer) {
                    Ok(len) => {
                        if let Some(mac) = buffer.get(..len).and_then(|frame| self.answer(frame)) {
                            return Ok(mac);
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            }
        }
        let asked = if self.gateway.is_ipv4() { "ARP requests" } else { "neighbour solicitations" };
        let problem = format!("{} does not answer {asked} from {}", self.gateway, self.own);
        Err(io::Error::new(io::ErrorKind::TimedOut, problem))
    }
}

/// Asks all questions again and again until a stop is asked for. Answers go to nobody: the trial's frames have their addresses.
pub(super) fn keep_fresh(gateways: &[Gateway], control: &Control) {
    let mut next_ns = clock::now_ns() + REFRESH_NS;
    while !control.stopping() {
        let now_ns = clock::now_ns();
        if now_ns < next_ns {
            clock::sleep_until_ns(next_ns.min(now_ns + REFRESH_NS / 25));
            continue;
        }
        for gateway in gateways {
            // An interface that is down for a moment is no reason to end.
            let _ = gateway.socket.send(&gateway.question.frame());
        }
        next_ns = now_ns + REFRESH_NS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_for_us_and_of_the_gateway() {
        let own = IpAddr::from([198, 18, 0, 2]);
        let gateway = IpAddr::from([198, 18, 0, 1]);
        let question = Question { interface: 1, own_mac: [2, 0, 0, 0, 0, 1], own, gateway };
        assert_eq!(question.answer(&question.frame()), None, "a question is no answer");
        let mirrored = Question { interface: 1, own_mac: [2, 0, 0, 0, 0, 9], own: gateway, gateway: own };
        let mut reply = mirrored.frame();
        reply[21] = arp::REPLY as u8;
        assert_eq!(question.answer(&reply), Some([2, 0, 0, 0, 0, 9]));
        let stranger = Question { gateway: [198, 18, 0, 77].into(), ..question };
        assert_eq!(stranger.answer(&reply), None);
        assert_eq!(question.answer(&reply[..30]), None);
    }

    #[test]
    fn an_advertisement_is_checked() {
        let (own, gateway): (Ipv6Addr, Ipv6Addr) =
            ("fd00::2".parse().expect("own"), "fd00::1".parse().expect("gateway"));
        let question = Question { interface: 1, own_mac: [2, 0, 0, 0, 0, 1], own: own.into(), gateway: gateway.into() };
        assert_eq!(question.answer(&question.frame()), None, "a question is no answer");
        // The gateway's question turned into its answer: about itself, to us.
        let advertise = |kind: u8, target: Ipv6Addr, option: [u8; 2]| {
            let theirs = Question { own_mac: [2, 0, 0, 0, 0, 9], own: gateway.into(), gateway: own.into(), ..question };
            let mut frame = theirs.frame();
            frame[38..54].copy_from_slice(&own.octets());
            frame[62..78].copy_from_slice(&target.octets());
            frame[78..80].copy_from_slice(&option);
            let mut message = icmpv6::Packet::new_unchecked(&mut frame[54..]);
            message.set_kind(kind);
            message.fill_checksum(Sum::pseudo_ipv6(gateway, own, Protocol::ICMPV6.0, MESSAGE_LEN as u32));
            frame
        };
        let good = advertise(icmpv6::NEIGHBOR_ADVERTISEMENT, gateway, [TARGET_ADDRESS_OPTION, 1]);
        assert_eq!(question.answer(&good), Some([2, 0, 0, 0, 0, 9]));
        for bad in [
            advertise(icmpv6::NEIGHBOR_SOLICITATION, gateway, [TARGET_ADDRESS_OPTION, 1]),
            advertise(icmpv6::NEIGHBOR_ADVERTISEMENT, own, [TARGET_ADDRESS_OPTION, 1]),
            advertise(icmpv6::NEIGHBOR_ADVERTISEMENT, gateway, [TARGET_ADDRESS_OPTION, 0]),
            advertise(icmpv6::NEIGHBOR_ADVERTISEMENT, gateway, [TARGET_ADDRESS_OPTION, 2]),
            advertise(icmpv6::NEIGHBOR_ADVERTISEMENT, gateway, [SOURCE_ADDRESS_OPTION, 1]),
            good[..70].to_vec(),
            good.iter().enumerate().map(|(at, byte)| if at == 21 { 64 } else { *byte }).collect(),
            good.iter().enumerate().map(|(at, byte)| byte ^ u8::from(at == 84)).collect(),
        ] {
            assert_eq!(question.answer(&bad), None, "{bad:02x?}");
        }
    }
}
