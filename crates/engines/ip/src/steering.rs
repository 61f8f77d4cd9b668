//! Which shard of a stack a frame belongs to, by its headers alone. Lengths and checksums are not checked here: the shard does that.
//!
//! ```text
//! TCP, UDP                                   addresses and ports (shard.rs)
//! ICMP errors                                those of the packet that they quote, so that the connection gets to know
//! fragments                                  all shards: only the first has ports. Each puts the packet together, its owner takes it
//! ARP replies and announcements, neighbour   all shards: each has a neighbour cache of its own
//!   and router advertisements, redirects
//! everything else                            the first shard, which answers for all
//! ```

use linerate_wire::{EtherType, Protocol, arp, fold4, fold6};

use crate::shard::Shard;

/// Port of DHCP clients.
const DHCP_CLIENT: u16 = 68;
/// VLAN tags that are looked behind.
const TAGS_MAX: usize = 2;
/// IPv6 extension headers that are looked behind.
const EXTENSIONS_MAX: usize = 8;

/// Who a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steering {
    /// The owner of these addresses and ports ([`crate::Shard::owner`]).
    Owner(u16),
    /// The first shard.
    First,
    /// Every shard gets a copy.
    All,
}

impl Steering {
    /// True if `shard` is among those that the packet is for.
    #[inline]
    pub(crate) fn is_for(self, shard: Shard) -> bool {
        match self {
            Steering::Owner(fold) => shard.owner(fold) == shard.number(),
            Steering::First => shard.is_first(),
            Steering::All => true,
        }
    }
}

/// True if all shards have the packet, which begins with its IP header, and another one than `shard` sends the error about it.
pub(crate) fn is_told_by_first(shard: Shard, packet: &[u8]) -> bool {
    !shard.is_first() && of_packet(packet) == Steering::All
}

/// Who a frame is for.
#[inline]
pub fn steering(frame: &[u8]) -> Steering {
    if let Some(head) = frame.first_chunk::<38>() {
        let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let is_plain = head[12] == 8 && head[13] == 0 && head[14] == 0x45 && word(20) & 0x3fff_0000 == 0;
        let (udp, tcp) = (head[23] == Protocol::UDP.0, head[23] == Protocol::TCP.0);
        if is_plain && (tcp || udp && word(34) as u16 != DHCP_CLIENT) {
            return Steering::Owner(fold4(word(26), word(30), word(34)));
        }
    }
    of_frame(frame)
}

/// As [`steering`], for any frame.
#[inline(never)]
fn of_frame(frame: &[u8]) -> Steering {
    let mut at = 12;
    for _ in 0..=TAGS_MAX {
        let Some(kind) = half(frame, at) else { return Steering::First };
        let rest = &frame[at + 2..];
        match kind {
            0x8100 | 0x88a8 => at += 4,
            _ if kind == EtherType::ARP.0 => return of_arp(rest),
            _ if kind == EtherType::IPV4.0 || kind == EtherType::IPV6.0 => return of_packet(rest),
            _ => return Steering::First,
        }
    }
    Steering::First
}

/// Who a packet is for, which begins with its IP header.
pub(crate) fn of_packet(packet: &[u8]) -> Steering {
    match packet.first().map(|byte| byte >> 4) {
        Some(4) => of_packet4(packet, false),
        Some(6) => of_packet6(packet, false),
        _ => Steering::First,
    }
}

/// Answers, and announcements, whose sender is their target.
fn of_arp(bytes: &[u8]) -> Steering {
    let Ok(packet) = arp::Packet::new_checked(bytes) else { return Steering::First };
    let is_announcement = packet.sender_ip() == packet.target_ip();
    if packet.operation() == arp::REPLY || is_announcement { Steering::All } else { Steering::First }
}

/// `is_quoted`: the packet lies in an ICMP error, which is for the owner of what it quotes, or for the first shard.
fn of_packet4(packet: &[u8], is_quoted: bool) -> Steering {
    let (Some(head), Some(fragment)) = (packet.first_chunk::<20>(), half(packet, 6)) else { return Steering::First };
    let payload = packet.get(usize::from(head[0] & 15) * 4..).unwrap_or_default();
    let is_later = fragment & 0x1fff != 0;
    match Protocol(head[9]) {
        // The first fragment of a packet of ours has its ports.
        _ if is_quoted && is_later => Steering::First,
        _ if !is_quoted && (is_later || fragment & 0x2000 != 0) => Steering::All,
        Protocol::TCP | Protocol::UDP => {
            let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
            of_transport(payload, Protocol(head[9]), |ports| fold4(word(12), word(16), ports))
        }
        Protocol::ICMPV4 if !is_quoted => match payload.first() {
            // Redirects tell all shards of a way.
            Some(5) => Steering::All,
            Some(3 | 4 | 11 | 12) => of_packet4(payload.get(8..).unwrap_or_default(), true),
            _ => Steering::First,
        },
        _ => Steering::First,
    }
}

fn of_packet6(packet: &[u8], is_quoted: bool) -> Steering {
    let Some((head, mut rest)) = packet.split_first_chunk::<40>() else { return Steering::First };
    let address = |at: usize| head[at..].first_chunk().map_or(0, |bytes| u128::from_be_bytes(*bytes));
    let mut next = Protocol(head[6]);
    for _ in 0..=EXTENSIONS_MAX {
        match next {
            Protocol::TCP | Protocol::UDP => {
                return of_transport(rest, next, |ports| fold6(address(8), address(24), ports));
            }
            Protocol::ICMPV6 if !is_quoted => {
                return match rest.first() {
                    // Router advertisements, neighbour advertisements, redirects.
                    Some(134 | 136 | 137) => Steering::All,
                    Some(1..=4) => of_packet6(rest.get(8..).unwrap_or_default(), true),
                    _ => Steering::First,
                };
            }
            // Hop-by-hop options, routing, destination options.
            Protocol(0 | 43 | 60) => {
                let Some([kind, len]) = rest.first_chunk::<2>().copied() else { return Steering::First };
                next = Protocol(kind);
                rest = rest.get((usize::from(len) + 1) * 8..).unwrap_or_default();
            }
            Protocol(44) if !is_quoted => return Steering::All,
            Protocol(44) => {
                let (Some(kind), Some(fragment)) = (rest.first(), half(rest, 2)) else { return Steering::First };
                if fragment >> 3 != 0 {
                    return Steering::First;
                }
                next = Protocol(*kind);
                rest = rest.get(8..).unwrap_or_default();
            }
            _ => return Steering::First,
        }
    }
    Steering::First
}

fn of_transport(payload: &[u8], protocol: Protocol, fold: impl FnOnce(u32) -> u16) -> Steering {
    let Some(ports) = payload.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes)) else {
        return Steering::First;
    };
    if protocol == Protocol::UDP && ports as u16 == DHCP_CLIENT {
        Steering::First
    } else {
        Steering::Owner(fold(ports))
    }
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: u32 = 0xc612_0501;
    const THERE: u32 = 0xc612_0502;
    const PORTS: u32 = 0x0050_9c40;

    fn packet4(src: u32, dst: u32, protocol: u8, fragment: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0];
        bytes[6..8].copy_from_slice(&fragment.to_be_bytes());
        [bytes, src.to_be_bytes().into(), dst.to_be_bytes().into(), payload.into()].concat()
    }

    fn packet6(next: u8, payload: &[u8]) -> Vec<u8> {
        let head = [0x60, 0, 0, 0, 0, 0, next, 64];
        [&head[..], &[0xfd; 16], &[0x20; 16], payload].concat()
    }

    fn frame(kind: u16, tags: usize, packet: &[u8]) -> Vec<u8> {
        let tag = [0x81, 0, 0, 7].repeat(tags);
        [&[2; 12][..], &tag, &kind.to_be_bytes(), packet].concat()
    }

    fn of4(packet: &[u8]) -> Steering {
        let plain = steering(&frame(0x0800, 0, packet));
        assert_eq!(steering(&frame(0x0800, 1, packet)), plain, "a tag changes nothing");
        plain
    }

    fn of6(packet: &[u8]) -> Steering {
        steering(&frame(0x86dd, 0, packet))
    }

    fn segment(ports: u32) -> Vec<u8> {
        [ports.to_be_bytes(), [0; 4], [0; 4], [0x50, 0, 0, 0], [0; 4]].concat()
    }

    #[test]
    fn both_directions_and_errors_about_them_go_to_one_shard() {
        let owner = Steering::Owner(fold4(HERE, THERE, PORTS));
        let (there, back) = (segment(PORTS), segment(PORTS.rotate_left(16)));
        let sent = packet4(HERE, THERE, 6, 0x4000, &there);
        assert_eq!(of4(&sent), owner);
        assert_eq!(of4(&packet4(THERE, HERE, 6, 0, &back)), owner);
        assert_eq!(of4(&packet4(THERE, HERE, 17, 0, &back)), owner);
        // Anybody on the way may send the error; it quotes at least eight bytes of the transport.
        for kind in [3, 4, 11, 12] {
            let error = [&[kind, 4, 0, 0, 0, 0, 5, 0][..], &sent[..28]].concat();
            assert_eq!(of4(&packet4(0x0102_0304, HERE, 1, 0, &error)), owner, "{kind}");
        }
        let owner = Steering::Owner(fold6(u128::from_be_bytes([0xfd; 16]), u128::from_be_bytes([0x20; 16]), PORTS));
        let sent = packet6(6, &there);
        assert_eq!(of6(&sent), owner);
        let options = [&[6, 1][..], &[0; 14], &there].concat();
        assert_eq!(of6(&packet6(60, &options)), owner, "behind destination options");
        for kind in 1..=4 {
            let error = [&[kind, 0, 0, 0, 0, 0, 5, 0][..], &sent].concat();
            assert_eq!(of6(&packet6(58, &error)), owner, "{kind}");
        }
        let first_fragment = [&[6, 0, 0, 1, 0, 0, 0, 9][..], &there].concat();
        let error = [&[2, 0, 0, 0, 0, 0, 5, 0][..], &packet6(44, &first_fragment)].concat();
        assert_eq!(of6(&packet6(58, &error)), owner, "an error quotes our first fragment");
    }

    #[test]
    fn everybody_learns_of_neighbours_and_gets_fragments() {
        for fragment in [0x2000, 0x2001, 185] {
            assert_eq!(of4(&packet4(THERE, HERE, 17, fragment, &segment(PORTS))), Steering::All);
            assert_eq!(of4(&packet4(THERE, HERE, 1, fragment, &segment(PORTS))), Steering::All);
        }
        assert_eq!(of6(&packet6(44, &[6, 0, 0, 1, 0, 0, 0, 9])), Steering::All);
        for kind in [134, 136, 137] {
            assert_eq!(of6(&packet6(58, &[kind, 0, 0, 0])), Steering::All);
        }
        assert_eq!(of4(&packet4(THERE, HERE, 1, 0, &[5, 1, 0, 0])), Steering::All, "redirect");
        let arp = |operation: u8, sender: u8, target: u8| {
            let bytes = [
                0, 1, 8, 0, 6, 4, 0, operation, 2, 0, 0, 0, 0, 9, 198, 18, 5, sender, 0, 0, 0, 0, 0, 0, 198, 18, 5,
                target,
            ];
            steering(&frame(0x0806, 0, &bytes))
        };
        assert_eq!((arp(1, 2, 1), arp(2, 2, 1), arp(1, 2, 2)), (Steering::First, Steering::All, Steering::All));
    }

    #[test]
    fn the_first_shard_answers_for_all() {
        for kind in [0, 8, 13] {
            assert_eq!(of4(&packet4(THERE, HERE, 1, 0, &[kind, 0, 0, 0, 0, 0, 0, 0])), Steering::First);
        }
        for kind in [128, 129, 133, 135, 143] {
            assert_eq!(of6(&packet6(58, &[kind, 0, 0, 0])), Steering::First);
        }
        let dhcp = segment(0x0043_0044);
        assert_eq!(of4(&packet4(THERE, u32::MAX, 17, 0, &dhcp)), Steering::First);
        assert_eq!(of4(&packet4(THERE, HERE, 47, 0, &dhcp)), Steering::First);
        assert_eq!(steering(&frame(0x88cc, 0, &[])), Steering::First);
    }

    /// Every prefix of a packet, and errors that quote errors, fragments and nonsense.
    #[test]
    fn hostile_packets_end_somewhere() {
        let error4 = |inner: &[u8]| packet4(THERE, HERE, 1, 0, &[&[3, 3, 0, 0, 0, 0, 0, 0][..], inner].concat());
        let error6 = |inner: &[u8]| packet6(58, &[&[1, 0, 0, 0, 0, 0, 0, 0][..], inner].concat());
        let plain4 = packet4(HERE, THERE, 6, 0, &segment(PORTS));
        assert_eq!(of4(&error4(&error4(&plain4))), Steering::First, "an error about an error");
        assert_eq!(of4(&error4(&packet4(HERE, THERE, 6, 185, &segment(PORTS)))), Steering::First, "a later fragment");
        assert_eq!(of6(&error6(&error6(&packet6(6, &segment(PORTS))))), Steering::First);
        let endless = [60, 0, 0, 0, 0, 0, 0, 0].repeat(64);
        assert_eq!(of6(&packet6(60, &endless)), Steering::First, "options without end");
        let longest = [60, 255, 0, 0, 0, 0, 0, 0];
        assert_eq!(of6(&packet6(60, &longest)), Steering::First);
        assert_eq!(of4(&[0x4f; 20]), Steering::All, "its header ends behind the packet");
        let all = [frame(0x0800, 2, &error4(&plain4)), frame(0x86dd, 1, &error6(&packet6(60, &endless)))];
        for whole in &all {
            for len in 0..whole.len() {
                steering(&whole[..len]);
            }
        }
        assert_eq!(steering(&frame(0x0800, 3, &plain4)), Steering::First, "more tags than there are");
    }
}
