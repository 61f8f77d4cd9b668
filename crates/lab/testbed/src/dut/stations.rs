//! The stations between which test frames go, for devices that learn where they are.

use linerate_sys::raw::RawSocket;

use super::DutError;
use crate::topology::{FrameAddresses, Side, Topology};

/// Loopback of the configuration testing protocol, which RFC 2544 appendix C uses for learning frames.
const LEARNING_ETHERTYPE: [u8; 2] = [0x90, 0x00];
const FRAME_LEN_MIN: usize = 60;

/// One behind each end of a path.
pub(super) struct Stations([Station; 2]);

impl Stations {
    pub(super) fn of(topology: &Topology) -> Result<Self, DutError> {
        Ok(Self([
            Station::behind(&topology.generator, topology.forward())?,
            Station::behind(&topology.receiver, topology.backward())?,
        ]))
    }

    /// Each says where it is.
    pub(super) fn announce(&self) -> Result<(), DutError> {
        self.0.iter().try_for_each(Station::announce)
    }
}

/// What sends from one end, so that a switch learns where it is.
struct Station {
    socket: RawSocket,
    address: [u8; 6],
}

impl Station {
    fn behind(side: &Side, addresses: FrameAddresses) -> Result<Self, DutError> {
        let opened = side.namespace.run(|| RawSocket::sender(side.interface.index)).and_then(|opened| opened);
        let socket = opened.map_err(DutError::system("open a socket for learning frames"))?;
        Ok(Self { socket, address: addresses.source })
    }

    /// One frame from the station to itself: a switch learns from it and sends it nowhere.
    fn announce(&self) -> Result<(), DutError> {
        let mut frame = [self.address.as_slice(), &self.address, &LEARNING_ETHERTYPE].concat();
        frame.resize(FRAME_LEN_MIN, 0);
        self.socket.send(&frame).map_err(DutError::system("send a learning frame"))
    }
}
