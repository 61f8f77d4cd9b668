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

fn document(server: &impl Server) -> ServeDocument {
    let served = server.served();
    ServeDocument { served, open: served.connections - served.closed - served.failed }
}

macro_rules! reports {
    ($($server:ty),*) => {
        $(impl Reports for $server {
            type Document = ServeDocument;
            const SCHEMA: &'static str = SERVE_SCHEMA;

            fn document(&self, _: u64) -> ServeDocument {
                document(self)
            }
        })*
    };
}

reports!(Echo, Discard, Chargen, HttpServer);
