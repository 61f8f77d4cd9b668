//! The protocol (vhost-user of QEMU's documentation, "interop/vhost-user"): what the front-end asks for becomes the set-up of
//! the device. The messages themselves are read and answered by rust-vmm's `vhost`.

use std::fs::File;
use std::sync::Arc;

use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight, VhostUserLog,
    VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig, VhostUserSharedMsg,
    VhostUserSingleMemoryRegion, VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{Error, GpuBackend, Result, VhostUserBackendReqHandlerMut};

use crate::device::{Addresses, Device, Kick, Queue, Shared};
use crate::interrupts::Interrupt;
use crate::memory::{GuestMemory, REGIONS_MAX, RegionAt};
use crate::sys;
use crate::virtio::{RING_SIZE_MAX, feature};

/// Address at which a front-end wants a region (only for live migration, which is not offered).
type RegionBase = u64;

/// Answers one front-end.
pub(crate) struct Control {
    shared: Arc<Shared>,
    queue_pairs: usize,
}

impl Control {
    pub(crate) fn new(shared: &Arc<Shared>, queue_pairs: usize) -> Control {
        Control { shared: Arc::clone(shared), queue_pairs }
    }

    fn offered(&self) -> u64 {
        feature::OFFERED | if self.queue_pairs > 1 { feature::MULTIPLE_QUEUES } else { 0 }
    }

    /// Changes queue `index`.
    fn change_queue<T>(&self, index: u32, change: impl FnOnce(&mut Queue) -> T) -> Result<T> {
        self.shared.change(|device| match device.queues.get_mut(index as usize) {
            Some(queue) => Ok(change(queue)),
            None => Err(refuse(device, format!("queue {index}, which there is not"))),
        })
    }

    /// Starts queue `index` if it has all it needs.
    fn start(&self, index: u32) -> Result<()> {
        self.shared.change(|device| device.start(index as usize).map_err(|what| refuse(device, what)))
    }

    /// Notes why the connection ends, and ends it.
    fn refuse(&self, what: String) -> Error {
        self.shared.change(|device| refuse(device, what))
    }

    fn replace_memory(&self, memory: GuestMemory) {
        // The old memory is unmapped without the lock.
        drop(self.shared.change(|device| device.set_memory(memory)));
    }

    fn memory(&self) -> Arc<GuestMemory> {
        Arc::clone(&self.shared.device().memory)
    }

    fn stop(&self, queue: Queue) {
        if let Kick::Eventfd(bell) = &queue.kick {
            self.shared.bells.remove(bell);
        }
    }

    /// The eventfd that the front-end sent; anything else could make this process wait.
    fn event(&self, file: &File) -> Result<File> {
        sys::own_eventfd(file).map_err(|error| self.no_eventfd(&error))
    }

    /// What the front-end wants its driver to be interrupted by.
    fn interrupt(&self, file: &File) -> Result<Arc<Interrupt>> {
        let interrupt = Arc::new(Interrupt::new(file).map_err(|error| self.no_eventfd(&error))?);
        self.shared.interrupts.add(&interrupt);
        Ok(interrupt)
    }

    fn no_eventfd(&self, error: &std::io::Error) -> Error {
        self.refuse(format!("a descriptor for notifications that is no eventfd: {error}"))
    }
}

fn refuse(device: &mut Device, what: String) -> Error {
    device.fault.get_or_insert(what);
    Error::InvalidParam
}

impl Drop for Control {
    fn drop(&mut self) {
        let before = self.shared.change(Device::reset);
        for queue in before.queues {
            self.stop(queue);
        }
    }
}

impl VhostUserBackendReqHandlerMut for Control {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(self.offered())
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        let unknown = features & !self.offered();
        if unknown != 0 {
            return Err(self.refuse(format!("features {unknown:#x}, which were not offered")));
        }
        self.shared.change(|device| device.set_features(features));
        Ok(())
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS)
    }

    fn set_protocol_features(&mut self, _features: u64) -> Result<()> {
        Ok(())
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(self.queue_pairs as u64)
    }

    fn set_mem_table(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _postcopy: Option<bool>,
    ) -> Result<Option<Vec<RegionBase>>> {
        let at = regions.iter().map(|region| RegionAt {
            guest: region.guest_phys_addr,
            user: region.user_addr,
            bytes: region.memory_size,
            file_offset: region.mmap_offset,
        });
        let memory = GuestMemory::map(at.zip(files)).map_err(|what| self.refuse(what))?;
        self.replace_memory(memory);
        Ok(None)
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Ok(REGIONS_MAX as u64)
    }

    fn add_mem_region(
        &mut self,
        region: &VhostUserSingleMemoryRegion,
        file: File,
        _postcopy: Option<bool>,
    ) -> Result<Option<RegionBase>> {
        let at = RegionAt {
            guest: region.guest_phys_addr,
            user: region.user_addr,
            bytes: region.memory_size,
            file_offset: region.mmap_offset,
        };
        let memory = self.memory().with(at, &file).map_err(|what| self.refuse(what))?;
        self.replace_memory(memory);
        Ok(None)
    }

    fn remove_mem_region(&mut self, region: &VhostUserSingleMemoryRegion) -> Result<()> {
        let (guest, user, bytes) = (region.guest_phys_addr, region.user_addr, region.memory_size);
        let memory = self.memory().without(guest, user, bytes);
        let memory = memory.ok_or_else(|| self.refuse("a memory region to be removed that there is not".into()))?;
        self.replace_memory(memory);
        Ok(())
    }

    fn set_vring_num(&mut self, index: u32, entries: u32) -> Result<()> {
        if !entries.is_power_of_two() || entries > RING_SIZE_MAX {
            return Err(self.refuse(format!("a ring of {entries} entries")));
        }
        self.change_queue(index, |queue| queue.size = entries as u16)?;
        self.start(index)
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _flags: VhostUserVringAddrFlags,
        descriptors: u64,
        used: u64,
        available: u64,
        _log: u64,
    ) -> Result<()> {
        self.change_queue(index, |queue| queue.addresses = Some(Addresses { descriptors, available, used }))?;
        self.start(index)
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        self.change_queue(index, |queue| queue.base = base as u16)
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let stopped = self.change_queue(index, |queue| {
            let base = queue.ring.as_ref().map_or(queue.base, |ring| ring.next());
            let (size, enabled) = (queue.size, queue.enabled);
            std::mem::replace(queue, Queue { base, size, enabled, ..Queue::default() })
        })?;
        let base = stopped.ring.as_ref().map_or(stopped.base, |ring| ring.next());
        self.stop(stopped);
        Ok(VhostUserVringState::new(index, u32::from(base)))
    }

    fn set_vring_kick(&mut self, index: u8, file: Option<File>) -> Result<()> {
        // Complains of a wrong queue before there is something to be undone.
        self.change_queue(index.into(), |_| ())?;
        let kick = match file {
            Some(file) => Kick::Eventfd(self.event(&file)?),
            None => Kick::Polled,
        };
        if let Kick::Eventfd(bell) = &kick
            && let Err(error) = self.shared.bells.add(bell)
        {
            return Err(self.refuse(format!("a notification that cannot be waited for: {error}")));
        }
        let before = self.change_queue(index.into(), |queue| std::mem::replace(&mut queue.kick, kick))?;
        self.stop(Queue { kick: before, ..Queue::default() });
        self.start(index.into())
    }

    fn set_vring_call(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let call = file.map(|file| self.interrupt(&file)).transpose()?;
        drop(self.change_queue(index.into(), |queue| std::mem::replace(&mut queue.call, call))?);
        Ok(())
    }

    fn set_vring_err(&mut self, _index: u8, _file: Option<File>) -> Result<()> {
        // What is wrong with a ring ends the connection.
        Ok(())
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        self.change_queue(index, |queue| queue.enabled = enable)
    }

    fn reset_device(&mut self) -> Result<()> {
        Err(not_offered())
    }

    fn get_config(&mut self, _offset: u32, _size: u32, _flags: VhostUserConfigFlags) -> Result<Vec<u8>> {
        Err(not_offered())
    }

    fn set_config(&mut self, _offset: u32, _bytes: &[u8], _flags: VhostUserConfigFlags) -> Result<()> {
        Err(not_offered())
    }

    fn set_gpu_socket(&mut self, _gpu: GpuBackend) -> Result<()> {
        Err(not_offered())
    }

    fn get_shared_object(&mut self, _object: VhostUserSharedMsg) -> Result<File> {
        Err(not_offered())
    }

    fn get_inflight_fd(&mut self, _inflight: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        Err(not_offered())
    }

    fn set_inflight_fd(&mut self, _inflight: &VhostUserInflight, _file: File) -> Result<()> {
        Err(not_offered())
    }

    fn set_device_state_fd(
        &mut self,
        _direction: VhostTransferStateDirection,
        _phase: VhostTransferStatePhase,
        _file: File,
    ) -> Result<Option<File>> {
        Err(not_offered())
    }

    fn check_device_state(&mut self) -> Result<()> {
        Err(not_offered())
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        Err(not_offered())
    }

    fn set_log_base(&mut self, _log: &VhostUserLog, _file: File) -> Result<()> {
        Err(not_offered())
    }
}

/// The answer to requests that belong to features which are not offered.
fn not_offered() -> Error {
    Error::InvalidOperation("not offered")
}
