//! A card's RSS key by which both directions of a flow get the same queue, for a time.

use std::io;

use linerate_sys::held::{self, Held, Setting};
use linerate_sys::netdev::Netdev;
use linerate_sys::rss::Rss;

/// The RSS key of a card.
#[derive(Debug)]
pub(crate) struct Key(Netdev);

impl Setting for Key {
    const NAME: &'static str = "rss-key";

    fn interface(&self) -> &str {
        self.0.name()
    }

    fn read(&self) -> io::Result<Vec<u8>> {
        Ok(self.0.rss()?.unwrap_or_default().key)
    }

    fn write(&self, key: &[u8]) -> io::Result<()> {
        self.0.set_rss_key(key)
    }
}

/// Gives a card a symmetric key until the result is dropped, unless it spreads flows that way already.
///
/// # Errors
/// `Unsupported` where the driver has no RSS or takes no key, `EPERM` without CAP_NET_ADMIN, `ResourceBusy` where another process has changed it.
pub(crate) fn hold_symmetric(card: Netdev) -> io::Result<Option<Held<Key>>> {
    let key = Key(card);
    held::restore(&key)?;
    let now = key.0.rss()?;
    if now.as_ref().is_some_and(Rss::is_symmetric) {
        return Ok(None);
    }
    let before = now.unwrap_or_default().key;
    if before.is_empty() {
        // The driver says why.
        key.write(&before)?;
    }
    Held::hold(key, &Rss::symmetric_key(before.len()))
}

/// Gives a card its key back that a killed process left with another one.
///
/// # Errors
/// What the driver says.
pub(crate) fn restore(card: &str) -> io::Result<()> {
    held::restore(&Key(Netdev::open(card)?))
}
