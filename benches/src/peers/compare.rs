//! The comparisons: for each, our side, the other one, and the ratio that is asked for.

use std::process::Command;
use std::time::{Duration, Instant};

use linerate_bpf::insn::{Reg::R0, action};
use linerate_bpf::{Assembler, AttachMode, Program, ProgramOptions, XdpLink};
use linerate_sys::netns::NetNs;

use super::memif::{self, Work};
use super::process::{Running, core_ns, installed, undisturbed};
use super::testpmd::{self, Setup, Testpmd};
use super::veth::Veth;
use super::{Reached, Unable, offered};

/// How long a side is measured.
const DURATION: Duration = Duration::from_millis(1500);
/// How long it runs before that.
pub(super) const WARM_UP: Duration = Duration::from_millis(700);

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Packets per second of a core: the rate by the core's time, so that others on the machine matter little.
    Core,
    /// Packets per second by the clock.
    Wall,
    /// Core time per packet; less is better, the ratio is ours to theirs.
    Cost,
}

/// One side: packets per second, or why not.
pub type Side = fn(&Tools) -> Result<Reached, Unable>;

/// A comparison.
pub struct Comparison {
    /// Name in the results.
    pub name: &'static str,
    /// Our side and the other one, in words.
    pub sides: [&'static str; 2],
    /// Programs that the other side needs.
    pub needs: &'static [&'static str],
    /// Two cores that talk to each other: results hold for one distance between them.
    pub two_cores: bool,
    /// What the ratio is of.
    pub by: By,
    /// The ratio that is asked for: at least, or for costs at most.
    pub bar: f64,
    /// Our side.
    pub ours: Side,
    /// The other side.
    pub theirs: Side,
}

impl Comparison {
    /// What is missing for the other side.
    pub fn missing(&self) -> Vec<&'static str> {
        self.needs.iter().copied().filter(|program| !installed(program)).collect()
    }

    /// The ratio of one run.
    pub fn ratio(&self, ours: &Reached, theirs: &Reached) -> f64 {
        match self.by {
            By::Core => theirs.core_ns / ours.core_ns,
            By::Wall => ours.wall_mpps / theirs.wall_mpps,
            By::Cost => ours.core_ns / theirs.core_ns,
        }
    }
}

/// The programs of this repository, built for release.
pub struct Tools {
    /// `linerate`.
    pub linerate: String,
    /// `linerate-loop`.
    pub hot_loop: String,
}

/// All comparisons.
pub const COMPARISONS: &[Comparison] = &[
    Comparison {
        name: "null_fixed",
        sides: ["generator into null:, fixed packet", "testpmd txonly into net_null"],
        needs: &["dpdk-testpmd"],
        two_cores: false,
        by: By::Core,
        bar: 1.0,
        ours: |tools| hot_loop(tools, "gen_null_fixed", 50_000_000),
        theirs: |_| testpmd::into_null("txonly", &["--txpkts=60"], DURATION),
    },
    Comparison {
        name: "null_flows",
        sides: [
            "generator into null:, 10,000 flows, IPv4 and UDP checksums, signature",
            "testpmd flowgen into net_null, 10,000 flows, IPv4 checksum",
        ],
        needs: &["dpdk-testpmd"],
        two_cores: false,
        by: By::Core,
        bar: 1.2,
        ours: |tools| hot_loop(tools, "gen_null_signed", 30_000_000),
        theirs: |_| testpmd::into_null("flowgen", &["--txpkts=60", "--flowgen-flows=10000"], DURATION),
    },
    Comparison {
        name: "pipe_unread",
        sides: ["pipe: between two threads, fixed packet, not read", "testpmd txonly -> net_memif -> rxonly"],
        needs: &["dpdk-testpmd"],
        two_cores: true,
        by: By::Wall,
        bar: 1.2,
        ours: |tools| hot_loop(tools, "pipe_two_cores_fixed", 30_000_000),
        theirs: |_| testpmd::over_memif(DURATION),
    },
    Comparison {
        name: "pipe_flows_unread",
        sides: ["pipe: between two threads, 10,000 signed flows, not read", "testpmd txonly -> net_memif -> rxonly"],
        needs: &["dpdk-testpmd"],
        two_cores: true,
        by: By::Wall,
        bar: 1.2,
        ours: |tools| hot_loop(tools, "pipe_two_cores_unread", 30_000_000),
        theirs: |_| testpmd::over_memif(DURATION),
    },
    Comparison {
        name: "bridge_touched",
        sides: ["bridge between two rings that loop back, MAC addresses swapped", "testpmd macswap, two net_ring"],
        needs: &["dpdk-testpmd"],
        two_cores: false,
        by: By::Core,
        bar: 1.0,
        ours: |tools| hot_loop(tools, "bridge_looped_touched", 100_000_000),
        theirs: |_| testpmd::over_rings(DURATION),
    },
    Comparison {
        name: "pipes_circle",
        sides: [
            "1,024 packets go round two pipe: ports and two bridges on two cores, not touched",
            "testpmd io, two threads between two net_ring, 1,024 packets go round",
        ],
        needs: &["dpdk-testpmd"],
        two_cores: true,
        by: By::Wall,
        // Nobody has asked for a ratio.
        bar: 0.0,
        ours: |tools| hot_loop(tools, "pipes_circle_two_cores", 100_000_000),
        theirs: |_| testpmd::around_rings(DURATION),
    },
    Comparison {
        name: "memif_ours",
        sides: ["memif: client to server, both ours, not read", "testpmd txonly -> net_memif -> rxonly"],
        needs: &["dpdk-testpmd"],
        two_cores: true,
        by: By::Wall,
        bar: 1.0,
        ours: |_| memif::ours(DURATION),
        theirs: |_| testpmd::over_memif(DURATION),
    },
    Comparison {
        name: "memif_rx",
        sides: ["memif: server receives from testpmd txonly, not read", "testpmd txonly -> net_memif -> rxonly"],
        needs: &["dpdk-testpmd"],
        two_cores: true,
        by: By::Wall,
        bar: 1.0,
        ours: |_| memif::beside_testpmd(Work::Receive, DURATION),
        theirs: |_| testpmd::over_memif(DURATION),
    },
    Comparison {
        name: "memif_rx_counted",
        sides: [
            "memif: server counts what testpmd txonly sends, where it lies",
            "testpmd txonly -> net_memif -> rxonly",
        ],
        needs: &["dpdk-testpmd"],
        two_cores: true,
        by: By::Wall,
        bar: 1.0,
        ours: |_| memif::beside_testpmd(Work::Count, DURATION),
        theirs: |_| testpmd::over_memif(DURATION),
    },
    Comparison {
        name: "memif_tx",
        sides: ["memif: server sends to testpmd rxonly", "testpmd txonly -> net_memif -> rxonly"],
        needs: &["dpdk-testpmd"],
        two_cores: true,
        by: By::Wall,
        bar: 1.0,
        ours: |_| memif::beside_testpmd(Work::Send, DURATION),
        theirs: |_| testpmd::over_memif(DURATION),
    },
    Comparison {
        name: "memif_lent_tx_60",
        sides: ["memif: client sends, 60 bytes, lent frames", "the same, copied"],
        needs: &[],
        two_cores: true,
        by: By::Core,
        bar: 1.0,
        ours: |_| memif::client(Work::Send, true, 60, DURATION),
        theirs: |_| memif::client(Work::Send, false, 60, DURATION),
    },
    Comparison {
        name: "memif_lent_tx_1514",
        sides: ["memif: client sends, 1514 bytes, lent frames", "the same, copied"],
        needs: &[],
        two_cores: true,
        by: By::Core,
        bar: 1.0,
        ours: |_| memif::client(Work::Send, true, 1514, DURATION),
        theirs: |_| memif::client(Work::Send, false, 1514, DURATION),
    },
    Comparison {
        name: "memif_lent_rx_60",
        sides: ["memif: client receives, 60 bytes, lent frames", "the same, copied"],
        needs: &[],
        two_cores: true,
        by: By::Core,
        bar: 1.0,
        ours: |_| memif::client(Work::Receive, true, 60, DURATION),
        theirs: |_| memif::client(Work::Receive, false, 60, DURATION),
    },
    Comparison {
        name: "memif_lent_rx_1514",
        sides: ["memif: client receives, 1514 bytes, lent frames", "the same, copied"],
        needs: &[],
        two_cores: true,
        by: By::Core,
        bar: 1.0,
        ours: |_| memif::client(Work::Receive, true, 1514, DURATION),
        theirs: |_| memif::client(Work::Receive, false, 1514, DURATION),
    },
    Comparison {
        name: "pipe_checked",
        sides: [
            "pipe: between two threads, one flow, every signature checked",
            "one cache line per packet, nothing else",
        ],
        needs: &[],
        two_cores: true,
        by: By::Wall,
        bar: 0.8,
        ours: |tools| hot_loop(tools, "pipe_two_cores_checked_one_flow", 20_000_000),
        theirs: |tools| hot_loop(tools, "line_frames", 50_000_000),
    },
    Comparison {
        name: "pipe_flows_checked",
        sides: [
            "pipe: between two threads, 10,000 flows, every signature checked",
            "one cache line per packet, nothing else",
        ],
        needs: &[],
        two_cores: true,
        by: By::Wall,
        bar: 0.8,
        ours: |tools| hot_loop(tools, "pipe_two_cores_checked", 20_000_000),
        theirs: |tools| hot_loop(tools, "line_frames", 50_000_000),
    },
    Comparison {
        name: "veth_tx_xdp",
        sides: ["linerate send xdp:", "testpmd txonly on net_af_xdp"],
        needs: &["dpdk-testpmd", "ip"],
        two_cores: false,
        by: By::Wall,
        bar: 1.0,
        ours: |tools| send_over_veth(tools, "xdp:tx0", false),
        theirs: |_| testpmd_sends_over_veth(),
    },
    Comparison {
        name: "veth_tx_packet_trafgen",
        sides: ["linerate send packet:", "trafgen, one process"],
        needs: &["trafgen", "ip"],
        two_cores: false,
        by: By::Wall,
        bar: 1.0,
        ours: |tools| send_over_veth(tools, "packet:tx0", false),
        theirs: |_| trafgen_over_veth(),
    },
    Comparison {
        name: "veth_tx_packet_tcpreplay",
        sides: ["linerate send packet:", "tcpreplay -K --topspeed"],
        needs: &["tcpreplay", "ip"],
        two_cores: false,
        by: By::Wall,
        bar: 1.0,
        ours: |tools| send_over_veth(tools, "packet:tx0", false),
        theirs: tcpreplay_over_veth,
    },
    Comparison {
        name: "veth_tx_xdplive_drop",
        sides: [
            "linerate send xdplive:, 10,000 flows, the peer drops in XDP",
            "linerate send xdp:, the peer drops in XDP",
        ],
        needs: &["ip"],
        two_cores: false,
        by: By::Core,
        bar: 1.0,
        ours: |tools| send_over_veth(tools, "xdplive:tx0", true),
        theirs: |tools| send_over_veth(tools, "xdp:tx0", true),
    },
    Comparison {
        name: "veth_rx_xdp",
        sides: [
            "linerate pkt-gen -f rx on xdp: under overload, packets not read",
            "testpmd rxonly on net_af_xdp under the same load",
        ],
        needs: &["dpdk-testpmd", "ip"],
        two_cores: true,
        by: By::Wall,
        bar: 1.0,
        ours: count_overload,
        theirs: testpmd_receives_overload,
    },
    Comparison {
        name: "veth_rx_xdp_checked",
        sides: [
            "linerate receive xdp: under overload, every signature checked",
            "testpmd rxonly on net_af_xdp under the same load, packets not read",
        ],
        needs: &["dpdk-testpmd", "ip"],
        two_cores: true,
        by: By::Wall,
        // Asked for of packets that are not read; here for what reading costs.
        bar: 0.0,
        ours: receive_overload,
        theirs: testpmd_receives_overload,
    },
    Comparison {
        name: "veth_rx_packet",
        sides: ["linerate receive packet: offered 1 Mpps", "tcpdump -w /dev/null offered 1 Mpps"],
        needs: &["tcpdump", "ip", "ethtool"],
        two_cores: true,
        by: By::Cost,
        bar: 0.5,
        ours: |tools| offered::to_linerate(tools, 1_000_000),
        theirs: |tools| offered::to_tcpdump(tools, 1_000_000),
    },
    Comparison {
        name: "veth_rx_packet_half",
        sides: ["linerate receive packet: offered 0.5 Mpps", "tcpdump -w /dev/null offered 0.5 Mpps"],
        needs: &["tcpdump", "ip", "ethtool"],
        two_cores: true,
        by: By::Cost,
        bar: 0.5,
        ours: |tools| offered::to_linerate(tools, 500_000),
        theirs: |tools| offered::to_tcpdump(tools, 500_000),
    },
];

/// Runs one of our loops in a process of its own, at real-time priority where that is allowed.
fn hot_loop(tools: &Tools, name: &str, packets: u64) -> Result<Reached, Unable> {
    let mut command = undisturbed(&tools.hot_loop);
    let output = command.arg(name).arg(packets.to_string()).output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    let [packets, wall_ns, core_ns] = numbers[..] else {
        return Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim()));
    };
    Ok(Reached { wall_mpps: packets * 1e3 / wall_ns, core_ns: core_ns / packets })
}

/// Counts at the receiver's interface what a running process sends.
fn count_at_receiver(veth: &Veth, pid: u32) -> Result<Reached, Unable> {
    std::thread::sleep(WARM_UP);
    let reading = || Ok::<_, Unable>((veth.received()?, core_ns(pid, |_| true), Instant::now()));
    let first = reading()?;
    std::thread::sleep(DURATION);
    let last = reading()?;
    let packets = (last.0 - first.0) as f64;
    if packets == 0.0 {
        return Err("nothing arrived".into());
    }
    Ok(Reached {
        wall_mpps: packets / (last.2 - first.2).as_secs_f64() / 1e6,
        core_ns: (last.1 - first.1) as f64 / packets,
    })
}

pub(super) const TO_NOBODY: [&str; 2] = ["--set", "ethernet.destination=02:00:00:00:00:07"];
const FLOWS: [&str; 4] =
    ["--vary", "ipv4.source=198.18.1.1..198.18.1.100", "--vary", "ipv4.destination=198.19.1.1..198.19.1.100,cycle"];

fn send_over_veth(tools: &Tools, port: &str, drop_in_xdp: bool) -> Result<Reached, Unable> {
    let veth = Veth::new()?;
    let _dropping = if drop_in_xdp { Some(drop_in_xdp_at(&veth)?) } else { None };
    let mut command = veth.inside(&veth.near, 1, &tools.linerate);
    command.args(["send", port, "--cores", "1", "-q", "-d", "8s", "--no-signature"]).args(TO_NOBODY);
    if drop_in_xdp {
        command.args(FLOWS);
    }
    let running = Running::start(&mut command)?;
    let reached = count_at_receiver(&veth, running.id());
    drop(running);
    reached
}

/// An XDP program that drops everything, on the far interface, as long as the link is held.
fn drop_in_xdp_at(veth: &Veth) -> Result<XdpLink, Unable> {
    let namespace = NetNs::open_named(&veth.far).map_err(|error| error.to_string())?;
    let attach = || -> Result<XdpLink, Unable> {
        let mut program = Assembler::new();
        program.mov64(R0, action::DROP);
        program.exit();
        let code = program.assemble().map_err(|error| error.to_string())?;
        let program = Program::load_xdp("drop", &code, ProgramOptions::default()).map_err(|error| error.to_string())?;
        let index = linerate_sys::netdev::index_of("rx0").map_err(|error| error.to_string())?;
        XdpLink::attach(&program, index, AttachMode::Native).map_err(|error| error.to_string())
    };
    namespace.run(attach).map_err(|error| error.to_string())?
}

fn testpmd_sends_over_veth() -> Result<Reached, Unable> {
    let veth = Veth::new()?;
    let testpmd = Testpmd::start(&Setup {
        worker_cores: &[1],
        main_core: 0,
        vdev: "net_af_xdp0,iface=tx0",
        mode: "txonly",
        eal: &["--in-memory"],
        more: &[],
        namespace: Some(&veth.near),
    })?;
    count_at_receiver(&veth, testpmd.id())
}

fn scratch_file(name: &str) -> String {
    format!("{}/linerate-{}-{name}", std::env::temp_dir().display(), std::process::id())
}

fn trafgen_over_veth() -> Result<Reached, Unable> {
    let veth = Veth::new()?;
    let file = scratch_file("trafgen.cfg");
    let packet = "{ eth(da=02:00:00:00:00:07, sa=02:00:00:00:00:01), \
                  ipv4(ttl=64, saddr=198.18.0.1, daddr=198.19.0.1), udp(sp=1024, dp=9), fill(0x5a, 18) }\n";
    std::fs::write(&file, packet).map_err(|error| error.to_string())?;
    let mut command = veth.inside(&veth.near, 1, "trafgen");
    command.args(["-i", &file, "-o", "tx0", "-P", "1"]);
    let running = Running::start(&mut command)?;
    let reached = count_at_receiver(&veth, running.id());
    running.interrupt();
    std::thread::sleep(Duration::from_millis(300));
    drop(running);
    let _ = std::fs::remove_file(&file);
    reached
}

fn tcpreplay_over_veth(tools: &Tools) -> Result<Reached, Unable> {
    let veth = Veth::new()?;
    let file = scratch_file("replay.pcap");
    let mut make = Command::new(&tools.linerate);
    make.args(["send", &format!("file:{file}"), "-n", "1000", "-q", "--no-signature"]).args(TO_NOBODY);
    make.output().map_err(|error| error.to_string())?;
    let mut command = veth.inside(&veth.near, 1, "tcpreplay");
    command.args(["-i", "tx0", "-K", "--topspeed", "-q", "--loop=1000000", &file]);
    let running = Running::start(&mut command)?;
    let reached = count_at_receiver(&veth, running.id());
    running.interrupt();
    std::thread::sleep(Duration::from_millis(300));
    drop(running);
    let _ = std::fs::remove_file(&file);
    reached
}

/// A sender that overloads every receiver: live XDP frames with signatures, on core 0.
fn overload(tools: &Tools, veth: &Veth) -> Result<Running, Unable> {
    let mut command = veth.inside(&veth.near, 0, &tools.linerate);
    command.args(["send", "xdplive:tx0", "--cores", "0", "-q", "-d", "10s"]).args(TO_NOBODY);
    Running::start(&mut command)
}

/// Packets are counted by number and length, as testpmd's rxonly does; none of their bytes is looked at.
fn count_overload(tools: &Tools) -> Result<Reached, Unable> {
    let veth = Veth::new()?;
    let mut command = veth.inside(&veth.far, 1, &tools.linerate);
    command.args(["pkt-gen", "-i", "xdp:rx0", "-f", "rx", "-w", "0"]);
    let mut receiver = Running::start(&mut command)?;
    std::thread::sleep(WARM_UP);
    let sender = overload(tools, &veth)?;
    std::thread::sleep(WARM_UP + DURATION);
    receiver.interrupt();
    let totals = |line: &str| {
        // `Received 5000000 packets 300000000 bytes 20000 events 60 bytes each in 1.70 seconds.`
        let numbers: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        line.starts_with("Received").then_some((*numbers.first()?, *numbers.last()?))
    };
    let (packets, seconds) = receiver.read_until(totals)?;
    drop(sender);
    Ok(Reached { wall_mpps: packets / seconds / 1e6, core_ns: f64::NAN })
}

fn receive_overload(tools: &Tools) -> Result<Reached, Unable> {
    let veth = Veth::new()?;
    let mut command = veth.inside(&veth.far, 1, &tools.linerate);
    command.args(["receive", "xdp:rx0", "--cores", "1", "-q", "--json", "-d", "4s"]);
    let mut receiver = Running::start(&mut command)?;
    std::thread::sleep(WARM_UP);
    let sender = overload(tools, &veth)?;
    let mut document = String::new();
    let _ = receiver.read_until(|line| {
        document.push_str(line);
        (line == "}").then_some(())
    });
    drop(sender);
    let document: serde_json::Value = serde_json::from_str(&document).map_err(|error| error.to_string())?;
    let pps = document["received"]["streams"][0]["pps"].as_f64().ok_or("no rate in the document")?;
    Ok(Reached { wall_mpps: pps / 1e6, core_ns: f64::NAN })
}

fn testpmd_receives_overload(tools: &Tools) -> Result<Reached, Unable> {
    let veth = Veth::new()?;
    let mut receiver = Testpmd::start(&Setup {
        worker_cores: &[1],
        main_core: 0,
        vdev: "net_af_xdp0,iface=rx0",
        mode: "rxonly",
        eal: &["--in-memory"],
        more: &[],
        namespace: Some(&veth.far),
    })?;
    let sender = overload(tools, &veth)?;
    std::thread::sleep(WARM_UP);
    let reached = receiver.measure(false, DURATION);
    drop(sender);
    reached
}
