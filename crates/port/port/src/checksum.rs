//! Checksums that are not complete (see [`Checksum`]), before they leave the process.

use linerate_mem::{Batch, Checksum};
use linerate_wire::PartialChecksum;

/// Completes the partial checksums of a batch, and forgets what is known about the others. Each port whose packets leave this process
/// calls it before it sends them.
#[inline]
pub fn complete_checksums(batch: &mut Batch) {
    if batch.has_checksum_flags() {
        complete_all(batch);
    }
}

#[cold]
fn complete_all(batch: &mut Batch) {
    for index in 0..batch.len() {
        complete_checksum(batch, index);
    }
}

/// Completes the checksum of the packet that begins in slot `index` if it is partial, and forgets what is known about it: for what puts
/// a header in front of a packet that hides the place of the checksum.
pub fn complete_checksum(batch: &mut Batch, index: usize) {
    if batch.checksum(index) == Checksum::Partial {
        complete(batch, index);
    }
    batch.set_checksum(index, Checksum::Unknown);
}

/// Completes the checksum of the packet that begins in slot `index`, whose headers may lie in several frames.
fn complete(batch: &mut Batch, index: usize) {
    let Some(span) = batch.span(index) else { return };
    let mut headers = [0; HEADERS_MAX];
    let len = batch.reader(index, span.slots).read(&mut headers);
    let Some(partial) = find_partial(&headers[..len]) else { return };
    let Some(checksum) = partial.checksum(batch.iter().skip(index).take(span.slots)) else { return };
    let (mut at, mut bytes) = (partial.field, checksum.to_be_bytes().into_iter());
    for frag in batch.iter_mut().skip(index).take(span.slots) {
        // The field may begin in one frame and end in the next.
        for (place, byte) in frag.iter_mut().skip(at).zip(&mut bytes) {
            *place = byte;
            at += 1;
        }
        at = at.saturating_sub(frag.len());
    }
}

/// Bytes at the start of a packet in which a checksum is looked for.
const HEADERS_MAX: usize = 512;

/// The partial checksum of a packet, of which `start` has the first bytes, if completing it here would find it.
#[inline]
pub fn find_partial(start: &[u8]) -> Option<PartialChecksum> {
    PartialChecksum::find(&start[..start.len().min(HEADERS_MAX)])
}

/// [`Checksum::Partial`] if the checksum of a packet is the bare sum of its pseudo-header, for ports whose kernel does not tell.
#[inline]
pub fn checksum_of(start: &[u8]) -> Checksum {
    if find_partial(start).is_some() { Checksum::Partial } else { Checksum::Unknown }
}

#[cfg(test)]
mod tests {
    use linerate_mem::{Pool, PoolConfig};
    use linerate_wire::{Protocol, Stack, ethernet, ipv4, ipv6, tcp, udp, verify_checksums};

    use super::*;

    /// A packet of `len` bytes, complete and with a partial checksum at `field`.
    fn packet(len: usize, is_tcp: bool) -> (Vec<u8>, Vec<u8>) {
        let stack = Stack::new().with(ethernet::Header::default());
        if is_tcp {
            let addresses =
                ipv4::Header { src: [192, 0, 2, 1].into(), dst: [192, 0, 2, 2].into(), ..Default::default() };
            let whole = stack.with(addresses).with(tcp::Header::default()).build(len).unwrap().bytes;
            let pseudo = ipv4::Packet::new_checked(&whole[14..]).unwrap().pseudo_sum((len - 34) as u16);
            let mut partial = whole.clone();
            partial[50..52].copy_from_slice(&pseudo.fold().to_be_bytes());
            return (whole, partial);
        }
        let whole = stack.with(ipv6::Header::default()).with(udp::Header::default()).build(len).unwrap().bytes;
        let pseudo = ipv6::Packet::new_checked(&whole[14..]).unwrap().pseudo_sum(Protocol::UDP, (len - 54) as u32);
        let mut partial = whole.clone();
        partial[60..62].copy_from_slice(&pseudo.fold().to_be_bytes());
        (whole, partial)
    }

    #[test]
    fn partial_checksums_are_completed_over_all_frags_and_flags_are_forgotten() {
        let mut pool = Pool::new(Default::default()).unwrap();
        let mut batch = Batch::new(&pool, 32);
        let mut wholes = Vec::new();
        for (len, is_tcp) in [(80, true), (1514, true), (81, false), (5001, false), (9000, true)] {
            let (whole, partial) = packet(len, is_tcp);
            assert!(verify_checksums(&whole).is_ok() && verify_checksums(&partial).is_err());
            let at = batch.len();
            assert!(pool.append(&mut batch, &partial, 0));
            assert_eq!((checksum_of(&partial), checksum_of(&whole)), (Checksum::Partial, Checksum::Unknown));
            batch.set_checksum(at, Checksum::Partial);
            wholes.push(whole);
        }
        // The field, bytes 50 and 51, lies in two frames.
        let (whole, partial) = packet(300, true);
        let at = batch.len();
        assert_eq!(pool.alloc(&mut batch, 2, 300), 2);
        for (index, bytes) in [&partial[..51], &partial[51..]].into_iter().enumerate() {
            batch.set_len(at + index, bytes.len());
            batch.packet_mut(at + index).copy_from_slice(bytes);
        }
        batch.set_more(at, true);
        batch.set_checksum(at, Checksum::Partial);
        wholes.push(whole);
        // One that is verified, and one of which nothing is known: neither is looked at.
        let (whole, partial) = packet(100, true);
        for (bytes, checksum) in [(whole, Checksum::Verified), (partial, Checksum::Unknown)] {
            assert!(pool.append(&mut batch, &bytes, 0));
            batch.set_checksum(batch.len() - 1, checksum);
            wholes.push(bytes);
        }
        // Frames so small that headers lie in several of them.
        let mut small = Pool::new(PoolConfig { frames: 512, frame_size: 512 }).unwrap();
        let mut copies = Batch::new(&small, 512);
        let mut at = 0;
        while let Some(span) = batch.span(at) {
            let copy = copies.len();
            assert!(small.copy(&batch, at, &mut copies));
            assert_eq!(copies.checksum(copy), batch.checksum(at), "a copy has the flag of its original");
            at += span.slots;
        }
        for batch in [&mut batch, &mut copies] {
            complete_checksums(batch);
            assert!(!batch.has_checksum_flags());
            let mut at = 0;
            for whole in &wholes {
                let span = batch.span(at).unwrap();
                let mut bytes = vec![0; span.len];
                batch.reader(at, span.slots).read(&mut bytes);
                assert_eq!(bytes, *whole);
                at += span.slots;
            }
        }
    }

    #[test]
    fn a_mark_on_nonsense_is_harmless() {
        let mut pool = Pool::new(Default::default()).unwrap();
        let mut batch = Batch::new(&pool, 8);
        for bytes in [&[][..], &[7; 13], &[0xff; 60]] {
            assert!(pool.append(&mut batch, bytes, 0));
            batch.set_checksum(batch.len() - 1, Checksum::Partial);
        }
        // A packet whose IP length says more than there is.
        let mut short = packet(300, true).1;
        short.truncate(100);
        assert!(pool.append(&mut batch, &short, 0));
        batch.set_checksum(3, Checksum::Partial);
        complete_checksums(&mut batch);
        assert!(!batch.has_checksum_flags() && batch.packet(2) == [0xff; 60] && batch.packet(3) == short);
    }
}
