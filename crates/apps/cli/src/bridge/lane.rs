//! One direction of a bridge.

use linerate_mem::{Batch, Pool};
use linerate_port::{Caps, Port, PortError};

use super::copy::Copier;

/// One direction: from port `from` to port `to`, which are numbers in the bridge's list.
pub struct Lane {
    /// Port that packets come from.
    pub from: usize,
    /// Port that they go to.
    pub to: usize,
    /// Pool of the port that they come from.
    home: Pool,
    /// What has come and not gone.
    batch: Batch,
    /// Where slots cannot be handed over.
    copier: Option<Copier>,
    /// What has happened.
    pub counts: Counts,
    /// Nothing will ever come.
    pub ended: bool,
}

/// Packets of a lane. `received = taken + too_long + left`, and what is held while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// That the near port returned.
    pub received: u64,
    /// That the far port took.
    pub taken: u64,
    /// Longer than the far port takes.
    pub too_long: u64,
    /// Held when the bridge ended.
    pub left: u64,
    /// Calls of the near port that returned some.
    pub batches: u64,
}

impl Counts {
    /// Packets that are in the lane.
    #[inline]
    pub fn held(&self) -> u64 {
        self.received - self.taken - self.too_long - self.left
    }
}

impl Lane {
    /// A lane for batches of `batch_size` slots, or more where a single packet may need that. `home` is the pool of the port
    /// that packets come from (`near`); with `copy_into`, they are copied into frames of that pool, otherwise handed over.
    pub fn new(
        (from, to): (usize, usize),
        near: &Caps,
        home: &Pool,
        copy_into: Option<&Pool>,
        batch_size: usize,
    ) -> Lane {
        let slots = |pool: &Pool| near.frame_len_max.div_ceil(pool.packet_len_max().max(1)).max(batch_size);
        let capacity = slots(home).min(near.frags_max).max(batch_size);
        Lane {
            from,
            to,
            home: home.clone(),
            batch: if near.timestamps { Batch::with_times(home, capacity) } else { Batch::new(home, capacity) },
            copier: copy_into.map(|pool| Copier::new(pool, slots(pool))),
            counts: Counts::default(),
            ended: false,
        }
    }

    /// Receives, if nothing is held, and sends; true when anything moved. Neither is done without the other's chance: a far
    /// port that is full holds back the near one only.
    #[inline]
    pub fn turn(&mut self, near: &mut dyn Port, far: &mut dyn Port) -> Result<bool, PortError> {
        let mut moved = false;
        if self.counts.held() == 0 {
            let received = near.receive(&mut self.batch)?;
            if received == 0 {
                return Ok(false);
            }
            self.counts.received += received as u64;
            self.counts.batches += 1;
            moved = true;
        }
        Ok(self.send(far)? || moved)
    }

    /// Sends what is held, as far as the far port takes it.
    #[inline]
    pub fn send(&mut self, far: &mut dyn Port) -> Result<bool, PortError> {
        let outgoing = match &mut self.copier {
            None => &mut self.batch,
            Some(copier) => {
                copier.copy(&mut self.batch, &mut self.home);
                &mut copier.copies
            }
        };
        match far.transmit(outgoing) {
            Ok(taken) => {
                self.counts.taken += taken as u64;
                Ok(taken > 0)
            }
            Err(error) => self.refused(error),
        }
    }

    /// Counts what went before the packet that the far port refused, and drops that one if it is too long.
    #[cold]
    fn refused(&mut self, error: PortError) -> Result<bool, PortError> {
        let waiting =
            self.batch.totals().packets + self.copier.as_ref().map_or(0, |copier| copier.copies.totals().packets);
        self.counts.taken += self.counts.held() - waiting;
        if !matches!(error, PortError::FrameTooLong { .. }) {
            return Err(error);
        }
        let outgoing = self.copier.as_mut().map_or(&mut self.batch, |copier| &mut copier.copies);
        let slots = outgoing.span(0).map_or(outgoing.len(), |span| span.slots);
        match &mut self.copier {
            None => self.home.free_front(&mut self.batch, slots),
            Some(copier) => copier.drop_front(slots),
        }
        self.counts.too_long += 1;
        Ok(true)
    }

    /// Gives back what is held, and counts it.
    pub fn give_up(&mut self) {
        self.counts.left += self.counts.held();
        self.home.free(&mut self.batch);
        if let Some(copier) = &mut self.copier {
            copier.clear();
        }
    }

    /// True when slots are handed over.
    pub fn is_zero_copy(&self) -> bool {
        self.copier.is_none()
    }
}
