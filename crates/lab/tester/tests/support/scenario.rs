//! A trial on a router on which something was made wrong, and what its ledger has to say.
#![allow(dead_code)] // Each test binary uses its own part.

use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};

use linerate_experiment::{FlowOrder, FlowSpec};
use linerate_ledger::ledger::Ledger;
use linerate_sys::netns::NetNs;
use linerate_testbed::topology::{Topology, TopologySpec};
use linerate_tester::{Cores, DropReasonMode, Load, Outcome, Tester, TesterSpec, TrialSpec, fixed_size};
use linerate_testkit::or_skip;

use super::{built, opened};

/// What is sent, and how.
pub struct Scenario {
    pub path: TopologySpec,
    pub sender: &'static str,
    pub receiver: &'static str,
    /// None: as fast as the port takes them.
    pub rate_pps: Option<f64>,
    pub duration_ms: u64,
    pub cores: Cores,
    /// Bytes of a frame on the wire.
    pub size_wire: u32,
    /// Different source ports.
    pub flows: u64,
    pub source: Ipv4Addr,
    pub destination: Ipv4Addr,
}

impl Default for Scenario {
    fn default() -> Self {
        Scenario {
            path: TopologySpec::default(),
            sender: "packet",
            receiver: "packet",
            rate_pps: Some(20_000.0),
            duration_ms: 400,
            cores: Cores::default(),
            size_wire: 64,
            flows: 1,
            source: Ipv4Addr::new(192, 0, 2, 1),
            destination: Ipv4Addr::new(192, 0, 2, 101),
        }
    }
}

impl Scenario {
    /// Runs one trial on a fresh router on which `prepare` was done; none, having said why, where that cannot be.
    pub fn run(&self, prepare: impl Fn(&Topology) -> Result<(), String>) -> Option<Ledger> {
        self.run_with(prepare, |_| ())
    }

    /// As [`Scenario::run`], with something done in another thread while the trial runs. Made again, three times at most, when
    /// a paced trial lost packets because the machine was too busy to empty a backlog or a ring: rightly named, but not provoked.
    pub fn run_with(
        &self,
        prepare: impl Fn(&Topology) -> Result<(), String>,
        meanwhile: impl Fn(&Topology) + Sync,
    ) -> Option<Ledger> {
        let full = |cause: &str| cause.contains("backlog full") || cause.contains("ring full");
        let was_busy = |ledger: &Ledger| ledger.account.lost().iter().any(|loss| full(&loss.cause));
        let mut ledger = self.attempt(&prepare, &meanwhile)?;
        for _ in 0..3 {
            if self.rate_pps.is_none() || !was_busy(&ledger) {
                break;
            }
            eprintln!("made again, the machine was busy: {:?}", ledger.account.lost());
            ledger = self.attempt(&prepare, &meanwhile)?;
        }
        Some(ledger)
    }

    fn attempt(
        &self,
        prepare: &impl Fn(&Topology) -> Result<(), String>,
        meanwhile: &(impl Fn(&Topology) + Sync),
    ) -> Option<Ledger> {
        let topology = built(Topology::router(&self.path))?;
        let ports = TesterSpec::new(self.sender, self.receiver);
        or_skip("not prepared", prepare(&topology))?;
        let mut tester = opened(topology, &ports)?;
        tester.place(self.path.placement).expect("placed");
        let topology = tester.topology.take().expect("the path that it was opened on");
        let (size, flows) = (fixed_size(self.size_wire), self.flows());
        let load = Load::new(self.rate_pps, self.duration_ms * 1_000_000);
        let spec = TrialSpec { cores: self.cores, ..TrialSpec::new(&size, &flows, load) };
        let outcome = std::thread::scope(|scope| {
            scope.spawn(|| meanwhile(&topology));
            tester.trial(&spec)
        });
        Some(outcome.expect("a trial").ledger)
    }

    /// A tester on a fresh router.
    pub fn tester(&self) -> Option<Tester> {
        self.tester_that_asks(DropReasonMode::Always)
    }

    /// The same, asking for the kernel's drop reasons at the times stated.
    pub fn tester_that_asks(&self, drop_reasons: DropReasonMode) -> Option<Tester> {
        let topology = built(Topology::router(&self.path))?;
        opened(topology, &TesterSpec { drop_reasons, ..TesterSpec::new(self.sender, self.receiver) })
    }

    /// Runs one trial on a tester of this scenario.
    pub fn trial(&self, tester: &mut Tester) -> Ledger {
        self.outcome(tester).ledger
    }

    /// As [`Scenario::trial`], with everything that was found.
    pub fn outcome(&self, tester: &mut Tester) -> Outcome {
        let (size, flows) = (fixed_size(self.size_wire), self.flows());
        let load = Load::new(self.rate_pps, self.duration_ms * 1_000_000);
        let spec = TrialSpec { cores: self.cores, ..TrialSpec::new(&size, &flows, load) };
        tester.trial(&spec).expect("a trial")
    }

    /// What is sent.
    pub fn flows(&self) -> FlowSpec {
        let (source, destination) = (self.source, self.destination);
        FlowSpec {
            source,
            sources: 1,
            destination,
            destinations: 1,
            ports: self.flows,
            order: FlowOrder::Odometer,
            ip: linerate_experiment::FlowIp::V4,
        }
    }
}

/// At least 99 % of the lost packets are in rows with one of these beginnings of a place and words of a cause, each with a hint,
/// and less than 0.1 % of the sent ones are unexplained.
pub fn assert_named(ledger: &Ledger, expected: &[(&str, &str)]) {
    let account = &ledger.account;
    let lost = account.sent() - account.delivered();
    assert!(lost > 0, "nothing was lost: {ledger:?}");
    let is_expected = |place: &str, cause: &str| {
        expected.iter().any(|(beginning, words)| place.starts_with(beginning) && cause.contains(words))
    };
    let rows: Vec<_> = account.lost().iter().filter(|loss| is_expected(&loss.place, &loss.cause)).collect();
    let named: u64 = rows.iter().map(|loss| loss.packets).sum();
    assert!(named * 100 >= lost * 99, "{named} of {lost} are at {expected:?}: {ledger:#?}");
    assert!(account.unexplained().unsigned_abs() * 1000 < account.sent(), "unexplained: {ledger:#?}");
    assert!(rows.iter().all(|loss| loss.hint.is_some()), "no hint: {ledger:#?}");
    eprintln!("{named} of {lost} lost packets, {} unexplained of {} sent", account.unexplained(), account.sent());
}

/// Runs a program in the DUT's namespace.
pub fn in_dut(topology: &Topology, program: &str, arguments: &[&str]) -> Result<(), String> {
    let dut = topology.dut.as_ref().ok_or("no router")?;
    in_namespace(&dut.namespace, program, arguments)
}

/// Runs a program in a namespace.
pub fn in_namespace(namespace: &NetNs, program: &str, arguments: &[&str]) -> Result<(), String> {
    let output = namespace.run(|| Command::new(program).args(arguments).output());
    match output.map_err(|error| error.to_string())? {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(format!("{program} is not installed")),
        Err(error) => Err(format!("{program}: {error}")),
    }
}

/// Arguments of `tc` for a token bucket whose queue holds all that comes.
pub fn token_bucket<'a>(interface: &'a str, rate: &'a str) -> Vec<&'a str> {
    let add = ["qdisc", "add", "dev", interface, "root", "tbf"];
    [&add[..], &["rate", rate, "burst", "4kb", "limit", "100mb"]].concat()
}

/// A setting of the whole machine, changed while this lives. A shell that reads from this process puts it back when there is
/// nothing left to read from, so it comes back however the test ends.
pub struct MachineSetting(Child);

impl MachineSetting {
    pub fn change(path: &str, value: &str) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("{path}: {error}");
        let before = std::fs::read_to_string(path).map_err(failed)?;
        let script = "echo ready; read -r _; printf %s \"$1\" > \"$2\"";
        let mut guard = Command::new("sh");
        guard.args(["-c", script, "sh", before.trim(), path]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut guard = MachineSetting(guard.spawn().map_err(failed)?);
        let mut ready = [0; 6];
        let told = guard.0.stdout.as_mut().map(|stdout| std::io::Read::read_exact(stdout, &mut ready));
        told.ok_or("no guard")?.map_err(failed)?;
        std::fs::File::options()
            .write(true)
            .open(path)
            .and_then(|mut file| file.write_all(value.as_bytes()))
            .map_err(failed)?;
        Ok(guard)
    }
}

impl Drop for MachineSetting {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
