//! Shares of a worker's time: a port whose calls take longer than those of others waits until the others had as much.
//!
//! Each port has an account of the time that went into it, for what is received from it (with what the datapath does about that) and
//! for what is sent to it. A port whose account is ahead of what a port with packets without end had so far is left out of rounds,
//! until the others have caught up (start-time fair queueing: Goyal, Vin and Cheng, SIGCOMM 1996). Where no other port has a full batch,
//! nobody waits. So whatever a port brings, packets that cost a thousand times as much as others or none at all, the others keep their
//! share, and time that they do not want is not lost.
//!
//! Clocks are read only where it matters: in rounds that follow a long one, or while some port is ahead.

/// A round that is shorter than this needs no shares: whoever was served has had little.
const LONG_NS: u64 = 2_000;
/// A port may be ahead by so much: less would make rounds of one port each.
const AHEAD_NS: u64 = 5_000;
/// Most that one call is charged: a call that takes longer had its core taken away.
const CHARGE_MAX_NS: u64 = 100_000;
/// Time that a packet may take to be sent at its sender's cost; a port is charged what its calls take beyond that. The kernel takes so
/// long for a packet into a network namespace, where it is received at once.
const SEND_NS: u64 = 2_000;

/// Calls in a row that did not fill half of the batch, after which a port does not count as one that always has packets.
const FULL_CALLS: u8 = 4;

/// Shares of the ports of one worker.
pub(crate) struct Shares {
    /// Nanoseconds of a clock that goes on while ports are called.
    pub(crate) clock: fn() -> u64,
    /// When the last round began.
    began_ns: u64,
    /// What a port that always has a full batch has been served for.
    served_ns: u64,
    /// The present round is counted.
    counts: bool,
    /// Every port is served in every round.
    pub(crate) off: bool,
}

/// What one port had.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Account {
    /// Time in its calls, with time that it let pass, in nanoseconds as in [`Shares::served_ns`].
    served_ns: u64,
    /// Calls for which it still counts as one that always has packets: one filled half of the batch or more a moment ago.
    full: u8,
}

impl Shares {
    pub(crate) fn new(clock: fn() -> u64) -> Shares {
        Shares { clock, began_ns: 0, served_ns: 0, counts: false, off: false }
    }

    /// A round begins. `accounts` are those of all ports, with `true` where packets are received from a port now.
    #[inline]
    pub(crate) fn begin(&mut self, now_ns: u64, accounts: impl Iterator<Item = (Account, bool)>) {
        let long = now_ns.saturating_sub(std::mem::replace(&mut self.began_ns, now_ns)) > LONG_NS;
        if self.counts || long {
            self.go_on(long, accounts);
        }
    }

    /// Goes on to what the port with a full batch has that had least. Without any, nobody waits for others: then to the first of those
    /// that are ahead, or past all.
    fn go_on(&mut self, long: bool, accounts: impl Iterator<Item = (Account, bool)>) {
        let (mut full_ns, mut ahead_ns, mut most_ns) = (u64::MAX, u64::MAX, 0);
        for (account, served) in accounts {
            most_ns = most_ns.max(account.served_ns);
            if self.is_ahead(account) {
                ahead_ns = ahead_ns.min(account.served_ns);
            } else if account.full > 0 && served {
                full_ns = full_ns.min(account.served_ns);
            }
        }
        let reached_ns = [full_ns, ahead_ns].into_iter().find(|reached_ns| *reached_ns != u64::MAX);
        self.served_ns = self.served_ns.max(reached_ns.unwrap_or(most_ns));
        self.counts = !self.off && (long || most_ns > self.served_ns);
    }

    /// The time, if this round is counted.
    #[inline]
    pub(crate) fn start(&self) -> Option<u64> {
        self.counts.then(self.clock)
    }

    /// True if the port waits for others.
    #[inline]
    pub(crate) fn is_ahead(&self, account: Account) -> bool {
        account.served_ns > self.served_ns + AHEAD_NS
    }

    /// Charges a port for a call that began at `since_ns`, and in which it brought a full batch or not. Returns the time.
    pub(crate) fn charge_received(&self, account: &mut Account, since_ns: u64, full: bool) -> u64 {
        account.full = if full { FULL_CALLS } else { account.full.saturating_sub(1) };
        self.charge(account, since_ns, 0)
    }

    /// The same for a call in which it took so many packets.
    pub(crate) fn charge_sent(&self, account: &mut Account, since_ns: u64, packets: usize) -> u64 {
        self.charge(account, since_ns, SEND_NS.saturating_mul(packets as u64))
    }

    fn charge(&self, account: &mut Account, since_ns: u64, free_ns: u64) -> u64 {
        let now_ns = (self.clock)();
        let charge_ns = now_ns.saturating_sub(since_ns).min(CHARGE_MAX_NS).saturating_sub(free_ns);
        if charge_ns > 0 {
            account.served_ns = account.served_ns.max(self.served_ns) + charge_ns;
        }
        now_ns
    }
}
