//! Settings of the kernel's receive path: backlog, budget, socket buffers, busy polling, JIT, connection tracking.

use super::Finding;
use super::facts::Facts;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let checks =
        [backlog(facts), budget(facts), receive_buffers(facts), busy_polling(facts), jit(facts), tracking(facts)];
    checks.into_iter().flatten().collect()
}

fn backlog(facts: &Facts) -> Option<Finding> {
    const TOPIC: &str = "net.core.netdev_max_backlog";
    const WANTED: u64 = 10_000;
    let backlog = facts.sysctl(TOPIC)?;
    if backlog >= WANTED {
        return Some(Finding::good(TOPIC, backlog.to_string()));
    }
    let why = "packets that another core or a software interface hands over wait here (RPS, veth without NAPI, tap); \
               what does not fit is dropped and shows in the second column of /proc/net/softnet_stat";
    Some(Finding::warning(TOPIC, format!("{backlog} packets"), why).fix(format!("sysctl -w {TOPIC}={WANTED}")))
}

fn budget(facts: &Facts) -> Option<Finding> {
    const TOPIC: &str = "net.core.netdev_budget";
    let budget = facts.sysctl(TOPIC)?;
    let budget_us = facts.sysctl("net.core.netdev_budget_usecs").unwrap_or(0);
    let what = format!("{budget} packets or {budget_us} us a round");
    if facts.softnet.squeezed * 1000 <= facts.softnet.processed {
        return Some(Finding::good(TOPIC, what));
    }
    let why = "rounds of the receive softirq often end with packets left (third column of /proc/net/softnet_stat): \
               ksoftirqd takes over and competes with other processes";
    let fix = format!("sysctl -w {TOPIC}={} net.core.netdev_budget_usecs={}", budget * 2, budget_us.max(2000) * 2);
    Some(Finding::warning(TOPIC, what, why).fix(fix))
}

fn receive_buffers(facts: &Facts) -> Option<Finding> {
    const TOPIC: &str = "net.core.rmem_max";
    const WANTED: u64 = 16 << 20;
    let bytes = facts.sysctl(TOPIC)?;
    if bytes >= WANTED {
        return Some(Finding::good(TOPIC, format!("{} KiB", bytes >> 10)));
    }
    let why = "UDP and raw sockets of programs under test hold at most this much; bursts beyond it are lost as \
               RcvbufErrors. Packet rings of Linerate do not depend on it";
    Some(Finding::note(TOPIC, format!("{} KiB", bytes >> 10), why).fix(format!("sysctl -w {TOPIC}={WANTED}")))
}

fn busy_polling(facts: &Facts) -> Option<Finding> {
    const TOPIC: &str = "busy polling";
    let (poll, read) = (facts.sysctl("net.core.busy_poll")?, facts.sysctl("net.core.busy_read")?);
    if poll > 0 || read > 0 {
        return Some(Finding::good(TOPIC, format!("poll {poll} us, read {read} us")));
    }
    let why = "sockets sleep until an interrupt; polling the queue instead lowers latency by the wake-up and gives a core \
               away for it. For latency tests of socket programs only";
    let fix = "sysctl -w net.core.busy_read=50 net.core.busy_poll=50";
    Some(Finding::note(TOPIC, "off", why).fix(fix))
}

fn jit(facts: &Facts) -> Option<Finding> {
    const TOPIC: &str = "net.core.bpf_jit_enable";
    match facts.sysctl(TOPIC)? {
        0 => {
            let why = "XDP programs and packet filters are interpreted instead of compiled, several times slower";
            Some(Finding::warning(TOPIC, "off", why).fix(format!("sysctl -w {TOPIC}=1")))
        }
        _ => Some(Finding::good(TOPIC, "on")),
    }
}

fn tracking(facts: &Facts) -> Option<Finding> {
    const TOPIC: &str = "connection tracking";
    let most = facts.sysctl("net.netfilter.nf_conntrack_max")?;
    let held = facts.sysctl("net.netfilter.nf_conntrack_count").unwrap_or(0);
    if held == 0 {
        return Some(Finding::good(TOPIC, "no connection is tracked"));
    }
    let what = format!("{held} of {most} entries used");
    if held * 10 >= most * 9 {
        let why = "new flows are dropped when the table is full";
        let fix = format!("sysctl -w net.netfilter.nf_conntrack_max={}", most.max(65_536) * 4);
        return Some(Finding::warning(TOPIC, what, why).fix(fix));
    }
    let why = "every routed packet is looked up, new flows are entered: fewer packets per second than plain routing. The \
               command leaves all packets untracked, on a machine whose firewall does not need it";
    let fix = "nft 'table inet untracked { chain first { type filter hook prerouting priority raw; notrack; }; }'";
    Some(Finding::note(TOPIC, what, why).fix(fix))
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::super::facts::Softnet;
    use super::super::tests::about;
    use super::*;

    fn facts(settings: &[(&str, u64)]) -> Facts {
        let sysctls = settings.iter().map(|(name, value)| ((*name).to_string(), value.to_string())).collect();
        Facts { sysctls, ..Facts::default() }
    }

    #[test]
    fn what_the_kernel_does_not_tell_is_not_judged() {
        assert_eq!(check(&Facts::default()), []);
    }

    #[test]
    fn small_backlogs_and_buffers_are_found() {
        let small = facts(&[("net.core.netdev_max_backlog", 1000), ("net.core.rmem_max", 212_992)]);
        let findings = check(&small);
        assert_eq!(about(&findings, "net.core.netdev_max_backlog").severity, Severity::Warning);
        assert_eq!(about(&findings, "net.core.rmem_max").severity, Severity::Note);
        let large = facts(&[("net.core.netdev_max_backlog", 10_000), ("net.core.rmem_max", 16 << 20)]);
        assert!(check(&large).iter().all(|finding| finding.severity == Severity::Good));
    }

    #[test]
    fn the_budget_matters_only_when_it_runs_out() {
        let mut facts = facts(&[("net.core.netdev_budget", 300), ("net.core.netdev_budget_usecs", 2000)]);
        facts.softnet = Softnet { processed: 1_000_000, dropped: 0, squeezed: 1000 };
        assert_eq!(check(&facts)[0].severity, Severity::Good);
        facts.softnet.squeezed = 1001;
        assert!(check(&facts)[0].fix.contains("netdev_budget=600"));
    }

    #[test]
    fn busy_polling_jit_and_tracking() {
        let facts = facts(&[
            ("net.core.busy_poll", 0),
            ("net.core.busy_read", 0),
            ("net.core.bpf_jit_enable", 0),
            ("net.netfilter.nf_conntrack_max", 100),
            ("net.netfilter.nf_conntrack_count", 95),
        ]);
        let findings = check(&facts);
        assert_eq!(about(&findings, "busy polling").severity, Severity::Note);
        assert_eq!(about(&findings, "net.core.bpf_jit_enable").severity, Severity::Warning);
        assert_eq!(about(&findings, "connection tracking").severity, Severity::Warning);
    }
}
