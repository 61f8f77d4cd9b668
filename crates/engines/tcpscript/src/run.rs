//! Plays a scenario: lets time pass, delivers, calls, and compares.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::collections::BTreeMap;
use std::fmt;

use linerate_wire::MacAddress;

use crate::expect::{differences, show};
use crate::flow::Flow;
use crate::frame::{self, Left, Wire};
use crate::script::{
    Action, AppExpectation, Bound, Call, Message, Numbers, Open, Relation, Scenario, Segment, Step, When,
};
use crate::subject::{Endpoints, Event, Subject};

/// Addresses of the stack and of the peer.
const LOCAL4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const REMOTE4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const LOCAL6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const REMOTE6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);
/// Port of the side that listens.
const SERVICE: u16 = 80;
/// Port of the first flow's peer where it connects; later flows count on.
const PEER_PORT: u16 = 40_000;
/// How far from its moment a segment may leave, where a line names one moment and no `set tolerance` says otherwise.
const TOLERANCE_NS: u64 = 3_000_000;
/// Lines of the trace in a failure.
const TRACE_LINES: usize = 24;

/// Where and why a scenario failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Name of the scenario.
    pub scenario: String,
    /// Line of the step.
    pub line: usize,
    /// Time of the scenario, in nanoseconds.
    pub at_ns: u64,
    /// What is wrong.
    pub text: String,
    /// The last things that happened.
    pub trace: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "line {}, scenario {}, at {}: {}", self.line, self.scenario, Time(self.at_ns), self.text)?;
        for line in &self.trace {
            writeln!(out, "    {line}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

struct Time(u64);

impl fmt::Display for Time {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{:06} s", self.0 / 1_000_000_000, self.0 / 1000 % 1_000_000)
    }
}

/// Plays `scenario` against a subject that was made with its settings, and that answers to `mac`.
///
/// # Errors
/// The first step that did not go as the scenario says.
pub fn run(scenario: &Scenario, subject: &mut dyn Subject, mac: MacAddress) -> Result<(), Failure> {
    let setting =
        |name: &str| scenario.settings.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    let tolerance_ns =
        setting("tolerance").and_then(|text| linerate_units::duration_ns(text).ok()).unwrap_or(TOLERANCE_NS);
    let start_ns = subject.time_ns();
    let is_v6 = setting("ip") == Some("6");
    let mut runner = Runner {
        subject,
        mac,
        is_v6,
        tolerance_ns,
        start_ns,
        at_ns: start_ns,
        flows: BTreeMap::new(),
        listening: false,
        trace: Vec::new(),
    };
    let mut line = scenario.line;
    let mut play = || {
        for step in &scenario.steps {
            line = step.line;
            runner.step(step)?;
        }
        runner.pass(0)?;
        runner.subject.finish()
    };
    let outcome = play();
    outcome.map_err(|text| {
        let skipped = runner.trace.len().saturating_sub(TRACE_LINES);
        Failure {
            scenario: scenario.name.clone(),
            line,
            at_ns: runner.at_ns - start_ns,
            text,
            trace: runner.trace.split_off(skipped),
        }
    })
}

struct Runner<'a> {
    subject: &'a mut dyn Subject,
    mac: MacAddress,
    is_v6: bool,
    tolerance_ns: u64,
    start_ns: u64,
    /// Time of the step before, in the subject's nanoseconds.
    at_ns: u64,
    flows: BTreeMap<String, Flow>,
    /// Somebody listens already.
    listening: bool,
    trace: Vec<String>,
}

impl Runner<'_> {
    fn step(&mut self, step: &Step) -> Result<(), String> {
        match &step.action {
            Action::Expect(message) => return self.expect(&step.flow, message, step.when),
            Action::Rest => return self.rest(step.when.to_ns),
            _ => self.pass(step.when.from_ns)?,
        }
        match &step.action {
            Action::Deliver(messages) => self.deliver(messages),
            Action::Expect(_) | Action::Rest => Ok(()),
            Action::Quiet(duration_ns) => self.pass(*duration_ns),
            Action::Call(call) => self.call(&step.flow, call),
            Action::App(expectation) => self.app(&step.flow, *expectation),
            Action::Check(checks) => self.check(&step.flow, checks),
            Action::Open(open) => self.open(&step.flow, open),
            Action::Peer(options) => self.peer(&step.flow, options),
        }
    }

    /// The flow of that name. The first has its usual ports, each further one a port of its own.
    fn flow(&mut self, name: &str) -> &mut Flow {
        let (count, is_v6) = (self.flows.len() as u16, self.is_v6);
        self.flows.entry(name.to_string()).or_insert_with(|| {
            let (local, remote): (IpAddr, IpAddr) =
                if is_v6 { (LOCAL6.into(), REMOTE6.into()) } else { (LOCAL4.into(), REMOTE4.into()) };
            let endpoints = Endpoints { local, local_port: SERVICE, remote, remote_port: PEER_PORT + count };
            Flow::new(endpoints, 1_000_000 * (1 + u32::from(count)))
        })
    }

    fn note(&mut self, text: String) {
        let at = Time(self.subject.time_ns().saturating_sub(self.start_ns));
        self.trace.push(format!("{at} {text}"));
    }

    /// Lets time pass; nothing may leave.
    fn pass(&mut self, duration_ns: u64) -> Result<(), String> {
        let until_ns = self.at_ns + duration_ns;
        if let Some(left) = self.next(until_ns)? {
            let text = self.describe(&left);
            self.note(format!("> {text}"));
            self.at_ns = self.subject.time_ns();
            return Err(format!("left, although nothing was to leave: {text}"));
        }
        self.at_ns = until_ns;
        self.told()
    }

    /// Lets time pass; anything may leave.
    fn rest(&mut self, duration_ns: u64) -> Result<(), String> {
        let until_ns = self.at_ns + duration_ns;
        while let Some(left) = self.next(until_ns)? {
            let text = self.describe(&left);
            self.note(format!("> {text}"));
        }
        self.at_ns = until_ns;
        self.told()
    }

    /// What leaves next up to `until_ns`, but for the resolving of addresses, which is answered.
    fn next(&mut self, until_ns: u64) -> Result<Option<Left>, String> {
        while let Some(bytes) = self.subject.next_frame(until_ns) {
            match frame::read(&bytes) {
                Left::Neighbour(None) => {}
                Left::Neighbour(Some(reply)) => self.subject.deliver(&[reply]),
                left => return Ok(Some(left)),
            }
        }
        Ok(None)
    }

    fn describe(&mut self, left: &Left) -> String {
        match left {
            Left::Tcp(wire) => {
                let flow = self.flows.iter_mut().find_map(|(name, flow)| flow.takes(wire).then_some((name, flow)));
                match flow {
                    Some((name, flow)) => {
                        flow.note(wire);
                        let name = if name.is_empty() { String::new() } else { format!("{name}: ") };
                        format!("{name}{}", show(&flow.seen(wire)))
                    }
                    None => format!(
                        "a segment of no flow: {:?}:{} to {:?}:{}",
                        wire.src, wire.src_port, wire.dst, wire.dst_port
                    ),
                }
            }
            Left::Icmp(kind, code) => format!("icmp {kind}/{code}"),
            Left::Neighbour(_) => "a neighbour's message".into(),
            Left::Other(text) => text.clone(),
        }
    }

    fn expect(&mut self, name: &str, wanted: &Message, when: When) -> Result<(), String> {
        let exact = when.from_ns == when.to_ns && when.to_ns != 0;
        let tolerance_ns = if exact { self.tolerance_ns } else { 0 };
        let from_ns = (self.at_ns + when.from_ns).saturating_sub(tolerance_ns);
        let until_ns = self.at_ns + when.to_ns + tolerance_ns + self.subject.lateness_ns();
        self.flow(name);
        let Some(left) = self.next(until_ns)? else {
            self.at_ns = until_ns;
            return Err(format!("nothing left; wanted {}", describe_wanted(wanted)));
        };
        let text = self.describe(&left);
        self.note(format!("> {text}"));
        self.at_ns = self.subject.time_ns();
        if self.at_ns < from_ns {
            return Err(format!("left {} too early: {text}", Time(from_ns - self.at_ns)));
        }
        match (&left, wanted) {
            (Left::Tcp(wire), Message::Segment(wanted)) => self.compare(name, wire, wanted),
            (Left::Icmp(kind, code), Message::Icmp(wanted)) if (*kind, *code) == (wanted.kind, wanted.code) => Ok(()),
            _ => Err(format!("left: {text}; wanted {}", describe_wanted(wanted))),
        }?;
        self.told()
    }

    fn compare(&mut self, name: &str, wire: &Wire, wanted: &Segment) -> Result<(), String> {
        let flow = self.flow(name);
        if !flow.takes(wire) {
            return Err("left a segment of another flow".into());
        }
        let seen = flow.seen(wire);
        let mut faults = flow.faults(wire);
        faults.extend(differences(wanted, &seen));
        match faults.is_empty() {
            true => Ok(()),
            false => Err(format!("{}; left: {}; wanted: {}", faults.join("; "), show(&seen), show(wanted))),
        }
    }

    fn deliver(&mut self, messages: &[(String, Message)]) -> Result<(), String> {
        let mut frames = Vec::new();
        let mac = self.mac;
        let since_ns = self.at_ns - self.start_ns;
        for (name, message) in messages {
            let flow = self.flow(name);
            let (bytes, text) = match message {
                Message::Segment(segment) => {
                    let wire = flow.build(segment, since_ns)?;
                    (wire.frame(mac), show(segment))
                }
                Message::Icmp(error) => {
                    let endpoints = flow.endpoints;
                    let quoted = Wire {
                        src: Some(endpoints.local),
                        dst: Some(endpoints.remote),
                        src_port: endpoints.local_port,
                        dst_port: endpoints.remote_port,
                        seq: flow.local_seq(error.seq),
                        ack: flow.peer_seq(1),
                        flags: 0x10,
                        ttl: 60,
                        dont_fragment: true,
                        data: vec![0; 32],
                        ..Wire::default()
                    };
                    let router = endpoints.remote;
                    (frame::icmp_frame(error, router, &quoted, mac), format!("icmp {}/{}", error.kind, error.code))
                }
            };
            frames.push(bytes);
            self.note(format!("< {text}"));
        }
        self.subject.deliver(&frames);
        self.told()
    }

    fn call(&mut self, name: &str, call: &Call) -> Result<(), String> {
        self.note(format!("{call:?}"));
        let flow = self.flow(name);
        if let Call::Connect(options) = call {
            let port =
                |key: &str| options.iter().find(|(known, _)| known == key).and_then(|(_, value)| value.parse().ok());
            flow.endpoints.remote_port = port("remote_port").unwrap_or(SERVICE);
            flow.endpoints.local_port = port("local_port").unwrap_or(0);
        }
        match call {
            Call::Send(count) | Call::SendUrgent(count) => {
                let start = flow.sent.len();
                flow.sent.extend((start..start + count).map(|offset| crate::stream_byte(offset as u64)));
            }
            Call::SendBytes(bytes) => flow.sent.extend_from_slice(bytes),
            _ => {}
        }
        let endpoints = flow.endpoints;
        let outcome = match call {
            Call::Refused(inner, says) => match self.subject.call(&endpoints, inner) {
                Ok(()) => Err("the call went well, but it must fail".to_string()),
                Err(error) if error.contains(says.as_str()) => Ok(()),
                Err(error) => Err(format!("the call failed with: {error}; wanted: {says}")),
            },
            _ => self.subject.call(&endpoints, call).map_err(|error| format!("the call failed: {error}")),
        };
        self.listening |= outcome.is_ok() && matches!(call, Call::Listen(_));
        outcome.and_then(|()| self.told())
    }

    /// Takes what the programs were told.
    fn told(&mut self) -> Result<(), String> {
        for flow in self.flows.values_mut() {
            while let Some(event) = self.subject.event(&flow.endpoints) {
                flow.take(event)?;
            }
        }
        Ok(())
    }

    fn app(&mut self, name: &str, expectation: AppExpectation) -> Result<(), String> {
        let flow = self.flow(name);
        let wanted = match expectation {
            AppExpectation::Got(count) => {
                let got = std::mem::take(&mut flow.got_new);
                return if got == count { Ok(()) } else { Err(format!("the program got {got} bytes, wanted {count}")) };
            }
            AppExpectation::Nothing if flow.events.is_empty() && flow.got_new == 0 => return Ok(()),
            AppExpectation::Nothing => {
                return Err(format!("the program was told {:?}, and got {} bytes", flow.events, flow.got_new));
            }
            AppExpectation::Connected => Event::Connected,
            AppExpectation::Urgent(bytes) => Event::Urgent(bytes),
            AppExpectation::SoftError(error) => Event::SoftError(error),
            AppExpectation::PeerClosed => Event::PeerClosed,
            AppExpectation::Sendable => Event::Sendable,
            AppExpectation::Closed(reason) => Event::Closed(reason),
        };
        match flow.events.iter().position(|event| *event == wanted) {
            Some(at) => drop(flow.events.drain(..=at)),
            None => return Err(format!("the program was not told {wanted:?}; it was told {:?}", flow.events)),
        }
        Ok(())
    }

    fn check(&mut self, name: &str, checks: &[(String, Relation, String)]) -> Result<(), String> {
        let endpoints = self.flow(name).endpoints;
        for (what, relation, wanted) in checks {
            let seen = self.subject.value(&endpoints, what)?;
            if !holds(*relation, &seen, wanted) {
                return Err(format!("{what} is {seen}, wanted {relation:?} {wanted}"));
            }
        }
        Ok(())
    }

    fn peer(&mut self, name: &str, options: &[(String, String)]) -> Result<(), String> {
        let flow = self.flow(name);
        let wrong = |name: &str, value: &str| format!("not a value of {name}: {value}");
        for (option, value) in options {
            let number = || value.parse().map_err(|_| wrong(option, value));
            let address = || value.parse().map_err(|_| wrong(option, value));
            match option.as_str() {
                "port" => flow.endpoints.remote_port = number()?,
                "local_port" => flow.endpoints.local_port = number()?,
                "address" => flow.endpoints.remote = address()?,
                "local" => flow.endpoints.local = address()?,
                // A new incarnation begins, with new numbers.
                "isn" => *flow = Flow::new(flow.endpoints, value.parse().map_err(|_| wrong(option, value))?),
                _ => {
                    return Err(format!(
                        "unknown option of a flow: {option}; known are port, local_port, address, local, isn"
                    ));
                }
            }
        }
        Ok(())
    }

    /// The handshake, by the steps that a script would have.
    fn open(&mut self, name: &str, open: &Open) -> Result<(), String> {
        let rtt = When { from_ns: open.rtt_ns, to_ns: open.rtt_ns };
        let syn_window = open.window.min(65_535);
        let offered = Segment {
            seq: Some(0),
            window: Bound::Is(i64::from(syn_window)),
            mss: if open.mss > 0 { Numbers::Is(open.mss) } else { Numbers::Unsaid },
            sack_permitted: if open.sack { Numbers::Any } else { Numbers::Unsaid },
            timestamps: if open.timestamps { Numbers::Any } else { Numbers::Unsaid },
            window_scale: open.window_scale.map_or(Numbers::Unsaid, Numbers::Is),
            ..Segment::default()
        };
        let of = |flags: &str, segment: Segment| {
            let bits = flags.chars().filter_map(|letter| "FSRPAUEC".find(letter)).fold(0, |all, bit| all | 1u8 << bit);
            Message::Segment(Box::new(Segment { flags: Some(bits), ..segment }))
        };
        let ack =
            |seq: i64, ack: i64| Segment { seq: Some(seq), len: Some(0), ack: Bound::Is(ack), ..Segment::default() };
        if open.active {
            let ecn = if open.ecn { "SEC" } else { "S" };
            self.call(name, &Call::Connect(Vec::new()))?;
            self.expect(name, &of(ecn, Segment { seq: Some(0), len: Some(0), ..Segment::default() }), When::NOW)?;
            self.pass(rtt.from_ns)?;
            let answer = Segment { ack: Bound::Is(1), ..offered };
            self.deliver(&[(name.to_string(), of(if open.ecn { "SAE" } else { "SA" }, answer))])?;
            self.expect(name, &of("A", ack(1, 1)), When::NOW)?;
        } else {
            if !self.listening {
                self.call(name, &Call::Listen(Vec::new()))?;
            }
            self.deliver(&[(name.to_string(), of(if open.ecn { "SEC" } else { "S" }, offered))])?;
            self.expect(name, &of(if open.ecn { "SAE" } else { "SA" }, ack(0, 1)), When::NOW)?;
            self.pass(rtt.from_ns)?;
            let last = Segment { window: Bound::Is(i64::from(open.window)), ..ack(1, 1) };
            self.deliver(&[(name.to_string(), of("A", last))])?;
        }
        self.flow(name).set_window(i64::from(open.window));
        self.app(name, AppExpectation::Connected)
    }
}

fn describe_wanted(wanted: &Message) -> String {
    match wanted {
        Message::Segment(segment) => show(segment),
        Message::Icmp(error) => format!("icmp {}/{}", error.kind, error.code),
    }
}

/// Numbers and times are compared as such, other values as texts.
fn holds(relation: Relation, seen: &str, wanted: &str) -> bool {
    let wanted_number =
        wanted.parse::<i64>().ok().or_else(|| linerate_units::duration_ns(wanted).ok().map(|ns| ns as i64));
    match (seen.parse::<i64>(), wanted_number) {
        (Ok(seen), Some(wanted)) => match relation {
            Relation::Equal => seen == wanted,
            Relation::Unequal => seen != wanted,
            Relation::AtLeast => seen >= wanted,
            Relation::AtMost => seen <= wanted,
        },
        _ => match relation {
            Relation::Equal => seen == wanted,
            Relation::Unequal => seen != wanted,
            Relation::AtLeast | Relation::AtMost => false,
        },
    }
}
