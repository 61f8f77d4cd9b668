//! Ports of a worker: those that go down and come back, break, close, or are to go.

use linerate_mem::{Batch, Pool};
use linerate_port::{Context, Datapath, Interest, LinkState, Port, PortError, PortIndex, Readiness, TransmitRef};

use crate::Worker;
use crate::shares::Account;
use crate::worker::Served;

/// How long a port that is to go may still bring and take packets.
const LEAVING_NS: u64 = 200_000_000;
/// How often a port is asked whether its far side is gone.
const CLOSED_CHECK_NS: u64 = 20_000_000;
/// How often a port that is down is asked whether it works again.
const DOWN_CHECK_NS: u64 = 10_000_000;

/// What a worker does with a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Role {
    /// The worker receives from it.
    pub receives: bool,
    /// Its peers come and go: when one broke the protocol, the port stays attached and waits for the next one.
    pub forgives: bool,
    /// It hands packets over to another worker of this process, or takes them from one, one way. When nothing can come from
    /// other ports any more and nothing waits for it, a port that sends is closed; from a port that receives packets are taken until
    /// the other worker has closed its end. So two workers that hand packets to each other both come to their end with nothing lost.
    pub handoff: Option<HandoffStage>,
}

/// Which packets cross from one worker to another. Those of a stage are fed by ports and by earlier stages alone, so that workers can close
/// their ends stage by stage although they hand packets to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HandoffStage {
    /// Packets that arrived at a port of one worker and that the other is to decide on: steering in software.
    Arrived,
    /// Packets that one worker decided on and that are to leave by a port of the other.
    Leaving,
}

impl Default for Role {
    fn default() -> Role {
        Role { receives: true, forgives: false, handoff: None }
    }
}

/// What follows when a port is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortLoss {
    /// A port that breaks ends the run. A port whose far side is gone stays; when all that packets come from are at their end and
    /// nothing waits, the run ends.
    #[default]
    EndsRun,
    /// The worker takes the port out, and goes on with the others.
    TakesOut,
}

/// Why a port was taken out.
#[derive(Debug)]
pub enum Loss {
    /// It broke.
    Broken(PortError),
    /// Its far side is gone, and all that came before was received.
    Closed,
    /// [`Served::leave`] was called.
    Left,
}

/// What happens to ports of a worker.
pub enum Event {
    /// The interface of a port is down; the port stays and is asked now and then.
    Down {
        /// Its number.
        port: PortIndex,
        /// What the port said.
        error: PortError,
    },
    /// It works again.
    Up {
        /// Its number.
        port: PortIndex,
    },
    /// The carrier or the peer of a port came or went, for a datapath that [follows links](Datapath::follows_links). The port is served as
    /// before.
    Link {
        /// Its number.
        port: PortIndex,
        /// Its link now.
        link: LinkState,
    },
    /// A peer of a port that forgives broke the protocol; the port waits for the next one.
    PeerLost {
        /// Its number.
        port: PortIndex,
        /// What the port said.
        error: PortError,
    },
    /// The worker took a port out ([`PortLoss::TakesOut`], [`Served::leave`]).
    Lost {
        /// The number that it had.
        port: PortIndex,
        /// The port itself, flushed once. Its totals can still be read.
        taken: Box<dyn Port>,
        /// Why.
        loss: Loss,
    },
}

/// How a port comes to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It does not.
    No,
    /// Its far side is gone; the next `receive` that returns nothing is the last one.
    Closing,
    /// It is taken out when it has nothing more, at this time at the latest.
    Leaving { until_ns: u64 },
}

/// A port, and what the worker knows of it.
pub(crate) struct Attached {
    pub(crate) port: Box<dyn Port>,
    /// Place of its pool in the worker's list.
    pub(crate) pool: usize,
    role: Role,
    /// It may hand packets on by itself.
    pub(crate) hands_on: bool,
    /// The worker receives from it now.
    pub(crate) open: bool,
    /// It takes packets: it is neither down nor broken.
    pub(crate) usable: bool,
    /// Its link, as the datapath knows it.
    pub(crate) link: LinkState,
    closed: bool,
    pub(crate) ending: Ending,
    /// Packets that the datapath left in the batch.
    pub(crate) held: Batch,
    /// Since when packets wait that it does not take; 0 if there are none.
    pub(crate) stuck_since_ns: u64,
    /// What the datapath was last told of its longest packet, because one was longer.
    pub(crate) len_max_told: Option<usize>,
    /// When the datapath was told so, or `stuck_since_ns`.
    pub(crate) stuck_told_ns: u64,
    /// It took packets since the last `flush` that left nothing.
    pub(crate) unflushed: bool,
    checked_ns: u64,
    /// Looks in a row that brought nothing.
    pub(crate) quiet: u32,
    /// Looks at it are system calls, and the kernel tells when something comes for it.
    pub(crate) may_rest: bool,
    /// It is not looked at until something comes for it.
    pub(crate) rests: bool,
    /// Time that went into receiving from it, and into sending to it.
    pub(crate) received: Account,
    pub(crate) sent: Account,
}

impl Attached {
    pub(crate) fn new(port: Box<dyn Port>, pool: usize, held: Batch, role: Role) -> Attached {
        let role = Role { receives: role.receives && port.caps().receives, ..role };
        Attached {
            hands_on: port.caps().hands_on,
            port,
            pool,
            open: role.receives,
            role,
            usable: true,
            link: LinkState::Up,
            closed: false,
            ending: Ending::No,
            held,
            stuck_since_ns: 0,
            len_max_told: None,
            stuck_told_ns: 0,
            unflushed: false,
            checked_ns: 0,
            quiet: 0,
            may_rest: false,
            rests: false,
            received: Account::default(),
            sent: Account::default(),
        }
    }

    /// The worker receives from it, and the datapath took all that came.
    #[inline]
    pub(crate) fn is_served(&self) -> bool {
        self.open && self.held.is_empty()
    }

    /// It is served, and does not rest.
    #[inline]
    pub(crate) fn is_looked_at(&self) -> bool {
        self.is_served() && !self.rests
    }

    pub(crate) fn settle(&mut self) {
        self.open = self.usable && self.role.receives && !self.closed;
    }
}

/// The ports of a worker, by number.
#[derive(Default)]
pub(crate) struct Ports(pub(crate) Vec<Option<Attached>>);

impl Ports {
    /// The ports that there are, with their numbers.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (PortIndex, &mut Attached)> {
        let numbered = self.0.iter_mut().enumerate();
        numbered.filter_map(|(place, attached)| Some((PortIndex(place as u16), attached.as_mut()?)))
    }

    /// What went into each port, and whether it waits for packets to be received from it.
    pub(crate) fn accounts(&self) -> impl Iterator<Item = (Account, bool)> {
        let ports = self.0.iter().flatten();
        ports.flat_map(|attached| [(attached.received, attached.is_served()), (attached.sent, false)])
    }

    /// The number of a port that is attached next.
    fn free(&mut self) -> Option<PortIndex> {
        let place = self.0.iter().position(Option::is_none).unwrap_or(self.0.len());
        if place == self.0.len() {
            self.0.push(None);
        }
        u16::try_from(place).ok().map(PortIndex)
    }

    /// Whether no packet will come any more from the ports that packets come from, or, with a stage, from those that feed it: they are at
    /// their end, and the datapath took all of them. `None` if there is no such port.
    pub(crate) fn are_exhausted(&self, stage: Option<HandoffStage>) -> Option<bool> {
        let sources = self.0.iter().flatten().filter(|attached| attached.role.receives);
        let mut sources = sources.filter(|attached| stage.is_none() || attached.role.handoff < stage).peekable();
        sources.peek()?;
        Some(sources.all(|attached| attached.closed && attached.held.is_empty()))
    }

    /// Nothing is received any more, except from other workers; or, with `closed` false, from all ports again.
    pub(crate) fn close_outside(&mut self, closed: bool) {
        for attached in self.0.iter_mut().flatten().filter(|attached| attached.role.handoff.is_none()) {
            attached.closed = closed;
            attached.settle();
        }
    }

    /// True if the datapath has left packets that were received.
    pub(crate) fn hold_packets(&self) -> bool {
        self.0.iter().flatten().any(|attached| !attached.held.is_empty())
    }

    /// True if no port is down, closed, or about to go.
    pub(crate) fn are_settled(&self) -> bool {
        self.0.iter().flatten().all(|attached| attached.usable && !attached.closed && attached.ending == Ending::No)
    }

    /// When the first port has work to do although nothing arrives; `u64::MAX`: none has. A port that is not received from now may be past its
    /// time for as long as that lasts, which is no reason to stay awake.
    pub(crate) fn next_deadline_ns(&self, now_ns: u64) -> u64 {
        let due_ns = |attached: &Attached| {
            let due_ns = attached.port.next_deadline_ns().filter(|_| attached.usable);
            due_ns.filter(|due_ns| *due_ns > now_ns || attached.is_served())
        };
        self.0.iter().flatten().filter_map(due_ns).min().unwrap_or(u64::MAX)
    }

    pub(crate) fn get_mut(&mut self, port: PortIndex) -> Option<&mut Attached> {
        self.0.get_mut(usize::from(port.0))?.as_mut()
    }

    /// Two different ports.
    pub(crate) fn two_mut(&mut self, one: PortIndex, other: PortIndex) -> Option<(&mut Attached, &mut Attached)> {
        let places = [usize::from(one.0), usize::from(other.0)];
        let [one, other] = self.0.get_disjoint_mut(places).ok()?;
        one.as_mut().zip(other.as_mut())
    }
}

impl TransmitRef for Ports {
    fn transmit_ref(&mut self, to: PortIndex, batch: &Batch, from: usize) -> usize {
        let Some(attached) = self.get_mut(to).filter(|attached| attached.usable) else { return 0 };
        // An error shows again when the port is served itself.
        let goes = batch.len() > from && !batch.has_partial_checksums(from);
        let packets = if goes { attached.port.transmit_ref(batch, from).unwrap_or(0) } else { 0 };
        attached.unflushed |= packets > 0;
        packets
    }
}

impl<D> Worker<D> {
    /// The ports, by number.
    pub fn into_ports(self) -> impl Iterator<Item = Box<dyn Port>> {
        self.served.ports.0.into_iter().flatten().map(|attached| attached.port)
    }
}

impl<D: Datapath> Served<D> {
    /// Attaches an open port, whose packets are of `pool`, under the lowest number that is free; `None` after 65,536 ports.
    pub fn attach(&mut self, port: Box<dyn Port>, pool: &Pool, role: Role) -> Option<PortIndex> {
        self.erased().attach_erased(port, pool, role)
    }

    /// A port, to read its facts and totals.
    pub fn port(&mut self, port: PortIndex) -> Option<&mut (dyn Port + 'static)> {
        self.ports.get_mut(port).map(|attached| &mut *attached.port)
    }

    /// Lets a port go when it has nothing more to bring and to take, 200 ms from `now_ns` at the latest. Returns false if there is no such
    /// port; else [`Event::Lost`] follows, whatever [`PortLoss`] says.
    pub fn leave(&mut self, port: PortIndex, now_ns: u64) -> bool {
        let Some(attached) = self.ports.get_mut(port) else { return false };
        if !matches!(attached.ending, Ending::Leaving { .. }) {
            attached.ending = Ending::Leaving { until_ns: now_ns + LEAVING_NS };
        }
        true
    }
}

impl Served<dyn Datapath + '_> {
    fn attach_erased(&mut self, port: Box<dyn Port>, pool: &Pool, role: Role) -> Option<PortIndex> {
        let index = self.ports.free()?;
        let place = self.home(pool);
        let held = self.batch(pool);
        let attached = self.ports.0[usize::from(index.0)].insert(Attached::new(port, place, held, role));
        self.rest.attach(attached);
        Some(index)
    }

    /// Looks after a port that is not open, or whose packets the datapath left; returns how many slots the datapath took.
    #[cold]
    pub(crate) fn attend(&mut self, index: PortIndex, now_ns: u64) -> usize {
        if self.ports.get_mut(index).is_some_and(|attached| attached.rests && attached.is_served()) {
            self.end_port(index, now_ns);
            return 0;
        }
        let taken = self.offer_again(index, now_ns);
        let Some(attached) = self.ports.get_mut(index) else { return taken };
        if !attached.usable && now_ns.saturating_sub(attached.checked_ns) >= DOWN_CHECK_NS {
            attached.checked_ns = now_ns;
            let interest = if attached.role.receives { Interest::Receive } else { Interest::Transmit };
            match attached.port.wait(interest, 0) {
                Ok(_) => self.interface_up(index, now_ns),
                Err(PortError::Down { .. }) => self.end_port(index, now_ns),
                Err(error) => self.failed(index, error, now_ns),
            }
        } else if !attached.open || !attached.held.is_empty() {
            self.end_port(index, now_ns);
        }
        taken
    }

    /// Looks whether a port whose end was near, and that brought nothing, has come to it.
    #[cold]
    pub(crate) fn end_port(&mut self, index: PortIndex, now_ns: u64) {
        let Some(attached) = self.ports.get_mut(index) else { return };
        match attached.ending {
            Ending::No => {}
            // The datapath is to take what came before.
            Ending::Closing if !attached.held.is_empty() => {}
            Ending::Closing if self.config.port_loss == PortLoss::TakesOut => {
                self.take_out(index, Loss::Closed, now_ns)
            }
            Ending::Closing => {
                attached.closed = true;
                attached.settle();
            }
            Ending::Leaving { until_ns } => {
                let idle = !attached.usable || attached.held.is_empty() && self.datapath.waiting(index) == 0;
                if idle || now_ns >= until_ns {
                    self.take_out(index, Loss::Left, now_ns);
                }
            }
        }
    }

    /// A port returned an error.
    #[cold]
    pub(crate) fn failed(&mut self, index: PortIndex, error: PortError, now_ns: u64) {
        let Some(attached) = self.ports.get_mut(index) else { return };
        match error {
            PortError::Down { .. } => {
                attached.checked_ns = now_ns;
                if attached.usable {
                    self.interface_down(index, error, now_ns);
                }
            }
            PortError::PeerCorrupt { .. } if attached.role.forgives => {
                (self.on_event)(Event::PeerLost { port: index, error });
            }
            error if self.config.port_loss == PortLoss::TakesOut => self.take_out(index, Loss::Broken(error), now_ns),
            error => {
                attached.usable = false;
                attached.settle();
                self.error.get_or_insert(error);
            }
        }
    }

    #[cold]
    fn take_out(&mut self, index: PortIndex, loss: Loss, now_ns: u64) {
        self.tell_datapath(index, now_ns, |datapath, context| datapath.removed(index, context));
        let Some(mut attached) = self.ports.0.get_mut(usize::from(index.0)).and_then(Option::take) else { return };
        self.rest.detach(&mut attached);
        let _ = attached.port.flush();
        if let Some(home) = self.homes.get_mut(attached.pool) {
            home.pool.free(&mut attached.held);
            // The frames that this handle keeps in hand go back for other ports.
            home.pool.flush();
        }
        (self.on_event)(Event::Lost { port: index, taken: attached.port, loss });
    }

    /// Calls the datapath about a port, with a handle of its pool.
    pub(crate) fn tell_datapath(
        &mut self,
        index: PortIndex,
        now_ns: u64,
        tell: impl FnOnce(&mut dyn Datapath, &mut Context<'_>),
    ) {
        let Some(pool) = self.ports.get_mut(index).map(|attached| attached.pool) else { return };
        let Served { datapath, ports, homes, .. } = self;
        let Some(home) = homes.get_mut(pool) else { return };
        tell(datapath, &mut Context { now_ns, pool: &mut home.pool, ports });
    }

    /// Before a pause: pushes on what ports still hold, and looks which far sides are gone.
    pub(crate) fn tidy(&mut self, now_ns: u64) {
        let mut failed = None;
        for (index, attached) in self.ports.iter_mut() {
            if let Err(error) = attached.flush().and_then(|()| attached.look_for_end(now_ns)) {
                failed = Some((index, error));
            }
        }
        if let Some((index, error)) = failed {
            self.failed(index, error, now_ns);
        }
        if self.config.port_loss == PortLoss::EndsRun {
            self.look_for_last_packet();
        }
    }

    /// Notes whether all has come and gone, and closes the way to other workers when nothing can come for them.
    pub(crate) fn look_for_last_packet(&mut self) {
        let exhausted = self.ports.are_exhausted(None) == Some(true);
        for stage in [HandoffStage::Arrived, HandoffStage::Leaving] {
            if exhausted || self.ports.are_exhausted(Some(stage)) == Some(true) {
                self.close_handoffs(stage);
            }
        }
        self.exhausted = exhausted && !self.waits();
    }

    /// Closes the ways to other workers by which nothing waits to be handed over.
    pub(crate) fn close_handoffs(&mut self, stage: HandoffStage) {
        let Served { datapath, ports, .. } = self;
        for (place, attached) in ports.0.iter_mut().enumerate() {
            let waits = datapath.waiting(PortIndex(place as u16)) > 0;
            // The port is closed by dropping it.
            attached.take_if(|attached| attached.role.handoff == Some(stage) && !attached.role.receives && !waits);
        }
    }
}

impl Attached {
    /// Pushes on what the port holds; one that is only sent to looks after itself in this call. That its interface is down shows
    /// when it is served.
    pub(crate) fn flush(&mut self) -> Result<(), PortError> {
        if self.usable && (self.unflushed || !self.role.receives) {
            match self.port.flush() {
                Err(PortError::Down { .. }) => {}
                outcome => self.unflushed = outcome? > 0,
            }
        }
        Ok(())
    }

    fn look_for_end(&mut self, now_ns: u64) -> Result<(), PortError> {
        if self.open && self.ending == Ending::No && now_ns.saturating_sub(self.checked_ns) >= CLOSED_CHECK_NS {
            self.checked_ns = now_ns;
            if self.port.wait(Interest::Receive, 0)? == Readiness::Closed {
                self.ending = Ending::Closing;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use linerate_mem::{Pool, PoolConfig};
    use linerate_port::{Caps, Stats};

    use super::*;

    /// A port that has work to do at a time.
    struct Timed(Caps);

    impl Port for Timed {
        fn caps(&self) -> &Caps {
            &self.0
        }

        fn receive(&mut self, _: &mut Batch) -> Result<usize, PortError> {
            Ok(0)
        }

        fn transmit(&mut self, _: &mut Batch) -> Result<usize, PortError> {
            Ok(0)
        }

        fn wait(&mut self, _: Interest, _: u64) -> Result<Readiness, PortError> {
            Ok(Readiness::TimedOut)
        }

        fn stats(&mut self) -> Result<Stats, PortError> {
            Ok(Stats::default())
        }

        fn next_deadline_ns(&self) -> Option<u64> {
            Some(100)
        }
    }

    #[test]
    fn a_port_that_is_not_received_from_does_not_keep_the_worker_awake() {
        let mut pool = Pool::new(PoolConfig { frames: 64, frame_size: 2048 }).unwrap();
        let port = Timed(Caps { receives: true, ..Caps::default() });
        let attached = Attached::new(Box::new(port), 0, Batch::new(&pool, 8), Role::default());
        let mut ports = Ports(vec![Some(attached)]);
        assert_eq!([99, 100, 101].map(|now_ns| ports.next_deadline_ns(now_ns)), [100; 3]);
        pool.alloc(&mut ports.get_mut(PortIndex(0)).unwrap().held, 1, 60);
        assert_eq!([99, 100, 101].map(|now_ns| ports.next_deadline_ns(now_ns)), [100, u64::MAX, u64::MAX]);
        pool.free(&mut ports.get_mut(PortIndex(0)).unwrap().held);
    }
}
