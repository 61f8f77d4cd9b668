//! Where in a frame of the pool the kernel puts the packets that it receives.

use linerate_mem::Pool;

use crate::abi;

/// Where in a frame the kernel puts what it receives.
///
/// **Aligned** is what every driver can: the chunks are the frames, and each packet starts 256 bytes after the start of one.
/// Thousands of frames in use then meet in a few sets of each cache, and the kernel keeps a structure of two cache lines for
/// each chunk, which it visits in turn.
///
/// **Coloured** (unaligned chunks, copy mode only): the packet goes where the pool would put one, in 8 different cache
/// lines, and the kernel takes the structure that it used last. The kernel cannot be told where the packet is to start, only
/// where the chunk does, a headroom before. So the chunk starts in the frame before; in copy mode the kernel writes the
/// packet and nothing in front of it (the program puts no metadata there), and no more than the chunk's rest:
///
/// ```text
///   frames                |                       |  packet......       |
///   chunk            |  headroom, not written     |  at most `len_max`  |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    Aligned,
    Coloured {
        /// Headroom of the UMEM, beside the kernel's own 256 bytes.
        headroom: u32,
    },
}

/// The upper 16 bits of an address in unaligned mode say how far from the chunk's start the packet is.
const OFFSET_SHIFT: u32 = 48;

impl Placement {
    /// The coloured placement in `pool`'s frames.
    pub(crate) fn coloured(pool: &Pool) -> Placement {
        let room = pool.region().frame_size() - abi::RECEIVE_HEADROOM;
        Placement::Coloured { headroom: (room - pool.packet_len_max().min(room)) as u32 }
    }

    /// Longest packet that the kernel receives into one frame of `pool`.
    pub(crate) fn receive_len_max(self, pool: &Pool) -> usize {
        pool.region().frame_size() - abi::RECEIVE_HEADROOM - self.headroom() as usize
    }

    pub(crate) fn headroom(self) -> u32 {
        match self {
            Placement::Aligned => 0,
            Placement::Coloured { headroom } => headroom,
        }
    }

    /// `XDP_UMEM_*` flags.
    pub(crate) fn flags(self) -> u32 {
        match self {
            Placement::Aligned => 0,
            Placement::Coloured { .. } => libc::XDP_UMEM_UNALIGNED_CHUNK_FLAG,
        }
    }

    /// The address to lend, of a frame that starts at `start` and in which the pool would put a packet at `offset`. A chunk
    /// cannot start before the region does, so in the first frame the packet may come later.
    #[inline]
    pub(crate) fn chunk_address(self, start: u64, offset: u16) -> u64 {
        match self {
            Placement::Aligned => start,
            Placement::Coloured { headroom } => {
                (start + u64::from(offset)).saturating_sub(u64::from(headroom) + abi::RECEIVE_HEADROOM as u64)
            }
        }
    }

    /// The first byte of the packet, from the address in its descriptor.
    #[inline]
    pub(crate) fn packet_address(self, address: u64) -> u64 {
        match self {
            Placement::Aligned => address,
            Placement::Coloured { .. } => (address & ((1 << OFFSET_SHIFT) - 1)) + (address >> OFFSET_SHIFT),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_mem::PoolConfig;

    #[test]
    fn coloured_chunks_keep_packets_inside_their_frames() {
        for frame_size in [2048, 4096] {
            let mut pool = Pool::new(PoolConfig { frames: 64, frame_size }).unwrap();
            let placement = Placement::coloured(&pool);
            let most = placement.receive_len_max(&pool);
            let before_packet = u64::from(placement.headroom()) + abi::RECEIVE_HEADROOM as u64;
            assert!(most <= pool.packet_len_max() && most + 64 > pool.packet_len_max().min(frame_size - 256));
            let mut batch = linerate_mem::Batch::new(&pool, 64);
            let len_max = pool.packet_len_max();
            pool.alloc(&mut batch, 64, len_max);
            while let Some(slot) = batch.pop_front() {
                let start = pool.region().frame_start(slot.frame()) as u64;
                let chunk = placement.chunk_address(start, slot.offset());
                assert!(chunk + frame_size as u64 <= pool.region().bytes() as u64);
                let packet = placement.packet_address(chunk | before_packet << OFFSET_SHIFT);
                assert!(start <= packet && packet + most as u64 <= start + frame_size as u64);
                assert!(slot.frame() == 0 || packet == start + u64::from(slot.offset()));
            }
        }
    }
}
