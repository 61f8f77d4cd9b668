//! What a port can do.

/// Facts about an open port. Units are in the names; lengths are without FCS.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Caps {
    /// The spec that opens this port again, e.g. `xdp:veth0@0`.
    pub name: String,
    /// Which backend: `pipe`, `packet`, `xdp`, ...
    pub backend: &'static str,
    /// True when `receive` can ever return something.
    pub receives: bool,
    /// True when `transmit` can ever take something.
    pub transmits: bool,
    /// Longest packet in bytes, without FCS (MTU + 14 on Ethernet; 4 more for each VLAN tag that the driver allows).
    pub frame_len_max: usize,
    /// Largest number of frags (frames) of one packet; 1 means that each packet lies in one frame.
    pub frags_max: usize,
    /// True when packets are not copied between the pool's frames and the far side by this process.
    pub zero_copy: bool,
    /// What is copied where, in words, e.g. "the kernel copies each packet into an skb".
    pub copies: &'static str,
    /// How the port was opened, for people: "native XDP, copy mode, need-wakeup, 8192-entry rings".
    pub detail: String,
    /// Rate of the link in bit/s, where there is one.
    pub link_bps: Option<u64>,
    /// Hardware address, where there is one.
    pub mac: Option<[u8; 6]>,
    /// Queues that this port serves.
    pub queues: usize,
    /// True when received packets carry a time stamp of the port's (see `Batch::time_ns`).
    pub timestamps: bool,
    /// True if the far side takes packets without a turn of another thread of ours (`null:`, a NIC), so a sender may go on without
    /// a pause. False if the far side is a reader that must get its turn (`pipe:`).
    pub async_tx: bool,
}
