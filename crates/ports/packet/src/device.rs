//! The interface under the port: found when the port is opened, asked again when a call fails.

use std::io;

use linerate_port::{OpenError, PortError, PortSpec};
use linerate_sys::netdev::{self, Netdev, Presence};

/// Bytes of an Ethernet header.
pub(crate) const ETHERNET_BYTES: usize = 14;

/// An Ethernet interface.
pub(crate) struct Device {
    netdev: Netdev,
    pub index: u32,
    /// Bytes of the longest untagged frame, without FCS.
    pub frame_len_max: usize,
}

impl Device {
    /// Finds the interface that the spec names; it must be up and of the Ethernet kind.
    pub(crate) fn open(spec: &PortSpec) -> Result<Device, OpenError> {
        let netdev = Netdev::open(&spec.target).map_err(|error| no_interface(spec, &error))?;
        let asked = |error: io::Error| OpenError::new(spec, format!("cannot ask about {}: {error}", spec.target), "");
        let hardware_type = netdev.hardware_type().map_err(asked)?;
        if hardware_type != libc::ARPHRD_ETHER && hardware_type != libc::ARPHRD_LOOPBACK {
            let cause = format!("{} is no Ethernet interface (its hardware type is {hardware_type})", spec.target);
            return Err(OpenError::new(spec, cause, "frames here are Ethernet frames; take another interface"));
        }
        if !netdev.is_up().map_err(asked)? {
            let hint = format!("`ip link set {} up` sets it up", spec.target);
            return Err(OpenError::new(spec, format!("{} is down", spec.target), hint));
        }
        let index = netdev.index().map_err(asked)?;
        let mut device = Device { netdev, index, frame_len_max: 0 };
        device.reread_mtu().map_err(asked)?;
        Ok(device)
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

    /// Bits per second. A veth claims 10 Gbit/s whatever it carries, which helps nobody.
    pub(crate) fn link_bps(&self) -> Option<u64> {
        let driver = self.netdev.driver_info().ok()??.driver;
        let speed_mbps = self.netdev.speed_mbps().ok()??;
        (driver != "veth").then_some(u64::from(speed_mbps) * 1_000_000)
    }

    /// Receive queues, where the driver tells.
    pub(crate) fn receive_queues(&self) -> Option<u32> {
        let channels = self.netdev.channels().ok()??;
        Some(channels.rx.0 + channels.combined.0)
    }

    /// Looks whether the MTU has changed, and returns true if so.
    #[inline]
    pub(crate) fn reread_mtu(&mut self) -> io::Result<bool> {
        let frame_len_max = self.netdev.mtu()? as usize + ETHERNET_BYTES;
        Ok(std::mem::replace(&mut self.frame_len_max, frame_len_max) != frame_len_max)
    }

    /// The error that describes what became of the interface; none while it is up.
    pub(crate) fn trouble(&self, port: &str) -> Option<PortError> {
        let interface = self.name().to_string();
        match self.netdev.presence(self.index) {
            Presence::Up => None,
            Presence::Down => Some(PortError::Down { port: port.into(), interface }),
            Presence::Gone => {
                let what = format!("interface {interface} was deleted, renamed or moved to another namespace");
                Some(PortError::Gone { port: port.into(), what })
            }
        }
    }
}

fn no_interface(spec: &PortSpec, error: &io::Error) -> OpenError {
    if spec.target.is_empty() {
        return OpenError::new(spec, "names no interface", format!("write packet:IF; {}", existing()));
    }
    match error.kind() {
        io::ErrorKind::NotFound => {
            OpenError::new(spec, format!("there is no interface {} in this network namespace", spec.target), existing())
        }
        _ => OpenError::new(spec, error.to_string(), existing()),
    }
}

fn existing() -> String {
    match netdev::names() {
        Ok(names) if !names.is_empty() => format!("there are {}", names.join(", ")),
        _ => "there are none".into(),
    }
}
