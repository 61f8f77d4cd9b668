//! How much of a batch a ring takes.

use linerate_mem::Batch;

/// The packets at the front of a batch that fit, each as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fitting {
    /// How many.
    pub packets: usize,
    /// Their slots.
    pub slots: usize,
    /// Bytes of the packet behind them, when it is too long for the port.
    pub too_long: Option<usize>,
    /// Slots that the packet behind them needs, when there is no room for it now: waiting for less would be in vain. Else 1.
    pub room_wanted: usize,
}

impl Fitting {
    /// Looks at the packets from the front, for a port with `room` slots that takes packets of up to `len_max` bytes in up to
    /// `slots_max` slots. A packet whose last slot is not in the batch is none yet.
    pub fn new(batch: &Batch, room: usize, len_max: usize, slots_max: usize) -> Fitting {
        let mut found = Fitting { room_wanted: 1, ..Fitting::default() };
        while let Some(span) = batch.span(found.slots) {
            if span.len > len_max || span.slots > slots_max {
                found.too_long = Some(span.len);
                break;
            }
            if found.slots + span.slots > room {
                found.room_wanted = span.slots;
                break;
            }
            found.slots += span.slots;
            found.packets += 1;
        }
        found
    }
}
