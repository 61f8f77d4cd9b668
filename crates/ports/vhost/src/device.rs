//! The device as the front-end sets it up, shared between the thread that talks with the front-end and the port.
//!
//! The port never waits for the other thread: it takes the lock when it is free, once a call, and else moves nothing. The other
//! thread announces itself, so that a port that polls without a pause lets it in.

use std::fs::File;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use crate::interrupts::{Interrupt, Interrupts};
use crate::memory::GuestMemory;
use crate::ring::{Corrupt, Ring};
use crate::sys::{self, Doorbells, SplitRing};
use crate::virtio::feature;

/// What both threads see.
#[derive(Debug)]
pub(crate) struct Shared {
    device: Mutex<Device>,
    /// Changes that wait for the lock.
    changes: AtomicU32,
    /// The driver's notifications, and `changed`.
    pub bells: Doorbells,
    /// Rings when the set-up changed.
    changed: File,
    /// Those of the driver that is there.
    pub interrupts: Interrupts,
    /// The port is being closed.
    pub stopping: AtomicBool,
}

impl Shared {
    pub(crate) fn new(queue_pairs: usize) -> io::Result<Shared> {
        let (bells, changed) = (Doorbells::new()?, sys::eventfd()?);
        bells.add(&changed)?;
        let queues = (0..2 * queue_pairs).map(|_| Queue::default()).collect();
        let device = Device { queues, ..Device::default() };
        Ok(Shared {
            device: Mutex::new(device),
            changes: AtomicU32::new(0),
            bells,
            changed,
            interrupts: Interrupts::default(),
            stopping: AtomicBool::new(false),
        })
    }

    /// The device, for a batch; `None` while it is being changed.
    #[inline]
    pub(crate) fn try_device(&self) -> Option<MutexGuard<'_, Device>> {
        if self.changes.load(Ordering::Relaxed) > 0 {
            return None;
        }
        match self.device.try_lock() {
            Ok(device) => Some(device),
            Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The device, at leisure.
    pub(crate) fn device(&self) -> MutexGuard<'_, Device> {
        self.device.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the device, and wakes the port if it sleeps.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Device) -> T) -> T {
        self.changes.fetch_add(1, Ordering::Relaxed);
        let mut device = self.device();
        self.changes.fetch_sub(1, Ordering::Relaxed);
        let result = change(&mut device);
        drop(device);
        self.wake();
        result
    }

    /// Wakes the port if it sleeps.
    pub(crate) fn wake(&self) {
        use std::io::Write;
        let _ = (&self.changed).write(&1u64.to_ne_bytes());
    }
}

/// How the driver notifies of what it made available.
#[derive(Debug, Default)]
pub(crate) enum Kick {
    /// The ring is not started.
    #[default]
    Stopped,
    /// It does not; the device has to look.
    Polled,
    /// By an eventfd.
    Eventfd(File),
}

/// Where the parts of a ring are, as addresses of the front-end's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Addresses {
    pub descriptors: u64,
    pub available: u64,
    pub used: u64,
}

/// One virtqueue: how it is set up, and the ring while it runs.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub size: u16,
    pub addresses: Option<Addresses>,
    pub enabled: bool,
    pub kick: Kick,
    pub call: Option<Arc<Interrupt>>,
    /// Where a ring that was stopped goes on.
    pub base: u16,
    pub ring: Option<Ring>,
}

impl Queue {
    /// The ring, when packets may pass through it.
    #[inline]
    pub(crate) fn running(&mut self) -> Option<&mut Ring> {
        self.ring.as_mut().filter(|_| self.enabled)
    }
}

/// The device.
#[derive(Debug, Default)]
pub(crate) struct Device {
    pub memory: Arc<GuestMemory>,
    /// What was agreed on.
    pub features: u64,
    /// Even: what the guest receives. Odd: what it transmits.
    pub queues: Vec<Queue>,
    pub connection: Option<UnixStream>,
    /// Why the connection was given up.
    pub fault: Option<String>,
}

impl Device {
    /// Makes the ring of a queue run that has all it needs; stops it otherwise.
    ///
    /// # Errors
    /// The addresses do not lie in the guest's memory.
    pub(crate) fn start(&mut self, index: usize) -> Result<(), String> {
        let Some(queue) = self.queues.get_mut(index) else { return Err(format!("queue {index}, which there is not")) };
        let before = queue.ring.take();
        if self.fault.is_some() {
            return Err("more, after the connection was given up".into());
        }
        let (Some(addresses), false, 1..) = (queue.addresses, matches!(queue.kick, Kick::Stopped), queue.size) else {
            return Ok(());
        };
        let [table, available, used] = SplitRing::part_bytes(queue.size);
        let parts = [(addresses.descriptors, table), (addresses.available, available), (addresses.used, used)]
            .map(|(address, bytes)| self.memory.place(address, bytes));
        let [Some(table), Some(available), Some(used)] = parts else {
            return Err(format!("ring {index} outside of its memory"));
        };
        let split = SplitRing::new(queue.size, [table, available, used]);
        let split = split.ok_or_else(|| format!("ring {index} at an address that is not aligned"))?;
        // A ring that ran goes on. For a new one the driver's memory says how far the device got, whatever the front-end
        // says: the two differ when an earlier device died, and no entry is ever left half done.
        let next = before.map_or_else(|| split.used_index(), |ring| ring.next());
        queue.ring = Some(Ring::new(split, next, self.features));
        Ok(())
    }

    /// Takes another memory; rings go on in it, or stop when they are not in it.
    pub(crate) fn set_memory(&mut self, memory: GuestMemory) -> Arc<GuestMemory> {
        let before = std::mem::replace(&mut self.memory, Arc::new(memory));
        for index in 0..self.queues.len() {
            if self.queues[index].ring.is_some() {
                let _ = self.start(index);
            }
        }
        before
    }

    /// Takes what was agreed on.
    pub(crate) fn set_features(&mut self, features: u64) {
        self.features = features;
        for queue in &mut self.queues {
            // Front-ends that do not know how to enable a ring have all of them enabled.
            queue.enabled |= features & feature::PROTOCOL_FEATURES == 0;
            if let Some(ring) = &mut queue.ring {
                ring.set_features(features);
            }
        }
    }

    /// The guest receives nothing any more.
    pub(crate) fn stop_receiving(&mut self) {
        self.connection = None;
        for queue in self.queues.iter_mut().step_by(2) {
            queue.ring = None;
        }
    }

    /// True when the guest transmitted something that the port could still receive.
    pub(crate) fn has_packets(&mut self) -> bool {
        let rings = self.queues.iter_mut().skip(1).step_by(2).filter_map(Queue::running);
        rings.filter_map(|ring| ring.waiting().ok()).any(|waiting| waiting > 0)
    }

    /// Everything as it was before a front-end came; what there was is given back, to be dropped without the lock.
    pub(crate) fn reset(&mut self) -> Device {
        let queues = self.queues.iter().map(|_| Queue::default()).collect();
        std::mem::replace(self, Device { queues, ..Device::default() })
    }

    /// Gives up the connection because of what the peer did.
    #[cold]
    pub(crate) fn fail(&mut self, Corrupt(what): Corrupt) {
        self.fault.get_or_insert(what);
        for queue in &mut self.queues {
            queue.ring = None;
        }
        if let Some(connection) = &self.connection {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}
