//! smoltcp over the ports of the cell: an interface at each end, and a socket with two small buffers for each connection. Each of its rounds
//! looks at every socket, so it is made for few connections.

use linerate_experiment::EchoStack;
use linerate_tester_loop::tcp::peers::smoltcp::{self, BUFFER_BYTES};

use super::measure::measure;
use crate::tcp::echo::{EchoOutcome, EchoSpec};
use crate::tcp::{Ends, PairError};

const CONNECTIONS_MAX: usize = 60_000;

/// Makes the test over the ports of `ends`.
///
/// # Errors
/// There are more connections than ports, a port broke, or nothing comes back.
pub fn run(ends: &mut Ends, spec: &EchoSpec<'_>) -> Result<EchoOutcome, PairError> {
    if spec.connections > CONNECTIONS_MAX {
        let why = format!("smoltcp looks at every connection for each packet: at most {CONNECTIONS_MAX} are tried");
        return Err(PairError::Program(why));
    }
    let trusted = ends.offloads;
    let mut outcome = Err(PairError::Unreachable);
    smoltcp::with_ends(&ends.pool, &mut ends.ports, (spec.connections, trusted), &mut |client, server| {
        outcome = measure(client, server, (EchoStack::Smoltcp, spec));
    })?;
    let checksums = if trusted { "left out" } else { "in software" };
    let note = format!("smoltcp 0.14: checksums {checksums}, buffers of {BUFFER_BYTES} bytes");
    Ok(EchoOutcome { notes: vec![note], ..outcome? })
}
