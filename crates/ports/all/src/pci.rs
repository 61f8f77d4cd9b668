//! Network cards that the kernel gave away, as ports.

use linerate_pci::Address;
use linerate_port::PortSpec;

use crate::backend::find;

/// Whether this program opens network cards of the PCI bus.
pub fn has_pci_cards() -> bool {
    find("dpdk").is_some_and(|entry| entry.open.is_some() && (entry.probe)().is_ok())
}

/// The port of a network card by its address on the PCI bus. `bind`: a kernel driver has the card, and gives it away while the port is open.
pub fn pci_card(address: Address, bind: bool) -> Option<PortSpec> {
    let spec: PortSpec = format!("dpdk:{address}").parse().ok()?;
    if bind { spec.with("bind", "yes").ok() } else { Some(spec) }
}
