//! shim/shim.h, declared again.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// `struct ln_request`.
#[repr(C)]
pub(crate) struct Request {
    pub name: *const c_char,
    pub devargs: *const c_char,
    pub queues: u16,
    pub descriptors: u16,
    pub mtu: u16,
    pub promiscuous: u8,
    pub symmetric: u8,
    pub link_wait_ms: u32,
    pub copy_frames: u32,
    pub copy_room: u32,
    pub memory: *mut RawMemory,
}

/// `struct ln_device`: what was opened.
#[repr(C)]
pub(crate) struct DeviceInfo {
    pub port: u16,
    pub queues: u16,
    pub mtu: u16,
    pub max_queues: u16,
    pub speed_mbps: u32,
    pub mac: [u8; 6],
    pub link_up: u8,
    pub is_hardware: u8,
    pub multi_segment: u8,
    pub scatters: u8,
    pub copies: u8,
    pub rss: u8,
    pub dma_mapped: u8,
    pub offloads: u8,
    pub rx_flags: u8,
    pub merged_max: u8,
    pub driver: [c_char; 48],
    pub mempool: *mut c_void,
    pub device: *mut c_void,
    pub step: *const c_char,
}

// SAFETY: the pointers are handles, which libdpdk lets any thread use; who closes the device has it alone.
unsafe impl Send for DeviceInfo {}
// SAFETY: as above.
unsafe impl Sync for DeviceInfo {}

impl Default for DeviceInfo {
    fn default() -> DeviceInfo {
        // SAFETY: integers and pointers; all zeros is a value of it.
        unsafe { std::mem::zeroed() }
    }
}

impl DeviceInfo {
    /// The driver's name, for example net_null.
    pub fn driver_name(&self) -> String {
        let bytes = self.driver.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8).collect();
        String::from_utf8(bytes).unwrap_or_default()
    }
}

/// `struct ln_memory`.
#[repr(C)]
pub(crate) struct RawMemory {
    pub base: *mut u8,
    pub bytes: u64,
    pub mbufs: *mut u8,
    pub mempool: *mut c_void,
    pub stride: u32,
    pub frame_shift: u32,
}

/// Bits of `offloads`, `LN_TX_...`: the UDP checksum, the TCP checksum, and cutting of merged TCP packets.
pub(crate) const TX_UDP: u8 = 1;
pub(crate) const TX_TCP: u8 = 2;
pub(crate) const TX_TSO: u8 = 8;

/// Packets that one call of a driver moves, at most.
pub(crate) const BURST: usize = 64;

/// `struct ln_queue`.
#[repr(C, align(64))]
pub(crate) struct RawQueue {
    pub base: *mut u8,
    pub bytes: u64,
    pub mbufs: *mut u8,
    pub stride: u32,
    pub frame_shift: u32,
    pub mempool: *mut c_void,
    pub port: u16,
    pub queue: u16,
    pub frags_max: u8,
    pub rx_flags: u8,
    pub verifies: u8,
    pub offloads: u8,
    pub len_max: u32,
    pub held: u32,
    pub moved_bytes: u64,
    pub foreign: u64,
    pub too_long: u64,
    pub not_left: u32,
    pub holding: [*mut c_void; BURST],
}

/// Takes `count` mbufs, which are free.
pub(crate) type Put = extern "C" fn(store: *mut c_void, mbufs: *const *mut c_void, count: c_uint) -> c_int;
/// Gives `count` free mbufs, or a negative errno and none.
pub(crate) type Take = extern "C" fn(store: *mut c_void, mbufs: *mut *mut c_void, count: c_uint) -> c_int;

// SAFETY: the declarations are those of shim/shim.h, and of rte_version.h.
unsafe extern "C" {
    pub(crate) fn rte_version() -> *const c_char;
    pub(crate) fn ln_eal_start(argc: c_int, argv: *mut *mut c_char) -> c_int;
    pub(crate) fn ln_log_take(text: *mut c_char, size: usize);
    pub(crate) fn ln_thread_register() -> c_int;
    pub(crate) fn ln_thread_unregister();

    pub(crate) fn ln_memory_new(
        base: *mut u8,
        bytes: u64,
        frames: u32,
        frame_shift: u32,
        page_bytes: u64,
        store: *mut c_void,
        put: Put,
        take: Take,
    ) -> *mut RawMemory;
    pub(crate) fn ln_memory_flush_thread(memory: *mut RawMemory);
    pub(crate) fn ln_memory_free(memory: *mut RawMemory);

    pub(crate) fn ln_receive(queue: *mut RawQueue, words: *mut u64, room: c_uint, packets: *mut c_uint) -> c_uint;
    pub(crate) fn ln_receive_copy(queue: *mut RawQueue, words: *mut u64, room: c_uint, packets: *mut c_uint) -> c_uint;
    pub(crate) fn ln_transmit(queue: *mut RawQueue, words: *const u64, count: c_uint, packets: *mut c_uint) -> c_uint;
    pub(crate) fn ln_transmit_copy(
        queue: *mut RawQueue,
        words: *const u64,
        count: c_uint,
        packets: *mut c_uint,
    ) -> c_uint;
    pub(crate) fn ln_transmit_merged(
        queue: *mut RawQueue,
        segments: *const u64,
        slots: c_uint,
        ip_len: c_uint,
        headers_len: c_uint,
        size: c_uint,
    ) -> c_int;
    pub(crate) fn ln_transmit_merged_copy(
        queue: *mut RawQueue,
        segments: *const u64,
        slots: c_uint,
        ip_len: c_uint,
        headers_len: c_uint,
        size: c_uint,
    ) -> c_int;
    pub(crate) fn ln_hand_on(from: *mut RawQueue, to: *mut RawQueue) -> c_uint;
    pub(crate) fn ln_queue_poll(queue: *mut RawQueue) -> c_uint;
    pub(crate) fn ln_queue_drain(queue: *mut RawQueue, most: c_uint);

    pub(crate) fn ln_device_open(request: *const Request, device: *mut DeviceInfo) -> c_int;
    pub(crate) fn ln_device_close(device: *mut DeviceInfo, memory: *const RawMemory);
    pub(crate) fn ln_device_link(port: u16) -> c_int;
    pub(crate) fn ln_device_removed(port: u16) -> c_int;
    pub(crate) fn ln_device_statistics(port: u16, values: *mut u64, names: *mut [u8; 64], most: c_uint) -> c_int;
}
