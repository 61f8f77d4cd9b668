//! Capabilities and user namespaces: what this process may do.

use super::Finding;
use super::facts::{Facts, Rights};

/// Without these, ports or whole commands do not work; the others make results better.
const NEEDED: [&str; 4] = ["CAP_NET_RAW", "CAP_NET_ADMIN", "CAP_BPF", "CAP_SYS_ADMIN"];

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let rights = &facts.rights;
    let mut findings: Vec<Finding> = rights.missing.iter().map(|(name, use_)| missing(name, use_, rights)).collect();
    if findings.is_empty() {
        findings.push(Finding::good("capabilities", "all that Linerate asks for"));
    }
    if !rights.initial_user_namespace {
        findings.push(Finding::note(
            "user namespace",
            "this process is root in a user namespace only",
            "interfaces of the machine itself are out of reach; namespaces made here work",
        ));
    }
    findings
}

fn missing(name: &str, needed_for: &str, rights: &Rights) -> Finding {
    let topic = format!("capability {name}");
    // Root without a capability is root in a container or a service that was not given it.
    let how = match rights.root {
        true => format!("give the container or service {name} (--cap-add, AmbientCapabilities=)"),
        false => "run with sudo".into(),
    };
    if !NEEDED.contains(&name) {
        return Finding::note(&topic, "missing", needed_for).fix(how);
    }
    if rights.user_namespaces && rights.initial_user_namespace {
        let why = format!("{needed_for}; `linerate bench` works without, in a user namespace of its own");
        return Finding::warning(&topic, "missing", &why).fix(how);
    }
    Finding::problem(&topic, "missing, and ordinary users may make no user namespace", needed_for).fix(how)
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::super::tests::about;
    use super::*;

    fn check_rights(missing: &[&str], initial_user_namespace: bool, user_namespaces: bool) -> Vec<Finding> {
        let missing = missing.iter().map(|name| ((*name).to_string(), "something".to_string())).collect();
        check(&Facts {
            rights: Rights { root: false, missing, initial_user_namespace, user_namespaces },
            ..Facts::default()
        })
    }

    #[test]
    fn a_missing_capability_is_as_grave_as_what_it_prevents() {
        let name = "capability CAP_NET_RAW";
        assert_eq!(about(&check_rights(&["CAP_NET_RAW"], true, true), name).severity, Severity::Warning);
        assert_eq!(about(&check_rights(&["CAP_NET_RAW"], true, false), name).severity, Severity::Problem);
        let nice = check_rights(&["CAP_SYS_NICE"], true, true);
        assert_eq!(about(&nice, "capability CAP_SYS_NICE").severity, Severity::Note);
        assert_eq!(nice[0].fix, "run with sudo");
        assert_eq!(check_rights(&[], true, true)[0].severity, Severity::Good);
        assert_eq!(about(&check_rights(&[], false, true), "user namespace").severity, Severity::Note);
    }
}
