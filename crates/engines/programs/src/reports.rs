//! What a program tells of itself.

use serde::{Deserialize, Serialize};

use crate::network::Program;
use crate::tls::TlsDocument;

/// A program that tells what it does.
pub trait Reports: Program + Send + 'static {
    /// What it tells.
    type Document: Serialize + for<'de> Deserialize<'de> + Send + 'static;
    /// What it tells on one core, of which a document of all cores is made.
    type Reading: Send + 'static;
    /// Name and version of its document.
    const SCHEMA: &'static str;
    /// Its time on the core counts for more than the last microseconds of its answers: over an interface it sleeps until packets come.
    const SAVES_CPU: bool;
    /// It only waits for others. It is started before its addresses are known to be nobody else's, so that whoever hears of an address first
    /// finds somebody listening there.
    const ONLY_LISTENS: bool = false;

    /// What it did until `now_ns`.
    fn reading(&self, now_ns: u64) -> Self::Reading;

    /// What the programs did together that gave these readings, one on each core.
    fn document(readings: &[Self::Reading]) -> Self::Document;

    /// TLS under it; `None` if there is none.
    fn tls(&self) -> Option<TlsDocument> {
        None
    }
}
