//! What a server tells of itself.

use serde::{Deserialize, Serialize};

use super::{Chargen, Discard, Echo, HttpServer, Served, Server};
use crate::reports::Reports;

/// Name and version of the document of a server.
const SERVE_SCHEMA: &str = "linerate.tcp-serve/1";

/// What a server tells of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServeDocument {
    /// Counts.
    pub served: Served,
    /// Connections that stand.
    pub open: u64,
}

fn document(readings: &[Served]) -> ServeDocument {
    let mut served = Served::default();
    readings.iter().for_each(|reading| served.add(reading));
    ServeDocument { served, open: served.connections - served.closed - served.failed }
}

macro_rules! reports {
    ($($server:ty),*) => {
        $(impl Reports for $server {
            type Document = ServeDocument;
            type Reading = Served;
            const SCHEMA: &'static str = SERVE_SCHEMA;
            const SAVES_CPU: bool = false;
            const ONLY_LISTENS: bool = true;

            fn reading(&self, _: u64) -> Served {
                self.served()
            }

            fn document(readings: &[Served]) -> ServeDocument {
                document(readings)
            }
        })*
    };
}

reports!(Echo, Discard, Chargen, HttpServer);
