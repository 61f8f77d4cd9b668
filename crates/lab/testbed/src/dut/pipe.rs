//! Linerate's own in-process link.

use linerate_experiment::DutSettings;
use linerate_report::Dut;

use super::kind::Settings;
use super::{Built, Device, DutError, Path};
use crate::topology::TopologySpec;

/// The link has no settings.
#[derive(Debug, Default, PartialEq)]
pub struct Pipe;

impl DutSettings for Pipe {}

impl Settings for Pipe {
    const WORD: &str = "pipe";
    const ABOUT: &str = "Linerate's own in-process link";
    const TOPOLOGIES: &[&str] = &["in-process"];

    fn build(&self, _: &TopologySpec) -> Result<Built, DutError> {
        Ok(Built { path: Path::InProcess, device: Box::new(Self) })
    }
}

impl Device for Pipe {
    fn describe(&self) -> Dut {
        Dut { name: "Linerate pipe".into(), version: Some(env!("CARGO_PKG_VERSION").into()), ..Dut::default() }
    }

    fn reset(&mut self) -> Result<String, DutError> {
        Err(DutError::NoReset("a pipe".into()))
    }

    fn needs_warm_up(&self) -> bool {
        false
    }
}
