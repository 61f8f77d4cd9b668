//! Ethernet addresses where the path is not of the lab's making: a gateway's is asked for by ARP (RFC 826) before each trial, and
//! asked for again while the load runs, which also keeps ours fresh in its table. The load itself never waits for it.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use linerate_sys::clock;
use linerate_sys::netns::NetNs;
use linerate_sys::raw::RawSocket;
use linerate_wire::{EtherType, MacAddress, arp, ethernet};

use crate::run::Control;

/// Who asks, and for whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Question {
    /// Index of the interface in this thread's network namespace.
    pub(super) interface: u32,
    pub(super) own_mac: [u8; 6],
    pub(super) own: Ipv4Addr,
    pub(super) gateway: Ipv4Addr,
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
const TRIES: u32 = 5;
const ANSWER_NS: u64 = 500_000_000;
/// Between two questions while the load runs. A Linux neighbour that is in doubt of an address gives it up after some seconds.
const REFRESH_NS: u64 = 500_000_000;

impl Question {
    fn frame(&self) -> Vec<u8> {
        let mut frame = vec![0; FRAME_LEN];
        let link = ethernet::Header {
            src: MacAddress::from(self.own_mac),
            dst: MacAddress::BROADCAST,
            ethertype: EtherType::ARP,
        };
        link.emit(&mut frame);
        let question = arp::Header {
            sender_mac: MacAddress::from(self.own_mac),
            sender_ip: self.own,
            target_ip: self.gateway,
            ..arp::Header::default()
        };
        question.emit(&mut frame[link.header_len()..]);
        frame
    }

    /// The address in a frame, if it is the answer.
    fn answer(&self, frame: &[u8]) -> Option<[u8; 6]> {
        let packet = ethernet::Packet::new_checked(frame).ok()?;
        if packet.ethertype() != EtherType::ARP {
            return None;
        }
        let header = arp::Header::parse(packet.payload()).ok()?;
        (header.operation == arp::REPLY && header.sender_ip == self.gateway && header.target_ip == self.own)
            .then_some(header.sender_mac.0)
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
        let problem = format!("{} does not answer ARP requests from {}", self.gateway, self.own);
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
        let own = Ipv4Addr::new(198, 18, 0, 2);
        let gateway = Ipv4Addr::new(198, 18, 0, 1);
        let question = Question { interface: 1, own_mac: [2, 0, 0, 0, 0, 1], own, gateway };
        assert_eq!(question.answer(&question.frame()), None, "a question is no answer");
        let mirrored = Question { interface: 1, own_mac: [2, 0, 0, 0, 0, 9], own: gateway, gateway: own };
        let mut reply = mirrored.frame();
        reply[21] = arp::REPLY as u8;
        assert_eq!(question.answer(&reply), Some([2, 0, 0, 0, 0, 9]));
        let stranger = Question { gateway: Ipv4Addr::new(198, 18, 0, 77), ..question };
        assert_eq!(stranger.answer(&reply), None);
        assert_eq!(question.answer(&reply[..30]), None);
    }
}
