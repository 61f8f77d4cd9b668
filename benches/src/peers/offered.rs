//! Core time for each packet of a receiver that is offered packets at a rate. A run counts where the sender kept that rate and the
//! receiver has every packet: a cost per packet seen of a receiver that lost some, or was offered fewer, is another quantity.

use std::process::Command;
use std::time::Duration;

use super::compare::{TO_NOBODY, Tools, WARM_UP};
use super::process::{Running, core_ns};
use super::veth::Veth;
use super::{Reached, Unable};

/// For how long packets are sent.
const SECONDS: u64 = 2;
/// The least share of the rate asked for that counts as this rate.
const RATE_MIN: f64 = 0.98;
/// Longer than libpcap's tools may hold a block that is not full.
const REST: Duration = Duration::from_millis(1500);
/// The receive ring of either side: ours has this by default, tcpdump a smaller one, in which it would lose packets when its core is away for a while.
const RING_MIB: u64 = 16;

/// How a receiver is run, and how it says what it has.
struct Receiver {
    command: fn(&Tools, &Veth) -> Command,
    /// Packets that it has, of a line of its output or of its complaints.
    captured: fn(&str) -> Option<u64>,
}

/// `linerate receive packet:`, which counts and looks for signatures that are not there.
pub(super) fn to_linerate(tools: &Tools, pps: u64) -> Result<Reached, Unable> {
    let receiver = Receiver {
        command: |tools, veth| {
            let mut command = veth.inside(&veth.far, 1, &tools.linerate);
            let port = format!("packet:rx0,ring={}", RING_MIB << 20);
            command.args(["receive", &port, "--cores", "1", "-q", "--json"]);
            command
        },
        // The first one of the document counts all that came.
        captured: |line| number_after(line, "\"packets\":"),
    };
    offer(tools, &receiver, pps)
}

/// `tcpdump -w /dev/null`.
pub(super) fn to_tcpdump(tools: &Tools, pps: u64) -> Result<Reached, Unable> {
    let receiver = Receiver {
        command: |_, veth| {
            let mut command = veth.inside(&veth.far, 1, "tcpdump");
            command.args(["-i", "rx0", "-n", "-w", "/dev/null", "-B"]).arg((RING_MIB << 10).to_string());
            command
        },
        captured: |line| line.strip_suffix(" packets captured")?.parse().ok(),
    };
    offer(tools, &receiver, pps)
}

/// Live frames are sent: a core sends more of them than a capture can be offered through sockets.
fn offer(tools: &Tools, receiver: &Receiver, pps: u64) -> Result<Reached, Unable> {
    let veth = Veth::new()?;
    veth.take_live_frames()?;
    let mut running = Running::start(&mut (receiver.command)(tools, &veth))?;
    std::thread::sleep(WARM_UP);
    let before_ns = core_ns(running.id(), |_| true);
    let mut command = veth.inside(&veth.near, 0, &tools.linerate);
    command.args(["send", "xdplive:tx0", "--cores", "0", "-q", "--json", "--no-signature"]).args(TO_NOBODY);
    command.args(["-d", &format!("{SECONDS}s"), "-r", &format!("{pps}pps")]);
    let mut sender = Running::start(&mut command)?;
    let (mut sent, mut sent_pps) = (None, None);
    sender.read_until(|line| {
        sent = sent.or_else(|| number_after::<u64>(line, "\"sent\":"));
        sent_pps = sent_pps.or_else(|| number_after::<f64>(line, "\"sent_pps\":"));
        (line == "}").then_some(())
    })?;
    std::thread::sleep(REST);
    let spent_ns = core_ns(running.id(), |_| true).saturating_sub(before_ns);
    running.interrupt();
    let captured = running.read_everywhere(receiver.captured)?;
    let (Some(sent), Some(sent_pps)) = (sent, sent_pps) else { return Err("the sender said no number".into()) };
    if sent_pps < RATE_MIN * pps as f64 {
        return Err(format!("the sender reached {:.0} kpps of {} kpps", sent_pps / 1e3, pps / 1000));
    }
    if captured != sent {
        return Err(format!("{sent} packets were sent and {captured} captured"));
    }
    Ok(Reached { wall_mpps: sent_pps / 1e6, core_ns: spent_ns as f64 / sent as f64 })
}

/// The number behind `key` in a line of a JSON document.
fn number_after<T: std::str::FromStr>(line: &str, key: &str) -> Option<T> {
    let (_, rest) = line.split_once(key)?;
    rest.trim().trim_end_matches(',').parse().ok()
}
