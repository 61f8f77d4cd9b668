//! What a kind of device says of itself when it builds its path, so that the ledger can attribute losses in it: where the path is cut,
//! who else counts, and whose the packets are that no counter names. The ledger knows these answers and no kind of device.

use crate::switches::SwitchSource;

/// How a device takes packets from one interface to the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forwarding {
    /// Where the path is cut.
    pub cut: Cut,
    /// Whether it can take its packets by packet sockets, so that the kernel's stack drops the originals.
    pub may_copy: bool,
    /// What says what it lost, where it counts itself.
    pub switch: Option<SwitchSource>,
    /// Whose the packets are that went in, did not come out, and have no counter.
    pub remainder: Remainder,
}

/// Where the ledger cuts the path through a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Cut {
    /// Inside the kernel's forwarding of IP, at the counters of its protocols too.
    #[default]
    Routed,
    /// At the totals of the two interfaces, between which frames are carried as they are.
    Switched,
    /// At each interface for itself: packets are taken in, and none is sent on.
    Captured,
}

/// What is said of packets that a device took in and did not send on, once all counters are heard.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Remainder {
    /// Nothing: the kernel counts what it drops there.
    #[default]
    Unnamed,
    /// They were lost in the device, which has this name.
    Device(String),
    /// They were left to the kernel's stack, which counts them as addressed to others.
    Stack,
}

impl Forwarding {
    /// The kernel's forwarding of IP.
    pub fn routed() -> Self {
        Self::default()
    }

    /// Frames carried as they are by something in the kernel that counts what it drops.
    pub fn switched() -> Self {
        Self { cut: Cut::Switched, ..Self::default() }
    }

    /// A process of this name, which takes and sends frames and tells nobody what it drops.
    pub fn by_process(name: impl Into<String>) -> Self {
        Self { may_copy: true, remainder: Remainder::Device(name.into()), ..Self::switched() }
    }

    /// A capture, which carries nothing.
    pub fn captured() -> Self {
        Self { cut: Cut::Captured, ..Self::default() }
    }
}
