//! A tester whose ends are memif ports: it shares memory with a switch, or with itself.

use linerate_mem::{Pool, PoolConfig};
use linerate_port::{Interest, OpenError, OpenOptions};
use linerate_sys::clock;

use super::endpoint::Endpoint;
use super::ends::{End, open_port};
use super::{FRAMES, Tester, TesterError};
use linerate_testbed::topology::{MemoryEnd, MemoryPath};
use linerate_tester_loop::ports::can_send;

/// How long the other side may take to come.
const PEER_NS: u64 = 20_000_000_000;

impl Tester {
    /// Opens the ports at both ends of a path of shared memory, for both ways, and waits until the other sides have come.
    ///
    /// # Errors
    /// What could not be opened; nobody came to an end.
    pub(crate) fn over_memory(path: &MemoryPath) -> Result<Tester, TesterError> {
        let pool = Pool::new(PoolConfig { frames: FRAMES, ..PoolConfig::default() })?;
        let open = |end: &MemoryEnd, link| -> Result<End, TesterError> {
            let receives = open_port(&end.receives, OpenOptions::default(), &pool)?;
            let sender = Some(open_port(&end.sends, OpenOptions::default(), &pool)?);
            Ok(End { sender, endpoint: Some(Endpoint::on_port(receives, &pool)), link })
        };
        let [first, second] = &path.ends;
        let ends = [open(first, MemoryPath::forward())?, open(second, MemoryPath::backward())?];
        let mut tester = Tester { switch: path.switch.clone(), ..Tester::between(ends, pool) };
        if let Some(lonely) = meet(&mut tester.ends) {
            let hint = "the process at the other end has to serve this socket, two rings each way";
            return Err(OpenError::new(&path.ends[lonely].sends, "nobody came to the other end", hint).into());
        }
        Ok(tester)
    }

    /// Waits for a switch that was started anew; if it does not come, the trial shows that.
    pub(super) fn await_peers(&mut self) {
        if self.switch.is_some() {
            meet(&mut self.ends);
        }
    }
}

/// Waits until every end can send: somebody has come, and has laid out buffers for what he receives. Which one cannot, if one cannot.
fn meet(ends: &mut [End; 2]) -> Option<usize> {
    let give_up_ns = clock::now_ns().saturating_add(PEER_NS);
    loop {
        for end in ends.iter_mut() {
            // A port takes over the rings of a peer, and lays out its buffers, when it is called. What is broken shows in the trial.
            if let Some(Endpoint::Port { port, .. }) = &mut end.endpoint {
                port.iter_mut().for_each(|port| drop(port.wait(Interest::Receive, 0)));
            }
        }
        let can_send = |end: &mut End| {
            let port = end.sender.as_deref_mut();
            port.is_none_or(can_send)
        };
        let lonely = ends.iter_mut().position(|end| !can_send(end))?;
        if clock::now_ns() >= give_up_ns {
            return Some(lonely);
        }
    }
}
