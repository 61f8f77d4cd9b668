//! The search for the longest segment that a path takes, by segments of data that are longer than it is known to take (RFC 8899, RFC 4821).
//! How long they are is up to the layer below; here they are put together, sent, and judged.

use super::chunk::Marks;
use super::memory::{SEGMENT_MAX, SendMemory};
use super::queue;
use super::recovery::{MtuProbe, Phase, Recovery};
use crate::{Flags, Tcb};

/// Segments that must follow a probe, so that its loss shows (RFC 4821 section 7.4).
const FOLLOWERS: u32 = 3;

/// Makes one chunk of those that were never sent, if a probe is wanted and the connection is in a state to learn from it. It is the next to leave.
pub(super) fn build(tcb: &mut Tcb, memory: &mut SendMemory, recovery: &mut Recovery, pipe: u32) -> Option<u32> {
    let target = recovery.mtu.target;
    let is_calm = recovery.phase == Phase::Open && recovery.lost == 0 && recovery.sacked == 0 && recovery.backoffs == 0;
    if target <= tcb.mss || !is_calm || recovery.mtu.probe.is_some() || !tcb.flags.has(Flags::SACK) {
        return None;
    }
    let len = (u32::from(target) - u32::from(tcb.mss) + tcb.payload_max()).min(SEGMENT_MAX);
    let (flight, unsent) = (tcb.in_flight(), tcb.queued - tcb.in_flight());
    let fits = pipe + len <= tcb.cwnd && flight + len <= tcb.snd_wnd;
    if !fits || unsent < len + FOLLOWERS * queue::payload_max(tcb) {
        return None;
    }
    let handle = queue::join(tcb, memory, len)?;
    recovery.mtu.target = 0;
    recovery.mtu.probe = Some(MtuProbe { handle, end: memory.header(handle).end(), mss: target });
    Some(handle)
}

/// Looks whether the probe arrived or was lost. True if it was lost, and nothing else is: that is no sign of congestion (RFC 8899 section 3).
pub(super) fn judge(tcb: &Tcb, memory: &SendMemory, recovery: &mut Recovery) -> bool {
    let Some(probe) = recovery.mtu.probe else { return false };
    if tcb.snd_una.at_least(probe.end) {
        end(recovery, probe, true);
        return false;
    }
    let header = memory.header(probe.handle);
    if header.marks.has(Marks::SACKED) {
        end(recovery, probe, true);
    } else if header.marks.has(Marks::LOST) {
        end(recovery, probe, false);
        return recovery.lost == header.span();
    }
    false
}

/// A chunk is sent again, in segments that the path is known to take: if it is the probe, it counts as lost.
pub(super) fn resent(recovery: &mut Recovery, handle: u32) {
    if let Some(probe) = recovery.mtu.probe.filter(|probe| probe.handle == handle) {
        end(recovery, probe, false);
    }
}

fn end(recovery: &mut Recovery, probe: MtuProbe, has_arrived: bool) {
    recovery.mtu.probe = None;
    recovery.mtu.fate = Some((probe.mss, has_arrived));
}
