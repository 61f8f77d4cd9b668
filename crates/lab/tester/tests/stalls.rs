//! What a trial says of its cores and of the times of its losses, against its own account. No timing decides.

mod support;

use std::net::Ipv4Addr;

use linerate_experiment::{FlowOrder, FlowSpec};
use linerate_report::{LOSS_BINS, StalledPart};
use linerate_sys::affinity;
use linerate_testbed::placement::Placement;
use linerate_testbed::topology::{Topology, TopologySpec};
use linerate_tester::{Cores, Load, TesterSpec, TrialSpec, fixed_size};
use support::{built, opened};

const MS: u64 = 1_000_000;

fn flows() -> FlowSpec {
    let (source, destination) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 101));
    FlowSpec {
        source,
        sources: 1,
        destination,
        destinations: 1,
        ports: 1,
        order: FlowOrder::Odometer,
        ip: linerate_experiment::FlowIp::V4,
    }
}

#[test]
fn every_lost_packet_has_a_time_and_every_stall_a_core() {
    let [generator, dut] = match affinity::allowed_cores()[..] {
        [first, second, ..] => [first, second],
        _ => return eprintln!("skipped: two cores are needed"),
    };
    let placement = Placement::Thread { core: Some(dut) };
    let Some(topology) = built(Topology::router(&TopologySpec { placement, ..TopologySpec::default() })) else {
        return;
    };
    let Some(mut tester) = opened(topology, &TesterSpec::new("xdp", "sink")) else { return };
    tester.place(placement).expect("placed");
    let cores = Cores { generator: Some(generator), dut: Some(dut), ..Cores::default() };
    let (size, flows) = (fixed_size(64), flows());
    // Under overload and far below it, the second one on counts that began anew.
    for load in [Load::Full { duration_ns: 100 * MS }, Load::Rate { pps: 20_000.0, duration_ns: 100 * MS }] {
        let outcome = tester.trial(&TrialSpec { cores, ..TrialSpec::new(&size, &flows, load) }).expect("a trial");
        let (account, stalls) = (&outcome.ledger.account, &outcome.readings.machine.stalls);
        assert!(account.delivered() > 0, "{account:?}");
        let loss = stalls.loss.as_ref().expect("a counting program tells packets apart");
        assert!(loss.bin_ns > 0 && loss.lost.len() == LOSS_BINS);
        assert_eq!(loss.lost.iter().sum::<u64>(), account.sent() - account.delivered(), "{account:?}");
        // Divided rows add up to the same account.
        assert_eq!(account.unexplained(), 0, "{account:?}");
        let in_rows = account.lost().iter().filter(|row| row.cause.starts_with("ring full while core"));
        assert_eq!(in_rows.map(|row| row.packets).sum::<u64>(), stalls.lost_in_interruptions);
        let core_of = |part| if part == StalledPart::Dut { dut } else { generator };
        assert!(stalls.list.iter().all(|stall| stall.core == Some(core_of(stall.part) as u32)), "{:?}", stalls.list);
        assert!(stalls.list.iter().all(|stall| stall.lost == 0 || stall.interruption), "{:?}", stalls.list);
        let longest = stalls.interruptions().map(|stall| stall.duration_ns).max().unwrap_or(0);
        assert!(outcome.readings.machine.noise.gap_max_ns >= longest);
        // Both threads were recognized, so nothing of them is unknown.
        assert!(!stalls.unknown.iter().any(|unknown| unknown.contains("was not seen")), "{:?}", stalls.unknown);
    }
}
