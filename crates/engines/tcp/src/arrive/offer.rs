//! What a SYN offers, and what a segment echoes.

use crate::Tcb;
use crate::cookie::Agreed;
use crate::segment::{Offer, Options, Segment, bit};
use crate::tuple::Tuple;

/// The window of a SYN is not scaled. A block holds the largest one in the scaled unit.
pub(super) fn first_window(tcb: &mut Tcb, segment: &Segment<'_>) {
    tcb.snd_wnd = u32::from(segment.window);
    tcb.snd_wl1 = segment.seq;
    tcb.max_wnd = (u32::from(segment.window) >> tcb.snd_scale()).max(1) as u16;
}

/// What this side agrees to of what a SYN offers.
pub(super) fn answer(tuple: &Tuple, segment: &Segment<'_>) -> Agreed {
    let ecn = segment.flags & (bit::ECE | bit::CWR) == bit::ECE | bit::CWR;
    if let Some(Offer { mss, window_scale, .. }) = Offer::of(segment.options) {
        return Agreed { mss, window_scale: Some(window_scale), sack: true, timestamps: true, ecn };
    }
    // The parser keeps no options if the timestamps are the only one.
    let offered = Options::parse(segment.options);
    Agreed {
        mss: offered.mss.unwrap_or(if tuple.v6 { 1220 } else { 536 }),
        window_scale: offered.window_scale,
        sack: offered.sack_permitted,
        timestamps: segment.timestamps.is_some(),
        ecn,
    }
}

/// Tick at which the segment was sent that a timestamp echoes.
#[inline]
pub(super) fn echo(segment: &Segment<'_>, ts_offset: u32) -> Option<u32> {
    segment.timestamps.map(|(_, echo)| echo.wrapping_sub(ts_offset))
}
