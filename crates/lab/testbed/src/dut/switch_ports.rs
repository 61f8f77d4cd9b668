//! What joins a switch in a process of its own to the tester, and where it works.

use linerate_experiment::section::Section;

use crate::placement::Placement;
use crate::topology::TopologySpec;

/// What joins a switch in a process of its own to the tester.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SwitchPorts {
    /// AF_PACKET on its two interfaces.
    #[default]
    Packet,
    /// AF_XDP on them.
    Xdp,
    /// Memory that it shares with the tester, by memif: no interface, and no kernel in between.
    Memif,
}

impl SwitchPorts {
    /// What joins one of Linerate's own switches.
    pub(super) fn read(table: &Section<'_>) -> Self {
        let known = [("packet", Self::Packet), ("xdp", Self::Xdp), ("memif", Self::Memif)];
        table.word("ports", "kind of the switch's ports", &known).unwrap_or_default()
    }
}

/// Where its worker runs: it is the DUT's first hop.
pub(super) fn dut_cores(spec: &TopologySpec) -> Vec<usize> {
    match spec.placement {
        Placement::Thread { core: Some(core) } if spec.dut_cores.is_empty() => vec![core],
        _ => spec.dut_cores.clone(),
    }
}
