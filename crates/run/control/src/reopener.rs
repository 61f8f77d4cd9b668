//! Ports that broke and may come back: they are opened again, with longer and longer pauses.

use crate::port_config::PortConfig;

const FIRST_NS: u64 = 100_000_000;
const LONGEST_NS: u64 = 5_000_000_000;

/// A port that is out.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    /// Its configuration.
    pub config: PortConfig,
    /// Why it is out, or why it could not be opened again.
    pub why: String,
    pub memif: Option<u32>,
    attempts: u32,
    next_ns: u64,
}

/// All that are out.
#[derive(Debug, Default)]
pub(crate) struct Reopener {
    pub waiting: Vec<Waiting>,
}

impl Reopener {
    pub(crate) fn add(&mut self, config: PortConfig, why: String, memif: Option<u32>, now_ns: u64) {
        self.waiting.push(Waiting { config, why, memif, attempts: 0, next_ns: now_ns + FIRST_NS });
    }

    /// Takes out one that is to be opened now.
    pub(crate) fn due(&mut self, now_ns: u64) -> Option<Waiting> {
        let place = self.waiting.iter().position(|waiting| waiting.next_ns <= now_ns)?;
        Some(self.waiting.swap_remove(place))
    }

    /// Puts one back that could not be opened.
    pub(crate) fn failed(&mut self, mut waiting: Waiting, why: String, now_ns: u64) {
        waiting.attempts = waiting.attempts.saturating_add(1);
        let pause_ns = FIRST_NS.saturating_mul(1 << waiting.attempts.min(16)).min(LONGEST_NS);
        waiting.next_ns = now_ns + pause_ns;
        waiting.why = why;
        self.waiting.push(waiting);
    }

    pub(crate) fn find(&self, name: &str) -> bool {
        self.waiting.iter().any(|waiting| waiting.config.name.as_deref() == Some(name))
    }

    /// Memif ids of ports that were given out to connections.
    pub(crate) fn memif_ids(&self) -> impl Iterator<Item = u32> {
        self.waiting.iter().filter_map(|waiting| waiting.memif)
    }

    /// Gives one up.
    pub(crate) fn forget(&mut self, name: &str) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|waiting| waiting.config.name.as_deref() != Some(name));
        self.waiting.len() < before
    }

    /// When the next one is due.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.waiting.iter().map(|waiting| waiting.next_ns).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_seconds_and_no_further() {
        let mut reopener = Reopener::default();
        let config = PortConfig { name: Some("a".into()), ..PortConfig::default() };
        reopener.add(config, "down".into(), None, 0);
        let (mut now_ns, mut pauses) = (0, Vec::new());
        for _ in 0..12 {
            let next_ns = reopener.next_ns().unwrap();
            pauses.push(next_ns - now_ns);
            now_ns = next_ns;
            assert!(reopener.due(now_ns - 1).is_none());
            let waiting = reopener.due(now_ns).unwrap();
            reopener.failed(waiting, "still down".into(), now_ns);
        }
        assert!(pauses.is_sorted() && pauses[0] == FIRST_NS && pauses[11] == LONGEST_NS, "{pauses:?}");
        assert_eq!((reopener.find("a"), reopener.waiting[0].why.as_str()), (true, "still down"));
        assert!(reopener.forget("a") && !reopener.forget("a") && reopener.next_ns().is_none());
    }
}
