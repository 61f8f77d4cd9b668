//! What Open vSwitch prints of its flows, ports and datapath (ovs-ofctl(8), ovs-vswitchd(8)).

use std::collections::BTreeMap;

/// `flow in_port=1`: from lines such as `cookie=0x0, ..., n_packets=60, n_bytes=3600, in_port=1 actions=output:2`.
pub(super) fn of_flows(text: &str) -> BTreeMap<String, u64> {
    let of_line = |line: &str| {
        let (properties, _) = line.split_once(" actions=")?;
        let packets = value_of(properties, "n_packets=")?;
        let (_, matched) = properties.rsplit_once(", ").or_else(|| properties.rsplit_once(' '))?;
        Some((format!("flow {}", matched.trim()), packets))
    };
    text.lines().filter_map(of_line).collect()
}

/// `port 1 rx pkts`, `port 1 tx errs`: from two lines a port. Numbers that are not known are `?` there and left out.
pub(super) fn of_ports(text: &str) -> BTreeMap<String, u64> {
    let mut counters = BTreeMap::new();
    let mut port = String::new();
    for line in text.lines().map(str::trim) {
        let rest = match line.strip_prefix("port ").and_then(|rest| rest.split_once(':')) {
            Some((number, rest)) => {
                port = number.trim().to_owned();
                rest.trim()
            }
            None => line,
        };
        let Some((way @ ("rx" | "tx"), rest)) = rest.split_once(' ') else { continue };
        for (name, value) in rest.split(", ").filter_map(|part| part.split_once('=')) {
            if let (Ok(value), false) = (value.parse(), port.is_empty()) {
                counters.insert(format!("port {port} {way} {name}"), value);
            }
        }
    }
    counters
}

/// `datapath hit`, `datapath missed`, `datapath lost`: from `lookups: hit:58 missed:2 lost:0`.
pub(super) fn of_datapath(text: &str) -> BTreeMap<String, u64> {
    let lookups = text.lines().find_map(|line| line.trim().strip_prefix("lookups:"));
    let pairs = lookups.into_iter().flat_map(str::split_whitespace).filter_map(|word| word.split_once(':'));
    pairs.filter_map(|(name, value)| Some((format!("datapath {name}"), value.parse().ok()?))).collect()
}

fn value_of(line: &str, name: &str) -> Option<u64> {
    let (_, rest) = line.split_once(name)?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest.get(..digits)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOWS: &str = "NXST_FLOW reply (xid=0x4):\n cookie=0x0, duration=0.1s, table=0, n_packets=60, n_bytes=3600, \
        idle_age=0, in_port=1 actions=output:2\n cookie=0x0, table=0, n_packets=0, n_bytes=0, in_port=2 actions=output:1\n";
    const PORTS: &str = "OFPST_PORT reply (xid=0x2): 2 ports\n  port  1: rx pkts=60, bytes=3600, drop=?, errs=0\n           \
        tx pkts=12, bytes=720, drop=3, errs=0, coll=?\n  port LOCAL: rx pkts=0\n";

    #[test]
    fn flows_ports_and_lookups_are_read() {
        let flows = of_flows(FLOWS);
        assert_eq!((flows["flow in_port=1"], flows["flow in_port=2"]), (60, 0));
        let ports = of_ports(PORTS);
        assert_eq!((ports["port 1 rx pkts"], ports["port 1 tx drop"], ports["port LOCAL rx pkts"]), (60, 3, 0));
        assert!(!ports.contains_key("port 1 rx drop"), "not known");
        let datapath = of_datapath("netdev@ovs-netdev:\n  lookups: hit:58 missed:2 lost:0\n  flows: 2\n");
        assert_eq!((datapath["datapath hit"], datapath["datapath missed"], datapath["datapath lost"]), (58, 2, 0));
    }

    #[test]
    fn anything_cut_or_strange_is_passed_over() {
        for text in [FLOWS, PORTS, "lookups: hit:58 missed:x lost", "port :rx =,=", " actions=", "n_packets= actions="]
        {
            for end in (0..=text.len()).filter(|end| text.is_char_boundary(*end)) {
                let cut = &text[..end];
                let found = [of_flows(cut), of_ports(cut), of_datapath(cut)];
                assert!(found.iter().all(|counters| counters.len() <= 8));
            }
        }
        assert_eq!(of_flows("n_packets=18446744073709551616, in_port=1 actions=x").len(), 0);
    }
}
