//! What the kernel itself says about the packets that it drops on a path: its reason, and the function that dropped them.
//!
//! A program at the tracepoint `skb:kfree_skb` counts them in the kernel ([`linerate_bpf::programs::drop_reasons`]), those of
//! the path's namespaces only; two others count what XDP programs could not send on ([`linerate_bpf::programs::xdp_errors`]), and one
//! which next hops packets waited for ([`linerate_bpf::programs::neighbours`]). How
//! they divide the losses that the counters' totals show is in `reasons`; what each means, in the table of `causes`.

pub(crate) mod causes;
pub mod hints;
pub(crate) mod reasons;
mod symbols;

use std::collections::BTreeMap;
use std::net::IpAddr;

use linerate_bpf::BpfError;
use linerate_bpf::programs::drop_reasons::{DropKey, DropReasons, Ignored};
use linerate_bpf::programs::neighbours::NeighbourWaits;
use linerate_bpf::programs::xdp_errors::{XdpError, XdpErrors};
use linerate_sys::netns::NetNs;

use linerate_testbed::netlink::Netlink;
use linerate_testbed::topology::Topology;
use symbols::Symbols;

/// Left out, because each delivered packet is dropped so: by the receiver's stack once a packet socket has its copy. On the
/// DUT's interfaces `rx_otherhost_dropped` counts them.
const IGNORED: [&str; 1] = ["OTHERHOST"];
/// Left out for the same sake: an XDP program that receives drops what it has counted. The driver counts these, too.
const IGNORED_FUNCTION: &str = "veth_xdp_rcv_skb";

/// What stands for the reason of a redirect that failed.
pub(crate) const REDIRECT_ERROR: &str = "xdp_redirect_err";
/// What stands for the reason of a frame whose XDP program failed, or was not obeyed.
pub(crate) const XDP_EXCEPTION: &str = "xdp_exception";

/// One kind of drop.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DropKind {
    /// The interface's name, if it is there when the drops are read.
    pub interface: Option<String>,
    /// Whether it is one of the DUT's namespace.
    pub in_dut: bool,
    /// The kernel's reason without its prefix: `NO_SOCKET`.
    pub reason: String,
    /// The function of the kernel that dropped it; none where the kernel hides its addresses (`kernel.kptr_restrict`). Of an error of
    /// XDP, the action or the error number.
    pub function: Option<String>,
}

/// Packets dropped, by kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DropCounts {
    /// By kind.
    pub packets: BTreeMap<DropKind, u64>,
    /// Packets in the DUT's namespace that had to wait for the address of a next hop, by next hop. Those of one that never answered are among
    /// the drops, too.
    pub waited: BTreeMap<IpAddr, u64>,
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
            waited: self
                .waited
                .iter()
                .map(|(address, waited)| {
                    (*address, waited - earlier.waited.get(address).copied().unwrap_or(0).min(*waited))
                })
                .filter(|(_, waited)| *waited > 0)
                .collect(),
            uncounted: self.uncounted.saturating_sub(earlier.uncounted),
        }
    }
}

/// The programs that count, attached as long as this lives.
#[derive(Debug)]
pub(crate) struct DropSource {
    drops: DropReasons,
    /// None on a kernel that lacks its tracepoints.
    errors: Option<XdpErrors>,
    /// None on a kernel that lacks its tracepoint.
    neighbours: Option<NeighbourWaits>,
    interfaces: Interfaces,
    symbols: Symbols,
}

impl DropSource {
    /// Attaches them for the namespaces of a topology; what hinders it, in words.
    pub(crate) fn open(topology: &Topology) -> Result<Self, String> {
        let interfaces = Interfaces::of(topology)?;
        let namespaces: Vec<u32> = interfaces.namespaces.iter().map(|(number, ..)| *number).collect();
        let places: Vec<_> = symbols::extent(IGNORED_FUNCTION).into_iter().collect();
        let ignored = Ignored { reasons: &IGNORED, places: &places };
        let drops = DropReasons::attach(&namespaces, &ignored).map_err(|error| error.to_string())?;
        let errors = XdpErrors::attach(&namespaces).ok();
        let neighbours = NeighbourWaits::attach(&namespaces).ok();
        Ok(Self { drops, errors, neighbours, interfaces, symbols: Symbols::default() })
    }

    /// Totals since they were attached.
    pub(crate) fn read(&mut self) -> Result<DropCounts, BpfError> {
        let raw = self.drops.read()?;
        self.symbols.learn(raw.keys().map(call_site));
        let mut packets = BTreeMap::new();
        for (key, count) in raw {
            let (interface, in_dut) = self.interfaces.name(key.namespace, key.interface);
            let function = self.symbols.name(call_site(&key)).map(str::to_owned);
            let kind = DropKind { interface, in_dut, reason: self.drops.reason(key.reason), function };
            *packets.entry(kind).or_default() += count;
        }
        let errors = self.errors.as_ref().map(XdpErrors::read).transpose()?.unwrap_or_default();
        for (key, count) in errors {
            let (interface, in_dut) = self.interfaces.name(key.namespace, key.interface);
            let (reason, what) = in_words(key.error);
            let kind = DropKind { interface, in_dut, reason: reason.to_owned(), function: Some(what) };
            *packets.entry(kind).or_default() += count;
        }
        let mut waited = BTreeMap::new();
        for (key, count) in self.neighbours.as_ref().map(NeighbourWaits::read).transpose()?.unwrap_or_default() {
            if self.interfaces.name(key.namespace, key.interface).1 {
                *waited.entry(key.address).or_default() += count;
            }
        }
        Ok(DropCounts { packets, waited, uncounted: self.drops.uncounted()? })
    }
}

/// The interfaces of a path's namespaces, those that came later too.
#[derive(Debug)]
struct Interfaces {
    /// Each namespace by number, whether it is the DUT's, and where its interfaces are listed.
    namespaces: Vec<(u32, bool, Netlink)>,
    names: BTreeMap<(u32, u32), String>,
}

impl Interfaces {
    fn of(topology: &Topology) -> Result<Self, String> {
        let namespace = |namespace: &NetNs, is_dut| -> Result<(u32, bool, Netlink), String> {
            let inode = namespace.inode().map_err(|error| error.to_string())?;
            let number = u32::try_from(inode).map_err(|error| error.to_string())?;
            Ok((number, is_dut, Netlink::open_in(namespace).map_err(|error| error.to_string())?))
        };
        let mut namespaces =
            vec![namespace(&topology.generator.namespace, false)?, namespace(&topology.receiver.namespace, false)?];
        if let Some(dut) = &topology.dut {
            namespaces.push(namespace(&dut.namespace, true)?);
        }
        Ok(Self { namespaces, names: BTreeMap::new() })
    }

    /// The name of an interface, if there is one of that index, and whether it is in the DUT's namespace.
    fn name(&mut self, namespace: u32, index: u32) -> (Option<String>, bool) {
        let known = self.namespaces.iter_mut().find(|(number, ..)| *number == namespace);
        let Some((_, in_dut, netlink)) = known else { return (None, false) };
        if !self.names.contains_key(&(namespace, index)) {
            let links = netlink.links().unwrap_or_default();
            self.names.extend(links.into_iter().map(|(index, name, _)| ((namespace, index), name)));
        }
        (self.names.get(&(namespace, index)).cloned(), *in_dut)
    }
}

/// An error of XDP in the words of a drop: what stands for its reason, and its action or error number (linux/bpf.h, errno.h).
fn in_words(error: XdpError) -> (&'static str, String) {
    match error {
        XdpError::Exception(action) => {
            let known = ["XDP_ABORTED", "XDP_DROP", "XDP_PASS", "XDP_TX", "XDP_REDIRECT"];
            let name = known.get(action as usize).map_or_else(|| format!("action {action}"), |name| (*name).to_owned());
            (XDP_EXCEPTION, name)
        }
        XdpError::Redirect(errno) => {
            let text = std::io::Error::from_raw_os_error(errno).to_string();
            (REDIRECT_ERROR, text.split(" (os").next().unwrap_or_default().to_owned())
        }
    }
}

/// The kernel tells where it went on after the drop; the call itself is before that.
fn call_site(key: &DropKey) -> u64 {
    key.place.saturating_sub(1)
}
