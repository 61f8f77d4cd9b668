//! The limit of packet-ins for one connection: a token bucket.

const SECOND_NS: u64 = 1_000_000_000;
/// The bucket holds the tokens of a 20th of a second, and one at least.
const BURSTS: u64 = 20;

/// Allows so many packets a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketInLimit {
    /// Time of one packet in nanoseconds; 0: no limit.
    packet_ns: u64,
    /// Time that the full bucket stands for.
    burst_ns: u64,
    /// Up to this time the packets so far use the rate up.
    used_ns: u64,
}

impl PacketInLimit {
    /// A limit of so many packets a second; `None`: no limit.
    pub(crate) fn per_second(packets: Option<u64>) -> PacketInLimit {
        let Some(packets) = packets else { return PacketInLimit { packet_ns: 0, burst_ns: 0, used_ns: 0 } };
        let packets = packets.clamp(1, SECOND_NS);
        let packet_ns = SECOND_NS / packets;
        PacketInLimit { packet_ns, burst_ns: packet_ns * (packets / BURSTS).max(1), used_ns: 0 }
    }

    /// True if a packet may be sent now; [`PacketInLimit::spend`] says that it was.
    pub(crate) fn allows(&mut self, now_ns: u64) -> bool {
        self.used_ns = self.used_ns.max(now_ns.saturating_sub(self.burst_ns));
        self.packet_ns == 0 || self.used_ns + self.packet_ns <= now_ns
    }

    pub(crate) fn spend(&mut self) {
        self.used_ns += self.packet_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(limit: &mut PacketInLimit, from_ns: u64, until_ns: u64, step_ns: usize) -> u64 {
        let times = (from_ns..until_ns).step_by(step_ns);
        times.map(|now_ns| u64::from(limit.allows(now_ns)) * { limit.spend_if_allowed(now_ns) }).sum()
    }

    impl PacketInLimit {
        fn spend_if_allowed(&mut self, now_ns: u64) -> u64 {
            if self.allows(now_ns) {
                self.spend();
            }
            1
        }
    }

    #[test]
    fn a_second_has_its_packets_and_a_burst_at_most() {
        let mut limit = PacketInLimit::per_second(Some(1_000));
        let start_ns = 5 * SECOND_NS;
        assert_eq!(sent(&mut limit, start_ns, start_ns + 1, 1), 1);
        let burst = (0..1_000).filter(|_| limit.spend_if_allowed(start_ns) == 1 && limit.allows(start_ns)).count();
        assert!(burst <= 50, "{burst}");
        let second = sent(&mut limit, start_ns, start_ns + SECOND_NS, 100_000);
        assert!((900..=1_000).contains(&second), "{second}");
    }

    #[test]
    fn without_a_limit_all_may_go() {
        let mut limit = PacketInLimit::per_second(None);
        assert_eq!(sent(&mut limit, 7, 8, 1), 1);
        assert!((0..10_000).all(|_| limit.allows(7)));
    }
}
