//! A device that is open, shared by the ports of its queues. It is closed with the last of them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use linerate_pci::Binding;
use linerate_port::Drops;

use crate::sys::{self, DeviceInfo, FrameStore};

/// Held by whoever opens or closes a device: DPDK's lists of devices are for one thread at a time.
static CONTROL: Mutex<()> = Mutex::new(());

pub(crate) fn control() -> MutexGuard<'static, ()> {
    CONTROL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An open device. Fields are dropped in their order: the mbufs after the device.
pub(crate) struct OpenDevice {
    pub info: DeviceInfo,
    /// Its name for DPDK, for example net_null0.
    pub name: String,
    pub store: Arc<FrameStore>,
    /// A card that goes back to its kernel driver.
    pub binding: Option<Binding>,
}

impl OpenDevice {
    /// Whether the rings of the device are lists of mbufs, which are lost with the ring if nobody takes them out.
    pub fn keeps_mbufs(&self) -> bool {
        self.info.driver_name() == "net_ring"
    }

    /// Packets that the device lost on receive, by the name of its extended statistic. `rx_errors` of a device contains no packet that
    /// `rx_missed_errors` counts (rte_ethdev.h, struct rte_eth_stats).
    pub fn receive_drops(&self) -> Vec<Drops> {
        const LOST: [&str; 3] = ["rx_missed_errors", "rx_errors", "rx_mbuf_allocation_errors"];
        let row = |(name, packets): (String, u64)| {
            LOST.contains(&name.as_str()).then(|| Drops {
                place: format!("DPDK device {}", self.name),
                cause: name,
                packets,
            })
        };
        sys::statistics(self.info.port).into_iter().filter_map(row).filter(|row| row.packets > 0).collect()
    }

    /// Packets that the driver took and could not send.
    pub fn transmit_errors(&self) -> u64 {
        // Other drivers count packets here, too, that they did not take, and that were sent later.
        if self.info.driver_name() != "net_af_packet" && self.info.is_hardware == 0 {
            return 0;
        }
        let found = sys::statistics(self.info.port).into_iter().find(|(name, _)| name == "tx_errors");
        found.map_or(0, |(_, packets)| packets)
    }
}

impl Drop for OpenDevice {
    fn drop(&mut self) {
        let _held = control();
        sys::register_thread();
        sys::close_device(&mut self.info, &self.store);
        self.store.flush();
        let Some(binding) = self.binding.take() else { return };
        if let Err(error) = binding.give_back() {
            let name = &self.name;
            eprintln!(
                "linerate: {name} was not given back to its kernel driver: {error}; the next dpdk: port tries again"
            );
        }
    }
}
