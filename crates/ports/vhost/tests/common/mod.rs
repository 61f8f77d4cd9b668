//! A front-end and its driver, made of messages and of reads and writes of the memory's file.
#![allow(dead_code, reason = "each test uses another part")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::Port;
use linerate_port_vhost::VhostPort;
use vhost::vhost_user::message::VhostUserHeaderFlag;
use vhost::vhost_user::{Frontend, VhostUserFrontend, VhostUserProtocolFeatures};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

pub const MERGEABLE: u64 = 1 << 15;
pub const INDIRECT: u64 = 1 << 28;
pub const EVENT_INDEX: u64 = 1 << 29;
pub const PROTOCOL: u64 = 1 << 30;
pub const VERSION_1: u64 = 1 << 32;

/// How long something that must come may take.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// Where the guest sees its memory, and where the front-end's process does.
pub const GUEST: u64 = 0x4000_0000;
pub const USER: u64 = 0x7f00_0000_0000;

/// Bytes of the longest packet that a driver sends, its header included.
const SENT_BYTES_MAX: u64 = 9216;

/// What a driver is like.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub features: u64,
    /// Entries of each ring.
    pub entries: u16,
    /// Bytes of each buffer.
    pub buffer: usize,
    /// Index that the rings begin with.
    pub start: u16,
    /// Queue pairs.
    pub pairs: usize,
    /// Descriptors that a packet to be sent is spread over, its header included.
    pub descriptors: usize,
}

impl Default for Shape {
    fn default() -> Shape {
        let features = MERGEABLE | INDIRECT | EVENT_INDEX | PROTOCOL | VERSION_1;
        Shape { features, entries: 256, buffer: 2048, start: 0, pairs: 1, descriptors: 1 }
    }
}

impl Shape {
    pub fn header(&self) -> usize {
        if self.features & (VERSION_1 | MERGEABLE) != 0 { 12 } else { 10 }
    }
}

/// One ring, from the driver's side. Descriptor n has buffer n.
pub struct Queue {
    pub entries: u16,
    pub table: u64,
    pub available: u64,
    pub used: u64,
    pub buffers: u64,
    pub index: u16,
    pub seen: u16,
    pub kick: EventFd,
    pub call: EventFd,
}

/// A front-end with its driver.
pub struct Driver {
    pub frontend: Frontend,
    pub memory: File,
    pub shape: Shape,
    pub queues: Vec<Queue>,
}

fn failed(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}

pub fn memory_file(bytes: u64) -> File {
    let file = tempfile::tempfile_in("/dev/shm").unwrap();
    file.set_len(bytes).unwrap();
    file
}

impl Driver {
    /// Connects, and starts all rings.
    pub fn connect(path: &Path, shape: Shape) -> io::Result<Driver> {
        let mut driver = Driver::connect_only(path, shape)?;
        driver.start()?;
        Ok(driver)
    }

    /// Connects and agrees on features; memory and rings are there, but not announced.
    pub fn connect_only(path: &Path, shape: Shape) -> io::Result<Driver> {
        Driver::on(std::os::unix::net::UnixStream::connect(path)?, shape)
    }

    /// As [`Driver::connect_only`], on a connection that is there.
    pub fn on(stream: std::os::unix::net::UnixStream, shape: Shape) -> io::Result<Driver> {
        let per_ring = 0x40_0000;
        let memory = memory_file(per_ring * 2 * shape.pairs as u64);
        let queues = (0..2 * shape.pairs as u64)
            .map(|n| {
                let at = n * per_ring;
                let entries = shape.entries;
                let (kick, call) = (EventFd::new(EFD_NONBLOCK)?, EventFd::new(EFD_NONBLOCK)?);
                let (index, seen) = (shape.start, shape.start);
                let (available, used, buffers) = (at + 0x1_0000, at + 0x2_0000, at + 0x8_0000);
                Ok(Queue { entries, table: at, available, used, buffers, index, seen, kick, call })
            })
            .collect::<io::Result<Vec<_>>>()?;
        let mut frontend = Frontend::from_stream(stream, 2 * shape.pairs as u64);
        negotiate(&mut frontend, shape.features)?;
        Ok(Driver { frontend, memory, shape, queues })
    }

    pub fn start(&mut self) -> io::Result<()> {
        self.announce_memory()?;
        for index in 0..self.queues.len() {
            let queue = &self.queues[index];
            self.put16(queue.available + 2, queue.index);
            self.put16(queue.used + 2, queue.seen);
            if index % 2 == 0 {
                for number in 0..queue.entries {
                    self.offer(index, number);
                }
            }
            self.start_queue(index)?;
        }
        self.settle()
    }

    /// Returns when the device has done all that was asked before: requests are answered in their order.
    pub fn settle(&self) -> io::Result<()> {
        self.frontend.get_features().map(drop).map_err(failed)
    }

    pub fn announce_memory(&mut self) -> io::Result<()> {
        let region = self.region();
        self.frontend.set_mem_table(&[region]).map_err(failed)?;
        Ok(())
    }

    pub fn region(&self) -> VhostUserMemoryRegionInfo {
        VhostUserMemoryRegionInfo {
            guest_phys_addr: GUEST,
            memory_size: self.memory.metadata().unwrap().len(),
            userspace_addr: USER,
            mmap_offset: 0,
            mmap_handle: self.memory.as_raw_fd(),
        }
    }

    pub fn start_queue(&mut self, index: usize) -> io::Result<()> {
        let queue = &self.queues[index];
        let config = VringConfigData {
            queue_max_size: queue.entries,
            queue_size: queue.entries,
            flags: 0,
            desc_table_addr: USER + queue.table,
            used_ring_addr: USER + queue.used,
            avail_ring_addr: USER + queue.available,
            log_addr: None,
        };
        self.frontend.set_vring_num(index, queue.entries).map_err(failed)?;
        self.frontend.set_vring_base(index, self.shape.start).map_err(failed)?;
        self.frontend.set_vring_addr(index, &config).map_err(failed)?;
        self.frontend.set_vring_call(index, &queue.call).map_err(failed)?;
        self.frontend.set_vring_kick(index, &queue.kick).map_err(failed)?;
        if self.shape.features & PROTOCOL != 0 {
            self.frontend.set_vring_enable(index, true).map_err(failed)?;
        }
        Ok(())
    }

    pub fn bytes(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory.read_exact_at(&mut bytes, at).unwrap();
        bytes
    }

    pub fn get16(&self, at: u64) -> u16 {
        u16::from_le_bytes(self.bytes(at, 2).try_into().unwrap())
    }

    pub fn put(&self, at: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, at).unwrap();
    }

    pub fn put16(&self, at: u64, value: u16) {
        self.put(at, &value.to_le_bytes());
    }

    /// Writes descriptor `number` of a table.
    pub fn describe(&self, table: u64, number: u16, address: u64, len: u32, flags: u16, next: u16) {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&address.to_le_bytes());
        bytes[8..12].copy_from_slice(&len.to_le_bytes());
        bytes[12..14].copy_from_slice(&flags.to_le_bytes());
        bytes[14..].copy_from_slice(&next.to_le_bytes());
        self.put(table + 16 * u64::from(number), &bytes);
    }

    /// Where buffer `number` of a queue is in the memory's file.
    pub fn buffer(&self, queue: usize, number: u16) -> u64 {
        let stride = if queue.is_multiple_of(2) { self.shape.buffer as u64 } else { SENT_BYTES_MAX };
        self.queues[queue].buffers + u64::from(number) * stride
    }

    /// Makes descriptor `head` available.
    pub fn make_available(&mut self, queue: usize, head: u16) {
        let (entries, index, available) =
            (self.queues[queue].entries, self.queues[queue].index, self.queues[queue].available);
        self.put16(available + 4 + 2 * u64::from(index % entries), head);
        self.queues[queue].index = index.wrapping_add(1);
        self.put16(available + 2, index.wrapping_add(1));
    }

    /// Offers buffer `number` of the receiving queue.
    fn offer(&mut self, queue: usize, number: u16) {
        let address = GUEST + self.buffer(queue, number);
        self.describe(self.queues[queue].table, number, address, self.shape.buffer as u32, 2, 0);
        self.make_available(queue, number);
    }

    pub fn used_index(&self, queue: usize) -> u16 {
        self.get16(self.queues[queue].used + 2)
    }

    /// Used entry `index`: number of the descriptor, and bytes.
    fn used_entry(&self, queue: usize, index: u16) -> (u16, u32) {
        let queue = &self.queues[queue];
        let bytes = self.bytes(queue.used + 4 + 8 * u64::from(index % queue.entries), 8);
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        (word(0) as u16, word(4))
    }

    /// Notifies the device if it asks for that.
    pub fn kick(&self, queue: usize, before: u16) {
        let queue = &self.queues[queue];
        let wanted = if self.shape.features & EVENT_INDEX != 0 {
            let event = self.get16(queue.used + 4 + 8 * u64::from(queue.entries));
            queue.index.wrapping_sub(event).wrapping_sub(1) < queue.index.wrapping_sub(before)
        } else {
            self.get16(queue.used) & 1 == 0
        };
        if wanted {
            queue.kick.write(1).unwrap();
        }
    }

    /// Sends a packet on pair `pair`; false when the ring is full.
    pub fn send(&mut self, pair: usize, packet: &[u8]) -> bool {
        let mut bytes = vec![0; self.shape.header()];
        bytes.extend_from_slice(packet);
        self.send_raw(pair, &bytes)
    }

    /// As [`Driver::send`], with the header in front.
    pub fn send_raw(&mut self, pair: usize, bytes: &[u8]) -> bool {
        let at = 2 * pair + 1;
        let held = self.queues[at].index.wrapping_sub(self.used_index(at));
        let descriptors = self.shape.descriptors as u16;
        let (entries, before) = (self.queues[at].entries, self.queues[at].index);
        if held >= entries / descriptors {
            return false;
        }
        let head = before % (entries / descriptors) * descriptors;
        let buffer = self.buffer(at, head / descriptors);
        self.put(buffer, bytes);
        let (table, address) = (self.queues[at].table, GUEST + buffer);
        let cuts: Vec<usize> = (0..=self.shape.descriptors).map(|n| n * bytes.len() / self.shape.descriptors).collect();
        // With tables: the descriptors lie behind the buffers, and one points to them.
        let indirect = self.shape.features & INDIRECT != 0 && descriptors > 1;
        let (chain, first) = if indirect { (0x3_0000 + table + 16 * u64::from(head), 0) } else { (table, head) };
        for n in 0..descriptors {
            let (from, to) = (cuts[usize::from(n)], cuts[usize::from(n) + 1]);
            let next = u16::from(n + 1 < descriptors);
            self.describe(chain, first + n, address + from as u64, (to - from) as u32, next, first + n + 1);
        }
        if indirect {
            self.describe(table, head, GUEST + chain, 16 * u32::from(descriptors), 4, 0);
        }
        self.make_available(at, head);
        self.kick(at, before);
        true
    }

    /// The next packet that arrived on pair `pair`, and its header.
    pub fn receive_raw(&mut self, pair: usize) -> Option<(Vec<u8>, Vec<u8>)> {
        let at = 2 * pair;
        let before = self.queues[at].index;
        if self.used_index(at) == self.queues[at].seen {
            return None;
        }
        let (mut header, mut packet, mut buffers) = (Vec::new(), Vec::new(), 1);
        let mut count = 0;
        while count < buffers {
            let (number, len) = self.used_entry(at, self.queues[at].seen);
            let mut bytes = self.bytes(self.buffer(at, number), len as usize);
            if count == 0 {
                packet = bytes.split_off(self.shape.header());
                header = bytes;
                if header.len() == 12 {
                    buffers = u16::from_le_bytes([header[10], header[11]]);
                }
            } else {
                packet.extend(bytes);
            }
            count += 1;
            self.queues[at].seen = self.queues[at].seen.wrapping_add(1);
            self.offer(at, number);
        }
        // Interrupts are wanted for the next one.
        let (available, entries) = (self.queues[at].available, self.queues[at].entries);
        self.put16(available + 4 + 2 * u64::from(entries), self.queues[at].seen);
        self.kick(at, before);
        Some((header, packet))
    }

    pub fn receive(&mut self, pair: usize) -> Option<Vec<u8>> {
        self.receive_raw(pair).map(|(_, packet)| packet)
    }
}

/// Agrees on features; every further request is answered, so that it is done when its call returns.
pub fn negotiate(frontend: &mut Frontend, features: u64) -> io::Result<()> {
    frontend.set_owner().map_err(failed)?;
    let offered = frontend.get_features().map_err(failed)?;
    if features & PROTOCOL != 0 {
        let protocol = frontend.get_protocol_features().map_err(failed)?;
        assert!(protocol.contains(VhostUserProtocolFeatures::MQ | VhostUserProtocolFeatures::REPLY_ACK));
        let wanted = VhostUserProtocolFeatures::REPLY_ACK | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS;
        frontend.set_protocol_features(wanted).map_err(failed)?;
        frontend.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
    }
    frontend.set_features(features & (offered | PROTOCOL)).map_err(failed)
}

/// A folder with a socket's path in it, gone with the value.
pub struct Place {
    pub folder: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Place {
        Place { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    pub fn open(&self, options: &str, pool: &Pool) -> VhostPort {
        let spec = format!("vhost:{}{options}", self.path().display());
        linerate_port_vhost::open(spec.parse().unwrap(), pool).unwrap().into_port()
    }
}

pub fn pool() -> Pool {
    Pool::new(PoolConfig { frames: 2048, ..PoolConfig::default() }).unwrap()
}

/// Waits until `done`; panics with `what` when it takes too long.
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "{what} took too long");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Transmits packets, and waits until all are taken.
pub fn transmit(port: &mut VhostPort, pool: &mut Pool, packets: &[Vec<u8>]) {
    let mut batch = Batch::new(pool, packets.len());
    for packet in packets {
        assert!(pool.append(&mut batch, packet, 0));
    }
    until("transmitting", || {
        port.transmit(&mut batch).unwrap();
        batch.is_empty()
    });
}

/// Receives `count` packets.
pub fn receive(port: &mut VhostPort, pool: &mut Pool, count: usize) -> Vec<Vec<u8>> {
    let mut batch = Batch::new(pool, 256);
    let mut packets: Vec<Vec<u8>> = Vec::new();
    until("receiving", || {
        port.receive(&mut batch).unwrap();
        let mut packet = Vec::new();
        for part in batch.parts() {
            packet.extend_from_slice(part.bytes);
            if !part.more {
                packets.push(std::mem::take(&mut packet));
            }
        }
        pool.free(&mut batch);
        packets.len() >= count
    });
    packets
}

/// A packet that can be told from others.
pub fn packet(number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| if at < 4 { number.to_le_bytes()[at] } else { (number * 31 + at) as u8 }).collect()
}
