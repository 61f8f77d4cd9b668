//! Governor, idle states, mitigations, hyper-threads, isolation, clock source, stolen time.

use super::Finding;
use super::facts::{Cores, Facts};
use super::gather::parse_list;

/// Idle states that take longer to leave than this cost the first packet after a pause.
const IDLE_EXIT_US_MAX: u64 = 20;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let cores = &facts.cores;
    vec![
        count(cores),
        governor(cores),
        idle(cores),
        mitigations(cores, &facts.command_line),
        hyper_threads(cores),
        isolation(cores),
        clock_source(cores),
        stolen(cores),
    ]
}

fn count(cores: &Cores) -> Finding {
    const TOPIC: &str = "cores";
    let what = format!("{} online, {} for this process", cores.online, cores.allowed.len());
    match cores.allowed.len() {
        0 | 1 => Finding::problem(
            TOPIC,
            what,
            "generator, device under test and receiver share one core, so each slows the others down",
        )
        .fix("taskset -c 0-3 linerate ...   # or give the machine more cores"),
        2 | 3 => Finding::note(
            TOPIC,
            what,
            "generator and receiver leave no core to the device under test; results depend on who shares with whom",
        ),
        _ => Finding::good(TOPIC, what),
    }
}

fn governor(cores: &Cores) -> Finding {
    const TOPIC: &str = "frequency governor";
    if cores.governors.is_empty() {
        return Finding::good(TOPIC, "none: the frequency is not the kernel's to change");
    }
    let what = cores.governors.join(", ");
    if cores.governors.iter().all(|governor| governor == "performance") {
        return Finding::good(TOPIC, what);
    }
    Finding::warning(TOPIC, what, "the frequency follows the load, so a rate depends on what ran before")
        .fix("cpupower frequency-set -g performance")
}

fn idle(cores: &Cores) -> Finding {
    const TOPIC: &str = "idle states";
    match &cores.deepest_idle {
        Some((latency_us, name)) if *latency_us > IDLE_EXIT_US_MAX => Finding::warning(
            TOPIC,
            format!("{name} takes {latency_us} us to leave"),
            "each wake-up pays it: latencies rise and bursts overflow rings before the core is back",
        )
        .fix(format!("cpupower idle-set -D {IDLE_EXIT_US_MAX}")),
        Some((latency_us, name)) => Finding::good(TOPIC, format!("{name} takes {latency_us} us to leave")),
        None => Finding::good(TOPIC, "none to enter"),
    }
}

fn mitigations(cores: &Cores, command_line: &[String]) -> Finding {
    const TOPIC: &str = "mitigations";
    let is_active = |(_, state): &(&String, &String)| state.starts_with("Mitigation");
    let active: Vec<&str> = cores.vulnerabilities.iter().filter(is_active).map(|(name, _)| name.as_str()).collect();
    if active.is_empty() {
        return Finding::good(TOPIC, "none active");
    }
    let chosen = command_line.iter().find(|word| word.starts_with("mitigations="));
    let chosen = chosen.map_or(String::new(), |word| format!(" ({word})"));
    Finding::note(
        TOPIC,
        format!("active for {}{chosen}", active.join(", ")),
        "system calls and indirect calls of the kernel's network stack cost more; compare results only between machines \
         with the same ones. Switch them off only on a machine that runs nothing else",
    )
    .fix("mitigations=off on the kernel's command line")
}

fn hyper_threads(cores: &Cores) -> Finding {
    const TOPIC: &str = "hyper-threads";
    match cores.hyper_threads {
        Some(true) => Finding::note(
            TOPIC,
            "on",
            "two threads share a core's caches and units: pin generator and receiver to different cores, not siblings",
        )
        .fix("echo off > /sys/devices/system/cpu/smt/control"),
        Some(false) => Finding::good(TOPIC, "off"),
        None => Finding::good(TOPIC, "the kernel does not tell"),
    }
}

fn isolation(cores: &Cores) -> Finding {
    const TOPIC: &str = "isolated cores";
    let isolated = parse_list(&cores.isolated);
    let tickless = parse_list(&cores.tickless);
    if isolated.is_empty() && cores.online >= 4 {
        let last = cores.online - 1;
        return Finding::note(
            TOPIC,
            "none",
            "other processes and kernel threads interrupt the packet loops; a ring that is large enough hides it, latency \
             percentiles do not",
        )
        .fix(format!("isolcpus=2-{last} nohz_full=2-{last} on the kernel's command line"));
    }
    let ticking: Vec<usize> = isolated.iter().filter(|core| !tickless.contains(core)).copied().collect();
    if !ticking.is_empty() {
        return Finding::note(
            TOPIC,
            format!("{}, but {ticking:?} keep the timer tick", cores.isolated),
            "the tick interrupts the packet loop at each jiffy",
        )
        .fix(format!("nohz_full={} on the kernel's command line", cores.isolated));
    }
    let what = if isolated.is_empty() { "none, and too few cores to spare one" } else { cores.isolated.as_str() };
    Finding::good(TOPIC, what)
}

fn clock_source(cores: &Cores) -> Finding {
    const TOPIC: &str = "clock source";
    match cores.clock_source.as_deref() {
        Some("tsc" | "kvm-clock" | "arch_sys_counter" | "hyperv_clocksource_tsc_page") => {
            Finding::good(TOPIC, cores.clock_source.clone().unwrap_or_default())
        }
        Some(source) => Finding::warning(
            TOPIC,
            source,
            "reading this clock is a system call or a device access of about a microsecond, once a batch and twice for a \
             latency",
        )
        .fix("echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource"),
        None => Finding::note(TOPIC, "unknown", "latencies and pacing depend on a clock that is cheap to read"),
    }
}

fn stolen(cores: &Cores) -> Finding {
    const TOPIC: &str = "stolen time";
    let what = format!("{} % since boot", cores.stolen_percent);
    match (cores.virtual_machine, cores.stolen_percent) {
        (_, 2..) => Finding::warning(
            TOPIC,
            what,
            "the hypervisor runs others on these cores: rings overflow while it does; trials with steal must be repeated",
        )
        .fix("ask for dedicated cores, and look at the CPU columns of each trial"),
        (true, _) => Finding::note(
            TOPIC,
            format!("{what}, in a virtual machine"),
            "virtual cores move between physical ones: two-core results hold only within one regime",
        ),
        (false, _) => Finding::good(TOPIC, "not a virtual machine"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::super::tests::about;
    use super::*;

    fn check_cores(cores: Cores) -> Vec<Finding> {
        check(&Facts { cores, ..Facts::default() })
    }

    fn severity(cores: Cores, topic: &str) -> Severity {
        about(&check_cores(cores), topic).severity
    }

    #[test]
    fn one_core_is_too_few() {
        let with = |count: usize| Cores { online: count, allowed: (0..count).collect(), ..Cores::default() };
        assert_eq!(severity(with(1), "cores"), Severity::Problem);
        assert_eq!(severity(with(2), "cores"), Severity::Note);
        assert_eq!(severity(with(8), "cores"), Severity::Good);
    }

    #[test]
    fn frequency_and_idle_states() {
        let governed = |governors: &[&str]| Cores {
            governors: governors.iter().map(|name| (*name).to_string()).collect(),
            ..Cores::default()
        };
        assert_eq!(severity(governed(&[]), "frequency governor"), Severity::Good);
        assert_eq!(severity(governed(&["performance"]), "frequency governor"), Severity::Good);
        assert_eq!(severity(governed(&["performance", "powersave"]), "frequency governor"), Severity::Warning);
        let idle = |latency_us| Cores { deepest_idle: Some((latency_us, "C6".into())), ..Cores::default() };
        assert_eq!(severity(idle(133), "idle states"), Severity::Warning);
        assert_eq!(severity(idle(2), "idle states"), Severity::Good);
    }

    #[test]
    fn mitigations_that_are_active_are_named() {
        let vulnerabilities = [
            ("l1tf".to_string(), "Not affected".to_string()),
            ("retbleed".to_string(), "Mitigation: untrained return thunk".to_string()),
            ("spec_store_bypass".to_string(), "Vulnerable".to_string()),
        ];
        let findings = check_cores(Cores { vulnerabilities: vulnerabilities.into(), ..Cores::default() });
        let finding = about(&findings, "mitigations");
        assert!(finding.what.contains("retbleed") && !finding.what.contains("l1tf"), "{}", finding.what);
        assert!(!finding.what.contains("bypass"));
    }

    #[test]
    fn isolated_cores_should_not_tick() {
        let cores = Cores { online: 8, isolated: "4-7".into(), tickless: "4-5".into(), ..Cores::default() };
        let findings = check_cores(cores.clone());
        assert!(about(&findings, "isolated cores").what.contains("[6, 7]"));
        assert_eq!(severity(Cores { tickless: "4-7".into(), ..cores.clone() }, "isolated cores"), Severity::Good);
        assert!(about(&check_cores(Cores { isolated: String::new(), ..cores }), "isolated cores").fix.contains("2-7"));
        assert_eq!(severity(Cores { online: 2, ..Cores::default() }, "isolated cores"), Severity::Good);
    }

    #[test]
    fn slow_clocks_and_stolen_time() {
        let clock = |name: &str| Cores { clock_source: Some(name.into()), ..Cores::default() };
        assert_eq!(severity(clock("tsc"), "clock source"), Severity::Good);
        assert_eq!(severity(clock("hpet"), "clock source"), Severity::Warning);
        let stolen = |percent| Cores { stolen_percent: percent, virtual_machine: true, ..Cores::default() };
        assert_eq!(severity(stolen(5), "stolen time"), Severity::Warning);
        assert_eq!(severity(stolen(0), "stolen time"), Severity::Note);
    }
}
