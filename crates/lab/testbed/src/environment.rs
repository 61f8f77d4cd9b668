//! Where a result is measured: what of the machine, the kernel and the path its figures depend on.
//!
//! Everything is read from `/proc`, `/sys` and the drivers, and nothing is changed; what cannot be read is left out. The
//! kernel's command line is not copied, only the words of it that matter.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use linerate_report::{CORE_CLOCK, Environment};
use linerate_sys::capability::Capabilities;
use linerate_sys::ethtool::{Pause, RingSizes};
use linerate_sys::netdev::Netdev;
use linerate_sys::netns::NetNs;

use crate::sysctl;
use crate::topology::Topology;

/// Settings of the machine (or of the namespace that this process started in).
const HOST_SETTINGS: [&str; 14] = [
    "net/core/netdev_max_backlog",
    "net/core/netdev_budget",
    "net/core/netdev_budget_usecs",
    "net/core/dev_weight",
    "net/core/busy_poll",
    "net/core/busy_read",
    "net/core/rmem_max",
    "net/core/wmem_max",
    "net/core/optmem_max",
    "net/core/bpf_jit_enable",
    "net/core/high_order_alloc_disable",
    "kernel/numa_balancing",
    "kernel/watchdog",
    "vm/nr_hugepages",
];

/// Settings of the DUT's namespace.
const DUT_SETTINGS: [&str; 7] = [
    "net/ipv4/ip_forward",
    "net/ipv4/conf/all/rp_filter",
    "net/ipv4/icmp_ratelimit",
    "net/ipv4/fib_multipath_hash_policy",
    "net/ipv4/ip_early_demux",
    "net/netfilter/nf_conntrack_max",
    "net/ipv6/conf/all/disable_ipv6",
];

/// Offloads that decide how many packets a stack sees.
const OFFLOADS: [&str; 9] = [
    "rx-gro",
    "rx-gro-list",
    "rx-gro-hw",
    "rx-udp-gro-forwarding",
    "tx-generic-segmentation",
    "tx-tcp-segmentation",
    "tx-udp-segmentation",
    "tx-checksum-ip-generic",
    "rx-checksum",
];

/// Words of the kernel's command line that change what packets cost.
const BOOT_WORDS: [&str; 12] = [
    "mitigations",
    "isolcpus",
    "nohz_full",
    "rcu_nocbs",
    "idle",
    "preempt",
    "nosmt",
    "intel_idle.max_cstate",
    "processor.max_cstate",
    "iommu",
    "hugepages",
    "default_hugepagesz",
];

/// Adds the tester's interfaces in this thread's network namespace, by name.
pub fn add_interfaces(environment: &mut Environment, names: &[String]) {
    let Ok(here) = NetNs::current() else { return };
    for name in names {
        add_interface(environment, &here, name);
    }
}

/// Reads the environment; of interfaces and namespaces, those of the topology in use.
pub fn read(topology: Option<&Topology>) -> Environment {
    let mut environment = Environment {
        kernel: kernel(),
        cpu_model: cpu_model(),
        cores_online: text("/sys/devices/system/cpu/online").map(|list| count_of_list(&list)),
        governor: governor(),
        hypervisor: hypervisor(),
        mitigations: mitigations(),
        sysctls: settings(&HOST_SETTINGS, ""),
        other: other(),
        ..Environment::default()
    };
    environment.versions.insert("linerate".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    if let Some(topology) = topology {
        add_topology(&mut environment, topology);
    }
    environment
}

fn add_topology(environment: &mut Environment, topology: &Topology) {
    let mut places = vec![
        (&topology.generator.namespace, topology.generator.interface.name),
        (&topology.receiver.namespace, topology.receiver.interface.name),
    ];
    if let Some(dut) = &topology.dut {
        places.extend([(&dut.namespace, dut.ingress.name), (&dut.namespace, dut.egress.name)]);
        let dut_settings = dut.namespace.run(|| settings(&DUT_SETTINGS, "DUT ")).unwrap_or_default();
        environment.sysctls.extend(dut_settings);
        environment.versions.extend(environment.kernel.clone().map(|kernel| ("DUT".to_owned(), kernel)));
    }
    for (namespace, name) in places {
        add_interface(environment, namespace, name);
    }
    environment.other.insert("first hop runs".to_owned(), topology.mode().to_string());
}

fn add_interface(environment: &mut Environment, namespace: &NetNs, name: &str) {
    let Ok(Ok(device)) = namespace.run(|| Netdev::open(name)) else { return };
    if let Ok(Some(info)) = device.driver_info() {
        let driver = format!("{} {}", info.driver, info.version);
        environment.other.insert(format!("{name} driver"), driver.trim_end().to_owned());
    }
    if let Ok(Some(sizes)) = device.ring_sizes() {
        environment.other.insert(format!("{name} ring sizes"), ring_sizes(sizes));
    }
    if let Ok(Some(pause)) = device.pause() {
        environment.other.insert(format!("{name} pause frames"), pause_frames(pause).to_owned());
    }
    if let Ok(mtu) = device.mtu() {
        environment.other.insert(format!("{name} MTU"), mtu.to_string());
    }
    for feature in device.features().unwrap_or_default() {
        if OFFLOADS.contains(&feature.name.as_str()) {
            let state = if feature.active { "on" } else { "off" };
            environment.offloads.insert(format!("{name} {}", feature.name), state.to_owned());
        }
    }
}

fn ring_sizes(RingSizes { rx, rx_max, tx, tx_max }: RingSizes) -> String {
    format!("{rx} of {rx_max} descriptors for reception, {tx} of {tx_max} for transmission")
}

fn pause_frames(pause: Pause) -> &'static str {
    match (pause.rx, pause.tx) {
        (true, true) => "obeyed and sent",
        (true, false) => "obeyed",
        (false, true) => "sent",
        (false, false) => "off",
    }
}

fn kernel() -> Option<String> {
    let release = sysctl::read("kernel/osrelease")?;
    let version = sysctl::read("kernel/version").unwrap_or_default();
    Some(format!("Linux {release} {version}").trim_end().to_owned())
}

fn cpu_model() -> Option<String> {
    cpuinfo_field(&text("/proc/cpuinfo")?, &["model name", "Hardware", "uarch"])
}

fn cpuinfo_field(cpuinfo: &str, names: &[&str]) -> Option<String> {
    let value = |name: &&str| {
        let fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        fields.filter(|(field, _)| field.trim() == *name).map(|(_, value)| value.trim().to_owned()).next()
    };
    names.iter().find_map(value)
}

/// The governors of all cores: one word when they agree.
fn governor() -> Option<String> {
    let governors: BTreeSet<String> = names("/sys/devices/system/cpu")
        .into_iter()
        .filter_map(|name| text(format!("/sys/devices/system/cpu/{name}/cpufreq/scaling_governor")))
        .collect();
    Some(governors.into_iter().collect::<Vec<_>>().join(", ")).filter(|text| !text.is_empty())
}

/// Whether this is a virtual machine.
pub fn is_virtual() -> bool {
    hypervisor().is_some_and(|name| name != "none")
}

fn hypervisor() -> Option<String> {
    let flags = cpuinfo_field(&text("/proc/cpuinfo")?, &["flags"])?;
    if !flags.split_whitespace().any(|flag| flag == "hypervisor") {
        return Some("none".to_owned());
    }
    let named = text("/sys/hypervisor/type");
    let vendor = || text("/sys/class/dmi/id/sys_vendor");
    Some(named.or_else(vendor).unwrap_or_else(|| "yes, without a name".to_owned()))
}

fn mitigations() -> BTreeMap<String, String> {
    let directory = "/sys/devices/system/cpu/vulnerabilities";
    names(directory).into_iter().filter_map(|name| Some((name.clone(), text(format!("{directory}/{name}"))?))).collect()
}

fn settings(wanted: &[&str], prefix: &str) -> BTreeMap<String, String> {
    let setting = |name: &&str| Some((format!("{prefix}{}", name.replace('/', ".")), sysctl::read(name)?));
    wanted.iter().filter_map(setting).collect()
}

fn other() -> BTreeMap<String, String> {
    let meminfo = text("/proc/meminfo").unwrap_or_default();
    let memory = |field: &str| cpuinfo_field(&meminfo, &[field]);
    let capabilities = Capabilities::read().ok().map(|held| held.to_string());
    let cpuinfo = text("/proc/cpuinfo").unwrap_or_default();
    let facts = [
        (CORE_CLOCK, cpuinfo_field(&cpuinfo, &["cpu MHz"]).map(|mhz| format!("{mhz} MHz"))),
        ("clock source", text("/sys/devices/system/clocksource/clocksource0/current_clocksource")),
        ("huge pages", huge_pages(&meminfo)),
        ("transparent huge pages", text("/sys/kernel/mm/transparent_hugepage/enabled").and_then(|t| chosen(&t))),
        ("memory", memory("MemTotal")),
        ("SMT", text("/sys/devices/system/cpu/smt/control")),
        ("isolated cores", text("/sys/devices/system/cpu/isolated")),
        ("boot settings", boot_settings(&text("/proc/cmdline").unwrap_or_default())),
        ("capabilities", capabilities),
    ];
    facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// Memory that this machine can give to programs without swapping; `None` if the kernel does not say.
pub fn memory_available_bytes() -> Option<u64> {
    let meminfo = text("/proc/meminfo")?;
    let field = cpuinfo_field(&meminfo, &["MemAvailable"])?;
    Some(field.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

fn huge_pages(meminfo: &str) -> Option<String> {
    let field = |name| cpuinfo_field(meminfo, &[name]);
    Some(format!("{} of {}, {} free", field("HugePages_Total")?, field("Hugepagesize")?, field("HugePages_Free")?))
}

/// The choice in brackets: `madvise` of `always [madvise] never`.
fn chosen(choices: &str) -> Option<String> {
    let (_, rest) = choices.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

fn boot_settings(command_line: &str) -> Option<String> {
    let matters = |word: &&str| {
        let name = word.split_once('=').map_or(*word, |(name, _)| name);
        BOOT_WORDS.contains(&name)
    };
    let words: Vec<&str> = command_line.split_whitespace().filter(matters).collect();
    Some(words.join(" ")).filter(|text| !text.is_empty())
}

/// How many numbers a list like `0-3,8` names.
fn count_of_list(list: &str) -> u32 {
    let count = |part: &str| -> Option<u32> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        Some(last.checked_sub(first)? + 1)
    };
    list.trim().split(',').filter_map(count).sum()
}

fn text(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn names(directory: &str) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::Placement;
    use crate::topology::TopologySpec;

    #[test]
    fn lists_of_cores_are_counted() {
        assert_eq!(count_of_list("0-3,8\n"), 5);
        assert_eq!(count_of_list("0"), 1);
        assert_eq!(count_of_list("3-1,x,"), 0);
    }

    #[test]
    fn the_command_line_gives_only_what_matters() {
        let line = "root=/dev/sda1 secret=1 mitigations=off isolcpus=1-3 nosmt quiet";
        assert_eq!(boot_settings(line).as_deref(), Some("mitigations=off isolcpus=1-3 nosmt"));
        assert_eq!(boot_settings("quiet"), None);
        assert_eq!(chosen("always [madvise] never").as_deref(), Some("madvise"));
    }

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let info = "model\t\t: 17\nmodel name\t: EPYC\nflags\t: fpu hypervisor\n";
        assert_eq!(cpuinfo_field(info, &["model name"]).as_deref(), Some("EPYC"));
        assert_eq!(cpuinfo_field(info, &["Hardware", "model"]).as_deref(), Some("17"));
        assert_eq!(cpuinfo_field(info, &["mod"]), None);
    }

    #[test]
    fn this_machine_is_described() {
        let environment = read(None);
        assert!(environment.kernel.is_some_and(|kernel| kernel.starts_with("Linux ")));
        assert!(environment.cores_online >= Some(1));
        assert!(environment.offloads.is_empty());
    }

    #[test]
    fn rings_and_pause_frames_of_a_card_are_told_in_words() {
        let sizes = RingSizes { rx: 512, rx_max: 4096, tx: 256, tx_max: 2048 };
        assert_eq!(ring_sizes(sizes), "512 of 4096 descriptors for reception, 256 of 2048 for transmission");
        let pause = |rx, tx| pause_frames(Pause { autonegotiated: true, rx, tx });
        let words = [pause(true, true), pause(true, false), pause(false, true), pause(false, false)];
        assert_eq!(words, ["obeyed and sent", "obeyed", "sent", "off"]);
    }

    #[test]
    fn the_interfaces_in_use_are_described_with_their_offloads() {
        let spec = TopologySpec { placement: Placement::Thread { core: None }, ..TopologySpec::default() };
        let topology = match Topology::router(&spec) {
            Ok(topology) => topology,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        let environment = read(Some(&topology));
        assert_eq!(environment.sysctls["DUT net.ipv4.ip_forward"], "1");
        assert_eq!(environment.offloads["lr-gen tx-tcp-segmentation"], "off");
        assert_eq!(environment.offloads["lr-out rx-gro"], "off");
        assert!(environment.other["lr-recv driver"].starts_with("veth"));
        assert!(environment.other["first hop runs"].contains("in "));
    }
}
