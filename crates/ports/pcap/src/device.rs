//! The interface under the port: what libpcap does not tell, or tells only in words.

use std::io;

use linerate_port::PortError;
use linerate_sys::netdev::{Netdev, Presence};

/// Bytes of an Ethernet header.
pub(crate) const ETHERNET_BYTES: usize = 14;
/// Bytes by which a frame with an 802.1Q tag may be longer.
pub(crate) const VLAN_BYTES: usize = 4;

pub(crate) struct Device {
    netdev: Netdev,
    index: u32,
    /// Bytes of the longest untagged frame, without FCS.
    pub frame_len_max: usize,
}

impl Device {
    pub(crate) fn open(name: &str) -> io::Result<Device> {
        let netdev = Netdev::open(name)?;
        let (index, mtu) = (netdev.index()?, netdev.mtu()?);
        Ok(Device { netdev, index, frame_len_max: mtu as usize + ETHERNET_BYTES })
    }

    pub(crate) fn name(&self) -> &str {
        self.netdev.name()
    }

    /// False while packets cannot pass, though the interface is up.
    pub(crate) fn has_carrier(&self) -> bool {
        self.netdev.is_running().unwrap_or(false)
    }

    pub(crate) fn mac(&self) -> Option<[u8; 6]> {
        self.netdev.mac().ok()
    }

    /// Asks for the MTU, which may have changed.
    pub(crate) fn reread_mtu(&mut self) {
        if let Ok(mtu) = self.netdev.mtu() {
            self.frame_len_max = mtu as usize + ETHERNET_BYTES;
        }
    }

    /// An error for a packet that is longer than the interface takes, by its MTU of now.
    pub(crate) fn check_len(&mut self, port: &str, packet: &[u8], len: usize) -> Result<(), PortError> {
        self.reread_mtu();
        let tagged = packet.get(12..14).is_some_and(|ethertype| ethertype == [0x81, 0x00]);
        let max = self.frame_len_max + if tagged { VLAN_BYTES } else { 0 };
        if len <= max {
            return Ok(());
        }
        Err(PortError::FrameTooLong { port: port.into(), len, max })
    }

    /// An error if the interface is down or gone.
    pub(crate) fn check(&self, port: &str) -> Result<(), PortError> {
        let (port, interface) = (port.to_string(), self.netdev.name().to_string());
        match self.netdev.presence(self.index) {
            Presence::Up => Ok(()),
            Presence::Down => Err(PortError::Down { port, interface }),
            Presence::Gone => {
                let what = format!("interface {interface} was deleted, renamed or moved to another namespace");
                Err(PortError::Gone { port, what })
            }
        }
    }
}
