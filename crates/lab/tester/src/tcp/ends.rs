//! The ports of the two ends, and the addresses of the stacks there.

use std::net::{IpAddr, Ipv4Addr};

use linerate_ip::{AddressRange, IpConfig};
use linerate_mem::{Pool, PoolConfig};
use linerate_port::{OpenError, OpenOptions, Port, PortSpec};
use linerate_ports::HEADERS;
use linerate_sys::clock;
use linerate_wire::MacAddress;

use super::PairError;
use linerate_testbed::dut::Path;
use linerate_testbed::topology::{Cut, GENERATOR_LINK, LINK_PREFIX_LEN, LinkAddresses, RECEIVER_LINK, Side};
use linerate_tester_loop::ports::can_send;

/// Frames of the pool of both ends.
const FRAMES: usize = 32_768;
/// How long the other side of shared memory may take to come.
const PEER_NS: u64 = 20_000_000_000;

/// Both ends: the client's, the server's.
pub struct Ends {
    pub(super) pool: Pool,
    /// Ports of each end. It sends by the first one.
    pub(super) ports: [Vec<Box<dyn Port>>; 2],
    /// Whether a router of the kernel stands between the two.
    routed: bool,
    /// Whether checksums are left to whom the packets go to: to nobody inside this process, and to the kernel where it takes them.
    pub(super) offloads: bool,
    mtu: u16,
    /// What joins them, in words.
    words: String,
}

impl Ends {
    /// Opens the ports at both ends of the path that a device was built on, whatever joins them; interfaces as ports of this kind.
    ///
    /// # Errors
    /// What could not be opened; nobody came to the other end of shared memory; the path has no two ends of the lab's own making.
    pub fn open(path: &Path, kind: &str, mtu: u16) -> Result<Ends, PairError> {
        let pool = Pool::new(PoolConfig { frames: FRAMES, ..PoolConfig::default() })?;
        let open = |spec: &PortSpec| -> Result<Box<dyn Port>, OpenError> {
            // What a receive ring keeps back for a whole block would be in every round trip.
            Ok(linerate_ports::open_device(spec, &OpenOptions::low_latency(), &pool)?.into_port())
        };
        let (mut routed, mut offloads) = (false, false);
        let (ports, words) = match path {
            Path::Namespaces(topology) => {
                let at = |side: &Side| -> Result<Vec<Box<dyn Port>>, PairError> {
                    let spec = PortSpec::new(kind, side.interface.name);
                    Ok(vec![side.namespace.run(|| open(&spec))??])
                };
                routed = topology.dut.as_ref().is_some_and(|dut| dut.forwarding.cut == Cut::Routed);
                offloads = linerate_ports::offloads(&PortSpec::new(kind, topology.generator.interface.name));
                ([at(&topology.generator)?, at(&topology.receiver)?], kind.to_owned())
            }
            Path::Memory(path) => {
                let [client, server] = &path.ends;
                // A client of memif asks again until its server is there, so the server's end comes first.
                let server = vec![open(&server.sends)?, open(&server.receives)?];
                let mut ports = [vec![open(&client.sends)?, open(&client.receives)?], server];
                meet(&mut ports)?;
                (ports, format!("shared memory, {HEADERS} bytes of headers"))
            }
            Path::InProcess => {
                let [client, server] = linerate_ports::pipe("tcp", &pool);
                offloads = true;
                ([vec![client], vec![server]], "a link inside this process".to_owned())
            }
            Path::Captured(..) | Path::Ports { .. } => return Err(PairError::NoEnds),
        };
        Ok(Ends { pool, ports, routed, offloads, mtu, words })
    }

    /// What joins them, in words.
    pub fn describe(&self) -> &str {
        &self.words
    }

    /// The configuration of the layer below TCP: of the client with the addresses from `first` on, or of the server.
    pub fn ip(&self, is_client: bool, (first, count): (Ipv4Addr, u32), secret: [u8; 16]) -> IpConfig {
        let link: &LinkAddresses = if is_client { &GENERATOR_LINK } else { &RECEIVER_LINK };
        let mut addresses = vec![AddressRange { first: IpAddr::V4(first), count, prefix_len: 32 }];
        let (mut gateways, mut on_link) = (Vec::new(), Vec::new());
        if self.routed {
            addresses.insert(0, AddressRange::one(IpAddr::V4(link.outer), LINK_PREFIX_LEN));
            gateways.push(IpAddr::V4(link.dut));
        } else {
            on_link.push((IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0));
        }
        IpConfig {
            mac: MacAddress(link.nobody_mac),
            mtu: self.mtu,
            addresses,
            on_link,
            gateways,
            ipv6: false,
            duplicate_detection: false,
            secret,
            ..IpConfig::default()
        }
    }
}

/// Waits until every port can send: its peer has come and has laid out buffers.
fn meet(ports: &mut [Vec<Box<dyn Port>>; 2]) -> Result<(), PairError> {
    let give_up_ns = clock::now_ns() + PEER_NS;
    loop {
        let mut all = true;
        for port in ports.iter_mut().flatten() {
            all &= can_send(port.as_mut());
        }
        if all {
            return Ok(());
        }
        if clock::now_ns() >= give_up_ns {
            return Err(PairError::Lonely);
        }
    }
}
