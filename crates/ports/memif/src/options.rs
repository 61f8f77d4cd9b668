//! What a port's name asks for.

use std::ops::Range;

use linerate_port::{OnCorrupt, OpenError, PortSpec};

use crate::message::SECRET_BYTES;
use crate::sys::NAME_BYTES_MAX;

const KNOWN: &[&str] =
    &["@", "id", "role", "queues", "rings", "slots", "buffer", "mode", "secret", "corrupt", "zerocopy"];

/// Most rings in each direction, and most slots in a ring: what the other implementations take.
const RINGS_MAX: u64 = 255;
pub(crate) const LOG2_SLOTS_MAX: u8 = 14;
const SLOTS_MIN: u64 = 8;

/// Bytes of a buffer: packets that are longer go over several.
const BUFFER_MIN: u64 = 64;
const BUFFER_MAX: u64 = 65_536;

/// Shared memory that one interface may make.
const MEMORY_MAX: u64 = 1 << 30;

/// Which end of the control channel a port is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Listens, and takes the memory that the client offers.
    Server,
    /// Connects, again and again, and brings the memory.
    Client,
}

/// Which interface of all that a process has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// Path of the socket, or `@` and an abstract name.
    pub(crate) socket: String,
    pub(crate) id: u32,
    pub(crate) role: Role,
}

/// How an interface is made. Devices that share one ask for the same, but for other queues.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) key: Key,
    /// Rings in each direction: as many as a client makes, or a server takes.
    pub(crate) rings: u16,
    /// Those that this process serves, each by a port.
    pub(crate) queues: Range<u16>,
    /// Of a client: slots of a ring, as a power of two.
    pub(crate) log2_slots: u8,
    /// Of a client: bytes of a buffer.
    pub(crate) buffer_bytes: usize,
    /// Zeros when there is none.
    pub(crate) secret: [u8; SECRET_BYTES],
    /// A sleeping port is woken by its peer.
    pub(crate) interrupts: bool,
    /// A peer that breaks the protocol does not end the port.
    pub(crate) next_peer: bool,
    /// Of a client: the frames of the pool are the buffers.
    pub(crate) zero_copy: bool,
}

impl Options {
    /// Takes the options out of a spec, and complains about what is wrong with them.
    pub(crate) fn take(spec: &mut PortSpec) -> Result<Options, OpenError> {
        let wrong = |spec: &PortSpec, cause: String, hint: &str| OpenError::new(spec, cause, hint);
        let number = |spec: &mut PortSpec, key, least, most| {
            spec.take_number(key, least, most).map_err(|error| OpenError::new(&*spec, error.problem, ""))
        };
        let id = number(spec, "id", 0, u32::MAX.into())?.unwrap_or(0) as u32;
        let asked = &spec.options;
        let (first, wanted) = (asked.first_queue.unwrap_or(0), asked.queues.or(asked.first_queue.map(|_| 1)));
        let threads = asked.threads.map_or(1, |threads| threads as u64);
        let least_rings = wanted.map_or(1, |queues| u64::from(first) + u64::from(queues));
        if least_rings > RINGS_MAX || threads > RINGS_MAX {
            return Err(wrong(spec, format!("there are at most {RINGS_MAX} rings"), ""));
        }
        let rings = number(spec, "rings", least_rings, RINGS_MAX)?;
        let rings = rings.unwrap_or(if wanted.is_some() { least_rings } else { threads });
        let queues = first as u16..wanted.map_or(rings as u16, |_| least_rings as u16);
        let slots = number(spec, "slots", SLOTS_MIN, 1 << LOG2_SLOTS_MAX)?.unwrap_or(1024);
        let buffer = number(spec, "buffer", BUFFER_MIN, BUFFER_MAX)?;
        let role = choice(spec, "role", &[("server", Role::Server), ("client", Role::Client)])?;
        let interrupts = choice(spec, "mode", &[("interrupt", true), ("poll", false)])?;
        let next_peer =
            spec.options.on_corrupt == Some(OnCorrupt::NextPeer) && (role == Role::Server || spec.wrote("corrupt"));
        let zero_copy = spec.options.zero_copy == Some(true);
        let secret = spec.take("secret").unwrap_or_default();
        spec.finish(KNOWN).map_err(|error| wrong(spec, error.problem, ""))?;
        if !slots.is_power_of_two() {
            return Err(wrong(spec, format!("slots={slots}: a ring has a power of two of slots"), "try slots=1024"));
        }
        if zero_copy && role == Role::Server {
            let cause = "zerocopy is for the client, whose memory both use; a server copies".into();
            return Err(wrong(spec, cause, "write role=client, or leave zerocopy to the other side"));
        }
        if zero_copy && buffer.is_some() {
            let cause = "with zerocopy the buffers are frames of the pool, of their size".into();
            return Err(wrong(spec, cause, "leave out buffer"));
        }
        let buffer = buffer.unwrap_or(2048);
        if !zero_copy && 2 * rings * slots * buffer > MEMORY_MAX {
            return Err(wrong(spec, "more than 1 GiB of shared memory".into(), "take fewer rings or slots"));
        }
        if secret.len() > SECRET_BYTES {
            return Err(wrong(spec, format!("a secret has at most {SECRET_BYTES} bytes"), ""));
        }
        if spec.target.is_empty() || spec.target == "@" {
            return Err(wrong(spec, "names no socket".into(), "write memif:/run/user/1000/x.sock"));
        }
        if spec.target.len() >= NAME_BYTES_MAX {
            let cause = format!("a socket's name has fewer than {NAME_BYTES_MAX} bytes");
            return Err(wrong(spec, cause, "take a shorter path"));
        }
        let mut padded = [0; SECRET_BYTES];
        padded[..secret.len()].copy_from_slice(secret.as_bytes());
        Ok(Options {
            key: Key { socket: spec.target.clone(), id, role },
            rings: rings as u16,
            queues,
            log2_slots: slots.trailing_zeros() as u8,
            buffer_bytes: buffer as usize,
            secret: padded,
            interrupts,
            next_peer,
            zero_copy,
        })
    }
}

/// As [`PortSpec::take_choice`].
fn choice<T: Copy>(spec: &mut PortSpec, key: &str, words: &[(&str, T)]) -> Result<T, OpenError> {
    spec.take_choice(key, words).map_err(|error| OpenError::new(&*spec, error.problem, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(text: &str) -> Result<Options, OpenError> {
        let parsed = text.parse().map_err(|error: linerate_port::SpecError| OpenError::new(text, error.problem, ""));
        Options::take(&mut parsed?)
    }

    fn full_queues(texts: &[&str]) -> Vec<Range<u16>> {
        texts.iter().map(|text| take(text).map(|options| options.queues).unwrap_or_default()).collect()
    }

    #[test]
    fn names_say_all_about_an_interface() {
        let plain = take("memif:/tmp/x.sock").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(plain.key, Key { socket: "/tmp/x.sock".into(), id: 0, role: Role::Server });
        assert_eq!((plain.rings, plain.log2_slots, plain.buffer_bytes), (1, 10, 2048));
        assert!(plain.interrupts && !plain.next_peer && plain.secret == [0; SECRET_BYTES]);
        assert_eq!(full_queues(&["memif:/x", "memif:/x,rings=3", "memif:/x,queues=2"]), [0..1, 0..3, 0..2]);
        assert_eq!(full_queues(&["memif:/x@2", "memif:/x@1,queues=2,rings=9"]), [2..3, 1..3]);
        let full = "memif:/x@2,id=7,role=client,rings=4,slots=256,buffer=512,mode=poll,secret=abc,corrupt=next";
        let full = take(full).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((full.key.id, full.key.role, full.rings, full.log2_slots), (7, Role::Client, 4, 8));
        assert!(!full.interrupts && full.next_peer && full.buffer_bytes == 512);
        assert_eq!(full.secret[..4], *b"abc\0");
        let lends = |text| take(text).map(|options| options.zero_copy).ok();
        assert_eq!(lends("memif:/x,role=client,zerocopy"), Some(true));
        assert_eq!((lends("memif:/x,role=client,zerocopy=no"), lends("memif:/x")), (Some(false), Some(false)));
        assert_eq!(take("memif:/x@2").map(|options| options.rings).ok(), Some(3));
        assert_eq!(take("memif:\\@name").map(|options| options.key.socket).ok().as_deref(), Some("@name"));
    }

    #[test]
    fn what_cannot_be_is_refused_in_words() {
        for (text, says) in [
            ("memif:", "names no socket"),
            ("memif:/x,slots=1000", "power of two"),
            ("memif:/x,slots=4", "from 8 to 16384"),
            ("memif:/x,rings=256", "from 1 to 255"),
            ("memif:/x@3,rings=3", "from 4 to 255"),
            ("memif:/x@255", "at most 255 rings"),
            ("memif:/x,role=master", "role takes server or client"),
            ("memif:/x,mode=fast", "mode takes interrupt or poll"),
            ("memif:/x,secret=abcdefghijklmnopqrstuvwxyz", "at most 24 bytes"),
            ("memif:/x,rings=255,slots=16384", "1 GiB"),
            ("memif:/x,fast", "unknown option fast"),
            ("memif:/x,zerocopy", "zerocopy is for the client"),
            ("memif:/x,role=client,zerocopy,buffer=512", "frames of the pool"),
            ("memif:/x,role=client,zerocopy=maybe", "yes or no"),
        ] {
            let error = take(text).map(|_| ()).unwrap_err();
            assert!(error.cause.contains(says), "{text}: {error}");
        }
        let long = format!("memif:/{}", "x".repeat(120));
        assert!(take(&long).map(|_| ()).unwrap_err().cause.contains("fewer than 108"));
    }
}
