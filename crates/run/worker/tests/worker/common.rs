//! A datapath between two ports, and a port that does as a test tells it.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::{Caps, Context, Datapath, Interest, LinkState, Port, PortError, PortIndex, Readiness, Stats};

pub fn pool() -> Pool {
    Pool::new(PoolConfig { frames: 256, frame_size: 2048 }).expect("half a megabyte")
}

/// Packets of port 0 leave by port 1, those of all others by port 0; what a queue has no room for stays with the worker.
pub struct Cross {
    pub queues: [Batch; 2],
    waiting: [u64; 2],
    pub log: Vec<String>,
    pub deadlines_ns: VecDeque<u64>,
    pub done_after: u64,
    pub sent: u64,
    pub follows_links: bool,
    /// It does not want to see packets, and was not shown so many.
    pub passes: bool,
    pub passed: usize,
    /// Its thread is away for so long when it is given packets; once.
    pub away: Duration,
}

impl Cross {
    pub fn new(pool: &Pool, slots: usize) -> Cross {
        Cross {
            queues: [Batch::new(pool, slots), Batch::new(pool, slots)],
            waiting: [0; 2],
            log: Vec::new(),
            deadlines_ns: VecDeque::new(),
            done_after: u64::MAX,
            sent: 0,
            follows_links: false,
            passes: false,
            passed: 0,
            away: Duration::ZERO,
        }
    }

    fn note(&mut self, what: &str, port: PortIndex) {
        self.log.push(format!("{what} {port}"));
    }
}

impl Datapath for Cross {
    fn input(&mut self, from: PortIndex, batch: &mut Batch, _: &mut Context<'_>) {
        std::thread::sleep(std::mem::take(&mut self.away));
        let to = usize::from(from.0 == 0);
        self.waiting[to] += batch.move_to(&mut self.queues[to], batch.len()) as u64;
    }

    fn passes_to(&self, from: PortIndex) -> Option<PortIndex> {
        let to = PortIndex(u16::from(from.0 == 0));
        (self.passes && self.waiting(to) == 0).then_some(to)
    }

    fn passed(&mut self, _: PortIndex, _: PortIndex, packets: usize) {
        self.passed += packets;
    }

    fn output(&mut self, to: PortIndex) -> Option<&mut Batch> {
        self.queues.get_mut(usize::from(to.0))
    }

    fn tx_done(&mut self, to: PortIndex, packets: usize, _: u64) {
        self.waiting[usize::from(to.0)] -= packets as u64;
        self.sent += packets as u64;
    }

    fn waiting(&self, to: PortIndex) -> u64 {
        self.waiting.get(usize::from(to.0)).copied().unwrap_or(0)
    }

    fn too_long(&mut self, to: PortIndex, len_max: usize, context: &mut Context<'_>) {
        context.pool.free_front(&mut self.queues[usize::from(to.0)], 1);
        self.waiting[usize::from(to.0)] -= 1;
        self.note(&format!("longer than {len_max}"), to);
    }

    fn takes_longer(&mut self, to: PortIndex, len_max: usize, _: &mut Context<'_>) {
        self.note(&format!("takes {len_max}"), to);
    }

    fn stuck(&mut self, to: PortIndex, context: &mut Context<'_>) {
        self.removed(to, context);
        self.note("stuck", to);
    }

    fn link_changed(&mut self, port: PortIndex, link: LinkState, _: &mut Context<'_>) {
        self.note(&format!("{link:?}"), port);
    }

    fn follows_links(&self) -> bool {
        self.follows_links
    }

    fn removed(&mut self, port: PortIndex, context: &mut Context<'_>) {
        context.pool.free(&mut self.queues[usize::from(port.0)]);
        self.waiting[usize::from(port.0)] = 0;
        self.note("removed", port);
    }

    fn next_deadline_ns(&self) -> u64 {
        self.deadlines_ns.front().copied().unwrap_or(u64::MAX)
    }

    fn tick(&mut self, context: &mut Context<'_>) {
        let due_ns = self.deadlines_ns.pop_front().expect("called when a deadline has come");
        assert!(context.now_ns >= due_ns);
        self.log.push("tick".into());
    }

    fn is_done(&self) -> bool {
        self.sent >= self.done_after
    }
}

/// What a [`Scripted`] port does.
#[derive(Default)]
pub struct Script {
    /// Packets that it brings.
    pub brings: usize,
    /// Packets that it takes yet.
    pub takes: usize,
    pub down: bool,
    pub broken: bool,
    pub corrupt: bool,
    pub closed: bool,
    pub no_carrier: bool,
    /// How often it was asked for its link.
    pub links: usize,
    pub flushes: usize,
    /// Packets longer than this are refused; 0: none are.
    pub len_max: usize,
    pub sent: Vec<usize>,
}

/// Length, for a [`Scripted`] port, of packets that were handed on to it.
pub const UNSEEN: usize = 0;

#[derive(Clone)]
pub struct Scripted {
    pub script: Arc<Mutex<Script>>,
    pool: Pool,
    caps: Caps,
}

impl Scripted {
    pub fn new(pool: &Pool, script: Script) -> Scripted {
        let caps = Caps { name: "scripted".into(), receives: true, transmits: true, frags_max: 1, ..Caps::default() };
        Scripted { script: Arc::new(Mutex::new(script)), pool: pool.clone(), caps }
    }

    /// It hands packets on by itself.
    pub fn handing_on(self) -> Scripted {
        Scripted { caps: Caps { hands_on: true, ..self.caps }, ..self }
    }

    pub fn set(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.script.lock().unwrap());
    }

    pub fn sent(&self) -> usize {
        self.script.lock().unwrap().sent.len()
    }

    fn fail(&self) -> Result<(), PortError> {
        let mut script = self.script.lock().unwrap();
        let port = "scripted".to_string();
        if script.down {
            return Err(PortError::Down { port, interface: "none".into() });
        }
        if script.broken {
            return Err(PortError::Gone { port, what: "all".into() });
        }
        if std::mem::take(&mut script.corrupt) {
            return Err(PortError::PeerCorrupt { port, what: "nonsense".into() });
        }
        Ok(())
    }
}

impl Port for Scripted {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.fail()?;
        let mut script = self.script.lock().unwrap();
        let brought = self.pool.alloc(batch, script.brings, 60);
        script.brings -= brought;
        Ok(brought)
    }

    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.fail()?;
        let mut script = self.script.lock().unwrap();
        let mut taken = 0;
        while script.takes > 0 && !batch.is_empty() {
            let len = batch.packet(0).len();
            if script.len_max > 0 && len > script.len_max {
                return Err(PortError::FrameTooLong { port: "scripted".into(), len, max: script.len_max });
            }
            script.sent.push(len);
            script.takes -= 1;
            self.pool.free_front(batch, 1);
            taken += 1;
        }
        Ok(taken)
    }

    fn hand_on(&mut self, to: &mut dyn Port) -> usize {
        let Some(far) = to.as_any().and_then(|port| port.downcast_mut::<Scripted>()) else { return 0 };
        let (mut near, mut far) = (self.script.lock().unwrap(), far.script.lock().unwrap());
        let packets = near.brings.min(far.takes);
        near.brings -= packets;
        far.takes -= packets;
        far.sent.extend(std::iter::repeat_n(UNSEEN, packets));
        packets
    }

    fn as_any(&mut self) -> Option<&mut dyn Any> {
        Some(self)
    }

    fn flush(&mut self) -> Result<usize, PortError> {
        self.script.lock().unwrap().flushes += 1;
        Ok(0)
    }

    fn wait(&mut self, _: Interest, timeout_ns: u64) -> Result<Readiness, PortError> {
        assert_eq!(timeout_ns, 0, "a worker sleeps on descriptors, not in its ports");
        self.fail()?;
        let script = self.script.lock().unwrap();
        Ok(if script.closed && script.brings == 0 { Readiness::Closed } else { Readiness::TimedOut })
    }

    fn link(&mut self) -> Result<LinkState, PortError> {
        let mut script = self.script.lock().unwrap();
        script.links += 1;
        if script.broken {
            return Err(PortError::Gone { port: "scripted".into(), what: "all".into() });
        }
        Ok(if script.down || script.no_carrier { LinkState::Down } else { LinkState::Up })
    }

    fn current_frame_len_max(&mut self) -> usize {
        self.script.lock().unwrap().len_max
    }

    fn stats(&mut self) -> Result<Stats, PortError> {
        Ok(Stats::default())
    }
}
