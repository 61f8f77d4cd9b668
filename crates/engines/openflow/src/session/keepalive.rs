//! When a silent peer is asked whether it lives, and when it is given up (section 6.3.3).

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    /// Send an echo request.
    Ask,
    /// The peer has not answered.
    GiveUp,
}

/// Watches one peer. An interval of 0 never asks.
#[derive(Debug)]
pub(super) struct KeepAlive {
    interval_ns: u64,
    heard_ns: u64,
    asked: bool,
}

impl KeepAlive {
    pub fn new(interval_ns: u64, now_ns: u64) -> KeepAlive {
        KeepAlive { interval_ns, heard_ns: now_ns, asked: false }
    }

    /// The peer gave a sign of life.
    pub fn heard(&mut self, now_ns: u64) {
        self.heard_ns = now_ns;
        self.asked = false;
    }

    pub fn deadline_ns(&self) -> Option<u64> {
        let intervals = if self.asked { 2 } else { 1 };
        (self.interval_ns > 0).then(|| self.heard_ns.saturating_add(self.interval_ns.saturating_mul(intervals)))
    }

    pub fn tick(&mut self, now_ns: u64) -> Due {
        if self.deadline_ns().is_none_or(|deadline_ns| now_ns < deadline_ns) {
            return Due::Nothing;
        }
        if std::mem::replace(&mut self.asked, true) { Due::GiveUp } else { Due::Ask }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_peer_is_asked_and_then_given_up() {
        let mut keep_alive = KeepAlive::new(10, 100);
        assert_eq!((keep_alive.tick(109), keep_alive.deadline_ns()), (Due::Nothing, Some(110)));
        assert_eq!((keep_alive.tick(110), keep_alive.deadline_ns()), (Due::Ask, Some(120)));
        assert_eq!(keep_alive.tick(119), Due::Nothing);
        keep_alive.heard(119);
        assert_eq!((keep_alive.tick(120), keep_alive.deadline_ns()), (Due::Nothing, Some(129)));
        assert_eq!((keep_alive.tick(129), keep_alive.tick(139)), (Due::Ask, Due::GiveUp));
        assert_eq!(KeepAlive::new(0, 0).deadline_ns(), None);
    }
}
