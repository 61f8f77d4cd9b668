//! Ethernet around packetdrill's IP packets: the stack speaks Ethernet, packetdrill speaks IP.

use linerate_wire::{EtherType, MacAddress, arp, ethernet};

/// MAC address of the stack.
pub const OWN: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
/// MAC address of everybody else.
const PEER: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);

/// The frame of an IP packet to the stack; `None` if it is neither IPv4 nor IPv6.
pub fn frame(packet: &[u8]) -> Option<Vec<u8>> {
    let kind = match packet.first()? >> 4 {
        4 => EtherType::IPV4,
        6 => EtherType::IPV6,
        _ => return None,
    };
    Some(with_header(OWN, PEER, kind, packet))
}

/// What a frame of the stack is.
pub enum Left {
    /// A packet for packetdrill.
    Packet(Vec<u8>),
    /// A question that this answer, a frame, settles.
    Answer(Vec<u8>),
    /// Nothing that packetdrill looks at.
    Other,
}

/// Takes a frame of the stack apart. All addresses are those of one neighbour, which answers ARP (RFC 826).
pub fn take(frame: &[u8]) -> Left {
    let Ok(header) = ethernet::Packet::new_checked(frame) else { return Left::Other };
    let payload = header.payload();
    match header.ethertype() {
        EtherType::IPV4 => Left::Packet(payload.to_vec()),
        EtherType::ARP => match arp::Packet::new_checked(payload) {
            Ok(request) if request.operation() == arp::REQUEST && request.sender_ip() != request.target_ip() => {
                let answer = arp::Header {
                    operation: arp::REPLY,
                    sender_mac: PEER,
                    sender_ip: request.target_ip(),
                    target_mac: request.sender_mac(),
                    target_ip: request.sender_ip(),
                };
                let mut bytes = [0; arp::HEADER_LEN];
                answer.emit(&mut bytes);
                Left::Answer(with_header(OWN, PEER, EtherType::ARP, &bytes))
            }
            _ => Left::Other,
        },
        _ => Left::Other,
    }
}

fn with_header(destination: MacAddress, source: MacAddress, kind: EtherType, payload: &[u8]) -> Vec<u8> {
    [&destination.0[..], &source.0[..], &kind.0.to_be_bytes()[..], payload].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_go_in_and_out_and_questions_are_answered() {
        let packet = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 6, 0, 0, 192, 0, 2, 1, 192, 168, 0, 1];
        let bytes = frame(&packet).expect("IPv4");
        assert!(matches!(take(&bytes), Left::Packet(inner) if inner == packet));
        assert!(frame(&[]).is_none() && frame(&[0x10]).is_none());
        let question = arp::Header {
            operation: arp::REQUEST,
            sender_mac: OWN,
            sender_ip: [192, 168, 0, 1].into(),
            target_ip: [192, 168, 0, 2].into(),
            ..arp::Header::default()
        };
        let mut bytes = [0; arp::HEADER_LEN];
        question.emit(&mut bytes);
        let Left::Answer(answer) = take(&with_header(MacAddress([255; 6]), OWN, EtherType::ARP, &bytes)) else {
            panic!("no answer")
        };
        let answer = arp::Packet::new_checked(&answer[14..]).expect("ARP");
        assert_eq!(
            (answer.operation(), answer.sender_ip(), answer.sender_mac()),
            (arp::REPLY, question.target_ip, PEER)
        );
        // An announcement asks nothing.
        arp::Header { target_ip: question.sender_ip, ..question }.emit(&mut bytes);
        assert!(matches!(take(&with_header(MacAddress([255; 6]), OWN, EtherType::ARP, &bytes)), Left::Other));
        assert!(matches!(take(&[0; 3]), Left::Other));
    }
}
