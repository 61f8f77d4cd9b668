//! The EAL of this process: started with the first port, on a thread of its own, because it pins its caller.

use std::sync::OnceLock;

use linerate_pci::Bus;
use linerate_sys::affinity::allowed_cores;

use crate::sys;

/// Memory for mbufs and drivers where there are no huge pages, in MiB. Pages that nobody touches cost nothing.
const MEMORY_MIB: &str = "1024";
/// A device that does not exist. With it on the list of allowed devices, the EAL takes no other one by itself, and a device that is asked
/// for later is still found.
const NO_DEVICE: &str = "ffff:ff:1f.7";

/// Starts the EAL, if it does not run yet.
///
/// # Errors
/// What libdpdk logged when it failed, and what to do. It is not tried again, because the EAL cannot be started twice.
pub(crate) fn start() -> Result<(), String> {
    static STARTED: OnceLock<Result<(), String>> = OnceLock::new();
    STARTED.get_or_init(start_once).clone()
}

fn start_once() -> Result<(), String> {
    let core = allowed_cores().first().copied().unwrap_or(0);
    let arguments = arguments(core, huge_pages_free(), Bus::default().is_noiommu());
    let started = std::thread::Builder::new().name("dpdk-eal".into()).spawn(move || sys::start_eal(&arguments));
    match started.map(std::thread::JoinHandle::join) {
        Ok(Ok(result)) => result.map_err(|log| format!("the EAL does not start: {log}")),
        Ok(Err(_)) => Err("the EAL does not start: its thread panicked".into()),
        Err(error) => Err(format!("the EAL does not start: {error}")),
    }
}

/// The EAL's command line, for a process whose first allowed core is `core`.
fn arguments(core: usize, huge_pages: bool, noiommu: bool) -> Vec<String> {
    let mut words = vec!["linerate".into(), "--no-telemetry".into(), "--lcores".into(), format!("0@{core}")];
    words.extend(["-a".into(), NO_DEVICE.into()]);
    if huge_pages {
        // In few files, because vhost-user takes eight.
        words.extend(["--in-memory".into(), "--single-file-segments".into()]);
        // The EAL takes the groups that vfio makes up in this mode for those of an IOMMU, and then refuses the cards in them.
        words.extend(noiommu.then(|| "--iova-mode=pa".into()));
    } else {
        words.extend(["--no-huge".into(), "--no-shconf".into(), "-m".into(), MEMORY_MIB.into()]);
    }
    words
}

/// Whether the kernel has huge pages to give.
fn huge_pages_free() -> bool {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free = text.lines().find_map(|line| line.strip_prefix("HugePages_Free:"));
    free.and_then(|count| count.trim().parse().ok()).unwrap_or(0) > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_eal_touches_nothing_that_nobody_asked_for() {
        for (huge_pages, noiommu) in [(true, false), (true, true), (false, false), (false, true)] {
            let words = arguments(3, huge_pages, noiommu);
            assert!(words.contains(&"--no-telemetry".into()) && words.contains(&"0@3".into()), "{words:?}");
            assert!(words.contains(&NO_DEVICE.into()), "{words:?}");
            assert_eq!(words.contains(&"--in-memory".into()), huge_pages, "{words:?}");
            assert_eq!(words.contains(&"--no-huge".into()), !huge_pages, "{words:?}");
            assert_eq!(words.contains(&"--iova-mode=pa".into()), huge_pages && noiommu, "{words:?}");
        }
    }
}
