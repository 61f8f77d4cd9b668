//! The neighbours of a sender: the Ethernet address of its gateway is asked for by ARP or neighbour discovery, and questions for the addresses
//! that its streams come from, and pings to them, are answered while it sends. `linerate_ip` knows the protocols, as in the TCP stack; its
//! frames go beside the sender's port, by sockets of their own.

use std::net::IpAddr;
use std::time::Duration;

use linerate_filter::Tags;
use linerate_gen::{Rule, Values};
use linerate_ip::{AddressRange, Ip, IpConfig};
use linerate_mem::{Batch, Checksum, Pool, PoolConfig};
use linerate_ports::capture::{CaptureOptions, RingCapture};
use linerate_streams::StreamFile;
use linerate_sys::clock;
use linerate_sys::netdev::Netdev;
use linerate_sys::raw::RawSocket;
use linerate_wire::{EtherType, Layer, MacAddress};
use linerate_worker::Control;

/// Packets that this layer has to see; those of the load are none of them, unless they are echoes.
const FILTER: &str = "arp or icmp or icmp6";
/// Longest packet that is answered; a larger echo is left alone.
const LEN_MAX: u32 = 2048;
/// Bytes of the ring, and how long the kernel keeps a block that is not full.
const RING_BYTES: u64 = 256 << 10;
const RETIRE_MS: u32 = 1;
/// Longest sleep between two looks at whether to stop.
const NAP_NS: u64 = 20_000_000;
/// How long a gateway may take to answer: its questions are repeated each second.
const ANSWER: Duration = Duration::from_secs(5);
/// Frames that may wait to be sent.
const BATCH: usize = 256;
/// Addresses that one rule of a stream may give.
const ADDRESSES_MAX: u64 = 65_536;

/// The neighbours of one sender.
pub struct Neighbours {
    ip: Ip,
    ring: RingCapture,
    socket: RawSocket,
    pool: Pool,
    out: Batch,
}

/// Who asks and answers on an interface.
pub struct Own {
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// The VLAN of the streams.
    pub vlan: Option<u16>,
    /// The addresses that streams come from.
    pub addresses: Vec<AddressRange>,
}

impl Own {
    /// The addresses that the streams of a file come from, as they leave a port with this Ethernet address.
    ///
    /// # Errors
    /// Streams that are in several VLANs, or behind labels or two tags, or without an IP header.
    pub fn of(file: &StreamFile, port_mac: Option<[u8; 6]>) -> Result<Own, String> {
        let mut own: Option<Own> = None;
        for entry in &file.streams {
            let (mut mac, mut vlan, mut tags) = (port_mac, None, 0);
            let mut address = None;
            for layer in &entry.spec.stack.layers {
                match layer {
                    Layer::Ethernet(header) if entry.source_mac_given || mac.is_none() => mac = Some(header.src.0),
                    Layer::Ethernet(_) => {}
                    Layer::Vlan { tpid: EtherType::VLAN, header } => (vlan, tags) = (Some(header.vid), tags + 1),
                    Layer::Ipv4(header) => address = Some(IpAddr::V4(header.src)),
                    Layer::Ipv6(header) => address = Some(IpAddr::V6(header.src)),
                    _ => return Err("a gateway is asked for streams of IP, in no VLAN or in one".into()),
                }
                if address.is_some() {
                    break;
                }
            }
            let (Some(mac), Some(address), 0..=1) = (mac, address, tags) else {
                return Err("a gateway is asked for streams of IP, in no VLAN or in one".into());
            };
            let known = own.get_or_insert(Own { mac, vlan, addresses: Vec::new() });
            if (known.mac, known.vlan) != (mac, vlan) || entry.spec.rules.iter().any(|rule| rule.field == "vlan.id") {
                return Err(
                    "a gateway is asked for streams of one VLAN and one Ethernet address; send others apart".into()
                );
            }
            let sources = |rule: &&Rule| ["ipv4.source", "ipv6.source"].contains(&rule.field.as_str());
            match entry.spec.rules.iter().find(sources) {
                Some(rule) => known.addresses.extend(varied(address, &rule.values)),
                None => known.addresses.push(one(address)),
            }
        }
        own.ok_or_else(|| "there is no stream".into())
    }
}

fn one(address: IpAddr) -> AddressRange {
    AddressRange::one(address, if address.is_ipv4() { 32 } else { 128 })
}

/// The addresses that a rule makes of one, as far as they are not too many.
fn varied(address: IpAddr, values: &Values) -> Vec<AddressRange> {
    // Of IPv6 the low 64 bits vary.
    let with = |value: u64| match address {
        IpAddr::V4(_) => IpAddr::V4((value as u32).into()),
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64 | u128::from(value)).into()),
    };
    match values {
        Values::Range { first, step: 1, count } | Values::Random { first, step: 1, count, .. } => {
            vec![AddressRange { count: (*count).min(ADDRESSES_MAX) as u32, ..one(with(*first)) }]
        }
        Values::Range { first, step, count } | Values::Random { first, step, count, .. } => {
            let value = |index: u64| first.wrapping_add_signed(step.wrapping_mul(index as i64));
            (0..(*count).min(ADDRESSES_MAX)).map(|index| one(with(value(index)))).collect()
        }
        Values::List(list) => list.iter().map(|value| one(with(*value))).collect(),
    }
}

impl Neighbours {
    /// Begins to answer for `own` on an interface of this network namespace.
    ///
    /// # Errors
    /// No such interface, or no right to use it.
    pub fn open(interface: &str, own: &Own, gateway: Option<IpAddr>) -> Result<Neighbours, String> {
        let named = |error: &dyn std::fmt::Display| format!("{interface}: {error}");
        let device = Netdev::open(interface).map_err(|error| named(&error))?;
        let (index, mtu) =
            (device.index().map_err(|error| named(&error))?, device.mtu().map_err(|error| named(&error))?);
        let host = |address: IpAddr| (address, if address.is_ipv4() { 32 } else { 128 });
        let config = IpConfig {
            mac: MacAddress(own.mac),
            mtu: u16::try_from(mtu).unwrap_or(u16::MAX),
            vlan: own.vlan,
            addresses: own.addresses.clone(),
            on_link: gateway.into_iter().map(host).collect(),
            ipv6: own.addresses.iter().any(|range| range.first.is_ipv6()),
            duplicate_detection: false,
            secret: linerate_sys::random::secret().map_err(|error| named(&error))?,
            ..IpConfig::default()
        };
        let filter = match own.vlan {
            None => FILTER.to_string(),
            Some(vlan) => format!("vlan {vlan} and ({FILTER})"),
        };
        let options = CaptureOptions {
            ring_bytes: RING_BYTES,
            retire_ms: RETIRE_MS,
            // Questions for IPv6 addresses go to groups that the interface has not joined.
            promiscuous: true,
            outgoing: false,
            hardware_timestamps: false,
            filter: linerate_filter::compile(&filter, Tags::Beside, LEN_MAX).map_err(|error| named(&error))?,
        };
        let pool = Pool::new(PoolConfig { frames: 2 * BATCH, frame_size: 2048 }).map_err(|error| named(&error))?;
        Ok(Neighbours {
            ip: Ip::new(config).map_err(|error| named(&error))?,
            ring: RingCapture::open(interface, &options).map_err(|error| error.to_string())?,
            socket: RawSocket::sender(index).map_err(|error| named(&error))?,
            out: Batch::new(&pool, BATCH),
            pool,
        })
    }

    /// The Ethernet address of a gateway, by asking for it.
    ///
    /// # Errors
    /// It does not answer, or no address of its family is among the own ones.
    pub fn resolve(&mut self, gateway: IpAddr) -> Result<MacAddress, String> {
        let give_up_ns = clock::now_ns() + ANSWER.as_nanos() as u64;
        loop {
            let now_ns = clock::now_ns();
            let (hop, own) = self
                .ip
                .hop(None, gateway, now_ns, &mut self.out, &mut self.pool)
                .map_err(|error| format!("--gateway {gateway}: {error}"))?;
            if let Some([mac @ .., _, _, _, _, _, _, _, _]) =
                self.ip.header(hop).and_then(|header| header.as_slice().first_chunk::<14>())
            {
                return Ok(MacAddress(*mac));
            }
            if now_ns >= give_up_ns {
                let asked = if gateway.is_ipv4() { "ARP requests" } else { "neighbour solicitations" };
                let seconds = ANSWER.as_secs();
                return Err(format!(
                    "--gateway {gateway}: it answered no {asked} from {own} within {seconds} s; is it on this link, and up?"
                ));
            }
            self.round()?;
        }
    }

    /// Answers until a stop is asked for.
    ///
    /// # Errors
    /// The interface is down or gone.
    pub fn serve(&mut self, control: &Control) -> Result<(), String> {
        while !control.stopping() {
            self.round()?;
        }
        Ok(())
    }

    /// Sends what waits, sleeps until something comes or is due, and takes it in.
    fn round(&mut self) -> Result<(), String> {
        let Neighbours { ip, ring, socket, pool, out } = self;
        for at in 0..out.len() {
            // A frame that the interface refuses is lost, as on any link; whoever waits for it asks again.
            let _ = socket.send(out.packet(at));
        }
        pool.free(out);
        let due_ns = ip.next_deadline_ns().saturating_sub(clock::now_ns());
        ring.wait(due_ns.min(NAP_NS)).map_err(|error| error.to_string())?;
        let now_ns = clock::now_ns();
        let mut frame = [0; LEN_MAX as usize];
        let walked = ring.walk(BATCH / 2, |packet| {
            let len = packet.len().min(frame.len());
            packet.copy(&mut frame[..len]);
            ip.receive(&frame[..len], Checksum::Unknown, now_ns, out, pool);
        });
        walked.map_err(|error| error.to_string())?;
        if now_ns >= ip.next_deadline_ns() {
            ip.tick(now_ns, out, pool);
        }
        while ip.next_event().is_some() {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_streams::parse;

    fn own(text: &str) -> Result<Own, String> {
        Own::of(&parse(text).unwrap(), Some([2, 0, 0, 0, 0, 9]))
    }

    #[test]
    fn addresses_are_those_of_the_streams() {
        let text = "[[stream]]\nlayers = ['ethernet', { vlan = { id = 7 } }, { ipv4 = { source = '10.0.0.1' } }, 'udp']\n\
                    vary = [{ field = 'ipv4.source', first = '10.0.0.1', count = 3 }]\n\
                    [[stream]]\nlayers = ['ethernet', { vlan = { id = 7 } }, { ipv6 = { source = 'fd00::1' } }, 'udp']\n\
                    vary = [{ field = 'ipv6.source', values = ['fd00::5', 'fd00::9'] }]";
        let own = own(text).unwrap();
        assert_eq!((own.mac, own.vlan), ([2, 0, 0, 0, 0, 9], Some(7)));
        let shown: Vec<String> = own.addresses.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            ["10.0.0.1-10.0.0.3/32", "fd00::5/128", "fd00::9/128"]
                .map(|text| { text.parse::<AddressRange>().unwrap_or_else(|_| panic!("{text}")).to_string() })
        );
    }

    #[test]
    fn streams_that_have_no_gateway_are_refused() {
        for text in [
            "[[stream]]\nlayers = ['ethernet']",
            "[[stream]]\nlayers = ['ethernet', 'mpls', 'ipv4', 'udp']",
            "[[stream]]\nlayers = ['ethernet', 'vlan', 'vlan', 'ipv4', 'udp']",
            "[[stream]]\nlayers = ['ethernet', 'vlan', 'ipv4', 'udp']\n[[stream]]\n",
        ] {
            assert!(own(text).is_err(), "{text}");
        }
    }
}
