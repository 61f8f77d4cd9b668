//! One interface: link, offloads, ring sizes, queues and their interrupts, pause frames, NUMA node, losses.

use super::Finding;
use super::facts::{Facts, Interface};
use super::gather::parse_list;

pub(super) fn check(interface: &Interface, facts: &Facts) -> Vec<Finding> {
    let Some(link) = link(interface) else { return Vec::new() };
    let mut findings = vec![link];
    findings.extend(merging(interface));
    findings.extend(rings(interface));
    findings.extend(queues(interface, facts));
    findings.extend(interrupts(interface, facts));
    findings.extend(balancer(interface, facts));
    findings.extend(pause(interface));
    findings.extend(node(interface, facts));
    findings.extend(losses(interface));
    findings
}

fn topic(interface: &Interface, what: &str) -> String {
    format!("{} {what}", interface.name)
}

/// `None` for a software interface that is down: nobody uses it.
fn link(interface: &Interface) -> Option<Finding> {
    let topic = topic(interface, "link");
    let Interface { name, driver, mtu, .. } = interface;
    let speed = interface.speed_mbps.map_or(String::new(), |speed| format!(", {speed} Mbit/s"));
    let what = format!("up, driver {driver}, MTU {mtu}{speed}");
    match (interface.up, interface.link) {
        (false, _) if !interface.hardware => None,
        (false, _) => Some(
            Finding::note(&topic, format!("down, driver {driver}"), "nothing can be sent or received")
                .fix(format!("ip link set {name} up")),
        ),
        (true, Some(false)) => {
            let why = "what is sent is dropped without a trace on some drivers";
            Some(Finding::warning(&topic, format!("{what}, no carrier"), why).fix("connect the cable or the peer"))
        }
        (true, _) => Some(Finding::good(&topic, what)),
    }
}

/// GRO and LRO, which merge packets before anybody counts them.
fn merging(interface: &Interface) -> Vec<Finding> {
    let lro = "the card merges TCP packets into larger ones: counts at a receiver are not those of the wire, and a router must \
               not forward merged packets";
    let hardware = "the card merges TCP packets, and XDP programs need it off on several drivers";
    let gro = "the kernel merges packets of a flow before its stack and AF_PACKET see them: right for forwarding rates of TCP, \
               wrong where packets are counted. AF_XDP sees them unmerged";
    let mut findings = Vec::new();
    findings.extend(merger(interface, "LRO", "rx-lro", "lro", lro, Finding::warning));
    findings.extend(merger(interface, "hardware GRO", "rx-gro-hw", "rx-gro-hw", hardware, Finding::warning));
    // On veth GRO is what switches NAPI on.
    if interface.driver != "veth" {
        findings.extend(merger(interface, "GRO", "rx-gro", "gro", gro, Finding::note));
    }
    findings
}

/// A finding if the feature is on, with what switches it off.
fn merger(
    interface: &Interface,
    what: &str,
    feature: &str,
    switch: &str,
    why: &str,
    finding: fn(&str, &'static str, &str) -> Finding,
) -> Option<Finding> {
    let (active, changeable) = *interface.features.get(feature)?;
    let finding = active.then(|| finding(&topic(interface, what), "on", why))?;
    let fix = match (changeable, interface.driver.as_str()) {
        (true, _) => format!("ethtool -K {} {switch} off", interface.name),
        (false, "virtio_net") => "this guest cannot switch it off; on the hypervisor, give the virtio-net device \
                                  guest_tso4=off,guest_tso6=off,guest_uso4=off,guest_uso6=off"
            .into(),
        (false, _) => {
            "this driver cannot switch it off; count packets with another card, or on the sender's side".into()
        }
    };
    Some(finding.fix(fix))
}

fn rings(interface: &Interface) -> Option<Finding> {
    let rings = interface.rings.filter(|rings| rings.rx_max > 0)?;
    let topic = topic(interface, "ring sizes");
    let what = format!("receive {} of {}, transmit {} of {}", rings.rx, rings.rx_max, rings.tx, rings.tx_max);
    if rings.rx >= rings.rx_max.min(4096) {
        return Some(Finding::good(&topic, what));
    }
    let ring_us = u64::from(rings.rx) * 1_000_000 / 14_880_952;
    let why = format!(
        "at 10 Gb/s of 64-byte frames the receive ring is full {ring_us} us after its core stops looking; larger rings \
         ride out interruptions, smaller ones stay in the cache"
    );
    let fix = format!("ethtool -G {} rx {}", interface.name, rings.rx_max.min(4096));
    Some(Finding::warning(&topic, what, &why).fix(fix))
}

fn queues(interface: &Interface, facts: &Facts) -> Option<Finding> {
    let (now, most) = interface.channels?;
    let topic = topic(interface, "queues");
    let cores = facts.cores.online as u32;
    let what = format!("{now} of {most}, {cores} cores");
    if now >= most.min(cores) {
        return Some(Finding::good(&topic, what));
    }
    let why = "one queue feeds one core: packets of many flows use as many cores as there are queues";
    let fix = format!("ethtool -L {} combined {}", interface.name, most.min(cores));
    Some(Finding::note(&topic, what, why).fix(fix))
}

/// Interrupts of several queues that all go to one core.
fn interrupts(interface: &Interface, facts: &Facts) -> Option<Finding> {
    let topic = topic(interface, "interrupts");
    let queues = interface.channels.map_or(interface.rx_queues, |(now, _)| now as usize);
    let first = interface.interrupts.first()?;
    let list: Vec<String> = interface.interrupts.iter().map(|(number, cores)| format!("{number}:{cores}")).collect();
    let what = format!("to cores {}", list.join(" "));
    let one_core = parse_list(&first.1).len() == 1 && interface.interrupts.iter().all(|(_, cores)| *cores == first.1);
    if queues < 2 || facts.cores.online < 2 || !one_core {
        return Some(Finding::good(&topic, what));
    }
    let why = "all queues are served by one core, so RSS spreads flows to no use";
    let commands: Vec<String> = interface
        .interrupts
        .iter()
        .enumerate()
        .map(|(at, (number, _))| format!("echo {} > /proc/irq/{number}/smp_affinity_list", at % facts.cores.online))
        .collect();
    Some(Finding::warning(&topic, what, why).fix(commands.join("; ")))
}

fn balancer(interface: &Interface, facts: &Facts) -> Option<Finding> {
    if !interface.hardware || interface.interrupts.is_empty() || facts.interrupt_balancers.is_empty() {
        return None;
    }
    let who = facts.interrupt_balancers.join(", ");
    let why = "it moves interrupts while a trial runs, which shows as steps in the rate";
    let finding = Finding::warning(&topic(interface, "interrupt balancer"), format!("{who} is running"), why);
    Some(finding.fix(format!("systemctl stop {}", facts.interrupt_balancers.join(" "))))
}

fn pause(interface: &Interface) -> Option<Finding> {
    let (rx, tx) = interface.pause?;
    let topic = topic(interface, "pause frames");
    if !rx && !tx {
        return Some(Finding::good(&topic, "off"));
    }
    let what = match (rx, tx) {
        (true, true) => "obeyed and sent",
        (true, false) => "obeyed",
        _ => "sent",
    };
    let why = "a receiver that cannot keep up slows the sender down instead of losing packets: no drop counter moves, and \
               the rate looks like the sender's limit";
    Some(Finding::warning(&topic, what, why).fix(format!("ethtool -A {} autoneg off rx off tx off", interface.name)))
}

fn node(interface: &Interface, facts: &Facts) -> Option<Finding> {
    let node = interface.node.filter(|_| facts.memory.nodes.len() > 1)?;
    let topic = topic(interface, "NUMA node");
    let cores = facts.memory.nodes.get(&node)?;
    let near = parse_list(cores);
    let far: Vec<usize> = facts.cores.allowed.iter().filter(|core| !near.contains(core)).copied().collect();
    // Interrupts first: the kernel's work is on their cores, wherever the program runs.
    let away: Vec<&(u32, String)> = interface
        .interrupts
        .iter()
        .filter(|(_, list)| !parse_list(list).iter().any(|core| near.contains(core)))
        .collect();
    if !away.is_empty() {
        let list: Vec<String> = away.iter().map(|(number, list)| format!("{number} to cores {list}")).collect();
        let what = format!("{node}, with cores {cores}; interrupts elsewhere: {}", list.join(", "));
        let why = "the kernel takes packets in on cores of another node, over the link between the sockets";
        let command = |(at, (number, _)): (usize, &&(u32, String))| {
            let core = near.get(at % near.len().max(1)).copied().unwrap_or_default();
            format!("echo {core} > /proc/irq/{number}/smp_affinity_list")
        };
        let fix: Vec<String> = away.iter().enumerate().map(command).collect();
        return Some(Finding::warning(&topic, what, why).fix(fix.join("; ")));
    }
    if far.is_empty() {
        return Some(Finding::good(&topic, format!("{node}, as this process")));
    }
    let distance = |other: &u32| facts.memory.distances.get(&node)?.get(*other as usize).copied();
    let others = facts.memory.nodes.keys().filter(|other| **other != node);
    let farthest = others.filter_map(distance).max();
    let farthest =
        farthest.map_or(String::new(), |distance| format!(", at a distance of up to {distance} (10 is its own)"));
    let why = "cores of other nodes reach the card's packets over the link between the sockets";
    let finding = Finding::note(&topic, format!("{node}; this process may run on other nodes, too{farthest}"), why);
    Some(finding.fix(format!("taskset -c {cores} linerate ...")))
}

fn losses(interface: &Interface) -> Option<Finding> {
    let topic = topic(interface, "losses");
    if interface.losses.is_empty() {
        return Some(Finding::good(&topic, "none since the interface exists"));
    }
    let list: Vec<String> = interface.losses.iter().map(|(name, packets)| format!("{name} {packets}")).collect();
    let damaged = interface.losses.contains_key("rx_crc_errors");
    let why = match damaged {
        true => "frames arrive damaged: a cable, a transceiver or a port is bad, and no tuning helps",
        false => "packets were lost here, since boot or since the interface exists; a trial counts only its own",
    };
    let severity = if damaged { Finding::warning } else { Finding::note };
    Some(severity(&topic, list.join(", "), why))
}

#[cfg(test)]
#[path = "interfaces_tests.rs"]
mod tests;
