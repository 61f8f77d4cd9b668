//! What the ports of an Open vSwitch counted, as `ovs-ofctl dump-ports` prints it.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use linerate_process::{OUTPUT_BYTES_MAX, Process, Spec};
use linerate_report::Loss;

use super::counters::SwitchCounters;

/// Longest run of the command.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// Runs the command and adds its ports up.
///
/// # Errors
/// It cannot be started, or fails.
pub(super) fn read(command: &[String]) -> io::Result<SwitchCounters> {
    let (environment, namespace, input) = (Vec::new(), None, None);
    let spec = Spec { command: command.to_vec(), environment, namespace, input, output_bytes_max: OUTPUT_BYTES_MAX };
    let process = Process::start(spec)?;
    match process.wait(ANSWER_MAX) {
        Some(status) if status.success() => Ok(totals(&of_ports(&process.printed()))),
        _ => {
            process.kill();
            Err(io::Error::other(format!("`{}` failed: {}", command.join(" "), process.output().trim())))
        }
    }
}

/// `port 1 rx pkts`, `port 1 tx errs`: from two lines a port. Numbers that are not known are `?` there and left out.
pub(crate) fn of_ports(text: &str) -> BTreeMap<String, u64> {
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

fn totals(ports: &BTreeMap<String, u64>) -> SwitchCounters {
    let mut counters = SwitchCounters::default();
    for (name, port) in [("1", "in"), ("2", "out")] {
        let of = |what: &str| ports.get(&format!("port {name} {what}")).copied().unwrap_or(0);
        counters.received += of("rx pkts");
        counters.sent += of("tx pkts");
        let row = |what: &str, cause: &str| {
            let counter = format!("ovs-ofctl dump-ports, {what}");
            Loss::new(format!("switch port {port}"), cause, of(what)).counted_by(counter)
        };
        counters.before.extend([row("rx drop", "dropped on reception"), row("rx errs", "broken on reception")]);
        counters.inside.extend([row("tx drop", "egress ring full"), row("tx errs", "refused by the port")]);
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORTS: &str = "OFPST_PORT reply (xid=0x2): 2 ports\n  port  1: rx pkts=60, bytes=3600, drop=?, errs=0\n           \
        tx pkts=12, bytes=720, drop=3, errs=0, coll=?\n  port LOCAL: rx pkts=9\n";

    #[test]
    fn ports_are_read_and_added_up() {
        let ports = of_ports(PORTS);
        assert_eq!((ports["port 1 rx pkts"], ports["port 1 tx drop"], ports["port LOCAL rx pkts"]), (60, 3, 9));
        assert!(!ports.contains_key("port 1 rx drop"), "not known");
        let totals = totals(&ports);
        assert_eq!((totals.received, totals.sent), (60, 12));
        let lost: Vec<_> = totals.losses().map(|loss| (loss.place.as_str(), loss.packets)).collect();
        assert_eq!(lost, [("switch port in", 3)]);
    }

    #[test]
    fn a_command_that_fails_is_told() {
        let error = read(&["sh", "-c", "echo no bridge >&2; exit 1"].map(str::to_owned)).expect_err("fails");
        assert!(error.to_string().contains("no bridge"), "{error}");
    }
}
