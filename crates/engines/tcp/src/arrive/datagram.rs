//! A datagram arrives.

use core::net::{IpAddr, SocketAddr};

use linerate_ip::{Datagram, Fast4, Fast6, Packet};
use linerate_mem::{Batch, Checksum};

use crate::engine::Engine;
use crate::{App, Io};

/// The usual datagrams over IPv4 that follow each other in a batch without packets of several frames, from packet `from` on: each is worked on as it
/// comes, because nothing has to be asked for ahead. Returns how many they are.
#[inline(never)]
pub(crate) fn usual4_run<A: App>(engine: &mut Engine, app: &mut A, batch: &Batch, from: usize) -> usize {
    let mut count = 0;
    for part in batch.parts().skip(from) {
        let egress = &mut engine.egress;
        let Some(datagram) = egress.udp.receive_usual4(&egress.ip, part.bytes, part.checksum) else { break };
        let data = part.bytes.get(datagram.data).unwrap_or_default();
        app.datagram(datagram.socket, datagram.from, datagram.to, data, &mut Io::new(engine));
        count += 1;
    }
    engine.egress.ip.count_fast(0, count as u64);
    count
}

/// A usual datagram over IPv4; if it is not one, or not for a socket, false, and nothing has happened.
#[inline(never)]
pub(crate) fn usual4<A: App>(engine: &mut Engine, app: &mut A, frame: &[u8], checksum: Checksum) -> bool {
    let egress = &mut engine.egress;
    match egress.udp.receive_usual4(&egress.ip, frame, checksum) {
        Some(datagram) => {
            deliver(engine, app, &datagram, frame);
            true
        }
        None => false,
    }
}

/// A plain datagram over IPv4.
pub(crate) fn plain4<A: App>(engine: &mut Engine, app: &mut A, fast: &Fast4, frame: &[u8], checksum: Checksum) {
    match engine.egress.udp.receive4(fast, frame, checksum) {
        Some(datagram) => deliver(engine, app, &datagram, frame),
        None => refuse(engine, IpAddr::V4(fast.src.into()), IpAddr::V4(fast.dst.into()), frame, fast.offset, 20),
    }
}

/// A plain datagram over IPv6.
pub(crate) fn plain6<A: App>(engine: &mut Engine, app: &mut A, fast: &Fast6, frame: &[u8], checksum: Checksum) {
    match engine.egress.udp.receive6(fast, frame, checksum) {
        Some(datagram) => deliver(engine, app, &datagram, frame),
        None => refuse(engine, IpAddr::V6(fast.src.into()), IpAddr::V6(fast.dst.into()), frame, fast.offset, 40),
    }
}

/// A datagram that the layer below handed up, perhaps put together of fragments.
pub(crate) fn packet(engine: &mut Engine, app: &mut dyn App, packet: &Packet, frame: &[u8]) {
    let mut bytes = std::mem::take(&mut engine.datagram);
    bytes.clear();
    bytes.extend_from_slice(engine.egress.ip.bytes(packet, frame));
    match engine.egress.udp.receive(packet, &bytes) {
        Some(datagram) => deliver(engine, app, &datagram, &bytes),
        None => {
            let ports = bytes.get(packet.payload.clone()).and_then(|payload| payload.first_chunk::<4>());
            if let Some([a, b, c, d]) = ports.copied() {
                let from = SocketAddr::new(packet.src, u16::from_be_bytes([a, b]));
                let to = SocketAddr::new(packet.dst, u16::from_be_bytes([c, d]));
                engine.egress.udp_refuse(from, to, bytes.get(packet.network..).unwrap_or_default(), engine.now);
            }
        }
    }
    engine.datagram = bytes;
}

#[inline(never)]
fn deliver<A: App + ?Sized>(engine: &mut Engine, app: &mut A, datagram: &Datagram, bytes: &[u8]) {
    let data = bytes.get(datagram.data.clone()).unwrap_or_default();
    app.datagram(datagram.socket, datagram.from, datagram.to, data, &mut Io::new(engine));
}

#[cold]
fn refuse(engine: &mut Engine, src: IpAddr, dst: IpAddr, frame: &[u8], offset: u16, header_len: u16) {
    let Some([a, b, c, d]) = frame.get(usize::from(offset)..).and_then(|bytes| bytes.first_chunk::<4>()).copied()
    else {
        return;
    };
    let from = SocketAddr::new(src, u16::from_be_bytes([a, b]));
    let to = SocketAddr::new(dst, u16::from_be_bytes([c, d]));
    let packet = frame.get(usize::from(offset - header_len)..).unwrap_or_default();
    engine.egress.udp_refuse(from, to, packet, engine.now);
}
