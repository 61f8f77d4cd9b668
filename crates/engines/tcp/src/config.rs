//! Shape of a stack.

use linerate_ip::{ConfigError, IpConfig};
use linerate_slab::{PopulateError, ReserveError};

use crate::send::SendConfig;

/// Shape of a stack.
#[derive(Clone, Debug)]
pub struct StackConfig {
    /// The layer below: addresses, gateways, MTU.
    pub ip: IpConfig,
    /// Most connections at a time.
    pub connections_max: usize,
    /// Connections whose memory is taken from the kernel when the stack is made, at most `connections_max`: setting them up then waits for no
    /// page. For each that is about 200 bytes, 170 without IPv6. 0 takes memory when connections first need it.
    pub preallocated_connections: usize,
    /// Most UDP sockets.
    pub udp_sockets_max: usize,
    /// Most TIME-WAIT records; the oldest makes room for the newest.
    pub time_wait_max: usize,
    /// Time for which a connection that ended is remembered: twice the maximum segment lifetime, in milliseconds.
    pub time_wait_ms: u32,
    /// The send side; its `connections_max` is set to the one above.
    pub send: SendConfig,
    /// Bytes of all connections together that can be kept until they are in order, or the application takes them.
    pub receive_budget_bytes: usize,
    /// Largest window of one connection.
    pub receive_window_max: u32,
    /// Longest time for which an acknowledgment is delayed, in milliseconds; below 500.
    pub ack_delay_ms: u32,
    /// Secret of this stack: initial sequence numbers, ports, cookies and the hash table depend on it. Two stacks of one process have
    /// different ones.
    pub secret: [u8; 16],
    /// Packets that leave in one round at most: the capacity of the output.
    pub output_packets: usize,
    /// Packets worked on together (1 to 64).
    pub batch: usize,
    /// Memory is asked for before it is used; off only to measure what that gains.
    pub prefetch: bool,
    /// ECN (RFC 3168) is asked for when connections are begun; peers that ask for it get it in any case.
    pub ecn: bool,
    /// Checksums of segments that leave are completed by the port (`pipe:` never does, others in software or hardware).
    pub partial_checksums: bool,
}

impl Default for StackConfig {
    fn default() -> StackConfig {
        StackConfig {
            ip: IpConfig::default(),
            connections_max: 65_536,
            preallocated_connections: 0,
            udp_sockets_max: 4096,
            time_wait_max: 65_536,
            time_wait_ms: 60_000,
            send: SendConfig::default(),
            receive_budget_bytes: 256 << 20,
            receive_window_max: 4 << 20,
            ack_delay_ms: 40,
            secret: [0; 16],
            output_packets: 1024,
            batch: 64,
            prefetch: true,
            ecn: false,
            partial_checksums: false,
        }
    }
}

/// Why a stack could not be made.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// There is no memory for so many connections.
    #[error(transparent)]
    Reserve(#[from] ReserveError),
    /// There is no memory for the connections whose memory is to be taken in advance.
    #[error("memory of {connections} connections: {source}; preallocate fewer")]
    Preallocate {
        /// [`StackConfig::preallocated_connections`].
        connections: usize,
        /// What could not be taken.
        source: PopulateError,
    },
    /// The configuration of the layer below makes no sense.
    #[error(transparent)]
    Ip(#[from] ConfigError),
    /// A number is out of its range.
    #[error("{what} must be from {min} to {max}")]
    Range {
        /// The member of the configuration.
        what: &'static str,
        /// Least value.
        min: usize,
        /// Largest value.
        max: usize,
    },
}
