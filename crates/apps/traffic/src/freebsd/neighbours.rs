//! The neighbours of a sender: on FreeBSD nobody asks them or answers them, since that takes a port beside the sender's.

use std::convert::Infallible;
use std::net::IpAddr;

use linerate_streams::StreamFile;
use linerate_wire::MacAddress;
use linerate_worker::Control;

/// The neighbours of one sender; there are none.
pub struct Neighbours(Infallible);

/// Who asks and answers on an interface.
pub struct Own;

impl Own {
    /// The addresses that the streams of a file come from.
    ///
    /// # Errors
    /// Always.
    pub fn of(_: &StreamFile, _: Option<[u8; 6]>) -> Result<Own, String> {
        Err("gateways are asked and questions answered on Linux only; name the gateway's Ethernet address instead, with --set ethernet.destination=ADDRESS".into())
    }
}

impl Neighbours {
    /// Begins to answer.
    ///
    /// # Errors
    /// Always.
    pub fn open(_: &str, _: &Own, _: Option<IpAddr>) -> Result<Neighbours, String> {
        Err("neighbours are answered on Linux only".into())
    }

    /// The Ethernet address of a gateway.
    ///
    /// # Errors
    /// None.
    pub fn resolve(&mut self, _: IpAddr) -> Result<MacAddress, String> {
        match self.0 {}
    }

    /// Answers until a stop is asked for.
    ///
    /// # Errors
    /// None.
    pub fn serve(&mut self, _: &Control) -> Result<(), String> {
        match self.0 {}
    }
}
