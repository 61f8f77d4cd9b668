//! What a driver tells of itself. FreeBSD has no call for it that all drivers answer, so what Linux tells by ethtool(8) is not known here.

use std::io;

use crate::netdev::Netdev;

/// Who drives an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverInfo {
    /// Driver name.
    pub driver: String,
}

/// Queues of an interface: how many are in use, and how many there can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Channels {
    /// Those that only receive.
    pub rx: (u32, u32),
    /// Those that only send.
    pub tx: (u32, u32),
    /// Those that do both.
    pub combined: (u32, u32),
}

impl Netdev {
    /// Who drives it; never told.
    ///
    /// # Errors
    /// None.
    pub fn driver_info(&self) -> io::Result<Option<DriverInfo>> {
        Ok(None)
    }

    /// How many queues it has; never told.
    ///
    /// # Errors
    /// None.
    pub fn channels(&self) -> io::Result<Option<Channels>> {
        Ok(None)
    }
}
