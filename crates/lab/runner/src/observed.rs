//! What a report says of readings before and after a trial: use of cores, counters that moved.

use std::collections::BTreeMap;

use linerate_report::{CoreUse, FLOW_MATCHES};

use linerate_testbed::cpu::CpuTimes;

pub(super) fn core_use(cpu: &CpuTimes, roles: &[(&str, Vec<usize>)]) -> Vec<CoreUse> {
    cpu.shares(|core| {
        let here = roles.iter().filter(|(_, cores)| cores.contains(&(core as usize))).map(|(role, _)| *role);
        let words: Vec<&str> = here.collect();
        (!words.is_empty()).then(|| words.join(" + "))
    })
}

/// Counters that grew, by how much; the matches of flow entries also where there were none.
pub(super) fn moved(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let grown = |(name, value): (&String, &u64)| {
        let by = value.saturating_sub(before.get(name).copied().unwrap_or(0));
        (by > 0 || name == FLOW_MATCHES).then(|| (name.clone(), by))
    };
    after.iter().filter_map(grown).collect()
}
