//! The Linux kernel as a router.

mod firewall;
mod settings;

use std::collections::BTreeMap;

use linerate_report::Dut;

use super::links::{self, Links};
use super::tools::{Place, words};
use super::{Built, Device, DutError, ExpectedLoss, Path, kernel_release};
use crate::proc_net::ProcNet;
use crate::topology::{Topology, TopologySpec};

pub use settings::{FirewallTool, Router};

fn build(settings: &Router, spec: &TopologySpec) -> Result<Built, DutError> {
    let topology = Topology::router(spec)?;
    let links = Links::of(&topology, spec)?;
    let opened = links.dut().namespace.run(ProcNet::of_this_thread).and_then(|opened| opened);
    let counters = opened.map_err(DutError::system("open /proc/net of the router"))?;
    let mut configuration = links::configuration(spec);
    let mut forwarding = vec!["net.ipv4.ip_forward=1, rp_filter off"];
    if spec.ipv6.is_some() {
        forwarding.push("net.ipv6.conf.all.forwarding=1, no link-local addresses, accept_ra and accept_dad off");
    }
    configuration.insert("forwarding".into(), format!("{}, static neighbours", forwarding.join(", ")));
    configuration.extend(firewall::apply(settings, spec, &links.dut().namespace)?);
    let place = Place::inside(&links.dut().namespace);
    settings.setup.iter().try_for_each(|line| place.run(&shell(line), None).map(drop))?;
    configuration
        .extend(settings.setup.iter().enumerate().map(|(at, line)| (format!("setup {}", at + 1), line.clone())));
    let stateful = settings.conntrack || settings.snat;
    let router = RouterDevice {
        links,
        counters,
        stateful,
        counts_rules: settings.tool == Some(FirewallTool::Iptables),
        configuration,
        teardown: settings.teardown.clone(),
        loses: settings.loses.clone(),
    };
    Ok(Built { path: Path::Namespaces(Box::new(topology)), device: Box::new(router) })
}

struct RouterDevice {
    links: Links,
    counters: ProcNet,
    stateful: bool,
    /// Whether its rules have counters of their own: those of iptables do.
    counts_rules: bool,
    configuration: BTreeMap<String, String>,
    teardown: Vec<String>,
    loses: Option<ExpectedLoss>,
}

impl Drop for RouterDevice {
    fn drop(&mut self) {
        let place = Place::inside(&self.links.dut().namespace);
        // What they answer does not matter: the namespace goes with all that is in it.
        self.teardown.iter().for_each(|line| drop(place.run(&shell(line), None)));
    }
}

/// A command line for the shell.
fn shell(line: &str) -> Vec<String> {
    ["sh", "-c", line].map(str::to_owned).to_vec()
}

impl Device for RouterDevice {
    fn describe(&self) -> Dut {
        Dut { name: "Linux kernel router".into(), version: kernel_release(), configuration: self.configuration.clone() }
    }

    fn counters(&mut self) -> Result<BTreeMap<String, u64>, DutError> {
        let mut counters = self.counters.read().map_err(DutError::system("read /proc/net of the router"))?;
        counters.retain(|name, _| OWN.iter().any(|prefix| name.starts_with(prefix)));
        if self.counts_rules {
            let spec = self.links.spec();
            let tools = [(spec.ipv4, "iptables-save -c"), (spec.ipv6.is_some(), "ip6tables-save -c")];
            for (_, list) in tools.into_iter().filter(|(is_used, _)| *is_used) {
                let listed = Place::inside(&self.links.dut().namespace).run(&words(list), None)?;
                counters.extend(rule_counters(&listed));
            }
        }
        Ok(counters)
    }

    fn check(&mut self) -> Result<(), DutError> {
        self.links.check("the kernel router")
    }

    fn reset(&mut self) -> Result<String, DutError> {
        let done = self.links.down_and_up()?;
        // Both interfaces are up again and have lost these.
        self.links.direct_flows()?;
        Ok(done)
    }

    fn needs_warm_up(&self) -> bool {
        self.stateful
    }

    fn is_steered(&self) -> bool {
        true
    }

    fn loses(&self) -> Option<&ExpectedLoss> {
        self.loses.as_ref()
    }
}

/// What of `/proc/net` speaks of forwarded packets.
const OWN: [&str; 6] = ["Ip.", "IpExt.", "Icmp.Out", "Ip6", "Icmp6Out", "conntrack."];

/// Packets of the rules that test packets can match, from lines such as `[12:720] -A FORWARD -d 192.0.2.0/24 ...`.
fn rule_counters(listed: &str) -> BTreeMap<String, u64> {
    let of_line = |line: &str| {
        let (counts, rule) = line.strip_prefix('[')?.split_once("] -A ")?;
        let packets = counts.split(':').next()?.parse().ok()?;
        let matched = rule.contains("--ctstate") || rule.contains("-j SNAT");
        matched.then(|| (format!("rule {rule}"), packets))
    };
    listed.lines().filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_that_packets_can_match_are_counted_by_their_text() {
        let listed = "# comment\n:FORWARD ACCEPT [7:420]\n[3:180] -A FORWARD -s 203.0.113.0/32 -j DROP\n\
                      [12:720] -A POSTROUTING -o lr-out -j SNAT --to-source 198.18.1.1\n[x:1] -A FORWARD --ctstate\n[";
        let found = rule_counters(listed);
        assert_eq!(found.len(), 1);
        assert_eq!(found["rule POSTROUTING -o lr-out -j SNAT --to-source 198.18.1.1"], 12);
    }
}
