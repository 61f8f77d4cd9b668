//! Servers: echo, discard, chargen, HTTP.

mod any;
mod document;
mod http;
mod plain;
mod site;

pub use any::AnyServer;
pub use document::ServeDocument;
pub use http::HttpServer;
pub use plain::{Chargen, Discard, Echo};
pub use site::{Content, Files, Site, SiteError};

use core::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::network::Network;

/// What a server has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    /// Connections accepted.
    pub connections: u64,
    /// Connections that ended in order.
    pub closed: u64,
    /// Connections that were reset, timed out or aborted.
    pub failed: u64,
    /// Datagrams received.
    pub datagrams: u64,
    /// Datagrams that were due an answer and got none: there was no room, or their sender is a server like this one.
    pub datagrams_unanswered: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Requests answered, of a server that knows requests.
    pub requests: u64,
    /// Requests answered with a status from 400 on.
    pub errors: u64,
}

impl Served {
    /// Adds the counts of another core.
    pub(crate) fn add(&mut self, other: &Served) {
        let Served {
            connections,
            closed,
            failed,
            datagrams,
            datagrams_unanswered,
            rx_bytes,
            tx_bytes,
            requests,
            errors,
        } = other;
        self.connections += connections;
        self.closed += closed;
        self.failed += failed;
        self.datagrams += datagrams;
        self.datagrams_unanswered += datagrams_unanswered;
        self.rx_bytes += rx_bytes;
        self.tx_bytes += tx_bytes;
        self.requests += requests;
        self.errors += errors;
    }

    fn end(&mut self, why: linerate_tcp::CloseReason) {
        match why {
            linerate_tcp::CloseReason::Normal => self.closed += 1,
            _ => self.failed += 1,
        }
    }
}

/// Where a small service is offered.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    /// For connections.
    pub tcp: Vec<SocketAddr>,
    /// For datagrams.
    pub udp: Vec<SocketAddr>,
}

impl Addresses {
    fn open<N: Network>(&self, network: &mut N) -> Result<(), String> {
        listen(&self.tcp, network)?;
        self.udp.iter().try_for_each(|address| {
            let opened = network.udp_open(Some(*address), None);
            opened.map(drop).map_err(|error| format!("cannot take datagrams at {address}: {error}"))
        })
    }
}

/// A server, whatever it serves.
pub trait Server: crate::network::Program {
    /// Its counts.
    fn served(&self) -> Served;
}

/// Listens at all of these addresses.
fn listen<N: Network>(addresses: &[SocketAddr], network: &mut N) -> Result<(), String> {
    addresses.iter().try_for_each(|address| {
        network.listen(*address, 0).map(drop).map_err(|error| format!("cannot listen at {address}: {error}"))
    })
}
