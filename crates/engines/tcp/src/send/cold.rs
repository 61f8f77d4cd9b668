//! State of recovery in the slab: made when it is needed, taken out and put back by who works on it, given back when it is clean.

use super::congestion;
use super::memory::SendMemory;
use super::mtu;
use super::prr::Prr;
use super::recovery::{Phase, Recovery};
use crate::{NONE, Tcb};

/// The state of the connection, or a new one.
pub(super) fn load(tcb: &Tcb, memory: &SendMemory) -> Recovery {
    match memory.recoveries.get(tcb.cold) {
        Some(recovery) if tcb.cold != NONE => *recovery,
        _ => Recovery::new(tcb),
    }
}

/// Keeps the state. There is a place for every connection (`SendConfig::connections_max`).
pub(super) fn store(tcb: &mut Tcb, memory: &mut SendMemory, recovery: Recovery) {
    if tcb.cold != NONE {
        memory.recoveries[tcb.cold] = recovery;
    } else if let Some(index) = memory.recoveries.insert(recovery) {
        tcb.cold = index;
    } else {
        debug_assert!(false, "more connections than `connections_max` have state of recovery");
    }
}

/// Gives the state back.
pub(super) fn drop_state(tcb: &mut Tcb, memory: &mut SendMemory) {
    if tcb.cold != NONE {
        memory.recoveries.remove(tcb.cold);
        tcb.cold = NONE;
    }
}

/// Begins a fast recovery if something is lost and none is under way (RFC 6675 section 5 step 4, RFC 5681 section 3.2).
pub(super) fn enter_recovery_if_lost(tcb: &mut Tcb, memory: &mut SendMemory, recovery: &mut Recovery) -> bool {
    if mtu::judge(tcb, memory, recovery) {
        recovery.is_harmless = true;
    }
    let is_calm = matches!(recovery.phase, Phase::Open | Phase::Reduced);
    if recovery.lost == 0 || !is_calm || recovery.is_harmless {
        return false;
    }
    // A window that was reduced in this round trip is not reduced again.
    if recovery.phase == Phase::Open {
        congestion::reduce(tcb, recovery, &memory.config, false);
    }
    recovery.phase = Phase::Recovery;
    recovery.point = tcb.snd_nxt;
    recovery.prr = Prr::new(tcb.in_flight());
    recovery.probe = None;
    recovery.probe_due = false;
    // The first retransmission leaves at once.
    tcb.cwnd = recovery.pipe(tcb) + super::queue::payload_max(tcb);
    memory.counters.recoveries += 1;
    true
}

/// A tail loss probe repaired a loss, which counts as one (RFC 8985 section 7.4.2).
pub(super) fn count_probe_loss(tcb: &mut Tcb, memory: &mut SendMemory, recovery: &mut Recovery) {
    recovery.probe = None;
    memory.counters.probe_losses += 1;
    if recovery.phase == Phase::Open {
        congestion::reduce(tcb, recovery, &memory.config, false);
        recovery.undo = None;
        tcb.cwnd = tcb.ssthresh;
    }
}
