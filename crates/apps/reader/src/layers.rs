//! The headers of a packet as a JSON object: a member for each layer, in the order of the packet, with the names of fields that stream files
//! have (docs/streams.md). The second layer of a kind is called `NAME#2`, as there.

use linerate_wire::{
    EtherType, MacAddress, ParseError, Protocol, arp, ethernet, geneve, gre, icmpv4, icmpv6, ipv4, ipv6, mpls, tcp,
    udp, vlan, vxlan,
};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};

/// Most layers that are shown; a packet in a tunnel in a tunnel has fewer.
const LAYERS_MAX: usize = 64;

/// The headers of a packet.
pub struct Layers {
    layers: Vec<(String, Value)>,
    /// The bytes behind the last header, without padding: where they begin in the packet, and how many there are.
    pub data: Data,
    /// Why the walk ended at a header that is cut or malformed.
    pub error: Option<String>,
}

/// Bytes behind the last header.
#[derive(Clone, Copy, Default, serde::Serialize)]
pub struct Data {
    /// Where they begin, from the start of the packet.
    pub offset: usize,
    /// How many there are.
    pub length: usize,
}

impl Serialize for Layers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.layers.len()))?;
        self.layers.iter().try_for_each(|(name, fields)| map.serialize_entry(name, fields))?;
        map.end()
    }
}

/// What comes next in a packet.
enum Next {
    Ethernet,
    Network(EtherType),
    Transport(Protocol),
    /// The data of a UDP datagram to this port.
    Datagram(u16),
    Data,
}

impl Layers {
    /// The headers of an Ethernet frame, as far as they are whole.
    pub fn of(frame: &[u8]) -> Layers {
        let mut layers = Layers { layers: Vec::new(), data: Data::default(), error: None };
        let (mut next, mut offset, mut end) = (Next::Ethernet, 0, frame.len());
        while !matches!(next, Next::Data) && layers.layers.len() < LAYERS_MAX {
            match layers.layer(&next, &frame[offset..end]) {
                Ok(Step { header_len, len, then }) => {
                    end = end.min(offset.saturating_add(len));
                    offset = end.min(offset + header_len);
                    next = then;
                }
                Err(error) => {
                    layers.error = Some(error.to_string());
                    break;
                }
            }
        }
        layers.data = Data { offset, length: end - offset };
        layers
    }

    /// Takes the layer at the start of `bytes`.
    fn layer(&mut self, next: &Next, bytes: &[u8]) -> Result<Step, ParseError> {
        match next {
            Next::Ethernet => self.ethernet(bytes),
            Next::Network(ethertype) => self.network(*ethertype, bytes),
            Next::Transport(Protocol::UDP) => self.udp(bytes),
            Next::Transport(Protocol::TCP) => self.tcp(bytes),
            Next::Transport(Protocol::ICMPV4) => {
                let icmpv4::Header { kind, code, checksum, identifier, sequence } = icmpv4::Header::parse(bytes)?;
                self.push("icmp", icmp(kind, code, checksum, identifier, sequence));
                Ok(Step::over(icmpv4::HEADER_LEN, Next::Data))
            }
            Next::Transport(Protocol::ICMPV6) => {
                let icmpv6::Header { kind, code, checksum, identifier, sequence } = icmpv6::Header::parse(bytes)?;
                self.push("icmpv6", icmp(kind, code, checksum, identifier, sequence));
                Ok(Step::over(icmpv6::HEADER_LEN, Next::Data))
            }
            Next::Datagram(vxlan::PORT) if vxlan::Packet::new_checked(bytes).is_ok() => {
                self.push("vxlan", json!({ "vni": vxlan::Header::parse(bytes)?.vni }));
                Ok(Step::over(vxlan::HEADER_LEN, Next::Ethernet))
            }
            Next::Datagram(geneve::PORT) if geneve::Packet::new_checked(bytes).is_ok() => {
                let packet = geneve::Packet::new_checked(bytes)?;
                self.push("geneve", json!({ "vni": packet.vni(), "ethertype": packet.protocol().0 }));
                Ok(Step::over(packet.header_len(), tunnelled(packet.protocol())))
            }
            Next::Transport(Protocol::GRE) => {
                let packet = gre::Packet::new_checked(bytes)?;
                self.push("gre", json!({ "key": packet.key(), "ethertype": packet.protocol().0 }));
                Ok(Step::over(packet.header_len(), tunnelled(packet.protocol())))
            }
            Next::Transport(_) | Next::Datagram(_) | Next::Data => Ok(Step::over(0, Next::Data)),
        }
    }

    fn ethernet(&mut self, bytes: &[u8]) -> Result<Step, ParseError> {
        let ethernet::Header { dst, src, ethertype } = ethernet::Header::parse(bytes)?;
        let mut fields = json!({ "source": mac(src), "destination": mac(dst), "ethertype": ethertype.0 });
        // A smaller number is a length (IEEE 802.3).
        let len = usize::from(ethertype.0);
        if len < 1536 {
            fields = json!({ "source": mac(src), "destination": mac(dst), "length": len });
        }
        self.push("ethernet", fields);
        let len = if len < 1536 { ethernet::HEADER_LEN + len } else { usize::MAX };
        Ok(Step { len, ..Step::over(ethernet::HEADER_LEN, Next::Network(ethertype)) })
    }

    fn network(&mut self, ethertype: EtherType, bytes: &[u8]) -> Result<Step, ParseError> {
        match ethertype {
            EtherType::IPV4 => self.ipv4(bytes),
            EtherType::IPV6 => self.ipv6(bytes),
            EtherType::ARP => self.arp(bytes),
            tag if tag.is_vlan() => {
                let vlan::Header { pcp, dei, vid, ethertype } = vlan::Header::parse(bytes)?;
                let fields = json!({
                    "id": vid, "priority": pcp, "drop_eligible": dei, "tpid": tag.0, "ethertype": ethertype.0,
                });
                self.push("vlan", fields);
                Ok(Step::over(vlan::HEADER_LEN, Next::Network(ethertype)))
            }
            label if label.is_mpls() => {
                let mpls::Header { label: number, tc, bottom, ttl } = mpls::Header::parse(bytes)?;
                self.push("mpls", json!({ "label": number, "class": tc, "bottom": bottom, "ttl": ttl }));
                let then = match (bottom, bytes.get(mpls::HEADER_LEN).map(|byte| byte >> 4)) {
                    (false, _) => Next::Network(label),
                    (true, Some(4)) => Next::Network(EtherType::IPV4),
                    (true, Some(6)) => Next::Network(EtherType::IPV6),
                    (true, _) => Next::Data,
                };
                Ok(Step::over(mpls::HEADER_LEN, then))
            }
            _ => Ok(Step::over(0, Next::Data)),
        }
    }

    fn arp(&mut self, bytes: &[u8]) -> Result<Step, ParseError> {
        let arp::Header { operation, sender_mac, sender_ip, target_mac, target_ip } = arp::Header::parse(bytes)?;
        let fields = json!({
            "operation": operation,
            "sender_mac": mac(sender_mac), "sender_ip": sender_ip.to_string(),
            "target_mac": mac(target_mac), "target_ip": target_ip.to_string(),
        });
        self.push("arp", fields);
        // Behind it is padding.
        Ok(Step { len: arp::HEADER_LEN, ..Step::over(arp::HEADER_LEN, Next::Data) })
    }

    fn ipv4(&mut self, bytes: &[u8]) -> Result<Step, ParseError> {
        let packet = ipv4::Packet::new_truncated(bytes)?;
        let fields = json!({
            "source": packet.src().to_string(), "destination": packet.dst().to_string(),
            "header_length": packet.header_len(), "total_length": packet.total_len(),
            "tos": packet.tos(), "dscp": packet.tos() >> 2, "identification": packet.identification(),
            "dont_fragment": packet.dont_fragment(), "more_fragments": packet.more_fragments(),
            "fragment_offset": u32::from(packet.fragment_offset()) * 8,
            "ttl": packet.ttl(), "protocol": packet.protocol().0, "checksum": packet.checksum(),
        });
        self.push("ipv4", fields);
        let then = if packet.is_fragment() { Next::Data } else { Next::Transport(packet.protocol()) };
        Ok(Step { len: packet.total_len().into(), ..Step::over(packet.header_len(), then) })
    }

    fn ipv6(&mut self, bytes: &[u8]) -> Result<Step, ParseError> {
        let packet = ipv6::Packet::new_truncated(bytes)?;
        let fields = json!({
            "source": packet.src().to_string(), "destination": packet.dst().to_string(),
            "payload_length": packet.payload_len(), "class": packet.traffic_class(), "flow_label": packet.flow_label(),
            "hop_limit": packet.hop_limit(), "next_header": packet.next_header().0,
        });
        self.push("ipv6", fields);
        let upper = packet.upper_layer()?;
        let then = if upper.is_fragment { Next::Data } else { Next::Transport(upper.protocol) };
        Ok(Step { len: packet.total_len(), ..Step::over(ipv6::HEADER_LEN + upper.offset, then) })
    }

    fn udp(&mut self, bytes: &[u8]) -> Result<Step, ParseError> {
        let packet = udp::Packet::new_truncated(bytes)?;
        let fields = json!({
            "source": packet.src_port(), "destination": packet.dst_port(),
            "length": packet.length(), "checksum": packet.checksum(),
        });
        self.push("udp", fields);
        let then = Next::Datagram(packet.dst_port());
        Ok(Step { len: packet.length().into(), ..Step::over(udp::HEADER_LEN, then) })
    }

    fn tcp(&mut self, bytes: &[u8]) -> Result<Step, ParseError> {
        let packet = tcp::Packet::new_checked(bytes)?;
        let fields = json!({
            "source": packet.src_port(), "destination": packet.dst_port(),
            "sequence": packet.sequence(), "acknowledgment": packet.acknowledgment(),
            "header_length": packet.header_len(), "flags": packet.flags().to_string(), "window": packet.window(),
            "checksum": packet.checksum(), "urgent": packet.urgent(),
        });
        self.push("tcp", fields);
        Ok(Step::over(packet.header_len(), Next::Data))
    }

    fn push(&mut self, name: &str, fields: Value) {
        let is_same = |other: &str| other == name || other.strip_prefix(name).is_some_and(|rest| rest.starts_with('#'));
        let name = match self.layers.iter().filter(|(other, _)| is_same(other)).count() {
            0 => name.to_string(),
            before => format!("{name}#{}", before + 1),
        };
        self.layers.push((name, fields));
    }
}

/// What a tunnel carries.
fn tunnelled(protocol: EtherType) -> Next {
    match protocol {
        EtherType::TRANSPARENT_ETHERNET => Next::Ethernet,
        other => Next::Network(other),
    }
}

/// How the walk goes on.
struct Step {
    /// Bytes of the header.
    header_len: usize,
    /// Bytes of the layer, as far as it says so; padding is behind these.
    len: usize,
    then: Next,
}

impl Step {
    fn over(header_len: usize, then: Next) -> Step {
        Step { header_len, len: usize::MAX, then }
    }
}

fn mac(address: MacAddress) -> String {
    address.to_string()
}

fn icmp(kind: u8, code: u8, checksum: u16, identifier: u16, sequence: u16) -> Value {
    json!({ "type": kind, "code": code, "checksum": checksum, "identifier": identifier, "sequence": sequence })
}

#[cfg(test)]
mod tests {
    use linerate_wire::Stack;
    use proptest::prelude::*;

    use super::*;

    fn tunnels() -> Vec<u8> {
        let udp = udp::Header { dst_port: geneve::PORT, ..Default::default() };
        let stack = Stack::new().with(ethernet::Header::default()).with(ipv4::Header::default());
        let stack = stack.with(gre::Header { key: Some(5), ..Default::default() }).with(ipv6::Header::default());
        let stack = stack.with(udp).with(geneve::Header { vni: 9, ..Default::default() });
        let stack = stack.with(ethernet::Header::default()).with(ipv4::Header::default()).with(tcp::Header::default());
        stack.build(200).unwrap().bytes
    }

    #[test]
    fn tunnels_are_followed() {
        let layers = Layers::of(&tunnels());
        let names: Vec<&str> = layers.layers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["ethernet", "ipv4", "gre", "ipv6", "udp", "geneve", "ethernet#2", "ipv4#2", "tcp"]);
        let of = |name: &str| &layers.layers.iter().find(|(other, _)| other == name).unwrap().1;
        assert_eq!((&of("gre")["key"], &of("geneve")["vni"]), (&json!(5), &json!(9)));
        assert_eq!((layers.data.offset + layers.data.length, layers.error), (200, None));
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(changes in prop::collection::vec((0usize..200, any::<u8>()), 0..12), len in 0usize..=200) {
            let mut bytes = tunnels();
            changes.into_iter().for_each(|(at, byte)| bytes[at] = byte);
            let layers = Layers::of(&bytes[..len]);
            prop_assert!(layers.data.offset + layers.data.length <= len && layers.layers.len() <= LAYERS_MAX);
            prop_assert!(serde_json::to_string(&layers).is_ok());
        }
    }
}
