//! Multipart requests put together from several messages (section 7.3.5), in bounded memory.

use crate::ErrorKind;

/// Most bytes of requests that are not complete: features of 255 tables, several times.
const BYTES_MAX: usize = 2 * 1024 * 1024;
/// Most requests that are not complete.
const REQUESTS_MAX: usize = 8;

/// Requests of which more messages are to come.
#[derive(Default)]
pub(super) struct Assemblies {
    open: Vec<Assembly>,
}

struct Assembly {
    xid: u32,
    kind: u16,
    /// `None` if the request was refused: its other messages are passed over.
    bytes: Option<Vec<u8>>,
}

/// What a message of a request makes of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Assembled {
    /// The body of the whole request.
    Whole(Vec<u8>),
    /// Nothing yet, or nothing any more.
    Nothing,
}

impl Assemblies {
    /// True if messages of this request have come.
    pub fn has(&self, xid: u32) -> bool {
        self.open.iter().any(|assembly| assembly.xid == xid)
    }

    /// Adds the body of a message.
    pub fn add(&mut self, xid: u32, kind: u16, more: bool, body: &[u8]) -> Result<Assembled, ErrorKind> {
        let held: usize = self.open.iter().filter_map(|assembly| assembly.bytes.as_ref().map(Vec::len)).sum();
        let place = match self.open.iter().position(|assembly| assembly.xid == xid) {
            Some(place) => place,
            None if self.open.len() == REQUESTS_MAX => return Err(ErrorKind::BadRequestMultipartBufferOverflow),
            None => {
                self.open.push(Assembly { xid, kind, bytes: Some(Vec::new()) });
                self.open.len() - 1
            }
        };
        let assembly = &mut self.open[place];
        let outcome = assembly.add(kind, body, held);
        if more {
            return outcome.map(|()| Assembled::Nothing);
        }
        let whole = self.open.swap_remove(place).bytes;
        outcome.map(|()| whole.map_or(Assembled::Nothing, Assembled::Whole))
    }
}

impl Assembly {
    fn add(&mut self, kind: u16, body: &[u8], held: usize) -> Result<(), ErrorKind> {
        let Some(bytes) = &mut self.bytes else { return Ok(()) };
        let refusal = if kind != self.kind {
            ErrorKind::BadRequestBadMultipart
        } else if held + body.len() > BYTES_MAX {
            ErrorKind::BadRequestMultipartBufferOverflow
        } else {
            bytes.extend_from_slice(body);
            return Ok(());
        };
        self.bytes = None;
        Err(refusal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_two_requests_may_mix() {
        let mut assemblies = Assemblies::default();
        assert_eq!(assemblies.add(1, 12, true, b"ab"), Ok(Assembled::Nothing));
        assert_eq!(assemblies.add(2, 12, true, b"x"), Ok(Assembled::Nothing));
        assert_eq!(assemblies.add(1, 12, false, b"c"), Ok(Assembled::Whole(b"abc".to_vec())));
        assert!(!assemblies.has(1) && assemblies.has(2));
    }

    #[test]
    fn a_request_that_is_too_long_is_refused_once() {
        let mut assemblies = Assemblies::default();
        let part = vec![0; 60_000];
        let refusals = (0..100).filter(|_| assemblies.add(1, 12, true, &part).is_err()).count();
        assert_eq!(refusals, 1);
        assert_eq!(assemblies.add(1, 12, false, &part), Ok(Assembled::Nothing));
        assert_eq!(assemblies.add(1, 12, false, b"again"), Ok(Assembled::Whole(b"again".to_vec())));
    }

    #[test]
    fn many_open_requests_and_changed_types_are_refused() {
        let mut assemblies = Assemblies::default();
        for xid in 0..8 {
            assert!(assemblies.add(xid, 12, true, b"").is_ok());
        }
        assert_eq!(assemblies.add(8, 12, true, b""), Err(ErrorKind::BadRequestMultipartBufferOverflow));
        assert_eq!(assemblies.add(3, 1, true, b""), Err(ErrorKind::BadRequestBadMultipart));
    }
}
