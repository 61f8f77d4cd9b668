//! Huge pages, transparent huge pages, locked memory, NUMA.

use super::Finding;
use super::facts::{Facts, Memory};

/// Memory of an AF_XDP pool of usual size, in bytes.
const POOL_BYTES: u64 = 64 << 20;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    vec![
        huge_pages(&facts.memory),
        transparent_huge_pages(&facts.memory),
        locked_memory(&facts.memory, facts),
        nodes(&facts.memory),
    ]
}

fn huge_pages(memory: &Memory) -> Finding {
    const TOPIC: &str = "huge pages";
    const WHY: &str = "packet memory on 4 KiB pages misses the TLB with almost every packet";
    let size = memory.huge_page_bytes >> 10;
    if memory.huge_pages == 0 {
        return Finding::warning(TOPIC, "none are reserved", WHY).fix("sysctl -w vm.nr_hugepages=128");
    }
    if memory.huge_pages_free * memory.huge_page_bytes < POOL_BYTES {
        let what = format!("{} of {} pages of {size} KiB are free", memory.huge_pages_free, memory.huge_pages);
        let wanted = memory.huge_pages + 128;
        return Finding::warning(TOPIC, what, WHY).fix(format!("sysctl -w vm.nr_hugepages={wanted}"));
    }
    Finding::good(TOPIC, format!("{} of {} pages of {size} KiB are free", memory.huge_pages_free, memory.huge_pages))
}

fn transparent_huge_pages(memory: &Memory) -> Finding {
    const TOPIC: &str = "transparent huge pages";
    match memory.transparent_huge_pages.as_deref() {
        Some("never") => Finding::note(TOPIC, "never", "packet memory gets huge pages from the reserved ones only")
            .fix("echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"),
        Some("always") => Finding::note(
            TOPIC,
            "always",
            "the kernel gathers pages of every process in the background, which stalls cores for milliseconds",
        )
        .fix("echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"),
        Some(choice) => Finding::good(TOPIC, choice),
        None => Finding::note(TOPIC, "not in this kernel", "packet memory gets huge pages from the reserved ones only"),
    }
}

fn locked_memory(memory: &Memory, facts: &Facts) -> Finding {
    const TOPIC: &str = "locked memory";
    let exempt =
        facts.rights.initial_user_namespace && !facts.rights.missing.iter().any(|(name, _)| name == "CAP_IPC_LOCK");
    match memory.locked_bytes_max {
        Some(bytes) if bytes < POOL_BYTES && !exempt => Finding::warning(
            TOPIC,
            format!("at most {} KiB", bytes >> 10),
            "AF_XDP locks its packet memory and cannot open a port beyond the limit",
        )
        .fix("ulimit -l unlimited   # or LimitMEMLOCK=infinity in the service, or CAP_IPC_LOCK"),
        Some(bytes) if exempt => Finding::good(TOPIC, format!("CAP_IPC_LOCK lifts the limit of {} KiB", bytes >> 10)),
        Some(bytes) => Finding::good(TOPIC, format!("at most {} KiB", bytes >> 10)),
        None => Finding::good(TOPIC, "not limited"),
    }
}

fn nodes(memory: &Memory) -> Finding {
    const TOPIC: &str = "NUMA nodes";
    if memory.nodes.len() < 2 {
        return Finding::good(TOPIC, "one");
    }
    let list: Vec<String> = memory.nodes.iter().map(|(node, cores)| format!("{node}: cores {cores}")).collect();
    Finding::note(
        TOPIC,
        list.join("; "),
        "a core that reads packets of a card on the other node pays for each cache line; run on the card's node",
    )
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::super::tests::about;
    use super::*;

    fn facts(memory: Memory) -> Facts {
        Facts { memory, ..Facts::default() }
    }

    #[test]
    fn huge_pages_must_be_there_and_free() {
        let memory = Memory { huge_page_bytes: 2 << 20, ..Memory::default() };
        assert_eq!(huge_pages(&memory).severity, Severity::Warning);
        let used = Memory { huge_pages: 100, huge_pages_free: 3, ..memory.clone() };
        assert!(huge_pages(&used).fix.ends_with("=228"));
        assert_eq!(huge_pages(&Memory { huge_pages: 100, huge_pages_free: 64, ..memory }).severity, Severity::Good);
    }

    #[test]
    fn the_limit_of_locked_memory_counts_unless_a_capability_lifts_it() {
        let mut facts = facts(Memory { locked_bytes_max: Some(8 << 20), ..Memory::default() });
        facts.rights.missing = vec![("CAP_IPC_LOCK".into(), String::new())];
        facts.rights.initial_user_namespace = true;
        assert_eq!(about(&check(&facts), "locked memory").severity, Severity::Warning);
        facts.rights.missing.clear();
        assert_eq!(about(&check(&facts), "locked memory").severity, Severity::Good);
        // The capability counts for nothing inside a user namespace.
        facts.rights.initial_user_namespace = false;
        assert_eq!(about(&check(&facts), "locked memory").severity, Severity::Warning);
        facts.memory.locked_bytes_max = None;
        assert_eq!(about(&check(&facts), "locked memory").severity, Severity::Good);
    }

    #[test]
    fn two_nodes_are_worth_a_note() {
        let nodes = [(0, "0-7".to_string()), (1, "8-15".to_string())].into();
        let findings = check(&facts(Memory { nodes, ..Memory::default() }));
        assert_eq!(about(&findings, "NUMA nodes").severity, Severity::Note);
    }
}
