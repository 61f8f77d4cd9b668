//! Body of the fuzz target `headers`: any bytes as a frame and as each header. Also run by the tests of `linerate-wire`.

use linerate_wire::*;

/// Takes a view of the bytes if they are one, reads it, and writes its header again.
macro_rules! view {
    ($data:expr, $module:ident, $constructor:ident) => {
        if let Ok(packet) = $module::Packet::$constructor($data) {
            let header = packet.header();
            assert!(packet.payload().len() <= $data.len());
            let mut again = $data.to_vec();
            header.emit(&mut again);
            let read = $module::Packet::$constructor(again.as_slice()).map(|packet| packet.header());
            assert_eq!(read.as_ref().ok(), Some(&header), "what was written is read again");
        }
    };
}

/// Reads all that can be read of the bytes.
pub fn run(data: &[u8]) {
    frame(data);
    offloads(data);
    view!(data, ethernet, new_checked);
    view!(data, vlan, new_checked);
    view!(data, mpls, new_checked);
    view!(data, arp, new_checked);
    view!(data, ipv4, new_truncated);
    view!(data, ipv4, new_checked);
    view!(data, ipv6, new_truncated);
    view!(data, ipv6, new_checked);
    view!(data, udp, new_truncated);
    view!(data, udp, new_checked);
    view!(data, tcp, new_checked);
    view!(data, icmpv4, new_checked);
    view!(data, icmpv6, new_checked);
    view!(data, vxlan, new_checked);
    view!(data, geneve, new_checked);
    view!(data, gre, new_checked);
}

fn frame(data: &[u8]) {
    let _ = verify_checksums(data);
    assert!(!Summary(data).to_string().is_empty());
    let _ = Hexdump(data).to_string();
    if let Some(key) = FlowKey::from_frame(data) {
        assert_eq!(key.hash_symmetric(), key.reversed().hash_symmetric());
        let _ = key.to_string();
    }
    let _ = FlowKey::innermost(data);
    let Ok(parsed) = Parsed::parse(data) else { return };
    assert!(parsed.l3_offset <= data.len());
    if let Some(ip) = parsed.ip {
        assert!(ip.offset <= ip.payload_offset && ip.end <= data.len());
        if let Some(transport) = ip.transport {
            assert!(transport.offset < transport.payload_offset && transport.payload_offset <= transport.end);
        }
    }
    let _ = parsed.inner(data);
}

/// Completes and cuts what a kernel may have left to be completed or cut.
fn offloads(data: &[u8]) {
    let mut frame = data.to_vec();
    if let Some(partial) = PartialChecksum::find(data) {
        let in_pieces = partial.checksum(data.chunks(7));
        assert_eq!(partial.complete(&mut frame), in_pieces.is_some());
    }
    if let Some(mut merge) = Merge::begin(data) {
        // The same segment again does not follow itself.
        assert!(!merge.append(data) && merge.segments() == 1);
        let headers_len = merge.finish().len();
        assert_eq!((headers_len, merge.headers_len() + merge.data_len()), (merge.headers_len(), data.len()));
    }
    let size = data.first().map_or(1, |byte| usize::from(*byte) + 1);
    for cut in [Segments::new(data, size, None), Segments::fitting(data, 3 * size)] {
        let Some(mut segments) = cut else { continue };
        let mut frame = data.to_vec();
        while let Some(range) = segments.next(&mut frame) {
            assert!(!range.is_empty() && range.end <= frame.len());
        }
    }
}
