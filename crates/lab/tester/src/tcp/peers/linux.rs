//! The kernel's TCP over a veth pair: sockets with epoll in two namespaces, single bytes without Nagle.

use std::net::Ipv4Addr;

use linerate_experiment::EchoStack;
use linerate_sys::netdev::Netdev;
use linerate_sys::netns::NetNs;
use linerate_sys::raise_open_files;

use super::measure::measure;
use crate::tcp::PairError;
use crate::tcp::echo::{EchoOutcome, EchoSpec};
use linerate_testbed::netlink::{Netlink, VethEnd, VethShape};
use linerate_tester_loop::tcp::peers::linux::{LinuxClient, SERVER, Server};

const CLIENT: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
const NAMES: [&str; 2] = ["lr-echo-c", "lr-echo-s"];
const MACS: [[u8; 6]; 2] = [[0x02, 0x4c, 0x52, 0, 2, 0x02], [0x02, 0x4c, 0x52, 0, 2, 0x01]];
/// Ports that one address of the client has by default, with some to spare (`net.ipv4.ip_local_port_range`).
const CONNECTIONS_MAX: usize = 20_000;
/// Descriptors that the process has open beside those of connections, at most.
const OTHER_FILES: u64 = 256;

/// Makes the test.
///
/// # Errors
/// No namespaces can be made, or there are more connections than descriptors or ports.
pub fn run(spec: &EchoSpec<'_>) -> Result<EchoOutcome, PairError> {
    // Both ends are in this process, with what else it has open.
    let wanted = 2 * CONNECTIONS_MAX.min(spec.connections) as u64 + OTHER_FILES;
    let files = raise_open_files(wanted)?;
    let most = CONNECTIONS_MAX.min((files.saturating_sub(OTHER_FILES) / 2) as usize);
    if spec.connections > most {
        let why = match files < wanted {
            true => format!(
                "it may open {files} files; `ulimit -n {wanted}` as root, in the shell that starts it, allows more"
            ),
            false => "so many ports an address has".to_owned(),
        };
        let why = format!("sockets of Linux from one address in one process: at most {most} connections ({why})");
        return Err(PairError::Program(why));
    }
    let [client, server] = namespaces()?;
    let mut server = Server::new(server, spec.connections)?;
    let mut client = LinuxClient::new(client, spec.connections)?;
    let outcome = measure(&mut client, &mut server, (EchoStack::Linux, spec))?;
    let note = "Linux: over a veth pair of its own, checksums left out by it, received in the sender's context";
    Ok(EchoOutcome { notes: vec![note.to_owned()], ..outcome })
}

/// Two namespaces, joined by a veth pair.
fn namespaces() -> Result<[NetNs; 2], PairError> {
    let failed = |error: &dyn std::fmt::Display| PairError::Program(format!("a veth pair for Linux's TCP: {error}"));
    let both = [NetNs::anonymous()?, NetNs::anonymous()?];
    let end = |at: usize| VethEnd { namespace: &both[at], name: NAMES[at], mac: MACS[at] };
    let mut netlink = Netlink::open_in(&both[0]).map_err(|error| failed(&error))?;
    netlink.create_veth(end(0), end(1), VethShape { mtu: 1500, queues: 1 }).map_err(|error| failed(&error))?;
    for ((namespace, name), address) in both.iter().zip(NAMES).zip([CLIENT, SERVER.0]) {
        let index = namespace.run(|| Netdev::open(name)?.index())??;
        let mut netlink = Netlink::open_in(namespace).map_err(|error| failed(&error))?;
        netlink.add_address(index, address, 24).map_err(|error| failed(&error))?;
        netlink.set_up(index, true).map_err(|error| failed(&error))?;
    }
    Ok(both)
}
