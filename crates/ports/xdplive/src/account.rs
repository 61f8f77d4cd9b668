//! What the interface did with the frames, by its driver's counters.

use std::io;

use linerate_sys::netdev::Netdev;

/// The counters of one interface that concern XDP frames sent to it.
pub(crate) struct DeviceCounters {
    device: Netdev,
    /// Index of the interface when the port was opened; another one of the same name is another interface.
    ifindex: u32,
    /// Statistics of the driver, and which of them count frames taken and refused; nothing to read when there are none.
    statistics: usize,
    taken: Vec<usize>,
    refused: Vec<usize>,
    last: Counts,
}

/// Frames that the interface took and refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) taken: u64,
    pub(crate) refused: u64,
}

/// What became of packets that a program handed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fate {
    /// The interface took them.
    pub(crate) sent: u64,
    /// It refused them.
    pub(crate) refused: u64,
    /// They did not get as far as the interface.
    pub(crate) stranded: u64,
}

/// Whether frames can be sent to the interface now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkState {
    Running,
    NoCarrier,
    Down,
    Gone,
}

impl DeviceCounters {
    /// The counters from now on.
    pub(crate) fn open(device: Netdev) -> io::Result<DeviceCounters> {
        let names = device.statistic_names()?;
        let places = |ending: &str| {
            let is_one = |name: &String| name.starts_with("tx_queue_") && name.ends_with(ending);
            (0..names.len()).filter(|place| is_one(&names[*place])).collect::<Vec<_>>()
        };
        let (taken, refused) = (places("_xdp_xmit"), places("_xdp_xmit_errors"));
        let ifindex = device.index()?;
        let mut counters =
            DeviceCounters { device, ifindex, statistics: names.len(), taken, refused, last: Counts::default() };
        counters.last = counters.read()?;
        Ok(counters)
    }

    /// True when the driver counts what it refuses.
    pub(crate) fn is_exact(&self) -> bool {
        !self.taken.is_empty() && !self.refused.is_empty()
    }

    #[inline]
    pub(crate) fn device(&self) -> &Netdev {
        &self.device
    }

    #[inline]
    fn read(&self) -> io::Result<Counts> {
        if !self.is_exact() {
            return Ok(Counts::default());
        }
        let values = self.device.statistic_values(self.statistics)?;
        let sum = |places: &[usize]| places.iter().filter_map(|place| values.get(*place)).sum();
        Ok(Counts { taken: sum(&self.taken), refused: sum(&self.refused) })
    }

    /// What became of `made` packets handed on since the last call.
    #[inline]
    pub(crate) fn settle(&mut self, made: u64) -> Fate {
        if !self.is_exact() {
            let stranded = if self.link_state() == LinkState::Running { 0 } else { made };
            return Fate { sent: made - stranded, refused: 0, stranded };
        }
        // An interface that is gone has no counters any more: nothing is known to have been sent.
        let now = self.read().unwrap_or(self.last);
        let before = std::mem::replace(&mut self.last, now);
        let grown = |now: u64, before: u64| now.saturating_sub(before);
        judge(made, grown(now.taken, before.taken), grown(now.refused, before.refused))
    }

    #[inline]
    pub(crate) fn link_state(&self) -> LinkState {
        match (self.device.index(), self.device.is_up(), self.device.is_running()) {
            (Ok(index), Ok(up), Ok(running)) if index == self.ifindex => match (up, running) {
                (false, _) => LinkState::Down,
                (true, false) => LinkState::NoCarrier,
                (true, true) => LinkState::Running,
            },
            _ => LinkState::Gone,
        }
    }
}

/// Divides `made` packets by what the interface counted, which may include packets of others.
fn judge(made: u64, taken: u64, refused: u64) -> Fate {
    let refused = refused.min(made);
    let sent = taken.min(made - refused);
    Fate { sent, refused, stranded: made - refused - sent }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packet_has_one_fate() {
        let fate = |sent, refused, stranded| Fate { sent, refused, stranded };
        assert_eq!(judge(100, 100, 0), fate(100, 0, 0));
        assert_eq!(judge(100, 60, 40), fate(60, 40, 0));
        assert_eq!(judge(100, 0, 0), fate(0, 0, 100));
        assert_eq!(judge(100, 50, 10), fate(50, 10, 40));
        // Somebody else sends, too.
        assert_eq!(judge(100, 500, 10), fate(90, 10, 0));
        assert_eq!(judge(100, 500, 1000), fate(0, 100, 0));
        assert_eq!(judge(0, 5, 5), fate(0, 0, 0));
    }
}
