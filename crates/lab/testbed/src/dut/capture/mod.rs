//! Linerate's own capture: this program, started as `linerate capture` on the device's interfaces, anew for each trial, so that its
//! counts, its ring's highest level and its CPU time are those of the trial.
//!
//! ```text
//!   generator lr-gen --veth-- lr-in  \
//!                                     linerate capture -i lr-in [-i lr-out] --json
//!   receiver lr-recv --veth-- lr-out /     (lr-out only with load both ways: then each end sends to its own port)
//! ```
//! `receiving.rs` has the ways in which the interfaces receive, and which of them have no effect; `session.rs` one trial's process;
//! `lines.rs` what it prints.

mod lines;
mod receiving;
mod session;
mod settings;

use std::collections::BTreeMap;
use std::sync::Arc;

use linerate_report::{CapturePort, Dut};

use super::folder::Folder;
use super::links::{self, Links};
use super::tools::Place;
use super::{Built, Device, DutError, Path, own};
use crate::topology::{EGRESS_INTERFACE, Forwarding, INGRESS_INTERFACE, Topology, TopologySpec};
use receiving::Receiving;
use session::Session;

pub use settings::{Capture, CaptureCores, CaptureTool, Reception};

const NAME: &str = "Linerate capture";
/// Bytes of a file, and of all files of a trial: they are in the folder of temporary files.
const FILE_BYTES: u64 = 64 << 20;
const FILES_BYTES: u64 = 256 << 20;

fn build(capture: Capture, spec: &TopologySpec) -> Result<Built, DutError> {
    let receiving = Receiving::of(capture, spec)?;
    let program = own::program();
    let version = Place::default().run(&[program.clone(), "--version".into()], None)?;
    let version = version.trim().rsplit(' ').next().map(str::to_owned);
    let topology = Topology::switched(spec, Forwarding::captured())?;
    let folder = capture.file.then(Folder::make).transpose()?;
    let interface = |name: &str| match capture.tool {
        CaptureTool::Packet => name.to_owned(),
        tool => format!("{}:{name}", tool.word()),
    };
    let interfaces = [INGRESS_INTERFACE, EGRESS_INTERFACE].map(interface);
    let mut options = vec!["--json".to_owned(), "--ring".into(), capture.buffer_bytes.to_string()];
    if receiving.polls() {
        options.push("--poll".into());
    }
    if let Some(folder) = &folder {
        let rotation = ["--file-bytes".into(), FILE_BYTES.to_string(), "--total-bytes".into(), FILES_BYTES.to_string()];
        options.extend(["-w".to_owned(), folder.text("capture.pcapng")].into_iter().chain(rotation));
    }
    let mut configuration = links::configuration(spec);
    configuration.insert("setting".into(), receiving.setting());
    configuration.insert("buffer".into(), format!("{} bytes for each interface", capture.buffer_bytes));
    configuration.insert("reception".into(), receiving.words());
    let packets = if capture.file { "written to files, the oldest removed" } else { "counted, not written" };
    configuration.insert("packets".into(), packets.into());
    let links = Links::of(&topology, spec)?;
    let session = Arc::new(Session::new(program, (interfaces, options), receiving, links, folder));
    session.probe()?;
    let dut = Dut { name: NAME.into(), version, configuration };
    let device = Capturing { session: session.clone(), links: Links::of(&topology, spec)?, dut };
    Ok(Built { path: Path::Captured(Box::new(topology), session), device: Box::new(device) })
}

struct Capturing {
    session: Arc<Session>,
    links: Links,
    dut: Dut,
}

impl Device for Capturing {
    fn describe(&self) -> Dut {
        self.dut.clone()
    }

    /// What its interfaces counted; what it took in itself is in the account.
    fn counters(&mut self) -> Result<BTreeMap<String, u64>, DutError> {
        self.links.counters()
    }

    fn check(&mut self) -> Result<(), DutError> {
        self.session.take_failure().map_or(Ok(()), Err)?;
        self.links.check(NAME)
    }

    fn reset(&mut self) -> Result<String, DutError> {
        Err(DutError::NoReset("a capture, which is started anew for each trial,".into()))
    }

    fn needs_warm_up(&self) -> bool {
        false
    }

    fn has_processes(&self) -> bool {
        true
    }

    fn captured(&self) -> Option<Vec<CapturePort>> {
        Some(self.session.last())
    }

    fn mode(&self) -> Option<String> {
        Some(self.session.mode())
    }
}
