//! A host of its own in the network: a stack on a port, and sockets over it.

use std::io;
use std::net::{IpAddr, SocketAddr};

use linerate_control::StartError;
use linerate_endpoints_loop::run_sockets;
use linerate_endpoints_loop::sockets::{Caller, Sockets, TcpListener, TcpStream};

use crate::run::{Options, Running, start_run_by};
use crate::stack::NetworkConfig;

/// A host of its own in the network. Dropping it resets its connections.
pub struct Host {
    running: Running<Sockets>,
    caller: Caller,
}

impl Host {
    /// Opens the port, and waits until the addresses can be used.
    ///
    /// # Errors
    /// A part of the configuration is wrong, the port cannot be opened, or somebody has the address.
    pub fn start(network: &NetworkConfig, options: Options) -> Result<Host, StartError> {
        let (sockets, caller) = Caller::new();
        let running = start_run_by(run_sockets, vec![sockets], network, options)?;
        let handle = running.handle();
        caller.wakes(move || handle.notify());
        Ok(Host { running, caller })
    }

    /// The program, its port and its worker.
    pub fn running(&self) -> &Running<Sockets> {
        &self.running
    }

    /// The address of a name of [`NetworkConfig::names`].
    pub fn address_of(&self, name: &str) -> Option<IpAddr> {
        self.running.address_of(name)
    }

    /// Connects. A future that is dropped gives the connection up.
    ///
    /// # Errors
    /// Nobody listens there, nobody answers, or there is no way.
    pub async fn connect(&self, remote: SocketAddr) -> io::Result<TcpStream> {
        self.caller.connect(remote).await
    }

    /// As [`Host::connect`], for a thread.
    ///
    /// # Errors
    /// As there.
    pub fn connect_blocking(&self, remote: SocketAddr) -> io::Result<TcpStream> {
        self.caller.connect_blocking(remote)
    }

    /// Listens; the unspecified address stands for all of the host's.
    ///
    /// # Errors
    /// The address is in use, or not one of this host.
    pub fn listen(&self, address: SocketAddr) -> io::Result<TcpListener> {
        self.caller.listen(address)
    }
}
