//! A card's RSS key by which both directions of a flow get the same queue, for a time.

use std::io;

use linerate_sys::netdev::Netdev;
use linerate_sys::rss::Rss;

/// A card with another key than it had. Dropping it gives the card its key back.
pub(crate) struct SymmetricKey {
    device: Netdev,
    before: Vec<u8>,
}

impl SymmetricKey {
    /// Changes the key, unless the card spreads flows that way already.
    ///
    /// # Errors
    /// `Unsupported` where the driver has no RSS or takes no key, `EPERM` without CAP_NET_ADMIN.
    pub(crate) fn hold(device: Netdev) -> io::Result<Option<SymmetricKey>> {
        let now = device.rss()?;
        if now.as_ref().is_some_and(Rss::is_symmetric) {
            return Ok(None);
        }
        let before = now.map(|rss| rss.key).unwrap_or_default();
        device.set_rss_key(&Rss::symmetric_key(before.len()))?;
        Ok(Some(SymmetricKey { device, before }))
    }
}

impl Drop for SymmetricKey {
    fn drop(&mut self) {
        // A card that is gone needs none.
        let _ = self.device.set_rss_key(&self.before);
    }
}
