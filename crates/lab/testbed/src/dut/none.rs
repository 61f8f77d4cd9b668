//! No device: the two ends joined directly, which is what a baseline measures.

use std::collections::BTreeMap;

use linerate_experiment::{DutSettings, TopologyKind};
use linerate_report::Dut;

use super::folder::Folder;
use super::kind::Settings;
use super::{Built, Device, DutError, Path};
use crate::topology::{LinkKind, MemoryPath, Topology, TopologySpec};

/// No device.
#[derive(Debug, Default, PartialEq)]
pub struct Direct;

impl DutSettings for Direct {
    fn is_direct(&self) -> bool {
        true
    }
}

impl Settings for Direct {
    const WORD: &str = "none";
    const ABOUT: &str = "no device: the two ends joined directly, which is what a baseline measures";
    const TOPOLOGIES: &[&str] = &["namespaces", "ports", "in-process"];

    fn build(&self, spec: &TopologySpec) -> Result<Built, DutError> {
        let mut folder = None;
        let (path, joined) = match &spec.ends {
            TopologyKind::Namespaces if spec.link == LinkKind::Memif => {
                let path = MemoryPath::direct(folder.insert(Folder::make()?).path());
                (Path::Memory(Box::new(path)), "one memif interface, a queue pair each way".into())
            }
            TopologyKind::Namespaces => (Path::Namespaces(Box::new(Topology::direct(spec)?)), "one veth pair".into()),
            TopologyKind::Ports { a, b } => {
                let joined = format!("{} - {}, as they are joined", a.port, b.port);
                (Path::Ports { a: a.clone(), b: b.clone() }, joined)
            }
            TopologyKind::InProcess => (Path::InProcess, "one in-process link each way".into()),
        };
        Ok(Built { path, device: Box::new(DirectLink { joined, _folder: folder }) })
    }
}

struct DirectLink {
    joined: String,
    /// Of the socket, where there is one.
    _folder: Option<Folder>,
}

impl Device for DirectLink {
    fn describe(&self) -> Dut {
        let configuration = BTreeMap::from([("link".to_owned(), self.joined.clone())]);
        Dut { name: "none: the ends joined directly".into(), version: None, configuration }
    }

    fn reset(&mut self) -> Result<String, DutError> {
        Err(DutError::NoReset("a direct path".into()))
    }

    fn needs_warm_up(&self) -> bool {
        false
    }
}
