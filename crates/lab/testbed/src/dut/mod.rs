//! Devices under test: each is built between two ends, says what it is, counts, can be looked after and reset.
//!
//! ```text
//!   build(spec, path) -> Path:   the ends between which a tester sends and counts
//!                        Device: what stands between them; it lives as long as the value
//! ```
//!
//! What each kind is, needs and sets is in docs/duts.md.

mod bridge;
mod capture;
mod captured;
mod command;
mod error;
mod external;
mod firewall;
mod flow_table;
mod folder;
mod links;
mod none;
mod ofswitch;
mod ovs;
mod own;
mod ping;
mod pipe;
mod readings;
mod router;
mod stations;
mod switch;
mod tools;
mod xdp;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use linerate_experiment::{DutKind, DutSpec, ExpectedLoss, PortEnd};
use linerate_report::{CapturePort, Dut};

use crate::switches::SwitchSource;
use crate::topology::{MemoryPath, Topology, TopologySpec};

use switch::Program;

pub use captured::{Capture, Captured};
pub use error::DutError;
pub use ping::ping;

/// What stands between the two ends of a path. Dropping it stops it and leaves nothing behind.
pub trait Device: Send {
    /// Name, version and all that was really set.
    fn describe(&self) -> Dut;

    /// Its own counters by name: totals since it was started.
    ///
    /// # Errors
    /// When it does not answer.
    fn counters(&mut self) -> Result<BTreeMap<String, u64>, DutError>;

    /// Whether it still works.
    ///
    /// # Errors
    /// What died, with its last lines of output.
    fn check(&mut self) -> Result<(), DutError>;

    /// Resets it as RFC 2544 section 26.6 asks (its interfaces down and up, or its process anew) and says what was done. May be
    /// called under load, from another thread than the one that built it.
    ///
    /// # Errors
    /// [`DutError::NoReset`] for a device that cannot be reset from here; else what failed.
    fn reset(&mut self) -> Result<String, DutError>;

    /// Whether its first packets cost more than later ones (connection tracking, a learning bridge, a flow cache), so that a
    /// trial is sent and thrown away before it is measured.
    fn needs_warm_up(&self) -> bool;

    /// The learning phase of RFC 2544 section 23: tells the device which station is behind which interface. Call it before
    /// each trial, at rest.
    ///
    /// # Errors
    /// When nothing can be sent to it.
    fn learn(&mut self) -> Result<(), DutError> {
        Ok(())
    }

    /// Of a switch with flow entries: its tables, caches and ports, as its own commands show them.
    ///
    /// # Errors
    /// When it does not answer.
    fn show(&mut self) -> Result<Vec<Shown>, DutError> {
        Ok(Vec::new())
    }

    /// Of a capture: what its ports said at the end of the last trial.
    fn captured(&self) -> Option<Vec<CapturePort>> {
        None
    }

    /// Whether it works where the kernel receives its packets, so that these can be spread over cores (receive packet steering).
    fn is_steered(&self) -> bool {
        false
    }

    /// Whether processes of its own do its work, whose waits for a core nobody watches.
    fn has_processes(&self) -> bool {
        false
    }

    /// The loss that the experiment file expects of it, if it does.
    fn loses(&self) -> Option<&ExpectedLoss> {
        None
    }

    /// Where it worked last, in words, where that is not where the lab puts a device.
    fn mode(&self) -> Option<String> {
        None
    }
}

/// What a command of a device showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The command.
    pub command: String,
    /// What it printed.
    pub text: String,
}

/// The ends of a path.
pub enum Path {
    /// Interfaces in namespaces of the lab's own making.
    Namespaces(Box<Topology>),
    /// Two ports of this host.
    Ports {
        /// Sends, or both ways.
        a: PortEnd,
        /// Receives, or both ways.
        b: PortEnd,
    },
    /// Interfaces in namespaces that send to a device which counts what it is sent and passes nothing on.
    Captured(Box<Topology>, Arc<dyn Capture>),
    /// The tester shares memory with the device.
    Memory(Box<MemoryPath>),
    /// The ends of a link inside this process, which the tester makes.
    InProcess,
}

impl Path {
    /// The namespaces, where there are any.
    pub fn topology(&self) -> Option<&Topology> {
        match self {
            Self::Namespaces(topology) | Self::Captured(topology, _) => Some(topology),
            Self::Ports { .. } | Self::Memory(_) | Self::InProcess => None,
        }
    }

    /// The namespaces, to change where their work runs.
    pub fn topology_mut(&mut self) -> Option<&mut Topology> {
        match self {
            Self::Namespaces(topology) | Self::Captured(topology, _) => Some(topology),
            Self::Ports { .. } | Self::Memory(_) | Self::InProcess => None,
        }
    }

    /// What counts on a path of shared memory, where somebody does.
    pub fn switch(&self) -> Option<&SwitchSource> {
        match self {
            Self::Memory(path) => path.switch.as_ref(),
            _ => None,
        }
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Namespaces(topology) => out.debug_tuple("Namespaces").field(topology).finish(),
            Self::Ports { a, b } => out.debug_struct("Ports").field("a", a).field("b", b).finish(),
            Self::Captured(topology, _) => out.debug_tuple("Captured").field(topology).finish_non_exhaustive(),
            Self::Memory(path) => out.debug_tuple("Memory").field(path).finish(),
            Self::InProcess => out.write_str("InProcess"),
        }
    }
}

/// A path with its device.
pub struct Built {
    /// For the tester. It and the device may be dropped in any order.
    pub path: Path,
    /// What is between the ends.
    pub device: Box<dyn Device>,
}

/// Builds the path that `path` describes, with the device of `spec` in its middle, ready to carry packets both ways.
///
/// # Errors
/// What is missing and what to do about it; what could not be set. Nothing stays behind.
pub fn build(spec: &DutSpec, path: &TopologySpec) -> Result<Built, DutError> {
    match &spec.kind {
        DutKind::Router(firewall) => router::build(firewall, path),
        DutKind::Bridge => bridge::build(path),
        DutKind::XdpForwarder => xdp::build(path),
        DutKind::Pipe => pipe::build(path),
        DutKind::Command(command) => command::build(command, path),
        DutKind::External { description, counters } => external::build(description, counters, path),
        DutKind::None => none::build(path),
        DutKind::OpenVswitch(switch) => ovs::build(*switch, path),
        DutKind::OfSwitch(switch) => switch::build(Program::OfSwitch(switch.entries), switch.ports, path),
        DutKind::Switch(ports) => switch::build(Program::Switch, *ports, path),
        DutKind::Capture(capture) => capture::build(*capture, path),
    }
}

/// Removes the files of devices whose process was killed; each name with the error that kept it, if one did.
pub(crate) fn remove_left_behind() -> Vec<(String, Option<std::io::Error>)> {
    folder::remove_folders_left_behind()
}

/// The release of the running kernel.
fn kernel_release() -> Option<String> {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|text| text.trim().to_owned())
}
