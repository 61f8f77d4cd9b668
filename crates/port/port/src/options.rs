//! What a device is opened for: the options that every backend shares, typed.
//!
//! A user writes some of them into a spec, a program fills in those that the user left open ([`OpenOptions::or`]). An option
//! that a backend cannot follow is an error only if the user wrote it ([`crate::PortSpec::finish`]).

/// How a device is to be opened. `None` leaves the choice to the backend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// The ways that packets go; both unless said. A backend leaves out the memory and the side effects of the other way.
    pub direction: Option<Direction>,
    /// Number of the first queue pair to open, from 0 on. In a spec: `@N`.
    pub first_queue: Option<u32>,
    /// Number of queue pairs to open, each of which becomes a port. In a spec: `queues=N`.
    pub queues: Option<u32>,
    /// Threads among which the caller divides the ports. Where `queues` is not given, the device opens all queues that it
    /// receives from, or one queue for each thread; an error if it has fewer ports than threads. Not in a spec.
    pub threads: Option<usize>,
    /// Take packets for other hardware addresses, too. In a spec: `promisc=yes|no`.
    pub promiscuous: Option<bool>,
    /// Show each packet as soon as it has arrived, at the price of more wake-ups. In a spec: `prompt`.
    pub low_latency: Option<bool>,
    /// Bytes of the receive rings of the device together. In a spec each backend has its own word and unit.
    pub ring_bytes: Option<u64>,
    /// What becomes of a packet that finds the transmit ring full. In a spec: `refused=retry|drop`.
    pub tx_full: Option<TxFull>,
    /// What follows a peer that broke the protocol. In a spec: `corrupt=close|next`.
    pub on_corrupt: Option<OnCorrupt>,
    /// Share frames with the far side instead of copying. In a spec: `zerocopy=yes|no`.
    pub zero_copy: Option<bool>,
    /// The program sends TCP segments with partial checksums, in runs of a connection: a backend that hands over packets one by one may have another
    /// way for those, by which they leave in one piece. In a spec: `merge=yes|no`.
    pub merges_segments: Option<bool>,
    /// Capture filter in tcpdump's language, for a backend that has the kernel run it. In a spec: `filter=TEXT`.
    pub filter: Option<String>,
}

/// The ways that packets go through a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Receive and transmit.
    Both,
    /// Receive only.
    Receive,
    /// Transmit only.
    Transmit,
}

/// What becomes of a packet that finds the transmit ring full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxFull {
    /// It stays in the batch, so that a slow far side holds the sender back.
    Hold,
    /// It is lost and counted, as a NIC would do.
    Drop,
}

/// What follows a peer that wrote nonsense into shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnCorrupt {
    /// The port is closed.
    Close,
    /// The port reports the error once and waits for the next peer.
    NextPeer,
}

/// The words in specs for the options above, `@` being the queue behind the target.
pub(crate) const COMMON: [&str; 11] =
    ["@", "queues", "tx_only", "rx_only", "promisc", "prompt", "refused", "corrupt", "zerocopy", "merge", "filter"];

const YES_NO: [(&str, bool); 2] = [("yes", true), ("no", false)];

impl OpenOptions {
    /// Options for a device that only receives.
    pub fn receive() -> OpenOptions {
        OpenOptions { direction: Some(Direction::Receive), ..OpenOptions::default() }
    }

    /// Options for a device that only transmits.
    pub fn transmit() -> OpenOptions {
        OpenOptions { direction: Some(Direction::Transmit), ..OpenOptions::default() }
    }

    /// Options for a device on which each packet waits for the one before.
    pub fn low_latency() -> OpenOptions {
        OpenOptions { low_latency: Some(true), ..OpenOptions::default() }
    }

    /// True unless packets are only transmitted.
    pub fn receives(&self) -> bool {
        self.direction != Some(Direction::Transmit)
    }

    /// True unless packets are only received.
    pub fn transmits(&self) -> bool {
        self.direction != Some(Direction::Receive)
    }

    /// Number of ports that a device gives which can have any number of queues.
    pub fn ports(&self) -> usize {
        self.queues.map(|queues| queues as usize).or(self.threads).unwrap_or(1).max(1)
    }

    /// These options, completed by `others` where they leave the choice open.
    pub fn or(self, others: &OpenOptions) -> OpenOptions {
        OpenOptions {
            direction: self.direction.or(others.direction),
            first_queue: self.first_queue.or(others.first_queue),
            queues: self.queues.or(others.queues),
            threads: self.threads.or(others.threads),
            promiscuous: self.promiscuous.or(others.promiscuous),
            low_latency: self.low_latency.or(others.low_latency),
            ring_bytes: self.ring_bytes.or(others.ring_bytes),
            tx_full: self.tx_full.or(others.tx_full),
            on_corrupt: self.on_corrupt.or(others.on_corrupt),
            zero_copy: self.zero_copy.or(others.zero_copy),
            merges_segments: self.merges_segments.or(others.merges_segments),
            filter: self.filter.or_else(|| others.filter.clone()),
        }
    }

    /// Sets the option that a spec calls `key`, one of [`COMMON`].
    ///
    /// # Errors
    /// The value is none that this option takes; in words.
    pub(crate) fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let number = |least: u32| match value.parse::<u32>() {
            Ok(number) if number >= least => Ok(Some(number)),
            _ => Err(format!("{key}={value}: {key} takes a number from {least} on")),
        };
        let flag = || choice(key, value, &YES_NO);
        match key {
            "@" => self.first_queue = number(0).map_err(|_| "what follows @ is no queue number")?,
            "queues" => self.queues = number(1)?,
            "tx_only" => self.narrow(flag()?, Direction::Transmit)?,
            "rx_only" => self.narrow(flag()?, Direction::Receive)?,
            "promisc" => self.promiscuous = Some(flag()?),
            "prompt" => self.low_latency = Some(flag()?),
            "refused" => {
                self.tx_full = Some(choice(key, value, &[("retry", TxFull::Hold), ("drop", TxFull::Drop)])?);
            }
            "corrupt" => {
                let words = [("close", OnCorrupt::Close), ("next", OnCorrupt::NextPeer)];
                self.on_corrupt = Some(choice(key, value, &words)?);
            }
            "zerocopy" => self.zero_copy = Some(flag()?),
            "merge" => self.merges_segments = Some(flag()?),
            "filter" => self.filter = Some(value.into()),
            _ => {}
        }
        Ok(())
    }

    fn narrow(&mut self, wanted: bool, direction: Direction) -> Result<(), String> {
        match self.direction {
            Some(other) if wanted && other != direction => {
                Err("tx_only and rx_only exclude each other; leave both out to do both".into())
            }
            _ if wanted => {
                self.direction = Some(direction);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// The value that belongs to a word.
///
/// # Errors
/// It is none of the words; the error lists them.
pub(crate) fn choice<T: Copy>(key: &str, value: &str, words: &[(&str, T)]) -> Result<T, String> {
    let found = words.iter().find(|(word, _)| *word == value);
    found.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let listed: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        format!("{key}={value}: {key} takes {}", listed.join(" or "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_user_wrote_wins_over_what_the_program_asks_for() {
        let mut written = OpenOptions::default();
        for (key, value) in [("promisc", "no"), ("refused", "drop"), ("@", "3"), ("prompt", "yes")] {
            written.set(key, value).unwrap();
        }
        let program = OpenOptions {
            promiscuous: Some(true),
            tx_full: Some(TxFull::Hold),
            ring_bytes: Some(5),
            ..OpenOptions::receive()
        };
        let both = written.or(&program);
        assert_eq!((both.promiscuous, both.tx_full), (Some(false), Some(TxFull::Drop)));
        assert_eq!((both.ring_bytes, both.first_queue, both.low_latency), (Some(5), Some(3), Some(true)));
        assert!(both.receives() && !both.transmits());
        assert!(OpenOptions::default().transmits() && !OpenOptions::transmit().receives());
    }

    #[test]
    fn every_common_word_is_an_option() {
        for key in COMMON {
            let mut options = OpenOptions::default();
            let value = match key {
                "@" | "queues" => "2",
                "refused" => "drop",
                "corrupt" => "next",
                _ => "yes",
            };
            options.set(key, value).unwrap();
            assert_ne!(options, OpenOptions::default(), "{key}");
            assert!(key == "filter" || options.set(key, "perhaps").is_err(), "{key}");
        }
        let mut options = OpenOptions::transmit();
        assert!(options.set("rx_only", "yes").unwrap_err().contains("exclude each other"));
        assert!(options.set("rx_only", "no").is_ok() && options.set("queues", "0").is_err());
    }
}
