//! Linerate's own in-process link.

use std::collections::BTreeMap;

use linerate_experiment::TopologyKind;
use linerate_report::Dut;

use super::{Built, Device, DutError, Path};
use crate::topology::TopologySpec;

pub(super) fn build(spec: &TopologySpec) -> Result<Built, DutError> {
    match spec.ends {
        TopologyKind::InProcess => Ok(Built { path: Path::InProcess, device: Box::new(Pipe) }),
        _ => Err(DutError::Unsupported(
            "a pipe is a link inside this process: it needs the topology `in-process`".into(),
        )),
    }
}

struct Pipe;

impl Device for Pipe {
    fn describe(&self) -> Dut {
        Dut { name: "Linerate pipe".into(), version: Some(env!("CARGO_PKG_VERSION").into()), ..Dut::default() }
    }

    /// None: the ports at its ends count all that passes.
    fn counters(&mut self) -> Result<BTreeMap<String, u64>, DutError> {
        Ok(BTreeMap::new())
    }

    fn check(&mut self) -> Result<(), DutError> {
        Ok(())
    }

    fn reset(&mut self) -> Result<String, DutError> {
        Err(DutError::NoReset("a pipe".into()))
    }

    fn needs_warm_up(&self) -> bool {
        false
    }
}
