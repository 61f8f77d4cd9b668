//! Where a result was measured. Results from different environments are not compared without saying so.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Key in [`Environment::other`] of the clock of a core: `2595.124 MHz`.
pub const CORE_CLOCK: &str = "clock of a core";

/// Key of the clock of a core as it was measured while it worked: `4061 MHz`.
pub const CORE_CLOCK_MEASURED: &str = "clock of a core, measured";

/// Where a result was measured. `None` and empty maps: not known here.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Environment {
    /// Release and version of the kernel.
    pub kernel: Option<String>,
    /// Model name of the CPU.
    pub cpu_model: Option<String>,
    /// Cores online.
    pub cores_online: Option<u32>,
    /// Frequency governor, one word when all cores agree.
    pub governor: Option<String>,
    /// Hypervisor, or `none`.
    pub hypervisor: Option<String>,
    /// CPU vulnerabilities and how each is mitigated.
    pub mitigations: BTreeMap<String, String>,
    /// Offloads by interface and feature, for instance `dut0 generic-receive-offload`.
    pub offloads: BTreeMap<String, String>,
    /// Kernel settings that matter to the path.
    pub sysctls: BTreeMap<String, String>,
    /// Versions of the DUT and of the tools used.
    pub versions: BTreeMap<String, String>,
    /// The round trip of a cache line between the cores in use.
    pub cache_line: Option<CacheLine>,
    /// Anything else that is known.
    pub other: BTreeMap<String, String>,
}

impl Environment {
    /// The clock of a core in GHz, where it is known: the measured one, or else the one that the kernel tells.
    pub fn core_clock_ghz(&self) -> Option<f64> {
        let known = self.other.get(CORE_CLOCK_MEASURED).or_else(|| self.other.get(CORE_CLOCK));
        let megahertz = known?.split(' ').next()?.parse::<f64>().ok()?;
        Some(megahertz / 1_000.0).filter(|ghz| ghz.is_finite() && *ghz > 0.0)
    }
}

/// How long one cache line takes to a second core and back. Virtual cores move, and two-core results are compared only when
/// this is alike.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CacheLine {
    /// The two cores.
    pub cores: [u32; 2],
    /// Before the run, in nanoseconds.
    pub before_ns: Option<f64>,
    /// After the run, in nanoseconds.
    pub after_ns: Option<f64>,
}
