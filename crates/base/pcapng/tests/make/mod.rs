//! Capture files by hand, byte by byte, in either byte order.
#![allow(dead_code, reason = "each test uses a part")]

/// Order of the bytes of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Little,
    Big,
}

impl Order {
    pub fn u16(self, value: u16) -> [u8; 2] {
        if self == Order::Little { value.to_le_bytes() } else { value.to_be_bytes() }
    }

    pub fn u32(self, value: u32) -> [u8; 4] {
        if self == Order::Little { value.to_le_bytes() } else { value.to_be_bytes() }
    }

    pub fn u64(self, value: u64) -> [u8; 8] {
        if self == Order::Little { value.to_le_bytes() } else { value.to_be_bytes() }
    }
}

pub const BOTH: [Order; 2] = [Order::Little, Order::Big];

/// A packet of `len` bytes that differ with `seed`.
pub fn packet(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (seed * 31 + at * 7) as u8).collect()
}

pub fn pcap_header(order: Order, magic: u32, link: u32) -> Vec<u8> {
    let mut out = order.u32(magic).to_vec();
    out.extend(order.u16(2));
    out.extend(order.u16(4));
    out.extend([0; 8]);
    out.extend(order.u32(65535));
    out.extend(order.u32(link));
    out
}

pub fn pcap_record(order: Order, seconds: u32, fraction: u32, packet: &[u8], original_len: u32) -> Vec<u8> {
    let mut out = Vec::new();
    for word in [seconds, fraction, packet.len() as u32, original_len] {
        out.extend(order.u32(word));
    }
    out.extend(packet);
    out
}

pub fn block(order: Order, kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let len = order.u32(padded as u32 + 12);
    let mut out = order.u32(kind).to_vec();
    out.extend(len);
    out.extend(body);
    out.resize(8 + padded, 0);
    out.extend(len);
    out
}

pub fn section(order: Order) -> Vec<u8> {
    let mut body = order.u32(0x1a2b_3c4d).to_vec();
    body.extend(order.u16(1));
    body.extend(order.u16(0));
    body.extend([0xff; 8]);
    block(order, 0x0a0d_0d0a, &body)
}

/// An interface with options as (code, value).
pub fn interface(order: Order, link_type: u16, snaplen: u32, options: &[(u16, &[u8])]) -> Vec<u8> {
    let mut body = order.u16(link_type).to_vec();
    body.extend([0; 2]);
    body.extend(order.u32(snaplen));
    for (code, value) in options {
        body.extend(order.u16(*code));
        body.extend(order.u16(value.len() as u16));
        body.extend(*value);
        body.resize(body.len().next_multiple_of(4), 0);
    }
    if !options.is_empty() {
        body.extend([0; 4]);
    }
    block(order, 1, &body)
}

pub fn enhanced(order: Order, interface: u32, units: u64, packet: &[u8], original_len: u32) -> Vec<u8> {
    let mut body = Vec::new();
    for word in [interface, (units >> 32) as u32, units as u32, packet.len() as u32, original_len] {
        body.extend(order.u32(word));
    }
    body.extend(packet);
    block(order, 6, &body)
}

pub fn obsolete(order: Order, interface: u16, units: u64, packet: &[u8]) -> Vec<u8> {
    let mut body = order.u16(interface).to_vec();
    body.extend(order.u16(3));
    for word in [(units >> 32) as u32, units as u32, packet.len() as u32, packet.len() as u32] {
        body.extend(order.u32(word));
    }
    body.extend(packet);
    block(order, 2, &body)
}

pub fn simple(order: Order, packet: &[u8], original_len: u32) -> Vec<u8> {
    let mut body = order.u32(original_len).to_vec();
    body.extend(packet);
    block(order, 3, &body)
}

/// Files that are right, of every kind: seeds of the mutations.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for order in BOTH {
        for magic in [0xa1b2_c3d4, 0xa1b2_3c4d] {
            let mut file = pcap_header(order, magic, 1);
            file.extend(pcap_record(order, 1, 2, &packet(1, 60), 60));
            file.extend(pcap_record(order, 3, 4, &packet(2, 96), 1514));
            seeds.push(file);
        }
        let mut file = section(order);
        file.extend(interface(order, 1, 96, &[(9, &[9]), (14, &order.u64(5)), (13, &[32])]));
        file.extend(interface(order, 1, 0, &[(2, b"eth1"), (9, &[0x8a])]));
        file.extend(enhanced(order, 0, 77, &packet(3, 61), 61));
        file.extend(block(order, 5, &[9; 24]));
        file.extend(enhanced(order, 1, 1 << 40, &packet(4, 64), 1000));
        file.extend(simple(order, &packet(5, 96), 200));
        file.extend(obsolete(order, 1, 99, &packet(6, 70)));
        file.extend(section(order));
        file.extend(interface(order, 101, 0, &[]));
        file.extend(enhanced(order, 0, 5, &packet(7, 40), 40));
        seeds.push(file);
    }
    seeds
}
