//! The suite passes a port that keeps the contract, and each check fails for a port that breaks what it checks.

mod model;

use std::time::Duration;

use linerate_mem::PoolConfig;
use linerate_testkit::{Harness, Outcome, check_all, check_names, run_check};
use model::{Fault, ModelHarness};

#[test]
fn a_good_port_passes_every_check_and_none_is_left_out() {
    let report = check_all(&mut ModelHarness::new(Fault::None, Duration::from_secs(30)));
    for line in &report.lines {
        assert!(matches!(line.outcome, Outcome::Passed(_)), "{line:?}");
    }
    assert_eq!(report.lines.len(), check_names().count());
}

/// A fault, the check that must find it, and words of its message.
const FAULTS: &[(Fault, &str, &str)] = &[
    (Fault::LosesPacket(100), "order and content", "arrived, but 0 drops"),
    (Fault::LosesPacket(15_000), "between threads", "arrived"),
    (Fault::Reorders, "order and content", "byte"),
    (Fault::Duplicates, "order and content", "arrived twice"),
    (Fault::FlipsBit, "order and content", "byte 13"),
    (Fault::CutsOddLengths, "order and content", "arrived with 14"),
    (Fault::StripsVlanTags, "vlan tags", "was sent with"),
    (Fault::ReturnsWrongCount, "order and content", "receive returned"),
    (Fault::FlushNeverEnds, "order and content", "flush still says"),
    (Fault::LosesOnTheWayBack, "both directions", "99 arrived"),
    (Fault::LosesAfterTheWrap, "ring wrap", "from index 4294967275"),
    (Fault::LosesUncountedWhenFull, "partial transmit", "arrived, but 0 drops"),
    (Fault::FullIsAnError, "partial transmit", "a full ring is no error"),
    (Fault::ForgetsWhatTheBatchHeld, "small batches", "what it held"),
    (Fault::CountsTooManyBytes, "counters balance", "tx_bytes"),
    (Fault::CountsSlotsAsPackets, "packets of several slots", "receive returned"),
    (Fault::StartsAtOne, "counters balance", "a fresh port counts already"),
    (Fault::DropsWithoutCause, "receiver gone", "no cause"),
    (Fault::NoTimes, "timestamps", "carry a timestamp"),
    (Fault::LeaksFrame, "frames come back", "did not come back"),
    (Fault::NeedsFrameToSend, "pool runs dry", "without free frames"),
    (Fault::ForgetsPartialChecksums, "partial checksums", "byte 40"),
    (Fault::SplitsPackets, "packets of several slots", "split"),
    (Fault::SendsWhatItIsShownTwice, "shown packets", "arrived twice"),
    (Fault::ForgetsWhatItWasShown, "shown packets", "transmit took"),
    (Fault::ShowsTooMany, "shown packets", "more packets than there are"),
    (Fault::CountsMoreThanAsked, "counted packets", "were asked for"),
    (Fault::CountsWrongBytes, "counted packets", "were counted"),
    (Fault::ForgetsWhatItCounted, "counted packets", "rx_packets is"),
    (Fault::TakesTooLong, "frame too long", "was taken"),
    (Fault::WrongNumbers, "frame too long", "wanted FrameTooLong"),
    (Fault::RefusesTheGoodOnesToo, "frame too long", "were taken before the long one"),
    (Fault::DoesNotKnowItsPool, "foreign pool", "another"),
    (Fault::NeverReady, "wait", "TimedOut"),
    (Fault::ReadyWhenFull, "wait", "on a full port"),
    (Fault::NeverEnds, "end", "TimedOut"),
    (Fault::EndsTooEarly, "end", "Ended after"),
    (Fault::PanicsWithoutPeer, "receiver gone", "panicked: nobody is there"),
    (Fault::ForgetsWhatWasSentToNobody, "receiver gone", "transmit took"),
    (Fault::SenderTakesPacketsAlong, "sender gone", "0 of 30 packets arrived"),
    (Fault::CallsDownGone, "interface down", "the receiver says"),
    (Fault::ForgetsTotalsWhenDown, "interface down", "totals were lost"),
    (Fault::StaysDown, "interface down", "does not work"),
    (Fault::HidesItsLink, "interface down", "the link is Down, and the port says Up"),
    (Fault::DoesNotNoticeDeletion, "interface deleted", "does not notice"),
    (Fault::LeavesSomethingBehind, "killed process", "m0"),
];

#[test]
fn every_fault_is_found_by_its_check() {
    let mut missed = Vec::new();
    for (fault, check, words) in FAULTS {
        // Broken ports are not waited for: what they lose does not come later, either.
        match run_check(&mut ModelHarness::new(*fault, Duration::from_millis(60)), check) {
            Some(Outcome::Failed(message)) if message.contains(words) => {}
            other => missed.push(format!("{fault:?}: {check} should have failed with {words:?}, gave {other:?}")),
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn every_check_has_a_fault_that_it_finds() {
    let unproven: Vec<&str> = check_names().filter(|name| FAULTS.iter().all(|(_, check, _)| check != name)).collect();
    assert!(unproven.is_empty(), "{unproven:?}");
}

#[test]
#[should_panic(expected = "order and content")]
fn a_failure_is_a_panic_that_names_the_check() {
    check_all(&mut ModelHarness::new(Fault::FlipsBit, Duration::from_millis(60)));
}

#[test]
fn the_pool_is_big_enough_for_the_checks() {
    let PoolConfig { frames, .. } = ModelHarness::new(Fault::None, Duration::ZERO).pool();
    assert!(frames >= 2048);
}
