//! Writes an experiment as a file, with every key.

use std::fmt::Write;

use linerate_experiment::{
    CellMatch, Cores, Direction, DutCores, DutKind, Experiment, FlowIp, FlowOrder, FlowSpec, Limit, LimitOf, LossGoal,
    NextHop, Search, SessionKind, SizeSpec, TestKind, TestSpec, TopologyKind,
};
use linerate_testbed::dut::bridge::Bridge;
use linerate_testbed::dut::capture::{Capture, CaptureCores, Reception};
use linerate_testbed::dut::command::Command;
use linerate_testbed::dut::external::External;
use linerate_testbed::dut::flow_table::FlowSwitch;
use linerate_testbed::dut::none::Direct;
use linerate_testbed::dut::ofswitch::OfSwitch;
use linerate_testbed::dut::ovs::OpenVswitch;
use linerate_testbed::dut::pipe::Pipe;
use linerate_testbed::dut::router::{FirewallTool, Router};
use linerate_testbed::dut::switch::Switch;
use linerate_testbed::dut::switch_ports::SwitchPorts;
use linerate_testbed::dut::xdp::XdpForwarder;

pub fn experiment(it: &Experiment) -> String {
    let mut out = format!("name = {}\ntitle = {}\nabout = {}\n", text(&it.name), text(&it.title), text(&it.about));
    out += &topology(it);
    if it.placements.is_empty() {
        out += &format!("[cores]\n{}\n", cores(&it.cores).join("\n"));
    }
    let (gap, retries) = (span(it.gap_max_ns), it.disturbed_retries);
    out += &format!("[noise]\nsteal_max = {}\ngap_max = {gap}\nretries = {retries}\n", it.steal_max);
    let (warm_up, wait) = (span(it.phases.warm_up_ns), span(it.phases.wait_ns));
    let (drain, rest) = (span(it.phases.drain_ns), span(it.phases.rest_ns));
    out += &format!("[phases]\nwarm_up = {warm_up}\nwait = {wait}\ndrain = {drain}\nrest = {rest}\n");
    for dut in &it.duts {
        out += &format!("[[dut]]\nname = {}\n{}", text(&dut.name), kind(&dut.kind));
    }
    out += &matrix(it);
    it.tests.iter().for_each(|spec| out += &test(spec));
    for row in &it.published {
        let (source, what, printed) = (text(&row.source), text(&row.what), text(&row.text));
        out += &format!("[[published]]\nsource = {source}\nwhat = {what}\ntext = {printed}\n");
        out += &cells(&row.cells, "\n");
        row.value.iter().for_each(|value| out += &format!("value = {value}\n"));
        row.clock_ghz.iter().for_each(|ghz| out += &format!("clock_ghz = {ghz}\n"));
    }
    out
}

fn cores(cores: &Cores) -> Vec<String> {
    let core = |key: &str, core: Option<usize>| core.map(|core| format!("{key} = {core}"));
    let dut = match &cores.dut {
        DutCores::Chosen => None,
        DutCores::Shared => Some("shared = true".to_owned()),
        DutCores::Own(count) => Some(format!("dut_count = {count}")),
        DutCores::Listed(cores) if cores.len() == 1 => Some(format!("dut = {}", cores[0])),
        DutCores::Listed(cores) => Some(format!("dut = {cores:?}")),
    };
    [core("generator", cores.generator), dut, core("receiver", cores.receiver)].into_iter().flatten().collect()
}

fn topology(it: &Experiment) -> String {
    let kind = match &it.topology {
        TopologyKind::Namespaces => "kind = 'namespaces'".to_string(),
        TopologyKind::InProcess => "kind = 'in-process'".to_string(),
        TopologyKind::Ports { a, b } => {
            let (to_a, to_b) = (next_hop("a_next_hop", a.next_hop), next_hop("b_next_hop", b.next_hop));
            let cable = it
                .baseline_ports
                .as_ref()
                .map(|[one, other]| format!("baseline_ports = [{}, {}]\n", text(one), text(other)));
            let cable = cable.unwrap_or_default();
            format!("kind = 'ports'\na = {}\n{to_a}b = {}\n{to_b}{cable}", text(&a.port), text(&b.port))
        }
    };
    format!("[topology]\nmtu = {}\n{kind}\n", it.mtu)
}

fn next_hop(key: &str, next_hop: NextHop) -> String {
    match next_hop {
        NextHop::OtherEnd => String::new(),
        NextHop::Mac(mac) => format!("{key} = '{}'\n", mac.map(|byte| format!("{byte:02x}")).join(":")),
        NextHop::Gateway { own, gateway } => format!("{key} = {{ gateway = '{gateway}', own = '{own}' }}\n"),
    }
}

fn limits(limits: &[Limit]) -> String {
    let line = |limit: &Limit| match limit.of {
        LimitOf::Rate => format!("at_least = '{}pps'\n", limit.bound),
        LimitOf::Loss => format!("loss_at_most = {}\n", limit.bound),
        LimitOf::P50 => format!("p50_at_most = '{}ns'\n", limit.bound),
        LimitOf::P99 => format!("p99_at_most = '{}ns'\n", limit.bound),
        LimitOf::P999 => format!("p999_at_most = '{}ns'\n", limit.bound),
        LimitOf::Outage => format!("within = '{}ns'\n", limit.bound),
    };
    limits.iter().filter(|limit| limit.goal.is_none()).map(line).collect()
}

fn kind(kind: &DutKind) -> String {
    let simple = |word: &str| format!("kind = '{word}'\n");
    let of = [
        kind.settings().map(router),
        kind.settings().map(|_: &Bridge| simple("bridge")),
        kind.settings().map(|_: &XdpForwarder| simple("xdp-forwarder")),
        kind.settings().map(|OpenVswitch(switch)| flow_switch("openvswitch", *switch)),
        kind.settings().map(|OfSwitch(switch)| flow_switch("ofswitch", *switch)),
        kind.settings().map(|Switch(ports)| format!("kind = 'switch'\nports = '{}'\n", switch_ports(*ports))),
        kind.settings().map(capture),
        kind.settings().map(|_: &Pipe| simple("pipe")),
        kind.settings().map(|_: &Direct| simple("none")),
        kind.settings().map(|External { description, counters }| {
            format!("kind = 'external'\ndescription = {}\ncounters = {}\n", text(description), texts(counters))
        }),
        kind.settings().map(command),
    ];
    of.into_iter().flatten().next().expect("a kind that is written here")
}

fn router(router: &Router) -> String {
    let mut out = "kind = 'router'\n".to_string();
    if let Some(tool) = router.tool {
        let tool = if tool == FirewallTool::Iptables { "iptables" } else { "nft" };
        let (rules, conntrack, snat) = (router.rules, router.conntrack, router.snat);
        out += &format!("firewall = '{tool}'\nrules = {rules}\nconntrack = {conntrack}\nsnat = {snat}\n");
    }
    let settings: Vec<String> =
        router.sysctls.iter().map(|(path, value)| format!("{} = {}", text(path), text(value))).collect();
    out += &format!("sysctls = {{ {} }}\n", settings.join(", "));
    let lines = |lines: &[String]| lines.iter().map(|line| text(line)).collect::<Vec<_>>().join(", ");
    out += &format!("setup = [{}]\nteardown = [{}]\n", lines(&router.setup), lines(&router.teardown));
    let loses = router
        .loses
        .iter()
        .map(|loss| format!("loses = {{ place = {}, cause = {} }}\n", text(&loss.place), text(&loss.cause)));
    out + &loses.collect::<String>()
}

fn capture(capture: &Capture) -> String {
    let receive = match capture.receive {
        Reception::Interrupt => "interrupt",
        Reception::BusyPoll => "busy-poll",
        Reception::ThreadedNapi => "threaded-napi",
    };
    let cores = if capture.cores == CaptureCores::One { "one" } else { "all" };
    format!(
        "kind = 'capture'\ntool = '{}'\nreceive = '{}'\ncores = '{}'\nbuffer = '{}B'\nfile = {}\n",
        capture.tool.word(),
        receive,
        cores,
        capture.buffer_bytes,
        capture.file
    )
}

fn command(command: &Command) -> String {
    format!(
        "kind = 'command'\nstart = {}\nready = {}\nready_within = {}\ncounters = {}\nstop = {}\nversion = {}\n",
        texts(&command.start),
        texts(&command.ready),
        span(command.ready_ns),
        texts(&command.counters),
        texts(&command.stop),
        texts(&command.version)
    )
}

fn flow_switch(kind: &str, FlowSwitch { ports, entries }: FlowSwitch) -> String {
    format!("kind = '{kind}'\nports = '{}'\nentries = {entries}\n", switch_ports(ports))
}

fn switch_ports(ports: SwitchPorts) -> &'static str {
    match ports {
        SwitchPorts::Packet => "packet",
        SwitchPorts::Xdp => "xdp",
        SwitchPorts::Memif => "memif",
    }
}

fn matrix(it: &Experiment) -> String {
    let directions: Vec<String> = it.directions.iter().map(|direction| text(direction.word())).collect();
    let mut out = format!(
        "[matrix]\nsizes = {}\nflows = {}\ndirections = [{}]\nrepetitions = {}\n",
        list(&it.sizes, size),
        list(&it.flows, flows),
        directions.join(", "),
        it.repetitions
    );
    it.cell_time_ns.iter().for_each(|time_ns| out += &format!("cell_time = {}\n", span(*time_ns)));
    if !it.testers.is_empty() {
        let pair = |ports: &linerate_experiment::TesterPorts| {
            format!("{{ sender = {}, receiver = {} }}", text(&ports.sender), text(&ports.receiver))
        };
        out += &format!("ports = {}\n", list(&it.testers, pair));
    }
    if !it.placements.is_empty() {
        let entry = |entry: &linerate_experiment::CoresSpec| {
            let parts = [vec![format!("name = {}", text(&entry.name))], cores(&entry.cores)].concat();
            format!("{{ {} }}", parts.join(", "))
        };
        out += &format!("cores = {}\n", list(&it.placements, entry));
    }
    out + &format!("skip = {}\n", list(&it.skip, |row| format!("{{ {} }}", cells(row, ", ").trim_end_matches(", "))))
}

fn size(size: &SizeSpec) -> String {
    match size.parts.as_slice() {
        [(wire, 1)] if size.label == wire.to_string() => wire.to_string(),
        parts => {
            let parts = list(parts, |(wire, weight)| format!("[{wire}, {weight}]"));
            format!("{{ name = {}, mix = {parts} }}", text(&size.name()))
        }
    }
}

fn flows(flows: &FlowSpec) -> String {
    let order = match flows.order {
        FlowOrder::Odometer => "order = 'odometer'".to_string(),
        FlowOrder::Random(seed) => format!("order = 'random', seed = {seed}"),
    };
    let (sources, destinations, ports) = (flows.sources, flows.destinations, flows.ports);
    let of_ipv4 = format!("source = '{}', destination = '{}'", flows.source, flows.destination);
    let of_ipv6 = flows
        .ip
        .addresses6()
        .map_or(String::new(), |first| format!("source6 = '{}', destination6 = '{}'", first.source, first.destination));
    let addresses = match flows.ip {
        FlowIp::V4 => format!("{of_ipv4}, ip = '4'"),
        FlowIp::V6(_) => format!("{of_ipv6}, ip = '6'"),
        FlowIp::Dual(_) => format!("{of_ipv4}, {of_ipv6}, ip = 'dual'"),
    };
    format!("{{ {addresses}, sources = {sources}, destinations = {destinations}, ports = {ports}, {order} }}")
}

fn cells(row: &CellMatch, separator: &str) -> String {
    let mut out = String::new();
    let named = [("dut", &row.dut), ("size", &row.size), ("ports", &row.tester), ("cores", &row.cores)];
    for (key, name) in named {
        name.iter().for_each(|name| out += &format!("{key} = {}{separator}", text(name)));
    }
    row.flows.iter().for_each(|flows| out += &format!("flows = {flows}{separator}"));
    row.flow_pattern.iter().for_each(|name| out += &format!("flows = {}{separator}", text(name)));
    let word = |direction: &Direction| format!("direction = '{}'{separator}", direction.word());
    row.direction.iter().for_each(|direction| out += &word(direction));
    out
}

fn test(spec: &TestSpec) -> String {
    let trial = format!("trial = {}\n", span(spec.trial_ns));
    let body = match &spec.kind {
        TestKind::Throughput { search: Search::Bisection { resolution, loss_ratio, confirmations }, time_max_ns } => {
            format!(
                "kind = 'throughput'\n{trial}{}search = 'bisection'\nresolution = {resolution}\nloss_ratio = {loss_ratio}\nconfirmations = {confirmations}\n",
                time_max(*time_max_ns)
            )
        }
        TestKind::Throughput { search: Search::Mlr { goals }, time_max_ns } => {
            let (time_max, goals) = (time_max(*time_max_ns), list(goals, goal));
            format!("kind = 'throughput'\n{trial}{time_max}search = 'mlr'\ngoals = {goals}\n")
        }
        TestKind::Capacity { trials } => format!("kind = 'capacity'\n{trial}trials = {trials}\n"),
        TestKind::NoLoss { shares } => {
            format!("kind = 'no-loss'\n{trial}shares = {}\n", list(shares, f64::to_string))
        }
        TestKind::Latency { shares, idle_pps, timestamps } => {
            let (shares, timestamps) = (list(shares, f64::to_string), timestamps.word());
            format!("kind = 'latency'\n{trial}shares = {shares}\nidle = '{idle_pps}pps'\ntimestamps = '{timestamps}'\n")
        }
        TestKind::FrameLoss { loads_pps } if loads_pps.is_empty() => format!("kind = 'frame-loss'\n{trial}"),
        TestKind::FrameLoss { loads_pps } => {
            format!("kind = 'frame-loss'\n{trial}loads = {}\n", list(loads_pps, |pps| format!("'{pps}pps'")))
        }
        TestKind::Capture { loads_pps } => {
            format!("kind = 'capture'\n{trial}loads = {}\n", list(loads_pps, |pps| format!("'{pps}pps'")))
        }
        TestKind::BackToBack { burst_max_ns, bursts } => {
            format!("kind = 'back-to-back'\nburst_max = {}\nbursts = {bursts}\n", span(*burst_max_ns))
        }
        TestKind::SystemRecovery => format!("kind = 'recovery'\n{trial}"),
        TestKind::Reset => format!("kind = 'reset'\n{trial}"),
        TestKind::Soak { share } => format!("kind = 'soak'\n{trial}share = {share}\n"),
        TestKind::MaxForwardingRate => format!("kind = 'max-forwarding-rate'\n{trial}"),
        TestKind::Ping { interval_ns } => format!("kind = 'ping'\n{trial}interval = {}\n", span(*interval_ns)),
        TestKind::Sessions(sessions) => {
            let kind = match sessions.of {
                SessionKind::ConnectionRate => "connection-rate",
                SessionKind::ConcurrentConnections => "concurrent-connections",
                SessionKind::RequestRate => "request-rate",
            };
            let loads = match sessions.loads.as_slice() {
                [] => format!("resolution = {}\n", sessions.resolution),
                loads => format!("loads = {}\n", list(loads, f64::to_string)),
            };
            let (connections, bytes, timeout) = (sessions.connections, sessions.bytes, span(sessions.timeout_ns));
            format!(
                "kind = '{kind}'\n{trial}{loads}connections = {connections}\nbytes = {bytes}\ntimeout = {timeout}\n"
            )
        }
        TestKind::TcpEcho { orders, stack } => {
            let orders = list(orders, |order| format!("'{}'", order.word()));
            format!("kind = 'tcp-echo'\n{trial}orders = {orders}\nstack = '{}'\n", stack.word())
        }
        TestKind::UdpLoop => format!("kind = 'udp-loop'\n{trial}"),
        TestKind::Load { pps } => {
            let rate = pps.map_or(String::new(), |pps| format!("rate = '{pps}pps'\n"));
            format!("kind = 'load'\n{trial}{rate}")
        }
    };
    let within = list(&spec.cells, |row| format!("{{ {} }}", cells(row, ", ").trim_end_matches(", ")));
    format!("[[test]]\n{body}cells = {within}\n{}", limits(&spec.limits))
}

fn time_max(time_max_ns: Option<u64>) -> String {
    time_max_ns.map_or(String::new(), |ns| format!("time_max = {}\n", span(ns)))
}

fn goal(goal: &LossGoal) -> String {
    format!(
        "{{ name = {}, loss_ratio = {}, exceed_ratio = {}, trial = {}, duration_sum = {}, initial_trial = {}, width = {}, outside_interruptions = {} }}",
        text(&goal.name),
        goal.loss_ratio,
        goal.exceed_ratio,
        span(goal.final_trial_ns),
        span(goal.duration_sum_ns),
        span(goal.initial_trial_ns),
        goal.width,
        goal.outside_interruptions
    )
}

fn list<T>(items: &[T], item: impl Fn(&T) -> String) -> String {
    format!("[{}]", items.iter().map(item).collect::<Vec<_>>().join(", "))
}

fn texts(items: &[String]) -> String {
    list(items, |item| text(item))
}

fn span(ns: u64) -> String {
    format!("\"{ns}ns\"")
}

/// A basic string of TOML.
fn text(text: &str) -> String {
    let mut out = "\"".to_string();
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            letter if letter.is_control() => _ = write!(out, "\\u{:04X}", u32::from(letter)),
            letter => out.push(letter),
        }
    }
    out + "\""
}
