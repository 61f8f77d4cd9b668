//! The window that this side advertises, and what an acknowledgment that leaves changes.

use crate::receive::ReceiveMemory;
use crate::segment::bit;
use crate::{Flags, NONE, Seq, StackConfig, Tcb};

/// Right edge of the window that this side may advertise now, out of what is left of the budget of all connections.
#[inline(always)]
pub(super) fn right_edge(tcb: &Tcb, receive: &ReceiveMemory, config: &StackConfig) -> Seq {
    let share = share(receive, config);
    let waiting = if tcb.recv == NONE { 0 } else { receive.get(tcb.recv).map_or(0, |record| record.ready.bytes) };
    // A connection of which nothing waits always gets room for a few segments: its program takes them at once.
    let floor = if waiting == 0 { 4 * u32::from(tcb.rcv_mss) } else { 0 };
    tcb.rcv_nxt + share.max(floor).saturating_sub(waiting)
}

/// Bytes of the window that a connection may advertise now of which nothing waits, unless that is less than a few segments.
#[inline]
pub(super) fn share(receive: &ReceiveMemory, config: &StackConfig) -> u32 {
    (receive.free_bytes() / 2).min(config.receive_window_max as usize) as u32
}

/// As [`right_edge`], if nothing waits, and the [`share`] is known.
#[inline(always)]
pub(super) fn usual_right_edge(tcb: &Tcb, share: u32) -> Seq {
    tcb.rcv_nxt + share.max(4 * u32::from(tcb.rcv_mss))
}

/// Notes that an acknowledgment leaves, moves the right edge of the window, and returns the window of the header.
#[inline(always)]
pub(super) fn acknowledge(tcb: &mut Tcb, right: Seq) -> u16 {
    tcb.flags.clear(Flags::ACK_NOW | Flags::ACK_DELAYED);
    tcb.ack_sent = tcb.rcv_nxt;
    // Receiver's avoidance of silly windows (RFC 9293 section 3.8.6.2.2): the edge moves by a segment at least, or not at all.
    let least = u32::from(tcb.rcv_mss).min((right - tcb.rcv_nxt) / 2).max(1);
    if right.at_least(tcb.rcv_edge + least) {
        let scale = tcb.rcv_scale();
        let field = ((right - tcb.rcv_nxt) >> scale).min(u32::from(u16::MAX));
        tcb.rcv_edge = tcb.rcv_edge.max(tcb.rcv_nxt + (field << scale));
    }
    // The header cannot say every window: the edge is where the peer will see it.
    let field = window_field(tcb);
    tcb.rcv_edge = tcb.rcv_edge.max(tcb.rcv_nxt + (u32::from(field) << tcb.rcv_scale()));
    field
}

/// Flags of an acknowledgment, as bits.
#[inline]
pub(super) fn ack_flags(tcb: &Tcb) -> u8 {
    if tcb.flags.has(Flags::ECE_OWED) { bit::ACK | bit::ECE } else { bit::ACK }
}

/// The window as it stands in the header, rounded up, so that the edge that the peer sees never moves back.
#[inline]
pub(super) fn window_field(tcb: &Tcb) -> u16 {
    let scale = tcb.rcv_scale();
    let window = tcb.rcv_edge - tcb.rcv_nxt;
    ((window + ((1 << scale) - 1)) >> scale).min(u32::from(u16::MAX)) as u16
}
