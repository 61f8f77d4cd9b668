//! What a backend tells the suite about itself.

use std::time::Duration;

use linerate_mem::{Pool, PoolConfig};
use linerate_port::Port;

/// How to open links of one backend.
pub trait Harness {
    /// What is tested, for the report: "pipe", "packet over veth, both in one namespace".
    fn name(&self) -> String;

    /// What is known about the path.
    fn facts(&self) -> Facts {
        Facts::default()
    }

    /// Shape of the pool that each check makes anew. At least 2,048 frames, or the checks have not enough to work with.
    fn pool(&self) -> PoolConfig {
        PoolConfig { frames: 4096, ..PoolConfig::default() }
    }

    /// Makes that pool; a backend whose memory is its own does so by itself.
    fn make_pool(&mut self) -> Result<Pool, String> {
        Pool::new(self.pool()).map_err(|error| error.to_string())
    }

    /// Opens a fresh link on `pool`. `start` is one of [`Facts::starts`]: where the indices of its rings begin.
    fn open(&mut self, pool: &Pool, start: u32) -> Result<Link, String>;

    /// Does something to the interface behind the link that was opened last, and says which ports stand on it; `Ok(None)`
    /// when there is no interface, or none to which that can be done.
    fn disturb(&mut self, what: Disturbance) -> Result<Option<Hit>, String> {
        let _ = what;
        Ok(None)
    }

    /// Packets of the suite that were lost between the two ports of the link opened last where neither can see it.
    fn lost_on_path(&mut self) -> u64 {
        0
    }

    /// Opens a port in another process, kills that process (see [`crate::child`]), and says what it left behind; `None` when
    /// a dead process of this backend has nothing that could stay.
    fn left_behind(&mut self) -> Option<Result<Vec<String>, String>> {
        None
    }
}

/// Opens the port that reads what was sent.
pub type Reopen = Box<dyn FnMut(&Pool) -> Result<Box<dyn Port>, String>>;

/// Ports that belong together.
pub enum Link {
    /// What `sender` transmits arrives at `receiver`.
    Pair {
        /// The port that the checks transmit on.
        sender: Box<dyn Port>,
        /// The port that they receive from.
        receiver: Box<dyn Port>,
    },
    /// The ports of two devices of several queues. The checks use those of one queue, the others stay open beside them.
    Queues {
        /// What the port of a queue here transmits arrives at the port of that queue in `receivers`.
        senders: Vec<Box<dyn Port>>,
        /// The ports that the checks receive from.
        receivers: Vec<Box<dyn Port>>,
        /// The queue that is checked, counted from 0.
        queue: usize,
    },
    /// What `sender` transmits can be received once it was flushed and dropped: a file.
    Store {
        /// The port that the checks transmit on.
        sender: Box<dyn Port>,
        /// Opens the port that reads it.
        reopen: Reopen,
    },
    /// Nobody sees what is sent: `null:`.
    Sender(Box<dyn Port>),
}

/// What is known about the path between the two ports.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Where ring indices can start. Rings of a kernel start at 0 only; they are wrapped by `wrap_packets`.
    pub starts: Vec<u32>,
    /// So many packets turn every ring on the path over at least twice.
    pub wrap_packets: usize,
    /// Shortest packet in bytes that the path carries unchanged.
    pub len_min: usize,
    /// Packets (and slots) that may be under way at once without loss, and fit into the sender's ring.
    pub window: usize,
    /// True when the path never loses a packet that was taken.
    pub lossless: bool,
    /// True when packets that the suite did not send may arrive (a kernel's neighbour discovery).
    pub other_traffic: bool,
    /// True when the receiver says `Ended` once the sender is gone.
    pub ends: bool,
    /// True when packets with VLAN tags arrive with them.
    pub vlan: bool,
    /// How long a packet, or an error, that must come may take.
    pub patience: Duration,
}

impl Default for Facts {
    fn default() -> Facts {
        Facts {
            starts: vec![0],
            wrap_packets: 5_000,
            len_min: 14,
            window: 64,
            lossless: false,
            other_traffic: false,
            ends: false,
            vlan: true,
            patience: Duration::from_secs(20),
        }
    }
}

/// What can be done to an interface during a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// `ip link set ... down`.
    Down,
    /// `ip link set ... up` again.
    Up,
    /// `ip link delete`.
    Delete,
}

/// Which ports of the link stood on the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The sender did.
    pub sender: bool,
    /// The receiver did.
    pub receiver: bool,
}
