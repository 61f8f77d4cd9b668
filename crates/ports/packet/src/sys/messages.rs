//! Sending many packets by one call, each with a note for the kernel where the socket wants them.

use std::io;
use std::os::fd::AsRawFd;

use linerate_mem::Batch;
use linerate_port::{VnetHeader, merge_at};

use super::Socket;

/// Most packets of one sendmmsg(2) call.
pub(crate) const MESSAGES_MAX: usize = 64;
/// Most slots of one call, and so of one packet.
pub(crate) const SLOTS_MAX: usize = 128;
/// Most bytes of headers in front of the data of several segments.
const HEADERS_MAX: usize = 128;

/// The arrays that sendmmsg(2) reads, filled anew for each call.
pub(crate) struct Messages {
    headers: Box<[libc::mmsghdr]>,
    parts: Box<[libc::iovec]>,
    /// What stands in front of each message.
    fronts: Box<[Front]>,
}

/// A note, and the headers of segments that are one message.
#[derive(Clone, Copy)]
struct Front {
    note: [u8; VnetHeader::BYTES],
    headers: [u8; HEADERS_MAX],
    /// Packets of the batch that the message is made of.
    packets: usize,
}

// SAFETY: the pointers inside are written and used within one call of `send` only.
unsafe impl Send for Messages {}

impl Messages {
    pub(crate) fn new() -> Messages {
        // SAFETY: plain C structures of integers and pointers; all zeros is a value of each.
        let (header, part): (libc::mmsghdr, libc::iovec) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        let front = Front { note: [0; VnetHeader::BYTES], headers: [0; HEADERS_MAX], packets: 0 };
        Messages {
            headers: vec![header; MESSAGES_MAX].into(),
            // A message has a note and one or two slots' worth of headers beside its slots.
            parts: vec![part; SLOTS_MAX + 2 * MESSAGES_MAX].into(),
            fronts: vec![front; MESSAGES_MAX].into(),
        }
    }

    /// Sends the packets in the first `slots` slots of the batch, at most what one call takes, and returns how many packets
    /// the kernel took. The last of the slots ends a packet. `notes`: the socket wants a note in front of each message (PACKET_VNET_HDR), and
    /// segments that follow each other may be one message.
    ///
    /// # Errors
    /// When it took none: the errno of the first.
    #[inline]
    pub(crate) fn send(&mut self, socket: &Socket, batch: &mut Batch, slots: usize, notes: bool) -> io::Result<usize> {
        let messages = self.build(batch, slots.min(SLOTS_MAX).min(batch.len()), notes);
        let mut part = self.parts.as_mut_ptr();
        for header in &mut self.headers[..messages] {
            header.msg_hdr.msg_iov = part;
            // SAFETY: the messages' parts follow each other, and all of them are inside the array.
            part = unsafe { part.add(header.msg_hdr.msg_iovlen as _) };
        }
        let (fd, first) = (socket.fd.as_raw_fd(), self.headers.as_mut_ptr());
        // SAFETY: the first `messages` headers name parts set by `build`, which name bytes that the borrowed batch and this value keep.
        let sent = unsafe { libc::sendmmsg(fd, first, messages as _, libc::MSG_DONTWAIT as _) };
        let sent = usize::try_from(sent).map_err(|_| io::Error::last_os_error())?;
        Ok(self.fronts.iter().take(sent).map(|front| front.packets).sum())
    }

    /// True if the first message of the last call was of several packets.
    #[inline]
    pub(crate) fn first_is_merged(&self) -> bool {
        self.fronts.first().is_some_and(|front| front.packets > 1)
    }

    /// Fills the arrays, and returns how many messages there are.
    #[inline]
    fn build(&mut self, batch: &mut Batch, slots: usize, notes: bool) -> usize {
        let has_partial = notes && batch.has_partial_checksums(0);
        let (mut at, mut part, mut messages) = (0, 0, 0);
        while at < slots && messages < MESSAGES_MAX {
            let (front, first) = (&mut self.fronts[messages], part);
            let merged = if has_partial { merge_at(batch, at, slots - at) } else { None };
            let (packet_slots, skipped);
            if let Some(mut merge) = merged {
                if merge.segments() == slots - at && at > 0 && slots < batch.len() {
                    // The run may go on behind what one call takes, so all of it is left to the next call.
                    break;
                }
                front.note = VnetHeader::of_merged(&merge).to_bytes();
                (packet_slots, front.packets) = (merge.segments(), merge.segments());
                let headers = merge.finish();
                skipped = headers.len();
                front.headers[..skipped].copy_from_slice(headers);
                self.parts[part] = part_of(&front.note);
                self.parts[part + 1] = part_of(&front.headers[..skipped]);
                part += 2;
            } else {
                // A message that was begun is whole: the last of the slots ends a packet.
                let behind = (at..slots).find(|slot| !batch.more(*slot)).map_or(slots, |last| last + 1);
                (packet_slots, skipped, front.packets) = (behind - at, 0, 1);
                if notes {
                    front.note = VnetHeader::of_packet(batch, at).to_bytes();
                    self.parts[part] = part_of(&front.note);
                    part += 1;
                }
            }
            for bytes in batch.iter().skip(at).take(packet_slots) {
                self.parts[part] = part_of(&bytes[skipped..]);
                part += 1;
            }
            self.headers[messages].msg_hdr.msg_iovlen = (part - first) as _;
            at += packet_slots;
            messages += 1;
        }
        messages
    }
}

#[inline]
fn part_of(bytes: &[u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
}
