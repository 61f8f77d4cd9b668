//! What the OpenFlow switch does to each packet beside looking it up: its key, and header actions.

use std::hint::black_box;

use linerate_classify::Key;
use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_openflow::{Action, Field, Match};
use linerate_pipeline::packet::{Headers, PipelineFields, SlotPacket, apply, build_packet};
use linerate_sys::affinity;

use crate::measure::{Run, Stopwatch};

/// Packets that are handled one after the other.
const BATCH: usize = 64;

/// A kind of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// UDP over IPv4.
    Udp,
    /// TCP over IPv6 with a VLAN tag.
    TaggedTcp6,
    /// A request of ARP.
    Arp,
}

impl Kind {
    fn packets(self) -> Vec<Vec<u8>> {
        let wanted = match self {
            Kind::Udp => Match::default().with(Field::Ipv4Src, 0xc000_0201).with(Field::UdpDst, 53),
            Kind::TaggedTcp6 => {
                let over = Match::default().with(Field::VlanVid, 0x1005).with(Field::EthType, 0x86dd);
                over.with(Field::TcpDst, 80)
            }
            Kind::Arp => Match::default().with(Field::ArpOp, 1),
        };
        vec![build_packet(&wanted).expect("fields that agree"); BATCH]
    }
}

/// Finds the headers of packets and writes their keys.
pub fn keys(core: usize, kind: Kind, packets: u64) -> Run {
    let _ = affinity::pin_to_core(core);
    let (bytes, fields) = (kind.packets(), PipelineFields { in_port: 1, in_phy_port: 1, ..Default::default() });
    let (mut keys, mut headers) = ([Key::ZERO; BATCH], [Headers::default(); BATCH]);
    let watch = Stopwatch::start();
    for _ in 0..packets / BATCH as u64 {
        for ((bytes, key), headers) in black_box(&bytes).iter().zip(&mut keys).zip(&mut headers) {
            *headers = Headers::read(bytes, &fields, key);
        }
        black_box((&keys, &headers));
    }
    let run = watch.stop(packets);
    assert!(headers.iter().all(|found| !found.is_runt()));
    run
}

/// What actions do to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewrite {
    /// Both Ethernet addresses are set and the TTL is decremented, as a router does.
    Route,
    /// The destination's address and port are set.
    Translate,
    /// A VLAN tag is pushed, its ID is set, and it is popped again.
    Tag,
}

/// Applies actions to packets of UDP, whose headers are known.
pub fn rewrite(core: usize, what: Rewrite, packets: u64) -> Run {
    let _ = affinity::pin_to_core(core);
    let bytes = Kind::Udp.packets();
    let mut pool = Pool::new(PoolConfig::default()).expect("16 MiB of packet memory");
    let mut batch = Batch::new(&pool, BATCH);
    assert!(bytes.iter().all(|bytes| pool.append(&mut batch, bytes, 0)));
    let actions = match what {
        Rewrite::Route => vec![
            Action::SetField(Field::EthDst, 0x0200_0000_0002),
            Action::SetField(Field::EthSrc, 0x0200_0000_0001),
            Action::SetNwTtl(64),
            Action::DecNwTtl,
        ],
        Rewrite::Translate => {
            vec![Action::SetField(Field::Ipv4Dst, 0xc633_6401), Action::SetField(Field::UdpDst, 5353)]
        }
        Rewrite::Tag => {
            vec![Action::PushVlan(0x8100), Action::SetField(Field::VlanVid, 0x1007), Action::PopVlan]
        }
    };
    let parsed = Headers::parse(&bytes[0]);
    let watch = Stopwatch::start();
    for _ in 0..packets / BATCH as u64 {
        for index in 0..BATCH {
            let mut packet = SlotPacket::new(&mut batch, index);
            let (mut headers, mut fields) = (parsed, PipelineFields::default());
            for action in black_box(&actions) {
                assert_eq!(apply(action, &mut packet, &mut headers, &mut fields), Ok(()));
            }
        }
    }
    let run = watch.stop(packets);
    pool.free(&mut batch);
    run
}
