//! The device at the other side of the descriptor: whether it is there and up, its MTU, and what its queue lost.
//!
//! The descriptor stays tied to the device wherever that goes: it may be renamed, or moved to another network namespace, as is
//! done for each container. So the descriptor is asked whether the device is there. What only its namespace knows is asked
//! there: the device is followed.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use linerate_sys::counters::CounterReader;
use linerate_sys::netdev::{Netdev, Presence};
use linerate_sys::netns::NetNs;
use linerate_sys::poll::{PollFor, poll};

use crate::sys;

pub(crate) struct Device {
    /// Its name when the port was opened, by which the account knows it.
    name: String,
    /// Where it was when last looked for.
    netdev: Netdev,
    index: u32,
    /// `None` without a /proc: nothing can be counted.
    counters: Option<CounterReader>,
    /// Packets that its queue had no room for: before the port was opened, and by the last count.
    drops_before: u64,
    drops: u64,
    /// It went where this process may not follow. Its MTU and its counts are what they were.
    lost: bool,
}

impl Device {
    /// The device `name` of the calling thread's namespace.
    pub(crate) fn open(name: &str) -> io::Result<Device> {
        let netdev = Netdev::open(name)?;
        let (index, counters) = (netdev.index()?, CounterReader::open(name).ok());
        let name = name.to_owned();
        let mut device = Device { name, netdev, index, counters, drops_before: 0, drops: 0, lost: false };
        device.read_drops();
        device.drops_before = device.drops;
        Ok(device)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is there and up. `file` is the descriptor of the port.
    pub(crate) fn presence(&mut self, file: &File) -> Presence {
        // The kernel takes packets of a device that is up, as many as come (tun_chr_poll in drivers/net/tun.c).
        let is_up = poll(file.as_fd(), PollFor::Writing, 0).is_ok_and(|polled| polled.ready);
        if !self.is_here() {
            self.follow(file);
        }
        if is_up {
            return Presence::Up;
        }
        // This waits for the lock that a deletion holds: a device that is being deleted is set down first.
        if sys::name(file).is_ok() { Presence::Down } else { Presence::Gone }
    }

    /// Its MTU in bytes. `file` is the descriptor of the port.
    ///
    /// # Errors
    /// It is where this process may not follow.
    pub(crate) fn mtu(&mut self, file: &File) -> io::Result<u32> {
        if !self.is_here() {
            self.follow(file);
        }
        self.netdev.mtu()
    }

    /// Packets that its queue had no room for since the port was opened.
    pub(crate) fn dropped(&mut self, file: &File) -> u64 {
        if !self.is_here() {
            self.follow(file);
        }
        self.read_drops();
        self.drops.saturating_sub(self.drops_before)
    }

    fn read_drops(&mut self) {
        if let Some(counters) = self.counters.as_mut().and_then(|reader| reader.read().ok()) {
            self.drops = counters.tx_dropped;
        }
    }

    fn is_here(&self) -> bool {
        self.lost || self.netdev.index().is_ok_and(|index| index == self.index)
    }

    /// Looks for it under its name of now, in its namespace of now.
    #[cold]
    fn follow(&mut self, file: &File) {
        let look = |name: &str| -> io::Result<(Netdev, u32, Option<CounterReader>)> {
            let netdev = Netdev::open(name)?;
            let index = netdev.index()?;
            Ok((netdev, index, CounterReader::open(name).ok()))
        };
        // Of a device that is gone there is no name.
        let Ok(name) = sys::name(file) else { return };
        let found = sys::namespace(file).and_then(|namespace| NetNs::from(namespace).run(|| look(&name))?);
        match found {
            Ok((netdev, index, counters)) => (self.netdev, self.index, self.counters) = (netdev, index, counters),
            // It may be on its way to a third place, and will be looked for again.
            Err(error) => self.lost = error.kind() == io::ErrorKind::PermissionDenied,
        }
    }
}
