//! What the ports of an Open vSwitch counted, as `ovs-ofctl dump-ports` prints it.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use linerate_process::{OUTPUT_BYTES_MAX, Process, Spec};
use linerate_report::Loss;

use super::counters::SwitchCounters;

/// Longest run of the command.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// How long a switch that lives may reset connections to its socket, as it does while it takes over a change of its database, and how long is waited
/// between two tries.
const RESETS_MAX: Duration = Duration::from_secs(2);
const RESET_GAP: Duration = Duration::from_millis(50);

/// Whether a command of Open vSwitch failed before the switch heard of it, by what it printed.
fn was_not_heard(output: &str) -> bool {
    output.contains("failed to connect to socket")
}

/// Does this until the switch has heard of it, for [`RESETS_MAX`] at most; `output` has what a failed one printed, and is `None` where trying again
/// makes no sense.
pub(crate) fn until_heard<T, E>(
    mut ask: impl FnMut() -> Result<T, E>,
    output: impl Fn(&E) -> Option<String>,
) -> Result<T, E> {
    let began = Instant::now();
    loop {
        match ask() {
            Err(error) if output(&error).is_some_and(|text| was_not_heard(&text)) && began.elapsed() < RESETS_MAX => {
                std::thread::sleep(RESET_GAP);
            }
            answer => return answer,
        }
    }
}

/// Runs the command and adds its ports up.
///
/// # Errors
/// It cannot be started, or fails.
pub(super) fn read(command: &[String]) -> io::Result<SwitchCounters> {
    until_heard(|| read_once(command), |error| Some(error.to_string()))
}

fn read_once(command: &[String]) -> io::Result<SwitchCounters> {
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
    fn a_connection_that_was_reset_is_tried_again_and_nothing_else_is() {
        const RESET: &str = "ovs-ofctl: unix:br0.mgmt: failed to connect to socket (Connection reset by peer)";
        let asked = |answers: &[Result<u32, &str>]| {
            let mut tries = 0;
            let answer = until_heard(
                || {
                    tries += 1;
                    answers[tries - 1].map_err(str::to_owned)
                },
                |error| Some(error.clone()),
            );
            (answer, tries)
        };
        assert_eq!(asked(&[Err(RESET), Err(RESET), Ok(7)]), (Ok(7), 3));
        assert_eq!(asked(&[Err("no such bridge")]), (Err("no such bridge".to_owned()), 1));
        let dead = until_heard(|| Err::<u32, _>("ovs-vswitchd died"), |_| None);
        assert_eq!(dead, Err("ovs-vswitchd died"));
    }

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
