//! TestbedFactory whose ends are TCP stacks of the tester: what tests of connections, of requests and of echoes are made on.

use std::time::Instant;

use linerate_experiment::{DirectLink, EchoOrder, EchoStack, Experiment, FlowSpec, TesterPorts, TopologyKind};
use linerate_port::Drops;
use linerate_report::{
    Account, CORE_CLOCK_MEASURED, Counted, Dut, Environment, ExperimentTrial, Loss, Machine, Noise, SessionPoint,
    Stalls, TestResult, Trial, UdpFound,
};

use super::cores::{self, Chosen};
use super::observed::{core_use, moved};
use super::plan::CellPlan;
use super::testbed::{SessionsRequest, Testbed, TestbedError, TrialRequest, TrialResult};
use linerate_ledger::counters::CounterSources;
use linerate_testbed::cpu::CpuTimes;
use linerate_testbed::dut::{self, Built, Device, Path};
use linerate_testbed::environment;
use linerate_testbed::netlink::flush_connections;
use linerate_testbed::topology::{Cut, LinkKind, TopologySpec};
use linerate_tester::core_clock;
use linerate_tester::tcp::echo::{self, EchoSpec};
use linerate_tester::tcp::{Ends, PairError, SessionSpec, peers, run_sessions, udp_loop};
use linerate_tester::{Cores, Phases};

/// Without capabilities of the host, and with them: this sends and receives on any interface.
const PORTS_DEFAULT: &str = "packet";
/// Bytes that a connection may take, both ends together, and what else is needed.
const CONNECTION_BYTES: u64 = 800;
const OTHER_BYTES: u64 = 512 << 20;

/// A path with a stack at each end.
pub(super) struct TcpRig<'a> {
    device: Box<dyn Device>,
    path: Path,
    sources: Option<CounterSources>,
    ends: Ends,
    flows: FlowSpec,
    chosen: Chosen,
    /// Whether a device is between the ends.
    has_device: bool,
    /// Clock of a core in GHz, where it could be measured.
    clock_ghz: Option<f64>,
    experiment: &'a Experiment,
}

/// What joins the ends of a cell; `None`: interfaces.
fn direct_link(cell: &CellPlan<'_>) -> Option<DirectLink> {
    let ports = cell.tester.filter(|_| cell.dut.kind.is_direct());
    ports.and_then(TesterPorts::direct_link).or(cell.dut.kind.shares_memory().then_some(DirectLink::SharedMemory))
}

impl<'a> TcpRig<'a> {
    /// Builds the device of a cell on the path `spec`, and opens the tester's ends.
    pub(super) fn open(
        cell: &CellPlan<'_>,
        experiment: &'a Experiment,
        spec: TopologySpec,
        (chosen, no_namespaces): (Chosen, Option<&str>),
    ) -> Result<TcpRig<'a>, TestbedError> {
        let cannot = |error: &dyn std::fmt::Display| TestbedError::Cannot(error.to_string());
        let direct = direct_link(cell);
        if let (None, Some(why)) = (direct, no_namespaces) {
            return Err(TestbedError::Cannot(format!("no network namespace can be made: {why}")));
        }
        let spec = match direct {
            None => spec,
            Some(DirectLink::SharedMemory) => TopologySpec { link: LinkKind::Memif, ..spec },
            Some(DirectLink::InProcess) => TopologySpec { ends: TopologyKind::InProcess, ..spec },
        };
        let Built { mut path, device } = dut::build(cell.dut, &spec).map_err(|error| cannot(&error))?;
        let kind = cell.tester.map_or(PORTS_DEFAULT, |ports| ports.sender.as_str());
        let mtu = u16::try_from(spec.mtu).unwrap_or(u16::MAX);
        let ends = Ends::open(&path, kind, mtu).map_err(|error| cannot(&error))?;
        if let Some(topology) = path.topology_mut() {
            topology.place_again(chosen.placement).map_err(|error| cannot(&error))?;
        }
        let sources = path.topology().map(CounterSources::open).transpose().map_err(|error| cannot(&error))?;
        let has_device = !cell.dut.kind.is_direct();
        let flows = cell.flows.clone();
        let clock_ghz = core_clock::measured_ghz();
        Ok(TcpRig { clock_ghz, device, path, sources, ends, flows, chosen, has_device, experiment })
    }

    /// Cores of the client and of the server: without a device in between, the server has the device's.
    fn cores(&self) -> [Option<usize>; 2] {
        let Cores { generator, dut, receiver, .. } = self.chosen.threads;
        [generator, if self.has_device { receiver } else { dut }]
    }

    fn roles(&self) -> Vec<(&'static str, Vec<usize>)> {
        let [client, server] = self.cores();
        let mut roles = vec![("client", client.into_iter().collect()), ("server", server.into_iter().collect())];
        if self.has_device {
            roles.push(("DUT", self.chosen.cores_of_dut()));
        }
        roles
    }

    fn core_clock_ghz(&self) -> Option<f64> {
        self.clock_ghz.or_else(|| environment::read(None).core_clock_ghz())
    }

    fn report(
        &self,
        order: &TrialRequest,
        (account, cpu, began): (Account, &CpuTimes, Instant),
        notes: Vec<String>,
    ) -> ExperimentTrial {
        // Packets are counted while connections are set up and closed, too, so a rate is of all that time.
        let duration_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let unknown = vec!["when cores were away is not watched in tests of TCP".into()];
        let stalls = Stalls { unknown, ..Stalls::default() };
        ExperimentTrial {
            machine: Machine {
                noise: Noise { steal_share: cpu.steal_share(), ..Noise::default() },
                stalls,
                work: Vec::new(),
            },
            dut_counters: Default::default(),
            not_used: None,
            trial: Trial {
                name: order.name.clone(),
                purpose: order.purpose,
                path: account.places(),
                size_wire: 0,
                flows: self.flows.count(),
                load_pps: account.intended() as f64 * 1e9 / duration_ns.max(1) as f64,
                duration_ns,
                account,
                latency: None,
                cpu: core_use(cpu, &self.roles()),
                baseline_pps: None,
                notes,
            },
        }
    }
}

fn gone(error: PairError) -> TestbedError {
    match error {
        PairError::Stopped => TestbedError::Stopped,
        error => TestbedError::Cannot(error.to_string()),
    }
}

impl Testbed for TcpRig<'_> {
    fn describe(&self) -> Dut {
        self.device.describe()
    }

    fn mode(&self) -> String {
        let work = self.path.topology().map(|topology| format!("{}; ", topology.mode_text())).unwrap_or_default();
        work + &cores::in_words(&self.roles())
    }

    fn environment(&self) -> Option<Environment> {
        let mut environment = environment::read(self.path.topology());
        environment.other.insert("tester's stacks are joined by".into(), self.ends.describe().to_owned());
        let measured = self.clock_ghz.map(|ghz| (CORE_CLOCK_MEASURED.into(), format!("{:.0} MHz", ghz * 1_000.0)));
        environment.other.extend(measured);
        Some(environment)
    }

    /// Nothing: each trial begins with a connection that finds the way.
    fn warm_up(&mut self) -> Result<(), TestbedError> {
        Ok(())
    }

    fn trial(&mut self, _: &TrialRequest) -> Result<TrialResult, TestbedError> {
        Err(TestbedError::Cannot("the tester's ends are TCP stacks, which send no packets by a schedule".into()))
    }

    fn ping(&mut self, _: u64, _: u64) -> Result<TestResult, TestbedError> {
        Err(TestbedError::Cannot("the tester's ends are TCP stacks".into()))
    }

    fn sessions(
        &mut self,
        order: &TrialRequest,
        wanted: &SessionsRequest,
    ) -> Result<(ExperimentTrial, SessionPoint), TestbedError> {
        let device = |error: dut::DutError| TestbedError::Device(error.to_string());
        self.device.learn().map_err(device)?;
        let before = self.device.counters().map_err(device)?;
        let phases = self.experiment.phases;
        let spec = SessionSpec {
            load: wanted.load,
            duration_ns: wanted.duration_ns,
            bytes: wanted.bytes,
            timeout_ns: wanted.timeout_ns,
            flows: &self.flows,
            cores: Cores { generator: self.cores()[0], receiver: self.cores()[1], ..Cores::default() },
            phases: Phases { drain_ns: phases.drain_ns.max(Phases::default().drain_ns), ..Phases::default() },
        };
        let router = self.path.topology().and_then(|topology| topology.dut.as_ref());
        let router = router.filter(|dut| dut.forwarding.cut == Cut::Routed);
        // What a trial left in the table is not the next one's.
        let mut flush = || match router {
            Some(dut) => Ok(flush_connections(&dut.namespace)?),
            None => Ok(()),
        };
        flush().map_err(gone)?;
        let began = Instant::now();
        let outcome = run_sessions(&mut self.ends, self.sources.as_mut(), self.path.switch(), &spec, &mut flush);
        self.device.check().map_err(device)?;
        let outcome = outcome.map_err(gone)?;
        let after = self.device.counters().map_err(device)?;
        let mut notes = outcome.notes;
        notes.extend(outcome.ledger.unnamed_notes());
        let trial = self.report(order, (outcome.ledger.account, &outcome.cpu, began), notes);
        Ok((ExperimentTrial { dut_counters: moved(&before, &after), ..trial }, outcome.point))
    }

    fn udp_loop(
        &mut self,
        order: &TrialRequest,
        duration_ns: u64,
    ) -> Result<(ExperimentTrial, TestResult), TestbedError> {
        let (cores, began) = (self.cores(), Instant::now());
        let outcome = udp_loop::run(&mut self.ends, duration_ns, cores).map_err(gone)?;
        self.device.check().map_err(|error| TestbedError::Device(error.to_string()))?;
        let trial = self.report(order, (counted(outcome.packets, &outcome.drops)?, &outcome.cpu, began), Vec::new());
        let per_ghz = self.core_clock_ghz().map(|ghz| outcome.found.per_second / ghz);
        let found = UdpFound { per_ghz, ..outcome.found };
        Ok((trial, TestResult::UdpLoop(found)))
    }

    fn echo(
        &mut self,
        order: &TrialRequest,
        stack: EchoStack,
        orders: &[EchoOrder],
        duration_ns: u64,
    ) -> Result<(ExperimentTrial, TestResult), TestbedError> {
        let connections = self.flows.count();
        let needed = connections * CONNECTION_BYTES + OTHER_BYTES;
        let available = environment::memory_available_bytes().unwrap_or(u64::MAX);
        if needed > available {
            let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
            return Err(TestbedError::Cannot(format!(
                "{connections} connections need {:.1} GiB of memory, and this machine has {:.1} GiB free",
                gib(needed),
                gib(available)
            )));
        }
        let spec = EchoSpec { connections: connections as usize, orders, duration_ns, cores: self.cores() };
        let began = Instant::now();
        let outcome = match stack {
            EchoStack::Linerate => echo::run(&mut self.ends, &spec),
            EchoStack::Linux => peers::linux(&spec),
            EchoStack::Smoltcp => peers::smoltcp(&mut self.ends, &spec),
            EchoStack::Lwip => peers::lwip(&spec),
        }
        .map_err(gone)?;
        self.device.check().map_err(|error| TestbedError::Device(error.to_string()))?;
        let counted = (counted(outcome.packets, &outcome.drops)?, &outcome.cpu, began);
        let trial = self.report(order, counted, outcome.notes);
        let mut found = outcome.found;
        let clock_ghz = self.core_clock_ghz();
        found.points.iter_mut().for_each(|point| point.per_ghz = clock_ghz.map(|ghz| point.per_second / ghz));
        Ok((trial, TestResult::TcpEcho(found)))
    }
}

/// The account of the packets of both ends. Ports count what they lost of other packets, too, so that no more is theirs than is missing.
fn counted([client, server]: [(u64, u64); 2], drops: &[Drops]) -> Result<Account, TestbedError> {
    let (sent, delivered) = (client.0 + server.0, client.1 + server.1);
    let mut missing = sent.saturating_sub(delivered);
    let loss = |drops: &Drops| {
        let packets = drops.packets.min(missing);
        missing -= packets;
        Loss::new(&drops.place, &drops.cause, packets)
    };
    let lost = drops.iter().map(loss).collect();
    let counted = Counted { intended: sent, sent, delivered, ..Counted::default() };
    Account::new(counted, lost).map_err(|error| TestbedError::Cannot(error.to_string()))
}
