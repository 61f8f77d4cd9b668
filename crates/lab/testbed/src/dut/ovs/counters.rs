//! What Open vSwitch prints of its flows, ports and datapath (ovs-ofctl(8), ovs-vswitchd(8)).

use std::collections::BTreeMap;

/// Packets in `NXST_AGGREGATE reply (xid=0x4): packet_count=60 byte_count=3600 flow_count=2`.
pub(super) fn of_aggregate(text: &str) -> Option<u64> {
    value_of(text, "packet_count=")
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

    const AGGREGATE: &str = "NXST_AGGREGATE reply (xid=0x4): packet_count=60 byte_count=3600 flow_count=2\n";

    #[test]
    fn aggregates_and_lookups_are_read() {
        assert_eq!(of_aggregate(AGGREGATE), Some(60));
        let datapath = of_datapath("netdev@ovs-netdev:\n  lookups: hit:58 missed:2 lost:0\n  flows: 2\n");
        assert_eq!((datapath["datapath hit"], datapath["datapath missed"], datapath["datapath lost"]), (58, 2, 0));
    }

    #[test]
    fn anything_cut_or_strange_is_passed_over() {
        for text in [AGGREGATE, "lookups: hit:58 missed:x lost", "packet_count=x"] {
            for end in (0..=text.len()).filter(|end| text.is_char_boundary(*end)) {
                let cut = &text[..end];
                let _ = of_aggregate(cut);
                assert!(of_datapath(cut).len() <= 8);
            }
        }
        assert_eq!(of_aggregate("packet_count=18446744073709551616 byte_count=1"), None);
    }
}
