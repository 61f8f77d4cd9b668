//! Reads the facts from /proc, /sys and the drivers. What cannot be read stays empty; nothing is changed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use linerate_pci::{Bus, PciDevice};
use linerate_sys::capability::Capabilities;
use linerate_sys::netdev::Netdev;
use linerate_sys::ptp::PtpClock;
use linerate_sys::rss::FlowType;
use linerate_sys::timestamping::{Timestamped, Timestamping};

use super::facts::{ClockState, Cores, Facts, Interface, Memory, PciCard, Rights, Rings, Rss, Softnet, Timestamps};

/// Settings that packet rates depend on.
const SYSCTLS: [&str; 12] = [
    "net.core.busy_poll",
    "net.core.busy_read",
    "net.core.rmem_max",
    "net.core.rmem_default",
    "net.core.wmem_max",
    "net.core.netdev_max_backlog",
    "net.core.netdev_budget",
    "net.core.netdev_budget_usecs",
    "net.core.bpf_jit_enable",
    "net.netfilter.nf_conntrack_max",
    "net.netfilter.nf_conntrack_count",
    "vm.nr_hugepages",
];

/// Reads everything; of the interfaces, the named ones, or all but `lo` when none is named.
///
/// # Errors
/// When a named interface does not exist.
pub fn gather(interfaces: &[String]) -> Result<Facts, String> {
    Ok(Facts {
        kernel: text("/proc/sys/kernel/osrelease"),
        command_line: text("/proc/cmdline").split_whitespace().map(str::to_string).collect(),
        memory: memory(),
        cores: cores(),
        sysctls: sysctls(),
        rights: rights(),
        softnet: parse_softnet(&text("/proc/net/softnet_stat")),
        interrupt_balancers: interrupt_balancers(),
        pci_cards: pci_cards(),
        interfaces: if interfaces.is_empty() { all_interfaces() } else { named_interfaces(interfaces)? },
    })
}

/// A file's text without the white space around it; empty when it cannot be read.
fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).map(|text| text.trim().to_string()).unwrap_or_default()
}

fn known(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

/// Names in a directory, sorted.
fn names(path: impl AsRef<Path>) -> Vec<String> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

fn pci_cards() -> Vec<PciCard> {
    let bus = Bus::default();
    let left = bus.left();
    let card = |device: PciDevice| {
        let left = left.iter().find(|one| one.address == device.address);
        let driver_before = left.and_then(|one| one.driver.clone());
        PciCard { address: device.address.to_string(), driver: device.driver, left: left.is_some(), driver_before }
    };
    bus.network_devices().into_iter().map(card).collect()
}

fn memory() -> Memory {
    let info = text("/proc/meminfo");
    let field = |name: &str| parse_meminfo(&info, name).unwrap_or(0);
    let node = |name: &String| Some((name.strip_prefix("node")?.parse().ok()?, name.clone()));
    let nodes = names("/sys/devices/system/node").iter().filter_map(node).collect::<BTreeMap<u32, String>>();
    let read = |name: &str, file: &str| text(format!("/sys/devices/system/node/{name}/{file}"));
    let distances_of = |(number, name): (&u32, &String)| {
        (*number, read(name, "distance").split_whitespace().filter_map(|word| word.parse().ok()).collect())
    };
    let distances = nodes.iter().map(distances_of).collect();
    let cores_of = |(number, name): (u32, String)| (number, read(&name, "cpulist"));
    Memory {
        huge_pages: field("HugePages_Total"),
        huge_pages_free: field("HugePages_Free"),
        huge_page_bytes: field("Hugepagesize") * 1024,
        transparent_huge_pages: parse_choice(&text("/sys/kernel/mm/transparent_hugepage/enabled")),
        locked_bytes_max: parse_limit(&text("/proc/self/limits"), "Max locked memory"),
        nodes: nodes.into_iter().map(cores_of).collect(),
        distances,
    }
}

fn cores() -> Cores {
    let system = "/sys/devices/system/cpu";
    let is_core = |name: &&String| name.strip_prefix("cpu").is_some_and(|number| number.parse::<u32>().is_ok());
    let cores: Vec<String> = names(system).iter().filter(is_core).cloned().collect();
    let mut governors: Vec<String> =
        cores.iter().filter_map(|core| known(text(format!("{system}/{core}/cpufreq/scaling_governor")))).collect();
    governors.sort();
    governors.dedup();
    let weakness = |name: String| {
        let state = text(format!("{system}/vulnerabilities/{name}"));
        (name, state)
    };
    Cores {
        online: parse_list(&text(format!("{system}/online"))).len(),
        allowed: linerate_sys::affinity::allowed_cores(),
        governors,
        hyper_threads: known(text(format!("{system}/smt/active"))).map(|active| active == "1"),
        isolated: text(format!("{system}/isolated")),
        tickless: Some(text(format!("{system}/nohz_full"))).filter(|list| !list.contains("null")).unwrap_or_default(),
        vulnerabilities: names(format!("{system}/vulnerabilities")).into_iter().map(weakness).collect(),
        clock_source: known(text("/sys/devices/system/clocksource/clocksource0/current_clocksource")),
        virtual_machine: text("/proc/cpuinfo")
            .lines()
            .any(|line| line.starts_with("flags") && line.split_whitespace().any(|flag| flag == "hypervisor")),
        deepest_idle: deepest_idle(&format!("{system}/cpu0/cpuidle")),
        stolen_percent: parse_stolen_percent(&text("/proc/stat")),
    }
}

fn deepest_idle(directory: &str) -> Option<(u64, String)> {
    let state = |name: String| {
        let read = |file: &str| text(format!("{directory}/{name}/{file}"));
        let latency_us = read("latency").parse().ok()?;
        (read("disable") != "1").then(|| (latency_us, read("name")))
    };
    names(directory).into_iter().filter_map(state).max()
}

fn sysctls() -> BTreeMap<String, String> {
    let read = |name: &&str| known(text(format!("/proc/sys/{}", name.replace('.', "/"))));
    SYSCTLS.iter().filter_map(|name| Some(((*name).to_string(), read(name)?))).collect()
}

fn rights() -> Rights {
    let Ok(capabilities) = Capabilities::read() else { return Rights::default() };
    let describe = |capability: linerate_sys::capability::Capability| {
        (capability.name().to_string(), capability.needed_for().to_string())
    };
    let forbidden = |path: &str, value: &str| text(path) == value;
    Rights {
        root: text("/proc/self/status")
            .lines()
            .any(|line| line.starts_with("Uid:\t") && line.split('\t').nth(2) == Some("0")),
        missing: capabilities.missing().into_iter().map(describe).collect(),
        initial_user_namespace: capabilities.in_initial_user_namespace(),
        user_namespaces: !forbidden("/proc/sys/kernel/unprivileged_userns_clone", "0")
            && !forbidden("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1")
            && !forbidden("/proc/sys/user/max_user_namespaces", "0"),
    }
}

/// Daemons that move interrupts from core to core.
fn interrupt_balancers() -> Vec<String> {
    let processes = names("/proc").into_iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    let mut found: Vec<String> = processes
        .map(|process| text(format!("/proc/{process}/comm")))
        .filter(|name| matches!(name.as_str(), "irqbalance" | "tuned"))
        .collect();
    found.sort();
    found.dedup();
    found
}

fn all_interfaces() -> Vec<Interface> {
    names("/sys/class/net").into_iter().filter(|name| name != "lo").filter_map(|name| interface(&name).ok()).collect()
}

fn named_interfaces(wanted: &[String]) -> Result<Vec<Interface>, String> {
    wanted.iter().map(|name| interface(name).map_err(|error| format!("{name}: {error}"))).collect()
}

fn interface(name: &str) -> std::io::Result<Interface> {
    let device = Netdev::open(name)?;
    device.index()?;
    let directory = format!("/sys/class/net/{name}");
    let driver = device.driver_info()?;
    let features = device.features()?.into_iter();
    let queues = names(format!("{directory}/queues"));
    let count = |kind: &str| queues.iter().filter(|queue| queue.starts_with(kind)).count();
    Ok(Interface {
        name: name.into(),
        driver: driver.map(|info| info.driver).unwrap_or_default(),
        up: device.is_up()?,
        link: device.link()?,
        mtu: device.mtu()?,
        speed_mbps: device.speed_mbps()?,
        hardware: Path::new(&format!("{directory}/device")).exists(),
        features: features.map(|feature| (feature.name, (feature.active, feature.changeable))).collect(),
        rings: device.ring_sizes()?.map(|rings| Rings {
            rx: rings.rx,
            rx_max: rings.rx_max,
            tx: rings.tx,
            tx_max: rings.tx_max,
        }),
        rx_queues: count("rx-"),
        tx_queues: count("tx-"),
        channels: device.channels()?.map(|channels| channels.combined).filter(|combined| combined.1 > 0),
        rss: rss(&device)?,
        timestamps: device.timestamping()?.map(|can| timestamps(can, device.timestamped().ok().flatten())),
        pause: device.pause()?.map(|pause| (pause.rx, pause.tx)),
        node: text(format!("{directory}/device/numa_node")).parse().ok(),
        interrupts: interrupts(&directory),
        threaded: known(text(format!("{directory}/threaded"))).map(|value| value == "1"),
        losses: losses(&directory),
    })
}

fn timestamps(can: Timestamping, now: Option<Timestamped>) -> Timestamps {
    let now = now.map(|now| match now {
        Timestamped::Nothing => "nothing",
        Timestamped::All => "all",
        Timestamped::Some => "some",
    });
    Timestamps {
        received_now: now.map(str::to_owned),
        words: can.to_string(),
        sent: can.sent,
        received: can.filter_names().into_iter().map(str::to_owned).collect(),
        clock: can.clock,
        clock_state: can.clock.filter(|_| can.is_hardware()).map_or(ClockState::None, clock_state),
    }
}

/// Reads it twice.
fn clock_state(number: u32) -> ClockState {
    let read = || {
        let clock = PtpClock::open(number)?;
        let before = clock.read()?;
        std::thread::sleep(CLOCK_WAIT);
        Ok::<_, std::io::Error>((before, clock.read()?))
    };
    match read() {
        Ok((before, after)) => match before.pace(after) {
            _ if before.keeps_pace(after, 1.0, PACE_TOLERANCE) => ClockState::Runs,
            Some(pace) => ClockState::Pace((pace * 1e3).round() as u64),
            None => ClockState::Stands,
        },
        Err(error) => ClockState::Unreadable(error.to_string()),
    }
}

/// Longer than a tick of any clock, and a hundred times as long as reading it takes.
const CLOCK_WAIT: std::time::Duration = std::time::Duration::from_millis(10);
/// Times between two readings that differ by less than this share are those of clocks of one pace.
const PACE_TOLERANCE: f64 = 1e-2;

fn rss(device: &Netdev) -> std::io::Result<Option<Rss>> {
    let Some(rss) = device.rss()? else { return Ok(None) };
    let ports = |flow| device.hash_fields(flow).map(|fields| fields.map(|fields| fields.ports()));
    Ok(Some(Rss {
        function: rss.function().into(),
        key: rss.key_text(),
        symmetric: rss.is_symmetric(),
        shares: rss.shares(),
        udp_ports: [ports(FlowType::UdpV4)?, ports(FlowType::UdpV6)?],
    }))
}

fn interrupts(directory: &str) -> Vec<(u32, String)> {
    let numbers = names(format!("{directory}/device/msi_irqs"))
        .into_iter()
        // A virtio interface hangs below the PCI device that has the interrupts.
        .chain(names(format!("{directory}/device/../msi_irqs")));
    let mut numbers: Vec<u32> = numbers.filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let cores = |number: u32| text(format!("/proc/irq/{number}/smp_affinity_list"));
    numbers.into_iter().map(|number| (number, cores(number))).filter(|(_, cores)| !cores.is_empty()).collect()
}

/// Counters that mean lost packets, where they are not 0.
fn losses(directory: &str) -> BTreeMap<String, u64> {
    const COUNTERS: [&str; 7] = [
        "rx_dropped",
        "rx_missed_errors",
        "rx_fifo_errors",
        "rx_over_errors",
        "tx_dropped",
        "tx_fifo_errors",
        "rx_crc_errors",
    ];
    let read = |name: &&str| text(format!("{directory}/statistics/{name}")).parse::<u64>().ok();
    let held = COUNTERS.iter().filter_map(|name| Some(((*name).to_string(), read(name)?)));
    held.filter(|(_, packets)| *packets > 0).collect()
}

/// The number behind a name of /proc/meminfo, in its own unit.
fn parse_meminfo(info: &str, name: &str) -> Option<u64> {
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The word in brackets of `always [madvise] never`.
fn parse_choice(text: &str) -> Option<String> {
    Some(text.split_once('[')?.1.split_once(']')?.0.to_string())
}

/// The soft limit of one line of /proc/PID/limits; `None` when unlimited or not there.
fn parse_limit(limits: &str, name: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The numbers of a kernel list, `0-3,8`.
pub(crate) fn parse_list(list: &str) -> Vec<usize> {
    const MOST: usize = 8192;
    let mut numbers = Vec::new();
    for part in list.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            numbers.extend((first..=last.min(MOST)).take(MOST));
        }
    }
    numbers
}

/// Steal time in percent of all time, from the first line of /proc/stat.
fn parse_stolen_percent(stat: &str) -> u64 {
    let fields = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let times: Vec<u64> = fields.filter_map(|field| field.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal; guest times are contained in user.
    let all: u64 = times.iter().take(8).sum();
    times.get(7).map_or(0, |steal| steal * 100 / all.max(1))
}

/// Sums of the first three columns, hexadecimal.
fn parse_softnet(text: &str) -> Softnet {
    let mut sums = Softnet::default();
    for line in text.lines() {
        let mut fields = line.split_whitespace().map(|field| u64::from_str_radix(field, 16).unwrap_or(0));
        sums.processed += fields.next().unwrap_or(0);
        sums.dropped += fields.next().unwrap_or(0);
        sums.squeezed += fields.next().unwrap_or(0);
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_forms_are_read() {
        let info = "MemTotal:  16 kB\nHugePages_Total:       7\nHugepagesize:       2048 kB\n";
        assert_eq!(parse_meminfo(info, "HugePages_Total"), Some(7));
        assert_eq!(parse_meminfo(info, "Hugepagesize"), Some(2048));
        assert_eq!(parse_meminfo(info, "HugePages"), None);
        assert_eq!(parse_choice("always [madvise] never").as_deref(), Some("madvise"));
        assert_eq!(parse_choice("always"), None);
        let limits = "Max locked memory         8388608              unlimited            bytes\nMax x  unlimited y";
        assert_eq!(parse_limit(limits, "Max locked memory"), Some(8_388_608));
        assert_eq!(parse_limit(limits, "Max x"), None);
        assert_eq!(parse_list("0-2,8"), [0, 1, 2, 8]);
        assert_eq!(parse_list(""), Vec::<usize>::new());
        assert_eq!(parse_list("x,3-1"), Vec::<usize>::new());
        assert_eq!(parse_stolen_percent("cpu  10 0 10 60 0 0 0 20 5 0\ncpu0 ..."), 20);
        assert_eq!(parse_stolen_percent(""), 0);
        let softnet = parse_softnet("0000000a 00000001 00000002 0\n00000001 00000000 00000003 0\n");
        assert_eq!(softnet, Softnet { processed: 11, dropped: 1, squeezed: 5 });
    }
}
