//! Any of the servers.

use super::{Chargen, Discard, Echo, HttpServer};
use crate::either::Either;

/// Any of the servers; each becomes one by `into`.
pub type AnyServer = Either<Either<Echo, Discard>, Either<Chargen, HttpServer>>;

impl From<Echo> for AnyServer {
    fn from(server: Echo) -> AnyServer {
        Either::Left(Either::Left(server))
    }
}

impl From<Discard> for AnyServer {
    fn from(server: Discard) -> AnyServer {
        Either::Left(Either::Right(server))
    }
}

impl From<Chargen> for AnyServer {
    fn from(server: Chargen) -> AnyServer {
        Either::Right(Either::Left(server))
    }
}

impl From<HttpServer> for AnyServer {
    fn from(server: HttpServer) -> AnyServer {
        Either::Right(Either::Right(server))
    }
}
