//! Devices under test: each is built between two ends, says what it is, counts, can be looked after and reset.
//!
//! ```text
//!   parse(text) -> Experiment:    devices with their settings, each read by its kind
//!   build(spec, path) -> Path:   the ends between which a tester sends and counts
//!                        Device: what stands between them; it lives as long as the value
//! ```
//!
//! What each kind is, needs and sets is in docs/duts.md.

pub mod bridge;
pub mod capture;
mod captured;
pub mod command;
mod error;
pub mod external;
pub mod flow_table;
mod folder;
mod kind;
mod links;
pub mod none;
pub mod ofswitch;
pub mod ovs;
mod own;
mod own_switch;
mod ping;
pub mod pipe;
mod readings;
pub mod router;
mod stations;
pub mod switch;
pub mod switch_ports;
mod tools;
pub mod xdp;

use std::collections::BTreeMap;
use std::sync::Arc;

use linerate_experiment::{DutSpec, Errors, Experiment, PortEnd};
use linerate_report::{CapturePort, Dut};

use crate::switches::SwitchSource;
use crate::topology::{MemoryPath, Topology, TopologySpec};

pub use captured::{Capture, Captured};
pub use error::DutError;
pub use kind::Kind;
pub use ping::ping;

/// Every kind, in the order in which messages list them. A kind is a file or a folder of its own beside this one, and its row here.
pub static KINDS: &[Kind] = &[
    Kind::of::<router::Router>(),
    Kind::of::<bridge::Bridge>(),
    Kind::of::<xdp::XdpForwarder>(),
    Kind::of::<ovs::OpenVswitch>(),
    Kind::of::<ofswitch::OfSwitch>(),
    Kind::of::<switch::Switch>(),
    Kind::of::<capture::Capture>(),
    Kind::of::<pipe::Pipe>(),
    Kind::of::<command::Command>(),
    Kind::of::<external::External>(),
    Kind::of::<none::Direct>(),
];

/// Reads an experiment file with devices of these kinds, as [`linerate_experiment::parse`] does.
///
/// # Errors
/// Everything that is wrong, each with its line and column.
pub fn parse(text: &str, file_name: &str) -> Result<Experiment, Errors> {
    linerate_experiment::parse(text, file_name, &KINDS.iter().map(|kind| kind.reader).collect::<Vec<_>>())
}

/// What stands between the two ends of a path. Dropping it stops it and leaves nothing behind.
pub trait Device: Send {
    /// Name, version and all that was really set.
    fn describe(&self) -> Dut;

    /// Its own counters by name: totals since it was started.
    ///
    /// # Errors
    /// When it does not answer.
    fn counters(&mut self) -> Result<BTreeMap<String, u64>, DutError> {
        Ok(BTreeMap::new())
    }

    /// Whether it still works.
    ///
    /// # Errors
    /// What died, with its last lines of output.
    fn check(&mut self) -> Result<(), DutError> {
        Ok(())
    }

    /// Resets it as RFC 2544 section 26.6 asks (its interfaces down and up, or its process anew) and says what was done. May be
    /// called under load, from another thread than the one that built it.
    ///
    /// # Errors
    /// [`DutError::NoReset`] for a device that cannot be reset from here; else what failed.
    fn reset(&mut self) -> Result<String, DutError>;

    /// Whether its first packets cost more than later ones (connection tracking, a learning bridge, a flow cache), so that a
    /// trial is sent and thrown away before it is measured.
    fn needs_warm_up(&self) -> bool {
        true
    }

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

/// Where packets are expected to be lost, and why: beginnings of the words of a ledger's row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedLoss {
    /// Where.
    pub place: String,
    /// Why.
    pub cause: String,
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
#[derive(Debug)]
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
    let built = KINDS.iter().find_map(|kind| (kind.build)(&spec.kind, path));
    built.unwrap_or_else(|| Err(DutError::Unsupported(format!("{:?} is no device of the lab", spec.kind))))
}

/// Removes the files of devices whose process was killed; each name with the error that kept it, if one did.
pub(crate) fn remove_left_behind() -> Vec<(String, Option<std::io::Error>)> {
    folder::remove_folders_left_behind()
}

/// The release of the running kernel.
fn kernel_release() -> Option<String> {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_name_of_its_own_topologies_that_there_are_and_a_row_in_the_documentation() {
        let document = include_str!("../../../../../docs/duts.md");
        let words: Vec<&str> = KINDS.iter().map(|kind| kind.reader.word).collect();
        for (number, Kind { reader, about, .. }) in KINDS.iter().enumerate() {
            assert!(!words[..number].contains(&reader.word), "{} is there twice", reader.word);
            assert!(!about.is_empty() && about.len() < 110, "{about}");
            let fits = |word: &&str| ["namespaces", "ports", "in-process"].contains(word);
            assert!(!reader.topologies.is_empty() && reader.topologies.iter().all(fits), "{}", reader.word);
            assert!(document.contains(&format!("| `{}`", reader.word)), "docs/duts.md has no row of {}", reader.word);
        }
    }

    #[test]
    fn a_device_between_the_wrong_ends_says_where_it_fits() {
        let spec = DutSpec { name: "x".into(), kind: command::Command::default().into() };
        let path = TopologySpec { ends: linerate_experiment::TopologyKind::InProcess, ..TopologySpec::default() };
        let error = build(&spec, &path).err().expect("refused").to_string();
        assert_eq!(error, "the DUT command needs the topology `namespaces` or `ports`");
    }
}
