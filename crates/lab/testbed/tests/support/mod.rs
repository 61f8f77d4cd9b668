//! What the namespace tests share: raw sockets on a side, frames, waiting.
#![allow(dead_code)] // Each test binary uses its own part.

use std::io;
use std::net::Ipv4Addr;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use linerate_sys::raw;
use linerate_testbed::topology::{FrameAddresses, Side, Topology, TopologyError};
use linerate_testkit::or_skip;

/// The topology, or `None` after saying that the test is skipped because this user may not build it.
pub fn built(result: Result<Topology, TopologyError>) -> Option<Topology> {
    or_skip("no topology", result)
}

/// Whether a command did what it was to do; `false` after saying that the test is skipped because there is no such program.
///
/// # Panics
/// When the command failed.
pub fn applied(program: &str, status: io::Result<ExitStatus>) -> bool {
    let missing = matches!(&status, Err(error) if error.kind() == io::ErrorKind::NotFound);
    if missing {
        eprintln!("skipped: {program} is not installed");
    } else {
        assert!(status.as_ref().is_ok_and(ExitStatus::success), "{program}: {status:?}");
    }
    !missing
}

/// Waits until `condition` holds, for a minute at most.
pub fn wait_until(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A raw socket on a tester's side.
pub struct RawSocket(raw::RawSocket);

impl RawSocket {
    pub fn open(side: &Side) -> Self {
        Self::open_with(side, Duration::from_secs(60))
    }

    pub fn open_with(side: &Side, timeout: Duration) -> Self {
        let socket = side.namespace.run(|| raw::RawSocket::receiver(side.interface.index, timeout));
        Self(socket.expect("enter").expect("raw socket"))
    }

    pub fn sender(side: &Side) -> Self {
        let socket = side.namespace.run(|| raw::RawSocket::sender(side.interface.index));
        Self(socket.expect("enter").expect("raw socket"))
    }

    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        self.0.send(frame)
    }

    pub fn send_many(&self, frames: &[Vec<u8>]) -> io::Result<()> {
        frames.iter().try_for_each(|frame| self.send(frame))
    }

    /// Every frame that is there or comes before the socket's timeout ends.
    pub fn drain(&self) -> Vec<Vec<u8>> {
        let mut buffer = [0; 2048];
        std::iter::from_fn(|| self.0.receive(&mut buffer).ok().map(|len| buffer[..len].to_vec())).collect()
    }

    pub fn drops(&self) -> u64 {
        self.0.take_drops().expect("socket statistics")
    }

    /// The next IPv4 frame.
    pub fn receive_ipv4(&self) -> io::Result<Vec<u8>> {
        let mut buffer = [0; 2048];
        loop {
            let len = self.0.receive(&mut buffer)?;
            if buffer[12..14] == [0x08, 0x00] {
                return Ok(buffer[..len].to_vec());
            }
        }
    }
}

/// A UDP datagram in one Ethernet frame.
#[derive(Clone, Copy)]
pub struct Datagram {
    pub source: Ipv4Addr,
    pub destination: Ipv4Addr,
    pub ttl: u8,
    pub dont_fragment: bool,
    pub payload_len: usize,
    pub broken_checksum: bool,
}

impl Default for Datagram {
    fn default() -> Self {
        Self {
            source: Ipv4Addr::new(192, 0, 2, 1),
            destination: Ipv4Addr::new(192, 0, 2, 101),
            ttl: 64,
            dont_fragment: false,
            payload_len: 18,
            broken_checksum: false,
        }
    }
}

impl Datagram {
    /// The frame as the generator of `topology` has to send it.
    pub fn frame(&self, topology: &Topology) -> Vec<u8> {
        self.frame_to(topology.forward())
    }

    /// The frame between these Ethernet addresses.
    pub fn frame_to(&self, addresses: FrameAddresses) -> Vec<u8> {
        let mut udp = Vec::new();
        udp.extend(1234_u16.to_be_bytes());
        udp.extend(1234_u16.to_be_bytes());
        udp.extend((8 + self.payload_len as u16).to_be_bytes());
        udp.extend([0, 0]);
        udp.resize(8 + self.payload_len, 0x5a);
        let mut frame = ipv4_frame(addresses, self, 17, &udp);
        if self.broken_checksum {
            frame[24] ^= 0xff;
        }
        frame
    }
}

/// The same datagram on its way back.
pub fn swap(datagram: Datagram) -> Datagram {
    Datagram { source: datagram.destination, destination: datagram.source, ..datagram }
}

/// A TCP segment of `len` bytes, the `number`th of one stream.
pub fn tcp_segment(topology: &Topology, number: u32, len: usize) -> Vec<u8> {
    let datagram = Datagram { dont_fragment: true, ..Datagram::default() };
    let mut tcp = Vec::new();
    tcp.extend(4000_u16.to_be_bytes());
    tcp.extend(5000_u16.to_be_bytes());
    tcp.extend((1 + number * len as u32).to_be_bytes());
    tcp.extend(1_u32.to_be_bytes());
    tcp.extend([0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
    tcp.resize(20 + len, 0x5a);
    let mut pseudo = Vec::new();
    pseudo.extend(datagram.source.octets());
    pseudo.extend(datagram.destination.octets());
    pseudo.extend([0, 6]);
    pseudo.extend((tcp.len() as u16).to_be_bytes());
    pseudo.extend(&tcp);
    let sum = checksum(&pseudo).to_be_bytes();
    tcp[16..18].copy_from_slice(&sum);
    ipv4_frame(topology.forward(), &datagram, 6, &tcp)
}

fn ipv4_frame(addresses: FrameAddresses, datagram: &Datagram, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0x45, 0];
    header.extend((20 + payload.len() as u16).to_be_bytes());
    header.extend([0, 0, if datagram.dont_fragment { 0x40 } else { 0 }, 0, datagram.ttl, protocol, 0, 0]);
    header.extend(datagram.source.octets());
    header.extend(datagram.destination.octets());
    let sum = checksum(&header).to_be_bytes();
    header[10..12].copy_from_slice(&sum);
    let mut frame = Vec::new();
    frame.extend(addresses.destination);
    frame.extend(addresses.source);
    frame.extend([0x08, 0x00]);
    frame.extend(header);
    frame.extend(payload);
    frame
}

/// The Internet checksum (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let mut padded = bytes.to_vec();
    padded.resize(bytes.len().next_multiple_of(2), 0);
    let sum: u32 = padded.chunks_exact(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}
