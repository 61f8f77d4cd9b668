//! What the kernel itself says about the packets that it drops on a path: its reason, and the function that dropped them.
//!
//! A program at the tracepoint `skb:kfree_skb` counts them in the kernel ([`linerate_bpf::programs::drop_reasons`]), those of
//! the path's namespaces only. How they divide the losses that the counters' totals show is in `causes`.

pub(crate) mod causes;
pub(crate) mod hints;
pub(crate) mod remarks;
mod symbols;

use std::collections::BTreeMap;

use linerate_bpf::programs::drop_reasons::{DropKey, DropReasons, Ignored};
use linerate_sys::netns::NetNs;

use crate::topology::{Interface, Topology};
use symbols::Symbols;

/// Left out, because each delivered packet is dropped so: by the receiver's stack once a packet socket has its copy. On the
/// DUT's interfaces `rx_otherhost_dropped` counts them.
const IGNORED: [&str; 1] = ["OTHERHOST"];
/// Left out for the same sake: an XDP program that receives drops what it has counted. The driver counts these, too.
const IGNORED_FUNCTION: &str = "veth_xdp_rcv_skb";

/// One kind of drop.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DropKind {
    /// The interface's name, if it is one of the path's.
    pub interface: Option<&'static str>,
    /// The kernel's reason without its prefix: `NO_SOCKET`.
    pub reason: String,
    /// The function of the kernel that dropped it; none where the kernel hides its addresses (`kernel.kptr_restrict`).
    pub function: Option<String>,
}

/// Packets dropped, by kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DropCounts {
    /// By kind.
    pub packets: BTreeMap<DropKind, u64>,
    /// Drops that found no room in the kernel's table.
    pub uncounted: u64,
}

impl DropCounts {
    /// What was added since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        let added = |(kind, packets): (&DropKind, &u64)| {
            let added = packets.saturating_sub(earlier.packets.get(kind).copied().unwrap_or_default());
            (added > 0).then(|| (kind.clone(), added))
        };
        Self {
            packets: self.packets.iter().filter_map(added).collect(),
            uncounted: self.uncounted.saturating_sub(earlier.uncounted),
        }
    }
}

/// The program that counts, attached as long as this lives.
#[derive(Debug)]
pub(crate) struct DropSource {
    program: DropReasons,
    interfaces: Vec<(u32, Interface)>,
    symbols: Symbols,
}

impl DropSource {
    /// Attaches it for the namespaces of a topology; what hinders it, in words.
    pub(crate) fn open(topology: &Topology) -> Result<Self, String> {
        let mut interfaces = Vec::new();
        let mut add = |namespace: &NetNs, of: &[&Interface]| -> Result<(), String> {
            let inode = namespace.inode().map_err(|error| error.to_string())?;
            let number = u32::try_from(inode).map_err(|error| error.to_string())?;
            interfaces.extend(of.iter().map(|interface| (number, (*interface).clone())));
            Ok(())
        };
        add(&topology.generator.namespace, &[&topology.generator.interface])?;
        if let Some(dut) = &topology.dut {
            add(&dut.namespace, &[&dut.ingress, &dut.egress])?;
        }
        add(&topology.receiver.namespace, &[&topology.receiver.interface])?;
        let mut namespaces: Vec<u32> = interfaces.iter().map(|(namespace, _)| *namespace).collect();
        namespaces.dedup();
        let places: Vec<_> = symbols::extent(IGNORED_FUNCTION).into_iter().collect();
        let ignored = Ignored { reasons: &IGNORED, places: &places };
        let program = DropReasons::attach(&namespaces, &ignored).map_err(|error| error.to_string())?;
        Ok(Self { program, interfaces, symbols: Symbols::default() })
    }

    /// Totals since it was attached.
    pub(crate) fn read(&mut self) -> Result<DropCounts, linerate_bpf::BpfError> {
        let raw = self.program.read()?;
        self.symbols.learn(raw.keys().map(call_site));
        let mut packets = BTreeMap::new();
        for (key, count) in raw {
            *packets.entry(self.kind(&key)).or_default() += count;
        }
        Ok(DropCounts { packets, uncounted: self.program.uncounted()? })
    }

    fn kind(&self, key: &DropKey) -> DropKind {
        let same = |known: &&(u32, Interface)| known.0 == key.namespace && known.1.index == key.interface;
        DropKind {
            interface: self.interfaces.iter().find(same).map(|(_, interface)| interface.name),
            reason: self.program.reason(key.reason),
            function: self.symbols.name(call_site(key)).map(str::to_owned),
        }
    }
}

/// The kernel tells where it went on after the drop; the call itself is before that.
fn call_site(key: &DropKey) -> u64 {
    key.place.saturating_sub(1)
}
