//! The rules of a router: as text for `iptables-restore` or `nft`, loaded, and read back.
//!
//! Rules that no packet matches ask for IP protocol 253, which RFC 3692 keeps for experiments, between two networks of
//! RFC 5737, or of RFC 3849. Flows of IPv6 have the same rules in tables of their own, by `ip6tables-restore` or in `table ip6`. Of the 2019 experiment's rules the addresses are the smallest networks that hold the test's sources and its
//! destinations; since these can overlap, its SNAT rules also name the way out.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use linerate_experiment::IpVersion;
use linerate_sys::netns::NetNs;

use super::super::DutError;
use super::super::tools::{Place, words};
use super::{FirewallTool, Router};
use crate::prefixes::{self, Range};
use crate::sysctl;
use crate::topology::{EGRESS_INTERFACE, GENERATOR_LINK, INGRESS_INTERFACE, RECEIVER_LINK, TopologySpec};

/// So many pairs of addresses do the rules that nothing matches have.
const RULES_MAX: u32 = 1 << 16;
const CONNTRACK_MAX: &str = "net/netfilter/nf_conntrack_max";

/// One direction: its test packets go `from` -> `to`, leave by `out`, and are translated to `translated`.
struct DirectionRules {
    from: String,
    to: String,
    out: &'static str,
    translated: IpAddr,
}

fn ways(spec: &TopologySpec, version: IpVersion) -> Vec<DirectionRules> {
    let is_of =
        |range: &&Range| matches!((range, version), (Range::V4(..), IpVersion::V4) | (Range::V6(..), IpVersion::V6));
    let text = |ranges: &[Range]| {
        let (address, prefix_len) = ranges.iter().find(is_of)?.common();
        Some(format!("{address}/{prefix_len}"))
    };
    let [sources, destinations] = spec.ranges();
    let Some((sources, destinations)) = text(&sources).zip(text(&destinations)) else { return Vec::new() };
    let back = (destinations.clone(), sources.clone());
    let own = [RECEIVER_LINK, GENERATOR_LINK].map(|link| match version {
        IpVersion::V4 => IpAddr::from(link.dut),
        IpVersion::V6 => link.dut6.into(),
    });
    vec![
        DirectionRules { from: sources, to: destinations, out: EGRESS_INTERFACE, translated: own[0] },
        DirectionRules { from: back.0, to: back.1, out: INGRESS_INTERFACE, translated: own[1] },
    ]
}

/// The versions of IP of a path's flows.
fn versions(spec: &TopologySpec) -> impl Iterator<Item = IpVersion> {
    let all = [(spec.ipv4, IpVersion::V4), (spec.ipv6.is_some(), IpVersion::V6)];
    all.into_iter().filter(|(has, _)| *has).map(|(_, version)| version)
}

/// Loads the rules into `namespace` and sets what is to be set there. What was set, in words.
pub(super) fn apply(
    firewall: &Router,
    spec: &TopologySpec,
    namespace: &NetNs,
) -> Result<BTreeMap<String, String>, DutError> {
    let mut configuration = BTreeMap::new();
    match firewall.tool {
        Some(tool) => {
            for version in versions(spec) {
                load((tool, version), firewall, spec, namespace, &mut configuration)?;
            }
        }
        None if firewall.rules > 0 || firewall.conntrack || firewall.snat => {
            return Err(DutError::Unsupported("rules need a tool: `iptables` or `nft`".into()));
        }
        None => drop(configuration.insert("rules".into(), "none".into())),
    }
    for (name, value) in &firewall.sysctls {
        set(namespace, name, value)?;
        configuration.insert(name.clone(), value.clone());
    }
    if firewall.conntrack || firewall.snat {
        let table = namespace.run(|| sysctl::read(CONNTRACK_MAX));
        let entries = table.map_err(DutError::system("enter the router's namespace"))?.ok_or_else(|| {
            DutError::Unsupported("this kernel has no connection tracking (nf_conntrack), which the rules need".into())
        })?;
        let flows = prefixes::count(spec.sources).saturating_mul(prefixes::count(spec.destinations));
        configuration.insert(
            "connection tracking".into(),
            format!("table of {entries} entries, {flows} flows or more each way"),
        );
    }
    Ok(configuration)
}

fn load(
    (tool, of_ip): (FirewallTool, IpVersion),
    firewall: &Router,
    spec: &TopologySpec,
    namespace: &NetNs,
    configuration: &mut BTreeMap<String, String>,
) -> Result<(), DutError> {
    if firewall.rules > RULES_MAX {
        return Err(DutError::Unsupported(format!("at most {RULES_MAX} rules can be made, not {}", firewall.rules)));
    }
    let place = Place::inside(namespace);
    let (version, text) = match tool {
        FirewallTool::Iptables => (place.run(&words("iptables --version"), None)?, iptables(firewall, spec, of_ip)),
        FirewallTool::Nft => (place.run(&words("nft --version"), None)?, nft(firewall, spec, of_ip)),
    };
    let (load, list) = match (tool, of_ip) {
        (FirewallTool::Iptables, IpVersion::V4) => ("iptables-restore", "iptables-save"),
        (FirewallTool::Iptables, IpVersion::V6) => ("ip6tables-restore", "ip6tables-save"),
        (FirewallTool::Nft, IpVersion::V4) => ("nft -f -", "nft list table ip linerate"),
        (FirewallTool::Nft, IpVersion::V6) => ("nft -f -", "nft list table ip6 linerate"),
    };
    place.run(&words(load), Some(&text)).map_err(explain)?;
    let listed = place.run(&words(list), None)?;
    let number = |set: bool, count| if set { count } else { 0 };
    let wanted = [firewall.rules, number(firewall.conntrack, 2), number(firewall.snat, 2)];
    let found = count_rules(&listed);
    if found != wanted {
        let what = format!("of {wanted:?} rules (unmatched, conntrack, SNAT) the kernel has {found:?}");
        return Err(DutError::Command { command: load.into(), how: what, output: String::new() });
    }
    configuration.insert("rules set by".into(), version.lines().next().unwrap_or_default().trim().to_owned());
    let name = match of_ip {
        IpVersion::V4 => "rules",
        IpVersion::V6 => "rules of IPv6",
    };
    configuration.insert(name.into(), in_words(firewall, &text));
    Ok(())
}

/// What the kernel lacks, where the tools only hint at it.
fn explain(error: DutError) -> DutError {
    match error {
        DutError::Command { command, how, output } => {
            let lacks = ["kernel module", "No such file or directory", "not supported"];
            let how = match lacks.iter().any(|words| output.contains(words)) {
                true => format!("{how}: this kernel lacks what a rule needs (nf_tables, nf_conntrack or NAT)"),
                false => how,
            };
            DutError::Command { command, how, output }
        }
        other => other,
    }
}

/// Rules that nothing matches, of connection tracking, of SNAT, in what either tool lists.
fn count_rules(listed: &str) -> [u32; 3] {
    let count = |marks: [&str; 2]| {
        let lines = listed.lines().filter(|line| marks.iter().any(|mark| line.contains(mark)));
        lines.count() as u32
    };
    [count(["-j DROP", " drop"]), count(["--ctstate", "ct state"]), count(["-j SNAT", "snat to"])]
}

fn in_words(firewall: &Router, text: &str) -> String {
    let own = |line: &&str| ["ctstate", "ct state", "SNAT", "snat to"].iter().any(|mark| line.contains(mark));
    let mut rules: Vec<String> = text.lines().filter(own).map(|line| line.trim().to_owned()).collect();
    match firewall.rules {
        0 => {}
        count => rules.insert(0, format!("{count} in FORWARD that no packet matches, before all others")),
    }
    if rules.is_empty() { "none".into() } else { rules.join("; ") }
}

fn unmatched(number: u32, version: IpVersion) -> (IpAddr, IpAddr) {
    let [.., high, low] = number.to_be_bytes();
    let of_ipv6 = |subnet, host: u8| Ipv6Addr::new(0x2001, 0xdb8, 0xffff, subnet, 0, 0, 0, host.into()).into();
    match version {
        IpVersion::V4 => (Ipv4Addr::new(203, 0, 113, low).into(), Ipv4Addr::new(198, 51, 100, high).into()),
        IpVersion::V6 => (of_ipv6(1, low), of_ipv6(2, high)),
    }
}

fn iptables(firewall: &Router, spec: &TopologySpec, version: IpVersion) -> String {
    let mut text = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n".to_owned();
    for number in 0..firewall.rules {
        let (source, destination) = unmatched(number, version);
        let _ = writeln!(text, "-A FORWARD -s {source} -d {destination} -p 253 -j DROP");
    }
    if firewall.conntrack {
        for way in ways(spec, version) {
            let to = way.to;
            let _ = writeln!(text, "-A FORWARD -d {to} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT");
        }
    }
    text.push_str("COMMIT\n");
    if firewall.snat {
        text.push_str("*nat\n:POSTROUTING ACCEPT [0:0]\n");
        for DirectionRules { from, to, out, translated } in ways(spec, version) {
            let _ = writeln!(text, "-A POSTROUTING -d {to} -s {from} -o {out} -j SNAT --to-source {translated}");
        }
        text.push_str("COMMIT\n");
    }
    text
}

fn nft(firewall: &Router, spec: &TopologySpec, version: IpVersion) -> String {
    let (ip, protocol) = match version {
        IpVersion::V4 => ("ip", "ip protocol"),
        IpVersion::V6 => ("ip6", "ip6 nexthdr"),
    };
    let mut text = format!("table {ip} linerate {{\n");
    if firewall.rules > 0 || firewall.conntrack {
        text.push_str(" chain forward {\n  type filter hook forward priority filter; policy accept;\n");
        for number in 0..firewall.rules {
            let (source, destination) = unmatched(number, version);
            let _ = writeln!(text, "  {ip} saddr {source} {ip} daddr {destination} {protocol} 253 drop");
        }
        for way in ways(spec, version).into_iter().filter(|_| firewall.conntrack) {
            let _ = writeln!(text, "  {ip} daddr {} ct state related,established accept", way.to);
        }
        text.push_str(" }\n");
    }
    if firewall.snat {
        text.push_str(" chain postrouting {\n  type nat hook postrouting priority srcnat; policy accept;\n");
        for DirectionRules { from, to, out, translated } in ways(spec, version) {
            let _ = writeln!(text, "  oifname \"{out}\" {ip} daddr {to} {ip} saddr {from} snat to {translated}");
        }
        text.push_str(" }\n");
    }
    text.push_str("}\n");
    text
}

/// Sets one setting of the router's namespace, and nothing of the machine's.
fn set(namespace: &NetNs, name: &str, value: &str) -> Result<(), DutError> {
    if !name.starts_with("net/") || name.split('/').any(|part| part.is_empty() || part.starts_with('.')) {
        let text = format!("`{name}` is not a setting of a network namespace: they begin with `net/`");
        return Err(DutError::Unsupported(text));
    }
    let entered = namespace.run(|| (sysctl::set(name, value), sysctl::read(name)));
    let (result, now) = entered.map_err(DutError::system("enter the router's namespace"))?;
    match (result, now) {
        (Ok(()), _) => Ok(()),
        (Err(_), Some(now)) if now == value => Ok(()),
        (Err(error), Some(now)) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            let text = format!(
                "{name} is {now} and cannot be {value}: this kernel lets only the machine's first network namespace set it, \
                 and it holds for all (as its administrator: `sysctl -w {}={value}`)",
                name.replace('/', ".")
            );
            Err(DutError::Unsupported(text))
        }
        (Err(error), _) => Err(DutError::System { action: "set up the router".into(), source: error }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Ranges6;

    fn all(tool: FirewallTool) -> Router {
        Router { tool: Some(tool), rules: 300, conntrack: true, snat: true, ..Router::default() }
    }

    #[test]
    fn both_forms_have_the_same_rules_each_once() {
        let at = |subnet, host| Ipv6Addr::new(0x2001, 0xdb8, 0, subnet, 0, 0, 0, host);
        let ipv6 = Ranges6 { sources: (at(1, 1), at(1, 100)), destinations: (at(2, 1), at(2, 1)) };
        let spec = TopologySpec { ipv6: Some(ipv6), ..TopologySpec::default() };
        for (tool, version) in [
            (FirewallTool::Iptables, IpVersion::V4),
            (FirewallTool::Nft, IpVersion::V4),
            (FirewallTool::Iptables, IpVersion::V6),
            (FirewallTool::Nft, IpVersion::V6),
        ] {
            let text = match tool {
                FirewallTool::Iptables => iptables(&all(tool), &spec, version),
                FirewallTool::Nft => nft(&all(tool), &spec, version),
            };
            let (unmatched, network, own) = match version {
                IpVersion::V4 => ("203.0.113.", "192.0.2.0/25", "198.18.1.1"),
                IpVersion::V6 => ("2001:db8:ffff:1::", "2001:db8:0:1::/121", "2001:2:0:1::1"),
            };
            assert_eq!(count_rules(&text), [300, 2, 2], "{tool:?}");
            let rules: Vec<&str> = text.lines().filter(|line| line.contains(unmatched)).collect();
            let distinct: std::collections::BTreeSet<&str> = rules.iter().copied().collect();
            assert_eq!((rules.len(), distinct.len()), (300, 300));
            assert!(text.contains(network) && text.contains(own), "{text}");
            assert!(in_words(&all(tool), &text).starts_with("300 in FORWARD"));
        }
    }

    #[test]
    fn settings_of_the_machine_are_out_of_reach() {
        let namespace = NetNs::current().expect("/proc");
        for bad in ["kernel/panic", "net/../kernel/panic", "net//ipv4/ip_forward", "/proc/sys/net/ipv4/ip_forward", ""]
        {
            let error = set(&namespace, bad, "1").expect_err(bad).to_string();
            assert!(error.contains("not a setting of a network namespace"), "{error}");
        }
    }
}
