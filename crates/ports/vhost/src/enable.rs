//! One request that is answered here: VHOST_USER_SET_VRING_ENABLE.
//!
//! QEMU enables its rings before it sets features, though it has read that the protocol features are offered; `vhost` refuses
//! the request then, and says nothing of the ring. So it is taken from the socket before `vhost` sees it.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};

use vhost::vhost_user::{Error, Result, VhostUserBackendReqHandlerMut};

use crate::control::Control;
use crate::sys;

/// Number of the request, and its bytes: number, flags, size; ring, state.
const SET_VRING_ENABLE: u32 = 18;
const REQUEST_BYTES: usize = 20;
const BODY_BYTES: u32 = 8;
/// Flags: the protocol's version, a reply, a wish for one.
const VERSION: u32 = 1;
const REPLY: u32 = 4;
const NEED_REPLY: u32 = 8;

/// The request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Enable {
    ring: u32,
    state: u32,
    wants_reply: bool,
}

/// Takes the next request from the socket if it is of this kind and whole; every other one stays.
pub(crate) fn take_request(stream: &UnixStream) -> io::Result<Option<Enable>> {
    let mut bytes = [0; REQUEST_BYTES];
    let seen = sys::peek(stream, &mut bytes)?;
    let Some(request) = read(&bytes[..seen]) else { return Ok(None) };
    let mut stream = stream;
    stream.read_exact(&mut bytes)?;
    Ok(Some(request))
}

fn read(bytes: &[u8]) -> Option<Enable> {
    let (words, []) = bytes.as_chunks::<4>() else { return None };
    let &[SET_VRING_ENABLE, flags, BODY_BYTES, ring, state] =
        words.iter().map(|word| u32::from_ne_bytes(*word)).collect::<Vec<_>>().as_slice()
    else {
        return None;
    };
    Some(Enable { ring, state, wants_reply: flags & NEED_REPLY != 0 })
}

impl Enable {
    /// Does what is asked, and says so if that is asked, too.
    pub(crate) fn handle(self, control: &Mutex<Control>, mut stream: &UnixStream) -> Result<()> {
        let mut control = control.lock().unwrap_or_else(PoisonError::into_inner);
        let done = match self.state {
            0 | 1 => control.set_vring_enable(self.ring, self.state == 1),
            _ => Err(Error::InvalidParam),
        };
        if self.wants_reply {
            let words = [SET_VRING_ENABLE, VERSION | REPLY, BODY_BYTES, u32::from(done.is_err()), 0];
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            stream.write_all(&bytes).map_err(Error::SocketError)?;
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn only_whole_requests_of_this_kind_are_taken() {
        let taken = Enable { ring: 1, state: 0, wants_reply: true };
        assert_eq!(read(&request(&[18, 9, 8, 1, 0])), Some(taken));
        assert_eq!(read(&request(&[18, 1, 8, 1, 0])), Some(Enable { wants_reply: false, ..taken }));
        for other in [&[17, 1, 8, 1, 0][..], &[18, 1, 9, 1, 0], &[18, 1, 8, 1], &[]] {
            assert_eq!(read(&request(other)), None);
        }
        assert_eq!(read(&[18, 0, 0]), None);
    }

    #[test]
    fn other_requests_stay_in_the_socket() {
        let (near, mut far) = UnixStream::pair().unwrap();
        far.write_all(&request(&[18, 1, 8, 3, 1, 1, 1, 0])).unwrap();
        assert_eq!(take_request(&near).unwrap(), Some(Enable { ring: 3, state: 1, wants_reply: false }));
        assert_eq!(take_request(&near).unwrap(), None);
        let mut rest = [0; 12];
        (&near).read_exact(&mut rest).unwrap();
        assert_eq!(rest.to_vec(), request(&[1, 1, 0]));
    }
}
