//! Frames to send, and checksums computed the slow way.

/// An Ethernet, IPv4, UDP frame of `bytes` bytes from 198.18.0.1:1024 to 198.18.1.1:9; both checksums are wrong.
pub fn udp4(bytes: usize) -> Vec<u8> {
    let mut frame = vec![0x02, 0, 0, 0, 0, 2, 0x02, 0, 0, 0, 0, 1, 0x08, 0x00];
    let total = (bytes - 14) as u16;
    frame.extend([0x45, 0, (total >> 8) as u8, total as u8, 0, 0, 0x40, 0, 64, 17, 0xde, 0xad]);
    frame.extend([198, 18, 0, 1, 198, 18, 1, 1]);
    let length = total - 20;
    frame.extend([4, 0, 0, 9, (length >> 8) as u8, length as u8, 0xbe, 0xef]);
    frame.extend((frame.len()..bytes).map(|position| position as u8));
    frame
}

/// An Ethernet, 802.1Q, IPv6, TCP frame of `bytes` bytes; the checksum is wrong.
pub fn tcp6(bytes: usize) -> Vec<u8> {
    let mut frame = vec![0x02, 0, 0, 0, 0, 2, 0x02, 0, 0, 0, 0, 1, 0x81, 0x00, 0, 7, 0x86, 0xdd];
    let payload = (bytes - 58) as u16;
    frame.extend([0x60, 0, 0, 0, (payload >> 8) as u8, payload as u8, 6, 64]);
    frame.extend([0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    frame.extend([0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    frame.extend([4, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x10, 0xff, 0xff, 0xbe, 0xef, 0, 0]);
    frame.extend((frame.len()..bytes).map(|position| position as u8));
    frame
}

/// `inner` in VXLAN with an outer UDP checksum in use.
pub fn vxlan(inner: &[u8]) -> Vec<u8> {
    let mut frame = udp4(50);
    frame[36..38].copy_from_slice(&4789u16.to_be_bytes());
    frame[42..50].copy_from_slice(&[8, 0, 0, 0, 0, 0, 42, 0]);
    frame.extend(inner);
    let total = (frame.len() - 14) as u16;
    frame[16..18].copy_from_slice(&total.to_be_bytes());
    frame[38..40].copy_from_slice(&(total - 20).to_be_bytes());
    frame
}

/// The ones' complement sum of big-endian words, folded; 0xffff over data with a right checksum in it.
pub fn sum(parts: &[&[u8]], addend: u32) -> u16 {
    let mut sum = u64::from(addend);
    for part in parts {
        for word in part.chunks(2) {
            sum += u64::from(u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or(0)]));
        }
    }
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

/// Panics unless the IPv4 and UDP checksums of the frame whose IPv4 header starts at `ip` are right.
pub fn check_udp4(frame: &[u8], ip: usize) {
    let total = usize::from(u16::from_be_bytes([frame[ip + 2], frame[ip + 3]]));
    assert_eq!(sum(&[&frame[ip..ip + 20]], 0), 0xffff, "IPv4 header checksum of {frame:02x?}");
    let body = &frame[ip + 20..ip + total];
    let udp = sum(&[&frame[ip + 12..ip + 20], body], 17 + body.len() as u32);
    assert_eq!(udp, 0xffff, "UDP checksum of {frame:02x?}");
    assert_ne!(&body[6..8], &[0, 0], "a UDP checksum of 0 means none");
}

/// Panics unless the TCP checksum of a frame of [`tcp6`] is right.
pub fn check_tcp6(frame: &[u8]) {
    let body = &frame[58..];
    let tcp = sum(&[&frame[26..58], body], 6 + body.len() as u32);
    assert_eq!(tcp, 0xffff, "TCP checksum of {frame:02x?}");
}
