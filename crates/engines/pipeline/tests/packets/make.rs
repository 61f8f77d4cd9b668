//! Packets of all kinds with right checksums, made of random bytes.

/// A source of random numbers that a test seeds (xorshift64*).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 11) % bound
    }

    pub fn one_of<T: Clone>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize].clone()
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| (self.next() >> 32) as u8).collect()
    }
}

/// A packet of some kind.
pub fn any(random: &mut Random) -> Vec<u8> {
    let mut packet = random.bytes(12);
    tags(random, &mut packet);
    match random.below(8) {
        0 => {
            packet.extend(random.one_of(&[[0x88, 0x47], [0x88, 0x48]]));
            let depth = random.below(3);
            for level in 0..=depth {
                let mut entry = random.bytes(4);
                entry[2] = entry[2] & 0xfe | u8::from(level == depth);
                packet.extend(entry);
            }
            let inner = network(random);
            packet.extend(&inner[2..]);
        }
        1 => {
            packet.extend([0x88, 0xe7]);
            packet.extend(random.bytes(4 + 12));
            tags(random, &mut packet);
            packet.extend(network(random));
        }
        2 => packet.extend(random.bytes(48)),
        _ => packet.extend(network(random)),
    }
    packet
}

/// IP over Ethernet, with tags, and padded to 60 bytes.
pub fn ip(random: &mut Random) -> Vec<u8> {
    let mut packet = random.bytes(12);
    tags(random, &mut packet);
    let over = if random.below(2) == 0 { ipv4(random) } else { ipv6(random) };
    packet.extend(over);
    packet.resize(packet.len().max(60), 0);
    packet
}

fn tags(random: &mut Random, packet: &mut Vec<u8>) {
    for _ in 0..random.one_of(&[0, 0, 0, 1, 1, 2, 3, 9]) {
        packet.extend(random.one_of(&[[0x81, 0x00], [0x88, 0xa8]]));
        packet.extend(random.bytes(2));
    }
}

/// An EtherType, and what it announces.
fn network(random: &mut Random) -> Vec<u8> {
    match random.below(7) {
        0 => {
            let mut packet = vec![8, 6, 0, 1, 8, 0, 6, 4, 0];
            packet.extend(random.bytes(21 + 18));
            packet
        }
        1..=3 => ipv4(random),
        _ => ipv6(random),
    }
}

fn ipv4(random: &mut Random) -> Vec<u8> {
    let protocol = random.one_of(&[1, 6, 6, 17, 17, 132, 47]);
    let addresses = random.bytes(8);
    let fragment: u16 = random.one_of(&[0, 0, 0, 0x4000, 0x2000, 0x2010, 0x0123]);
    let data = match fragment & 0x1fff {
        0 => upper(random, protocol, &addresses),
        _ => random.bytes(30),
    };
    let options_len = random.one_of(&[0, 0, 0, 4, 40]);
    let options = random.bytes(options_len);
    let mut header = vec![0x45 + (options.len() / 4) as u8, random.next() as u8];
    header.extend(((20 + options.len() + data.len()) as u16).to_be_bytes());
    header.extend(random.bytes(2));
    header.extend(fragment.to_be_bytes());
    header.extend([random.next() as u8, protocol, 0, 0]);
    header.extend(addresses);
    header.extend(options);
    let checksum = !sum(&header);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    [vec![8, 0], header, data].concat()
}

fn ipv6(random: &mut Random) -> Vec<u8> {
    let protocol = random.one_of(&[6, 17, 58, 58, 58, 132, 59, 50]);
    let mut addresses = random.bytes(32);
    let mut numbers = Vec::new();
    for _ in 0..random.one_of(&[0, 0, 0, 1, 2, 4, 14]) {
        numbers.push(random.one_of(&[0, 43, 44, 51, 60, 60]));
    }
    let mut extensions = Vec::new();
    let mut covered = addresses.clone();
    let mut is_later = false;
    for (index, number) in numbers.iter().enumerate() {
        let next = numbers.get(index + 1).copied().unwrap_or(protocol);
        let mut header = vec![next, random.below(3) as u8];
        match number {
            44 => {
                let offset: u16 = random.one_of(&[0, 0, 0, 1, 0x123 << 3]);
                is_later |= offset >> 3 != 0;
                header.extend(offset.to_be_bytes());
                header.extend(random.bytes(4));
            }
            51 => {
                header[1] = 1 + random.below(3) as u8;
                header.extend(random.bytes(header[1] as usize * 4 + 6));
            }
            _ => header.extend(random.bytes(header[1] as usize * 8 + 6)),
        }
        if *number == 43 && header[3] != 0 {
            // The pseudo-header has the last destination, which is some other one.
            covered.splice(16..32, random.bytes(16));
        }
        extensions.extend(header);
        if is_later {
            break;
        }
    }
    let data = if is_later { random.bytes(20) } else { upper(random, protocol, &covered) };
    let mut header = random.bytes(4);
    header[0] = 0x60 | header[0] & 15;
    header.extend(((extensions.len() + data.len()) as u16).to_be_bytes());
    header.extend([numbers.first().copied().unwrap_or(protocol), random.next() as u8]);
    header.append(&mut addresses);
    [vec![0x86, 0xdd], header, extensions, data].concat()
}

/// A packet of the upper layer with its checksum; `addresses` are those of its pseudo-header.
fn upper(random: &mut Random, protocol: u8, addresses: &[u8]) -> Vec<u8> {
    let mut data = random.bytes(20);
    let field = match protocol {
        6 => 16,
        17 => 6,
        1 | 58 => 2,
        132 => 8,
        _ => return data,
    };
    if protocol == 58 {
        data[0] = random.one_of(&[128, 135, 135, 136, 136]);
        data.extend(random.bytes(4));
        for _ in 0..random.below(3) {
            let len = 1 + random.below(2) as u8;
            data.extend([random.one_of(&[1, 2, 5]), len]);
            data.extend(random.bytes(len as usize * 8 - 2));
        }
    } else {
        let payload_len = random.one_of(&[0, 1, 7, 200]);
        data.extend(random.bytes(payload_len));
    }
    data[field..field + 2].fill(0);
    match protocol {
        // No checksum.
        17 if random.below(4) == 0 => {}
        132 => {
            data[8..12].fill(0);
            let crc = crc32c(&data);
            data[8..12].copy_from_slice(&crc.to_le_bytes());
        }
        _ => {
            let checksum = match protocol {
                1 => !sum(&data),
                _ => !pseudo_header_sum(protocol, addresses, &data),
            };
            let checksum = if protocol == 17 && checksum == 0 { 0xffff } else { checksum };
            data[field..field + 2].copy_from_slice(&checksum.to_be_bytes());
        }
    }
    data
}

/// The sum of a pseudo-header and the data that its checksum makes 0xffff.
pub fn pseudo_header_sum(protocol: u8, addresses: &[u8], data: &[u8]) -> u16 {
    let mut all = addresses.to_vec();
    all.extend((data.len() as u32).to_be_bytes());
    all.extend(u32::from(protocol).to_be_bytes());
    all.extend(data);
    sum(&all)
}

/// The ones' complement sum of 16-bit words.
pub fn sum(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |byte| u32::from(*byte));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

pub fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |mut crc, byte| {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 != 0 { 0x82f6_3b78 } else { 0 };
        }
        crc
    })
}

/// Damages a packet: other bytes, another length.
pub fn damage(random: &mut Random, packet: &mut Vec<u8>) {
    for _ in 0..random.below(4) {
        let at = random.below(packet.len().max(1) as u64) as usize;
        if let Some(byte) = packet.get_mut(at) {
            *byte = random.one_of(&[0, 1, 4, 6, 0x45, 0x60, 0xff, 0x81, 59, 44]);
        }
    }
    if random.below(2) == 0 {
        packet.truncate(random.below(packet.len() as u64 + 1) as usize);
    }
}
