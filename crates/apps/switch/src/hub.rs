//! What the worker thread owns: the engine, the pool and the ports; and one round of moving packets.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;

use linerate_l2::{DropReason, Look, PortIndex, Switch};
use linerate_mem::{Batch, Pool};
use linerate_port::{Interest, Port, PortError, Readiness};
use linerate_sys::clock;

use crate::bell::Bell;
use crate::config::PortConfig;
use crate::protocol::Refusal;
use crate::settings::Settings;
use crate::words::Word;

/// Packets that a port may bring in one round: enough to share the costs of a round, few enough to take turns.
pub(crate) const BATCH: usize = 64;
/// Mirrors whose ports are shown packets, at most: those that come later copy.
pub(crate) const LOOKS: usize = 64;
/// How long a port that is to go may still bring and take packets.
const LEAVING_NS: u64 = 200_000_000;
/// How long packets wait for a port that takes none; then they are thrown away.
const STALE_NS: u64 = 1_000_000_000;
/// How long a port that takes none is looked at often.
const STUCK_LATELY_NS: u64 = 20_000_000;
/// How often a port that cannot ring is asked whether its far side is gone.
const ENDED_CHECK_NS: u64 = 20_000_000;
/// How often a port that is down is asked whether it works again.
const DOWN_CHECK_NS: u64 = 10_000_000;
/// How often a part of the MAC table is looked through for what is too old.
const AGEING_NS: u64 = 10_000_000;

/// Why a port is out that came to its end in order: a capture that was replayed, a process that closed its end.
pub(crate) const ENDED: &str = "the far side has ended";

/// A port of the switch.
pub(crate) struct Line {
    /// What was asked for; `config.name` is set.
    pub config: PortConfig,
    pub settings: Settings,
    pub port: Box<dyn Port>,
    pub index: PortIndex,
    /// Its id, if it is one of the memif ports given out by name.
    pub memif: Option<u32>,
    /// Its peers come and go: one that broke the protocol is told about, and the next one is waited for.
    forgives: bool,
    /// Until when it may stay.
    leaving_ns: Option<u64>,
    /// Since when packets wait that it does not take; 0: none do.
    stuck_since_ns: u64,
    /// It took packets since the last `flush` that left nothing.
    pub(crate) unflushed: bool,
    ended_check_ns: u64,
    /// Why its port does nothing for now; `None` while it works.
    pub(crate) down: Option<String>,
    down_check_ns: u64,
}

impl Line {
    /// Asks a port that is down, now and then, whether it works again; true if it does.
    ///
    /// # Errors
    /// It never will.
    #[cold]
    fn is_back(&mut self, now_ns: u64) -> Result<bool, PortError> {
        if now_ns.saturating_sub(self.down_check_ns) < DOWN_CHECK_NS {
            return Ok(false);
        }
        self.down_check_ns = now_ns;
        let interest = if self.port.caps().receives { Interest::Receive } else { Interest::Transmit };
        match self.port.wait(interest, 0) {
            Ok(_) => Ok(true),
            Err(PortError::Down { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.config.name.as_deref().unwrap_or_default()
    }
}

/// What the worker tells the control thread.
pub(crate) enum Event {
    /// A port is out, because it broke or its far side is gone.
    Broken { line: Box<Line>, error: String },
    /// The interface of a port is down; the port stays and is asked now and then.
    Down { port: String, error: String },
    /// It works again.
    Back { port: String },
    /// A peer of a port broke the protocol; the port waits for the next one.
    PeerLost { port: String, error: String },
    /// A port is out, because that was wanted.
    Left(Box<Line>),
}

/// What a round did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Round {
    /// Packets received, and packets that ports took.
    pub moved: usize,
    /// Packets wait for a port that took none.
    pub stuck: bool,
    /// Some port has begun only lately to take none: it may have room again soon.
    pub stuck_lately: bool,
}

/// Totals of the worker.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turns {
    pub rounds: u64,
    pub busy: u64,
    pub busy_ns: u64,
    pub sleeps: u64,
}

pub(crate) struct Hub {
    pub switch: Switch,
    pub pool: Pool,
    pub lines: Vec<Line>,
    pub turns: Turns,
    pub(crate) arrived: Batch,
    /// What mirrors may look at, of the batch in hand.
    pub(crate) looks: Vec<Look>,
    events: Sender<Event>,
    control: Bell,
    aged_ns: u64,
}

impl Hub {
    pub(crate) fn new(switch: Switch, pool: Pool, events: Sender<Event>, control: Bell) -> Hub {
        let arrived = Batch::new(&pool, BATCH);
        let looks = Vec::with_capacity(LOOKS);
        Hub { switch, pool, lines: Vec::new(), turns: Turns::default(), arrived, looks, events, control, aged_ns: 0 }
    }

    /// Joins an open port.
    pub(crate) fn attach(
        &mut self,
        config: PortConfig,
        settings: Settings,
        port: Box<dyn Port>,
        memif: Option<u32>,
    ) -> Result<PortIndex, String> {
        let index = self.switch.add_port(settings.engine(port.caps())).map_err(|error| error.to_string())?;
        let forgives = port.caps().survives_peers;
        let line = Line {
            forgives,
            config,
            settings,
            port,
            index,
            memif,
            leaving_ns: None,
            stuck_since_ns: 0,
            unflushed: false,
            ended_check_ns: 0,
            down: None,
            down_check_ns: 0,
        };
        self.lines.push(line);
        Ok(index)
    }

    pub(crate) fn line(&self, name: &str) -> Option<&Line> {
        self.lines.iter().find(|line| line.name() == name)
    }

    pub(crate) fn line_mut(&mut self, name: &str) -> Option<&mut Line> {
        self.lines.iter_mut().find(|line| line.name() == name)
    }

    /// Changes settings of a port; `None` when there is none of that name.
    pub(crate) fn change(&mut self, name: &str, changes: &BTreeMap<String, Word>) -> Option<Result<(), Refusal>> {
        let line = self.lines.iter_mut().find(|line| line.name() == name)?;
        let switch = &mut self.switch;
        Some(line.settings.with(changes).and_then(|settings| {
            let set = switch.set_port(line.index, settings.engine(line.port.caps()));
            set.map_err(|error| Refusal::new(error.to_string(), ""))?;
            // It is opened again with these, should it break.
            line.config.settings = settings.words().into_iter().map(|(key, word)| (key, Word(word))).collect();
            line.settings = settings;
            Ok(())
        }))
    }

    /// Lets a port go once it is empty; [`Event::Left`] follows. False: there is no such port.
    pub(crate) fn leave(&mut self, name: &str) -> bool {
        let Some(line) = self.line_mut(name) else { return false };
        line.leaving_ns.get_or_insert(clock::now_ns() + LEAVING_NS);
        true
    }

    /// Serves every port once: what has arrived goes through the engine, then each port gets what is for it.
    #[inline]
    pub(crate) fn round(&mut self, now_ns: u64) -> Round {
        let mut round = Round { moved: self.receive(now_ns), ..Round::default() };
        self.transmit(&mut round, now_ns);
        self.turns.rounds += 1;
        self.turns.busy += u64::from(round.moved > 0);
        if now_ns.saturating_sub(self.aged_ns) >= AGEING_NS {
            self.aged_ns = now_ns;
            self.switch.age(now_ns);
        }
        round
    }

    #[inline]
    fn receive(&mut self, now_ns: u64) -> usize {
        let (mut received, mut out) = (0, None);
        for place in 0..self.lines.len() {
            let Some(line) = self.lines.get_mut(place) else { break };
            if line.down.is_some() {
                match line.is_back(now_ns) {
                    Ok(true) => self.bring_back(place),
                    Ok(false) if line.leaving_ns.is_some() => out = out.or(Some((place, None))),
                    Ok(false) => {}
                    Err(error) => out = Some((place, Some(error))),
                }
                continue;
            }
            let (outcome, index, leaves) =
                (line.port.receive(&mut self.arrived), line.index, line.leaving_ns.is_some());
            if !self.arrived.is_empty() {
                received += self.arrived.len();
                if self.switch.is_mirrored() {
                    self.forward_shown(index, now_ns);
                } else {
                    self.switch.forward(index, &mut self.arrived, &mut self.pool, now_ns);
                }
            }
            match outcome {
                Ok(0) if leaves => out = out.or(Some((place, None))),
                Ok(_) => {}
                // One at a time: an error comes again.
                Err(error) => out = Some((place, Some(error))),
            }
        }
        if let Some((place, error)) = out {
            self.put_out(place, error, now_ns);
        }
        received
    }

    #[inline]
    fn transmit(&mut self, round: &mut Round, now_ns: u64) {
        let (mut sent_ns, mut broken) = (0, None);
        for (place, line) in self.lines.iter_mut().enumerate() {
            let Some(queue) = self.switch.egress(line.index).filter(|queue| !queue.is_empty()) else { continue };
            let batch = queue.batch_mut();
            let waiting = batch.len();
            let outcome = if line.down.is_none() { line.port.transmit(batch) } else { Ok(0) };
            let left = batch.len();
            let taken = match &outcome {
                Ok(taken) => *taken,
                // Ports may have sent what was before the packet that they complain about.
                Err(_) => waiting - left,
            };
            if taken > 0 {
                if sent_ns == 0 {
                    sent_ns = clock::now_ns();
                }
                line.unflushed = true;
                self.switch.sent(line.index, taken, sent_ns);
            }
            round.moved += taken;
            if left == 0 || taken > 0 {
                line.stuck_since_ns = 0;
            } else if line.stuck_since_ns == 0 {
                line.stuck_since_ns = now_ns;
            } else if now_ns.saturating_sub(line.stuck_since_ns) > STALE_NS {
                // There is no peer, or it hangs: what it gets when it is back is not to be old.
                self.switch.discard(line.index, DropReason::EgressFull, &mut self.pool);
                line.stuck_since_ns = 0;
                continue;
            }
            round.stuck |= left > 0;
            round.stuck_lately |= left > 0 && now_ns.saturating_sub(line.stuck_since_ns) < STUCK_LATELY_NS;
            match outcome {
                Ok(_) => {}
                Err(PortError::FrameTooLong { .. }) => {
                    // Its MTU shrank: what is too long now is kept out by the engine from the next packet on.
                    self.switch.discard(line.index, DropReason::TooLong, &mut self.pool);
                    let settings = line.settings.engine(line.port.caps());
                    let _ = self.switch.set_port(line.index, settings);
                }
                Err(error) => broken = Some((place, error)),
            }
        }
        if let Some((place, error)) = broken {
            self.take_out(place, Some(error), now_ns);
        }
    }

    /// A port broke, or one that is to go has nothing more to receive.
    #[cold]
    fn put_out(&mut self, place: usize, error: Option<PortError>, now_ns: u64) {
        let Some(line) = self.lines.get(place) else { return };
        if error.is_none() {
            let waiting = self.switch.egress(line.index).is_some_and(|queue| !queue.is_empty());
            if waiting && line.leaving_ns.is_some_and(|leaving_ns| now_ns < leaving_ns) {
                return;
            }
        }
        self.take_out(place, error, now_ns);
    }

    #[cold]
    fn take_out(&mut self, place: usize, error: Option<PortError>, now_ns: u64) {
        if let (Some(line), Some(error @ PortError::Down { .. })) = (self.lines.get_mut(place), &error) {
            (line.down, line.down_check_ns) = (Some(error.to_string()), now_ns);
            let (port, error) = (line.name().to_owned(), error.to_string());
            let _ = self.events.send(Event::Down { port, error });
            return self.control.ring();
        }
        if let (Some(line), Some(error @ PortError::PeerCorrupt { .. })) = (self.lines.get(place), &error)
            && line.forgives
        {
            let (port, error) = (line.name().to_owned(), error.to_string());
            let _ = self.events.send(Event::PeerLost { port, error });
            return self.control.ring();
        }
        self.remove(place, error.map(|error| error.to_string()));
    }

    #[cold]
    fn bring_back(&mut self, place: usize) {
        let Some(line) = self.lines.get_mut(place) else { return };
        line.down = None;
        let _ = self.events.send(Event::Back { port: line.name().to_owned() });
        self.control.ring();
    }

    #[cold]
    fn remove(&mut self, place: usize, error: Option<String>) {
        let mut line = self.lines.remove(place);
        let _ = line.port.flush();
        self.switch.remove_port(line.index, &mut self.pool);
        // What its frames were taken with goes on with it; the pool's own keep is given back for others.
        self.pool.flush();
        let line = Box::new(line);
        let event = match error {
            Some(error) => Event::Broken { line, error },
            None => Event::Left(line),
        };
        // Without a control thread everything is at its end, and the port is closed here.
        let _ = self.events.send(event);
        self.control.ring();
    }

    /// Before a pause: pushes on what ports still hold; looks which far sides are gone.
    pub(crate) fn tidy(&mut self, now_ns: u64) {
        let mut out = None;
        for (place, line) in self.lines.iter_mut().enumerate() {
            if line.unflushed {
                match line.port.flush() {
                    Ok(held) => line.unflushed = held > 0,
                    // `receive` or `transmit` says so too.
                    Err(PortError::Down { .. }) => {}
                    Err(error) => out = Some((place, error.to_string())),
                }
            }
            if line.port.caps().receives && now_ns.saturating_sub(line.ended_check_ns) >= ENDED_CHECK_NS {
                line.ended_check_ns = now_ns;
                if matches!(line.port.wait(Interest::Receive, 0), Ok(Readiness::Closed)) {
                    out = Some((place, format!("{}: {ENDED}", line.port.caps().name)));
                }
            }
        }
        if let Some((place, error)) = out {
            self.remove(place, Some(error));
        }
    }

    /// Sends what waits, for a moment, then takes every port out. The ports are closed by whoever gets them.
    pub(crate) fn finish(&mut self) -> Vec<Line> {
        let end_ns = clock::now_ns() + LEAVING_NS;
        loop {
            let mut round = Round::default();
            self.transmit(&mut round, clock::now_ns());
            if !round.stuck && round.moved == 0 || clock::now_ns() >= end_ns {
                break;
            }
            if round.moved == 0 {
                clock::sleep_until_ns(clock::now_ns() + 1_000_000);
            }
        }
        for line in &mut self.lines {
            let _ = line.port.flush();
        }
        std::mem::take(&mut self.lines)
    }
}
