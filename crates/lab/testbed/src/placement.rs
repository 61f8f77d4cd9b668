//! Where the work of a device under test runs: the choice, and what became of it.
//!
//! On a veth the frames that one side sends are received in the sender's context, on the sender's core, so a DUT only
//! slows its generator down and never loses a packet. With NAPI threaded the receiving side has a ring of its own and a
//! thread that empties it; only then does a loss curve exist. What it sends into the next veth is received in its context in
//! turn, so its core also does the kernel's part of receiving at the far end.
//!
//! NAPI on a veth needs GRO on or an XDP program. GRO is used, as drivers of real cards have it on: it costs a router about a
//! fifth of its rate against an XDP program that passes everything. It may merge nothing ([`crate::topology::GRO_SIZE_MAX`]).
//!
//! Pinning a kernel thread needs CAP_SYS_NICE in the first user namespace, and receive packet steering (`rps_cpus`), the other way to
//! a core of one's own, needs CAP_NET_ADMIN there. An ordinary user gets a thread that the scheduler places.

use std::fmt;
use std::io;

use linerate_sys::netdev::Netdev;
use linerate_sys::netns::NetNs;
use serde::Serialize;

use crate::napi;

/// Where the work of the first hop shall run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// In the sender's context.
    SenderContext,
    /// In a NAPI thread, on this core where that is allowed.
    Thread {
        /// The core to pin it to; `None` leaves it to the scheduler.
        core: Option<usize>,
    },
}

/// Where it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Mode {
    /// In the sender's context, on the sender's core.
    SenderContext {
        /// Why not in a thread, when one was asked for.
        why: Option<String>,
    },
    /// In NAPI threads on one core.
    Pinned {
        /// That core.
        core: usize,
        /// The kernel threads.
        threads: Vec<i32>,
    },
    /// In NAPI threads that the scheduler places.
    Floating {
        /// The kernel threads, as far as they can be seen.
        threads: Vec<i32>,
        /// Why not on the core that was asked for, when one was.
        why: Option<String>,
    },
}

impl Mode {
    /// Whether packets can be lost at the first hop because its core is too slow. Where this is false, the first hop holds
    /// the generator back instead.
    pub fn can_lose(&self) -> bool {
        !matches!(self, Self::SenderContext { .. })
    }

    /// The NAPI threads, as far as they can be seen.
    pub fn threads(&self) -> &[i32] {
        match self {
            Self::Pinned { threads, .. } | Self::Floating { threads, .. } => threads,
            Self::SenderContext { .. } => &[],
        }
    }

    /// The NAPI threads that are pinned, each with its core.
    pub fn pinned_threads(&self) -> Vec<(u32, u32)> {
        match self {
            Self::Pinned { core, threads } => threads
                .iter()
                .filter_map(|thread| Some((u32::try_from(*core).ok()?, u32::try_from(*thread).ok()?)))
                .collect(),
            Self::SenderContext { .. } | Self::Floating { .. } => Vec::new(),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SenderContext { why } => {
                f.write_str("in the sender's context, which it holds back instead of losing packets")?;
                why.iter().try_for_each(|why| write!(f, " (no NAPI thread: {why})"))
            }
            Self::Pinned { core, .. } => write!(f, "in a NAPI thread pinned to core {core}"),
            Self::Floating { why, .. } => {
                f.write_str("in a NAPI thread on whichever core the scheduler picks")?;
                why.iter().try_for_each(|why| write!(f, " (not pinned: {why})"))
            }
        }
    }
}

/// Gives `interface` the placement that was asked for, as far as this machine allows, and says what it got.
///
/// # Errors
/// When GRO cannot be switched, which NAPI on a veth depends on.
pub fn place(namespace: &NetNs, interface: &str, index: u32, placement: Placement) -> io::Result<Mode> {
    let device = namespace.run(|| Netdev::open(interface))??;
    let Placement::Thread { core } = placement else {
        device.set_features(&[("rx-gro", false)])?;
        return Ok(Mode::SenderContext { why: None });
    };
    device.set_features(&[("rx-gro", true)])?;
    if let Err(error) = napi::set_threaded(namespace, interface, true) {
        device.set_features(&[("rx-gro", false)])?;
        return Ok(Mode::SenderContext { why: Some(error.to_string()) });
    }
    let Some(core) = core else {
        return Ok(Mode::Floating { threads: threads_of(namespace, index), why: None });
    };
    Ok(match napi::pin_threads(namespace, index, core) {
        Ok(threads) => Mode::Pinned { core, threads },
        Err(error) => Mode::Floating { threads: threads_of(namespace, index), why: Some(reason(&error)) },
    })
}

/// Spreads the flows that `interface` receives over these cores by receive packet steering
/// (Documentation/networking/scaling.rst, "RPS"): what its queue's context takes in is forwarded on the core that the flow's hash chooses.
///
/// # Errors
/// `EPERM` without CAP_NET_ADMIN on the machine; as [`NetNs::run_with_sysfs`].
pub fn steer(namespace: &NetNs, interface: &str, cores: &[usize]) -> io::Result<()> {
    let mask = mask_words(cores);
    let folder = format!("/sys/class/net/{interface}/queues");
    let written = namespace.run_with_sysfs(|| {
        for queue in std::fs::read_dir(folder)? {
            let path = queue?.path().join("rps_cpus");
            if path.exists() {
                std::fs::write(path, &mask)?;
            }
        }
        Ok(())
    });
    written.and_then(|written| written)
}

/// A set of cores as the kernel's bitmaps are written: groups of 32 in hex, the highest first.
fn mask_words(cores: &[usize]) -> String {
    let groups = cores.iter().max().map_or(1, |most| most / 32 + 1);
    let group = |number: usize| {
        let bits = cores.iter().filter(|core| *core / 32 == number).fold(0u32, |bits, core| bits | 1 << (core % 32));
        format!("{bits:08x}")
    };
    (0..groups).rev().map(group).collect::<Vec<_>>().join(",")
}

fn threads_of(namespace: &NetNs, index: u32) -> Vec<i32> {
    let instances = napi::instances(namespace, index).unwrap_or_default();
    instances.iter().filter_map(|napi| napi.thread).collect()
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "pinning a kernel thread needs root".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_written_as_the_kernel_reads_them() {
        assert_eq!(mask_words(&[0, 1]), "00000003");
        assert_eq!(mask_words(&[31]), "80000000");
        assert_eq!(mask_words(&[33, 0]), "00000002,00000001");
        assert_eq!(mask_words(&[]), "00000000");
    }
}
