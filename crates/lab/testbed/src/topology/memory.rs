//! Paths of shared memory: the tester's ends are memif ports, and neither interfaces nor the kernel's stack are in between.
//!
//! ```text
//!  through a switch:  tester, client --[in]-- port `in`, switch, port `out` --[out]-- tester, client
//!  direct:            tester, client --[path]-- tester, server
//! ```
//!
//! An end sends from one thread and receives in another one, so its interface has two queue pairs, and each thread has one. The
//! switch serves both, and sends on one of them: there the tester receives.

use std::path::{Path, PathBuf};

use linerate_port::{PortSpec, SpecError};
use linerate_ports::HEADERS;

use super::links::{GENERATOR_LINK, RECEIVER_LINK};
use super::{FrameAddresses, TopologySpec};
use crate::switches::SwitchSource;

/// The two ends of a path of shared memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryPath {
    /// The tester's, first the one that sends where load goes one way.
    pub ends: [MemoryEnd; 2],
    /// What counts in the switch in between; none where the ends are joined directly.
    pub switch: Option<SwitchSource>,
}

/// An end: the ports of its two threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryEnd {
    /// The port that is sent on.
    pub sends: PortSpec,
    /// The port that is received from.
    pub receives: PortSpec,
}

impl MemoryPath {
    /// Through a switch that serves [`MemoryPath::switch_port`] of the sockets `in` and `out` of a folder, and sends by this one of the
    /// two queue pairs, 0 or 1.
    pub fn through(folder: &Path, source: SwitchSource, queue: u32) -> Self {
        let port = |name: &str, queue| client(pair(folder, name, queue));
        let end = |name: &str| MemoryEnd { sends: port(name, 1 - queue), receives: port(name, queue) };
        Self { ends: [end("in"), end("out")], switch: Some(source) }
    }

    /// Without a device. The server sends on the pair that the client receives from.
    pub fn direct(folder: &Path) -> Self {
        let port = |queue| pair(folder, "path", queue);
        let client = MemoryEnd { sends: client(port(1)), receives: client(port(0)) };
        let server = MemoryEnd { sends: port(0), receives: port(1) };
        Self { ends: [client, server], switch: None }
    }

    /// Spec of a switch's port that an end of [`MemoryPath::through`] comes to.
    ///
    /// # Errors
    /// The folder's name cannot be part of a port's name.
    pub fn switch_port(folder: &Path, name: &str) -> Result<PortSpec, SpecError> {
        socket(folder, name).with("rings", "2")
    }

    /// Where the socket of that port is.
    pub fn switch_socket(folder: &Path, name: &str) -> PathBuf {
        folder.join(format!("{name}.sock"))
    }

    /// Longest frame without FCS of paths with this MTU.
    pub fn frame_len_max(spec: &TopologySpec) -> u32 {
        spec.mtu + HEADERS as u32
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

/// The server of a socket in a folder.
fn socket(folder: &Path, name: &str) -> PortSpec {
    linerate_ports::memif(&MemoryPath::switch_socket(folder, name))
}

/// One of the two queue pairs of a socket.
fn pair(folder: &Path, name: &str, queue: u32) -> PortSpec {
    let mut spec = socket(folder, name);
    spec.options.first_queue = Some(queue);
    spec.own.push(("rings".into(), "2".into()));
    spec
}

fn client(mut spec: PortSpec) -> PortSpec {
    spec.own.push(("role".into(), "client".into()));
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_end_sends_on_the_other_receives_from() {
        let folder = Path::new("/tmp/a@b,c");
        let MemoryPath { ends: [client, server], .. } = MemoryPath::direct(folder);
        let pairs = [(&client.sends, &server.receives), (&server.sends, &client.receives)];
        for (sends, receives) in pairs {
            assert_eq!((&sends.target, sends.options.first_queue), (&receives.target, receives.options.first_queue));
            assert_eq!(sends.target, "/tmp/a@b,c/path.sock");
        }
        let queue = |spec: &PortSpec| spec.options.first_queue;
        for (receives, sends) in [(0, 1), (1, 0)] {
            let through = MemoryPath::through(folder, SwitchSource::new("x"), receives);
            let fits = |end: &MemoryEnd| queue(&end.receives) == Some(receives) && queue(&end.sends) == Some(sends);
            assert!(through.ends.iter().all(fits));
        }
        let port = MemoryPath::switch_port(folder, "in").expect("a spec");
        assert_eq!(port.to_string().parse::<PortSpec>().as_ref(), Ok(&port));
    }
}
