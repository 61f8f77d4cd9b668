//! The headers around a packet: VXLAN (RFC 7348 section 5) over UDP, and GRE (RFC 2784 section 2, RFC 2890 section 2).

use std::net::Ipv4Addr;

use linerate_port::TUNNEL_KEY_BYTES;
use linerate_wire::{FlowKey, udp, vxlan};

/// Bytes of the longest header that this end writes: UDP and VXLAN.
pub(crate) const HEADER_BYTES_MAX: usize = udp::HEADER_LEN + vxlan::HEADER_LEN;

/// Transparent Ethernet bridging, the protocol of Ethernet packets in GRE.
const GRE_ETHERNET: u16 = 0x6558;
const GRE_CHECKSUM: u16 = 0x8000;
const GRE_ROUTING: u16 = 0x4000;
const GRE_KEY: u16 = 0x2000;
const GRE_SEQUENCE: u16 = 0x1000;
/// Version, and the bits that must be 0 (RFC 2784 section 2.3).
const GRE_MUST_BE_0: u16 = 0x0c07;

/// The protocol of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// VXLAN between these UDP ports.
    Vxlan { port: u16 },
    /// GRE.
    Gre,
}

/// The keys of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// All packets have this one; `None`: GRE without a key.
    Fixed(Option<u32>),
    /// Each packet begins with its own.
    Flow,
}

/// How packets are wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Encapsulation {
    pub(crate) protocol: Protocol,
    pub(crate) key: Key,
    /// The far end.
    pub(crate) remote: Ipv4Addr,
}

/// Why a received packet is no packet of the tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It is for another port: another address, or another key.
    Other,
    /// Its headers are wrong.
    Malformed,
}

impl Encapsulation {
    /// Bytes in front of each packet of the port, before its Ethernet header.
    pub(crate) fn prefix_bytes(&self) -> usize {
        if self.key == Key::Flow { TUNNEL_KEY_BYTES } else { 0 }
    }

    /// Finds the packet inside of a received IP packet, and returns the offset at which the port's packet begins: that of the
    /// Ethernet header, or of the key that was written in front of it.
    pub(crate) fn unwrap(&self, packet: &mut [u8]) -> Result<usize, Refused> {
        let header = packet.first_chunk::<20>().ok_or(Refused::Malformed)?;
        if header[12..16] != self.remote.octets() {
            return Err(Refused::Other);
        }
        let at = usize::from(header[0] & 0xf) * 4;
        let payload = packet.get(at..).filter(|_| at >= 20).ok_or(Refused::Malformed)?;
        let (len, key) = match self.protocol {
            Protocol::Vxlan { port } => read_vxlan(payload, port)?,
            Protocol::Gre => read_gre(payload)?,
        };
        let inner = at + len;
        match self.key {
            Key::Fixed(wanted) if wanted.unwrap_or(0) == key.unwrap_or(0) => Ok(inner),
            Key::Fixed(_) => Err(Refused::Other),
            Key::Flow => {
                let start = inner - TUNNEL_KEY_BYTES;
                let place = packet.get_mut(start..inner).ok_or(Refused::Malformed)?;
                place.copy_from_slice(&u64::from(key.unwrap_or(0)).to_be_bytes());
                Ok(start)
            }
        }
    }

    /// Writes the header of a packet of the port, of `len` bytes, whose first part is `first`. Returns the header's length. The caller
    /// has seen to it that the first part holds the prefix.
    pub(crate) fn wrap(&self, first: &[u8], len: usize, header: &mut [u8; HEADER_BYTES_MAX]) -> usize {
        let (prefix, inner) = first.split_at(self.prefix_bytes());
        let key = match self.key {
            Key::Fixed(key) => key,
            // The lower bits, as in Open vSwitch: a key of 64 bits does not fit into a header.
            Key::Flow => prefix.last_chunk::<4>().map(|key| u32::from_be_bytes(*key)),
        };
        match self.protocol {
            Protocol::Vxlan { port } => {
                let len = len - prefix.len() + HEADER_BYTES_MAX;
                header[..2].copy_from_slice(&source_port(inner).to_be_bytes());
                header[2..4].copy_from_slice(&port.to_be_bytes());
                header[4..6].copy_from_slice(&(len as u16).to_be_bytes());
                // No checksum (RFC 7348 section 4.1).
                header[6..8].fill(0);
                vxlan::Header { vni: key.unwrap_or(0) & vxlan::MAX_VNI }.emit(&mut header[8..]);
                HEADER_BYTES_MAX
            }
            Protocol::Gre => {
                let flags = if key.is_some() { GRE_KEY } else { 0 };
                header[..2].copy_from_slice(&flags.to_be_bytes());
                header[2..4].copy_from_slice(&GRE_ETHERNET.to_be_bytes());
                let Some(key) = key else { return 4 };
                header[4..8].copy_from_slice(&key.to_be_bytes());
                8
            }
        }
    }
}

/// Length of the headers and the key of a UDP packet.
fn read_vxlan(payload: &[u8], port: u16) -> Result<(usize, Option<u32>), Refused> {
    let header = payload.first_chunk::<HEADER_BYTES_MAX>().ok_or(Refused::Malformed)?;
    if header[2..4] != port.to_be_bytes() {
        return Err(Refused::Other);
    }
    let vxlan = vxlan::Packet::new_checked(&header[8..]).map_err(|_| Refused::Malformed)?;
    Ok((HEADER_BYTES_MAX, Some(vxlan.vni())))
}

/// Length of the header and the key of a GRE packet.
fn read_gre(payload: &[u8]) -> Result<(usize, Option<u32>), Refused> {
    let header = payload.first_chunk::<4>().ok_or(Refused::Malformed)?;
    let (flags, protocol) = (u16::from_be_bytes([header[0], header[1]]), u16::from_be_bytes([header[2], header[3]]));
    if protocol != GRE_ETHERNET {
        return Err(Refused::Other);
    }
    if flags & (GRE_ROUTING | GRE_MUST_BE_0) != 0 {
        return Err(Refused::Malformed);
    }
    let mut len = 4;
    if flags & GRE_CHECKSUM != 0 {
        len += 4;
        if linerate_wire::checksum::checksum(payload) != 0 {
            return Err(Refused::Malformed);
        }
    }
    let mut key = None;
    if flags & GRE_KEY != 0 {
        let bytes = payload.get(len..len + 4).and_then(|bytes| bytes.first_chunk::<4>()).ok_or(Refused::Malformed)?;
        key = Some(u32::from_be_bytes(*bytes));
        len += 4;
    }
    len += if flags & GRE_SEQUENCE != 0 { 4 } else { 0 };
    if payload.len() < len { Err(Refused::Malformed) } else { Ok((len, key)) }
}

/// A port of the dynamic range that is the same for all packets of a flow (RFC 7348 section 5): routers spread flows over links by it.
fn source_port(inner: &[u8]) -> u16 {
    let hash = match FlowKey::from_frame(inner) {
        Some(key) => key.hash_symmetric(),
        None => inner
            .iter()
            .take(12)
            .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)),
    };
    0xc000 | (hash ^ hash >> 32) as u16 & 0x3fff
}

#[cfg(test)]
mod tests {
    use super::*;

    const REMOTE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

    fn encapsulation(protocol: Protocol, key: Key) -> Encapsulation {
        Encapsulation { protocol, key, remote: REMOTE }
    }

    /// An IP packet with this payload, from the far end.
    fn outer(payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; 20];
        packet[0] = 0x45;
        packet[12..16].copy_from_slice(&REMOTE.octets());
        packet.extend_from_slice(payload);
        packet
    }

    fn there_and_back(one: Encapsulation, packet: &[u8]) -> Vec<u8> {
        let mut header = [0; HEADER_BYTES_MAX];
        let len = one.wrap(packet, packet.len(), &mut header);
        let mut outer = outer(&[&header[..len], &packet[one.prefix_bytes()..]].concat());
        let start = one.unwrap(&mut outer).unwrap();
        outer[start..].to_vec()
    }

    #[test]
    fn packets_come_out_as_they_went_in() {
        let inner = [7; 60];
        let keyed = [&0x1234u64.to_be_bytes()[..], &inner].concat();
        for protocol in [Protocol::Vxlan { port: 4789 }, Protocol::Gre] {
            for key in [Some(0), Some(5), Some(0xff_ffff), None] {
                assert_eq!(
                    there_and_back(encapsulation(protocol, Key::Fixed(key)), &inner),
                    inner,
                    "{protocol:?} {key:?}"
                );
            }
            assert_eq!(there_and_back(encapsulation(protocol, Key::Flow), &keyed), keyed, "{protocol:?}");
        }
    }

    /// The headers of RFC 7348 section 5 and RFC 2890 section 2, by hand.
    #[test]
    fn headers_are_those_of_the_standards() {
        let mut header = [0; HEADER_BYTES_MAX];
        let vxlan = encapsulation(Protocol::Vxlan { port: 4789 }, Key::Fixed(Some(0x01_0203)));
        assert_eq!(vxlan.wrap(&[0; 60], 60, &mut header), 16);
        assert_eq!(header[2..], [0x12, 0xb5, 0, 76, 0, 0, 8, 0, 0, 0, 1, 2, 3, 0]);
        assert!(header[0] >= 0xc0);
        let gre = encapsulation(Protocol::Gre, Key::Fixed(Some(0x0102_0304)));
        assert_eq!(gre.wrap(&[0; 60], 60, &mut header), 8);
        assert_eq!(header[..8], [0x20, 0, 0x65, 0x58, 1, 2, 3, 4]);
        let plain = encapsulation(Protocol::Gre, Key::Fixed(None));
        assert_eq!(plain.wrap(&[0; 60], 60, &mut header), 4);
        assert_eq!(header[..4], [0, 0, 0x65, 0x58]);
    }

    #[test]
    fn packets_of_others_and_broken_ones_are_refused() {
        let gre = encapsulation(Protocol::Gre, Key::Flow);
        for (payload, why) in [
            (&[][..], Refused::Malformed),
            (&[0x20, 0, 0x65], Refused::Malformed),
            (&[0x20, 0, 0x65, 0x58, 0, 0], Refused::Malformed),
            (&[0x20, 1, 0x65, 0x58, 0, 0, 0, 1], Refused::Malformed),
            (&[0x60, 0, 0x65, 0x58, 0, 0, 0, 1], Refused::Malformed),
            (&[0x30, 0, 0x65, 0x58, 0, 0, 0, 1], Refused::Malformed),
            (&[0x80, 0, 0x65, 0x58, 1, 2, 0, 0], Refused::Malformed),
            (&[0x20, 0, 0x08, 0x00, 0, 0, 0, 1], Refused::Other),
        ] {
            assert_eq!(gre.unwrap(&mut outer(payload)), Err(why), "{payload:?}");
        }
        let mut from_elsewhere = outer(&[0, 0, 0x65, 0x58]);
        from_elsewhere[15] = 9;
        assert_eq!(gre.unwrap(&mut from_elsewhere), Err(Refused::Other));
        // A sequence number is passed over, a checksum is verified.
        assert_eq!(gre.unwrap(&mut outer(&[0x30, 0, 0x65, 0x58, 0, 0, 0, 1, 0, 0, 0, 9])), Ok(20 + 12 - 8));
        let mut summed = vec![0x80, 0, 0x65, 0x58, 0, 0, 0, 0, 1, 2, 3, 4];
        let sum = linerate_wire::checksum::checksum(&summed);
        summed[4..6].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(gre.unwrap(&mut outer(&summed)), Ok(20));
        let vxlan = encapsulation(Protocol::Vxlan { port: 4789 }, Key::Fixed(Some(5)));
        let mut payload = [0, 0, 0x12, 0xb5, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 5, 0];
        assert_eq!(vxlan.unwrap(&mut outer(&payload)), Ok(36));
        assert_eq!(vxlan.unwrap(&mut outer(&payload[..15])), Err(Refused::Malformed));
        payload[14] = 6;
        assert_eq!(vxlan.unwrap(&mut outer(&payload)), Err(Refused::Other));
        (payload[8], payload[14]) = (0, 5);
        assert_eq!(vxlan.unwrap(&mut outer(&payload)), Err(Refused::Malformed));
        payload[3] = 0;
        assert_eq!(vxlan.unwrap(&mut outer(&payload)), Err(Refused::Other));
    }

    /// Any bytes at all.
    #[test]
    fn bytes_of_a_peer_never_panic() {
        let mut state = 1u64;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as u8
        };
        for round in 0..20_000 {
            let mut packet: Vec<u8> = (0..round % 60).map(|_| random()).collect();
            if let Some(source) = packet.get_mut(12..16) {
                source.copy_from_slice(&REMOTE.octets());
            }
            for protocol in [Protocol::Vxlan { port: 4789 }, Protocol::Gre] {
                for key in [Key::Flow, Key::Fixed(Some(1))] {
                    if let Ok(start) = encapsulation(protocol, key).unwrap(&mut packet) {
                        assert!(start <= packet.len());
                    }
                }
            }
        }
    }
}
