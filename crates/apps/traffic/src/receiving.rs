//! The threads that receive: each has some queues and counts what arrives there.

use linerate_console::cores;
use linerate_console::open::{Division, open_divided};
use linerate_gen::{Receiver, ReceiverConfig};
use linerate_mem::Pool;
use linerate_port::{Caps, Direction, Port, PortSpec, Stats};
use linerate_sys::clock;
use linerate_worker::{self as worker, Control};

/// What one thread receives from.
pub struct Share {
    /// Its queues: position of the port among all ports, number of the queue in that port.
    pub queues: Vec<(usize, usize)>,
    /// The ports, one for each of these queues.
    pub ports: Vec<Box<dyn Port>>,
    /// What counts their packets.
    pub receiver: Receiver,
    /// Where the thread runs.
    pub core: Option<usize>,
}

/// What one thread received.
pub struct Received {
    /// Its queues: position of the port among all ports, number of the queue in that port.
    pub queues: Vec<(usize, usize)>,
    /// What the queues were.
    pub caps: Vec<Caps>,
    /// Their totals.
    pub stats: Vec<Stats>,
    /// The counts.
    pub receiver: Receiver,
    /// Where the thread ran.
    pub core: Option<usize>,
    /// Time of a core that it took, in nanoseconds.
    pub cpu_ns: u64,
    /// What broke a port, in words.
    pub error: Option<String>,
}

impl Share {
    /// Opens the ports, and divides the queues of each among the threads. `config` says how to count on these ports.
    ///
    /// # Errors
    /// As the backends, in words.
    pub fn open(
        specs: &[PortSpec],
        division: Division,
        pool: &Pool,
        quiet: bool,
        config: impl Fn(&[Caps]) -> ReceiverConfig,
    ) -> Result<Vec<Share>, String> {
        let empty = || Share {
            queues: Vec::new(),
            ports: Vec::new(),
            receiver: Receiver::new(ReceiverConfig::default()),
            core: None,
        };
        let mut shares: Vec<Share> = (0..division.threads.max(1)).map(|_| empty()).collect();
        for (position, spec) in specs.iter().enumerate() {
            let mut number = 0;
            for (share, ports) in shares.iter_mut().zip(open_divided(spec, Direction::Receive, division, pool, quiet)?)
            {
                share.queues.extend((number..number + ports.len()).map(|queue| (position, queue)));
                number += ports.len();
                share.ports.extend(ports);
            }
        }
        let caps: Vec<Caps> = shares.iter().flat_map(|share| &share.ports).map(|port| port.caps().clone()).collect();
        let config = config(&caps);
        shares.iter_mut().for_each(|share| share.receiver = Receiver::new(config));
        Ok(shares)
    }

    /// Receives until a stop is asked for, all ports are at their end, or one breaks.
    pub fn receive(self, pool: &Pool, control: &Control) -> Received {
        let Share { queues, mut ports, mut receiver, core } = self;
        cores::pin(core);
        let began_ns = clock::thread_cpu_ns();
        let end = worker::receive(&mut ports, &mut receiver, pool, control, &mut |_| {});
        Received {
            caps: ports.iter().map(|port| port.caps().clone()).collect(),
            stats: end.stats,
            error: end.error.map(|error| error.to_string()),
            cpu_ns: clock::thread_cpu_ns().saturating_sub(began_ns),
            queues,
            receiver,
            core,
        }
    }
}

/// Receives on all shares, the first one on this thread, until each has ended. One that breaks ends the others.
///
/// # Errors
/// A thread that did not come to its end.
pub fn receive_all(shares: Vec<Share>, pool: &Pool, controls: &[Control]) -> Result<Vec<Received>, String> {
    let receive = |share: Share, control: &Control, pool: Pool| {
        let received = share.receive(&pool, control);
        if received.error.is_some() {
            controls.iter().for_each(Control::stop);
        }
        received
    };
    std::thread::scope(|scope| {
        let mut shares = shares.into_iter().zip(controls);
        let (first, receive) = (shares.next(), &receive);
        let others = shares.map(|(share, control)| {
            let pool = pool.clone();
            scope.spawn(move || receive(share, control, pool))
        });
        let others: Vec<_> = others.collect();
        let first = first.map(|(share, control)| receive(share, control, pool.clone()));
        let others = others.into_iter().map(|other| other.join().map_err(|_| "a receiving thread failed".to_string()));
        first.into_iter().map(Ok).chain(others).collect()
    })
}
