//! Paths of shared memory: the tester's ends are memif ports, and neither interfaces nor the kernel's stack are in between.
//!
//! ```text
//!  through a switch:  tester, client --[in]-- port `in`, switch, port `out` --[out]-- tester, client
//!  direct:            tester, client --[path]-- tester, server
//! ```
//!
//! An end sends from one thread and receives in another one, so its interface has two queue pairs, and each thread has one. The
//! switch serves both, and sends on the first: there the tester receives.

use std::path::{Path, PathBuf};

use super::links::{GENERATOR_LINK, RECEIVER_LINK};
use super::{FrameAddresses, TopologySpec};

/// Bytes of a frame beyond its layer 3, without FCS: an Ethernet header and three tags.
const HEADERS: u32 = 26;

/// The two ends of a path of shared memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryPath {
    /// The tester's, first the one that sends where load goes one way.
    pub ends: [MemoryEnd; 2],
    /// Control socket of the switch in between; none where the ends are joined directly.
    pub switch: Option<PathBuf>,
}

/// An end: the ports of its two threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryEnd {
    /// Spec of the port that is sent on.
    pub sends: String,
    /// Spec of the port that is received from.
    pub receives: String,
}

impl MemoryPath {
    /// Through a switch that serves [`MemoryPath::switch_port`] of the sockets `in` and `out` of a folder.
    pub fn through(folder: &Path, control: PathBuf) -> Self {
        let end = |name: &str| MemoryEnd {
            sends: format!("{}@1,rings=2,role=client", socket(folder, name)),
            receives: format!("{}@0,rings=2,role=client", socket(folder, name)),
        };
        Self { ends: [end("in"), end("out")], switch: Some(control) }
    }

    /// Without a device. The server sends on the pair that the client receives from.
    pub fn direct(folder: &Path) -> Self {
        let port = |pair: u8, role: &str| format!("{}@{pair},rings=2,role={role}", socket(folder, "path"));
        let client = MemoryEnd { sends: port(1, "client"), receives: port(0, "client") };
        let server = MemoryEnd { sends: port(0, "server"), receives: port(1, "server") };
        Self { ends: [client, server], switch: None }
    }

    /// Spec of a switch's port that an end of [`MemoryPath::through`] comes to.
    pub fn switch_port(folder: &Path, name: &str) -> String {
        format!("{},rings=2", socket(folder, name))
    }

    /// Longest frame without FCS of paths with this MTU.
    pub fn frame_len_max(spec: &TopologySpec) -> u32 {
        spec.mtu + HEADERS
    }

    /// Addresses of test frames from the first end to the second: of stations that a switch is told about.
    pub fn forward() -> FrameAddresses {
        FrameAddresses { source: GENERATOR_LINK.nobody_mac, destination: RECEIVER_LINK.nobody_mac }
    }

    /// The same from the second end to the first.
    pub fn backward() -> FrameAddresses {
        FrameAddresses { source: RECEIVER_LINK.nobody_mac, destination: GENERATOR_LINK.nobody_mac }
    }
}

/// Name of a memif socket in a folder, as a port's name has it.
fn socket(folder: &Path, name: &str) -> String {
    let path = folder.join(format!("{name}.sock")).to_string_lossy().into_owned();
    let escaped = path.chars().fold(String::new(), |mut text, letter| {
        if matches!(letter, ',' | '@' | ':' | '\\') {
            text.push('\\');
        }
        text.push(letter);
        text
    });
    format!("memif:{escaped}")
}

#[cfg(test)]
mod tests {
    use linerate_port::PortSpec;

    use super::*;

    #[test]
    fn what_one_end_sends_on_the_other_receives_from() {
        let folder = Path::new("/tmp/a@b,c");
        let MemoryPath { ends: [client, server], .. } = MemoryPath::direct(folder);
        let pairs = [(&client.sends, &server.receives), (&server.sends, &client.receives)];
        for (sends, receives) in pairs {
            let [sends, receives]: [PortSpec; 2] = [sends, receives].map(|spec| spec.parse().expect("a spec"));
            assert_eq!((&sends.target, sends.queue), (&receives.target, receives.queue));
            assert_eq!(sends.target, "/tmp/a@b,c/path.sock");
        }
        let through = MemoryPath::through(folder, PathBuf::new());
        let queue = |spec: &str| spec.parse::<PortSpec>().expect("a spec").queue;
        assert!(through.ends.iter().all(|end| queue(&end.receives) == Some(0) && queue(&end.sends) == Some(1)));
    }
}
