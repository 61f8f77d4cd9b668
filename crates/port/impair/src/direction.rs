//! One direction of an impaired port: packets come, get their fates, wait, and leave.

use linerate_mem::{Batch, Pool};
use linerate_port::{Drops, complete_checksums};

use crate::fate::{Fate, Fates};
use crate::queue::Queue;
use crate::settings::{LinkRate, Settings};

/// One direction.
pub(crate) struct Direction {
    fates: Fates,
    /// Packets wait; false where nothing holds them back, and the queue is not used.
    waits: bool,
    ordered: bool,
    link: Option<Link>,
    queue: Queue,
    limit: usize,
    /// When the last packet that keeps to the order is due.
    last_due_ns: u64,
    pool: Pool,
    /// A copy that follows its packet as soon as there is room.
    copy: Batch,
    pub(crate) counts: Counts,
}

/// Packets. `came + duplicated = left + lost + overflow + no_frame + too_long + waiting`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Copies that were to be made.
    pub duplicated: u64,
    /// Packets of which a bit was changed, also if they were dropped after that.
    pub corrupted: u64,
    lost: u64,
    /// Packets that found the queue full.
    overflow: u64,
    /// Copies that found no free frame.
    no_frame: u64,
    /// Packets that the port behind does not take, or that do not fit into the batch of the caller.
    too_long: u64,
}

impl Direction {
    /// `number` makes two directions of one seed differ. No packet has more than `frags_max` slots.
    pub(crate) fn new(settings: &Settings, number: u64, pool: &Pool, frags_max: usize) -> Direction {
        let waits = settings.delay_ns > 0 || settings.jitter_ns > 0 || settings.rate.is_some();
        Direction {
            fates: Fates::new(settings, number),
            waits,
            ordered: settings.ordered,
            link: settings.rate.map(Link::new),
            queue: Queue::new(pool, if waits { settings.limit } else { 0 }),
            limit: settings.limit,
            last_due_ns: 0,
            pool: pool.clone(),
            copy: Batch::with_times(pool, frags_max),
            counts: Counts::default(),
        }
    }

    /// Takes the packets in the first `slots` slots of the batch, as far as `out` has room for those that need not wait, and returns
    /// how many slots it took.
    pub(crate) fn take(&mut self, batch: &mut Batch, slots: usize, now_ns: u64, out: &mut Batch) -> usize {
        let mut taken = 0;
        while taken < slots {
            let slots = if batch.more(0) { batch.span(0).map_or(slots - taken, |span| span.slots) } else { 1 };
            if !self.waits && !self.make_room(slots, out) {
                break;
            }
            taken += slots;
            let fate = self.fates.next();
            if fate.lost {
                self.counts.lost += 1;
                self.pool.free_front(batch, slots);
                continue;
            }
            if let Some(draw) = fate.corrupted {
                let bits = 8 * batch.totals_of(slots).bytes;
                // A packet without bytes has no bit to change, and the one behind it is not to be damaged.
                if bits > 0 {
                    self.counts.corrupted += 1;
                    complete_checksums(batch);
                    change_bit(batch, draw.other_below(bits) as usize);
                }
            }
            if fate.duplicated {
                self.counts.duplicated += 1;
                if !self.pool.copy(batch, 0, &mut self.copy) {
                    self.counts.no_frame += 1;
                }
            }
            if self.waits {
                self.enqueue(batch, slots, fate, now_ns);
                self.enqueue_copy(fate, now_ns);
            } else if slots <= out.room() {
                batch.move_to(out, slots);
            } else {
                self.pool.free_front(batch, slots);
                self.counts.too_long += 1;
            }
        }
        taken
    }

    /// Takes all packets of the batch, in a direction where they wait.
    pub(crate) fn take_to_wait(&mut self, batch: &mut Batch, now_ns: u64) {
        let (slots, mut nowhere) = (batch.len(), Batch::new(&self.pool, 0));
        self.take(batch, slots, now_ns, &mut nowhere);
    }

    /// True when `out` has room for `slots` slots, or never will. The copy of the packet before goes first.
    #[inline]
    fn make_room(&mut self, slots: usize, out: &mut Batch) -> bool {
        self.pass_copy(out);
        self.copy.is_empty() && (slots <= out.room() || slots > out.capacity())
    }

    #[inline]
    fn pass_copy(&mut self, out: &mut Batch) {
        let slots = self.copy.len();
        if slots == 0 {
            return;
        }
        if slots <= out.room() {
            self.copy.move_to(out, slots);
        } else if slots > out.capacity() {
            self.pool.free(&mut self.copy);
            self.counts.too_long += 1;
        }
    }

    #[inline]
    fn enqueue_copy(&mut self, fate: Fate, now_ns: u64) {
        if !self.copy.is_empty() {
            let mut copy = std::mem::replace(&mut self.copy, Batch::new(&self.pool, 0));
            let slots = copy.len();
            self.enqueue(&mut copy, slots, fate, now_ns);
            self.copy = copy;
        }
    }

    /// Takes a packet that waits for its turn on the link, and then for its delay.
    #[inline]
    fn enqueue(&mut self, batch: &mut Batch, slots: usize, fate: Fate, now_ns: u64) {
        if slots > self.queue.room() {
            self.counts.overflow += 1;
            self.pool.free_front(batch, slots);
            return;
        }
        let mut due_ns = match &mut self.link {
            Some(link) => link.sent_ns(now_ns, batch.totals_of(slots).bytes),
            None => now_ns,
        };
        due_ns = due_ns.saturating_add(fate.delay_ns);
        if self.ordered && !fate.early {
            due_ns = due_ns.max(self.last_due_ns);
            self.last_due_ns = due_ns;
        }
        let time_ns = match batch.time_ns(0) {
            Some(time_ns) if time_ns > 0 => time_ns.saturating_add(due_ns - now_ns),
            _ => 0,
        };
        self.queue.push(batch, slots, due_ns, time_ns);
    }

    /// Moves what is due to the batch. A packet for which even the empty batch has no room is dropped.
    #[inline]
    pub(crate) fn release(&mut self, now_ns: u64, out: &mut Batch) {
        if !self.waits {
            return self.pass_copy(out);
        }
        self.queue.pop_due(now_ns, out);
        while self.queue.pop_longer(now_ns, out.capacity(), &mut self.copy) {
            self.pool.free(&mut self.copy);
            self.counts.too_long += 1;
            self.queue.pop_due(now_ns, out);
        }
    }

    /// Drops the first packet of the batch, which the port behind does not take.
    #[cold]
    pub(crate) fn refuse_first(&mut self, batch: &mut Batch) {
        let slots = batch.span(0).map_or(batch.len(), |span| span.slots);
        self.pool.free_front(batch, slots);
        self.counts.too_long += 1;
    }

    /// True when packets wait for their time; false when each leaves as soon as there is room.
    pub(crate) fn waits(&self) -> bool {
        self.waits
    }

    /// When the next packet is due; 0 for one that only waits for room.
    #[inline]
    pub(crate) fn next_due_ns(&self) -> Option<u64> {
        if self.waits { self.queue.next_due_ns() } else { (!self.copy.is_empty()).then_some(0) }
    }

    /// Packets that wait.
    #[inline]
    pub(crate) fn waiting(&self) -> usize {
        self.queue.packets() + usize::from(!self.copy.is_empty())
    }

    /// Losses, with their causes.
    pub(crate) fn drops(&self, place: &str) -> impl Iterator<Item = Drops> {
        let Counts { lost, overflow, no_frame, too_long, .. } = self.counts;
        let causes = [
            ("random loss".to_string(), lost),
            (format!("queue full (limit {})", self.limit), overflow),
            ("no free frame for a copy".into(), no_frame),
            ("longer than the port or the batch takes".into(), too_long),
        ];
        let rows = causes.into_iter().filter(|(_, packets)| *packets > 0);
        rows.map(move |(cause, packets)| Drops { place: place.into(), cause, packets })
    }
}

/// Changes bit `bit` of the first packet of the batch.
fn change_bit(batch: &mut Batch, bit: usize) {
    let (mut slot, mut byte) = (0, bit / 8);
    while slot < batch.len() {
        let bytes = batch.packet_mut(slot);
        if let Some(changed) = bytes.get_mut(byte) {
            *changed ^= 1 << (bit % 8);
            return;
        }
        byte -= bytes.len();
        slot += 1;
    }
}

/// A link that sends one packet after the other.
struct Link {
    rate: LinkRate,
    /// When the last bit of the last packet is sent.
    free_ns: u64,
    /// Parts of a nanosecond beyond that: so many of `rate.bps`.
    rest: u64,
}

impl Link {
    fn new(rate: LinkRate) -> Link {
        Link { rate, free_ns: 0, rest: 0 }
    }

    /// When the last bit of a packet that comes now is sent.
    #[inline]
    fn sent_ns(&mut self, now_ns: u64, bytes: u64) -> u64 {
        if self.free_ns < now_ns {
            (self.free_ns, self.rest) = (now_ns, 0);
        }
        let bits = 8 * bytes.saturating_add_signed(self.rate.overhead.into());
        let parts = (bits * 1_000_000_000).saturating_add(self.rest);
        self.free_ns = self.free_ns.saturating_add(parts / self.rate.bps);
        self.rest = parts % self.rate.bps;
        self.free_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_without_bytes_cannot_be_damaged_and_the_next_one_is_not() {
        let mut pool = Pool::new(Default::default()).unwrap();
        let mut direction = Direction::new(&"corrupt 100%".parse().unwrap(), 0, &pool, 8);
        let (mut batch, mut out) = (Batch::new(&pool, 8), Batch::new(&pool, 8));
        assert!(pool.append(&mut batch, &[], 0) && pool.append(&mut batch, &[0; 60], 0));
        assert_eq!(direction.take(&mut batch, 1, 0, &mut out), 1);
        assert!(out.packet(0).is_empty() && batch.packet(0) == [0; 60]);
        assert_eq!(direction.take(&mut batch, 1, 0, &mut out), 1);
        assert_eq!(out.packet(1).iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
        assert_eq!(direction.counts.corrupted, 1);
    }

    #[test]
    fn a_link_is_exact_at_any_rate() {
        for (bps, overhead) in [(1, 0), (3, 0), (9_999_991, 24), (10_000_000_000, 24), (7_777_777_777, -4)] {
            let mut link = Link::new(LinkRate { bps, overhead });
            let last_ns = (0..1000).map(|_| link.sent_ns(5, 60)).last().unwrap();
            let bits = 1000 * 8 * (60 + i128::from(overhead));
            assert_eq!(i128::from(last_ns), 5 + bits * 1_000_000_000 / i128::from(bps), "{bps}");
            assert_eq!(
                link.sent_ns(last_ns + 1_000_000, 60) - last_ns - 1_000_000,
                (bits * 1_000_000 / i128::from(bps)) as u64
            );
        }
    }
}
