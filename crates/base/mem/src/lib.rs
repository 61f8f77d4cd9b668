//! Memory of the packet path: regions cut into frames, pools of free frames, batches of owned slots.
//!
//! ```text
//! region   | frame 0 | frame 1 | frame 2 | ...      one mapping; frames of a power of two bytes (2,048 unless asked)
//! frame    | headroom | packet ............... |       the packet starts at `offset`, in line 1 to 7 (short packets: 31) of the frame
//! slot     { flags:8 frame:24 offset:16 len:16 }    64 bits, names a packet (or a part of one) and OWNS its frame
//! batch    [ slot slot slot ... ]                   what one port call moves; gives its frames back when dropped
//! pool     handle (two magazines) <-> depot         a thread takes and returns frames without locks, the depot's lock
//!                                                   is taken once for each magazine of 64 frames
//! ```
//!
//! A frame has exactly one owner: the pool, a slot in a batch, a slot in a ring, a backend that handed it to a kernel, or the
//! process that shares the region, to which it went by an [`OwnershipTable`].
//! Slots cannot be copied; that is what makes handing out `&mut [u8]` sound. Colours keep the first lines of the frames out
//! of the same few cache sets, which a power-of-two stride would otherwise fill.
//!
//! ```
//! use linerate_mem::{Batch, Pool, PoolConfig};
//! let mut pool = Pool::new(PoolConfig { frames: 256, ..PoolConfig::default() }).unwrap();
//! let mut batch = Batch::new(&pool, 32);
//! assert_eq!(pool.alloc(&mut batch, 4, 60), 4);
//! batch.packet_mut(0)[0] = 0x45;
//! assert_eq!(batch.packet(0).len(), 60);
//! pool.free(&mut batch);
//! drop(batch);
//! assert!(pool.is_whole());
//! ```

mod batch;
mod copy;
mod depot;
mod four_pairs;
mod frags;
mod lines;
mod ownership;
#[cfg_attr(target_os = "freebsd", path = "freebsd/pages.rs")]
mod pages;
mod pair_table;
mod pool;
mod prefetch;
mod region;
mod slot;
mod slot_ring;
mod slot_table;
mod words;

pub use batch::{Batch, Moving, Part, Span, Totals};
pub use copy::copy_bytes;
pub use four_pairs::{Baseline, Compare, FourPairs, Pass, compare_widely};
pub use frags::{FragReader, Scattered};
pub use lines::Lines;
pub use ownership::{InvalidFrame, OwnershipTable};
pub use pair_table::PairTable;
pub use pool::{HEADROOM, LOANED, Pool, PoolConfig, WeakPool, Written};
pub use prefetch::{prefetch, prefetch_address, prefetch_address_to_write, prefetch_to_write};
pub use region::{MapError, Region};
pub use slot::{Checksum, Slot, SlotFields};
pub use slot_ring::{SlotReceiver, SlotSender, slot_ring};
pub use slot_table::SlotTable;
