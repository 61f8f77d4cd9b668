//! Keeps this process alive when a guest takes memory away that is mapped here (sigaction(2), mmap(2)).
//!
//! A file that was mapped can be cut short, or its huge pages can run out; touching such a page raises SIGBUS. A file that is
//! sealed against shrinking cannot be cut, but DPDK's and many others' are not sealed, so they cannot be refused. The handler
//! puts zeros in the place of the whole mapping and marks it; the port sees the mark after its batch and gives up the
//! connection. A SIGBUS anywhere else goes to the handler that was there before.
#![allow(unsafe_code)]

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use libc::{c_int, c_void};

/// Mappings that a process can have: 64 ports with 8 regions each, and room for those that are being replaced.
const ENTRIES: usize = 1024;

#[derive(Debug)]
pub(crate) struct Entry {
    /// 0: free. 1: taken, without an address.
    start: AtomicUsize,
    bytes: AtomicUsize,
    broken: AtomicBool,
}

static TABLE: [Entry; ENTRIES] =
    [const { Entry { start: AtomicUsize::new(0), bytes: AtomicUsize::new(0), broken: AtomicBool::new(false) } };
        ENTRIES];

struct Before(libc::sigaction);

// SAFETY: the structure is only read after it was written; it holds numbers and addresses of functions.
unsafe impl Send for Before {}
// SAFETY: as above.
unsafe impl Sync for Before {}

static BEFORE: OnceLock<Before> = OnceLock::new();

/// Puts the handler in, once in a process.
pub(crate) fn install() -> io::Result<()> {
    let mut failure = None;
    BEFORE.get_or_init(|| {
        // SAFETY: a zeroed sigaction is a value of it.
        let (mut action, mut before): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
        action.sa_sigaction = on_sigbus as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        // SAFETY: both structures are valid; the handler calls nothing but mmap and touches nothing but atomics.
        if unsafe { libc::sigaction(libc::SIGBUS, &action, &mut before) } != 0 {
            failure = Some(io::Error::last_os_error());
        }
        Before(before)
    });
    failure.map_or(Ok(()), Err)
}

/// Takes an entry for a mapping.
pub(crate) fn enter(start: usize, bytes: usize) -> io::Result<&'static Entry> {
    let taken = |entry: &&Entry| entry.start.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok();
    let entry = TABLE.iter().find(taken).ok_or_else(|| io::Error::other("too many mapped regions"))?;
    entry.broken.store(false, Ordering::Relaxed);
    entry.bytes.store(bytes, Ordering::Relaxed);
    entry.start.store(start, Ordering::Release);
    Ok(entry)
}

impl Entry {
    /// True once the mapping was replaced.
    #[inline]
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    /// Gives the entry back.
    pub(crate) fn leave(&self) {
        self.start.store(1, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
        self.start.store(0, Ordering::Release);
    }

    fn holds(&self, address: usize) -> Option<(usize, usize)> {
        let start = self.start.load(Ordering::Acquire);
        let bytes = self.bytes.load(Ordering::Acquire);
        // The thread that faulted uses its mapping, so that entry does not change meanwhile; another one may.
        let steady = self.start.load(Ordering::Acquire) == start;
        (steady && start > 1 && address.wrapping_sub(start) < bytes).then_some((start, bytes))
    }
}

extern "C" fn on_sigbus(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives a valid structure, and for SIGBUS it has an address.
    let address = unsafe { (*info).si_addr() } as usize;
    for entry in &TABLE {
        let Some((start, bytes)) = entry.holds(address) else { continue };
        let (access, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE,
        );
        // SAFETY: errno's place is this thread's; the code that was interrupted gets its value back.
        let errno = unsafe { *libc::__errno_location() };
        // SAFETY: replaces exactly the mapping of the entry, which holds nothing but bytes of a guest.
        let put = unsafe { libc::mmap(start as *mut c_void, bytes, access, flags, -1, 0) };
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = errno };
        if put != libc::MAP_FAILED {
            entry.broken.store(true, Ordering::Relaxed);
            return;
        }
    }
    pass_on(signal, info, context);
}

/// Not ours: what was there before gets it; the default is that the process ends, when the access is tried again.
fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let before = BEFORE.get().map(|before| before.0);
    let handler = before.map_or(libc::SIG_DFL, |before| before.sa_sigaction);
    match before {
        Some(before) if handler != libc::SIG_DFL && handler != libc::SIG_IGN => {
            if before.sa_flags & libc::SA_SIGINFO != 0 {
                // SAFETY: the address was given to sigaction as a handler of this kind.
                let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                    unsafe { std::mem::transmute(handler) };
                handler(signal, info, context);
            } else {
                // SAFETY: as above.
                let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
                handler(signal);
            }
        }
        _ => {
            // SAFETY: a zeroed sigaction asks for the default.
            let default: libc::sigaction = unsafe { std::mem::zeroed() };
            // SAFETY: the structure is valid.
            unsafe { libc::sigaction(signal, &default, std::ptr::null_mut()) };
        }
    }
}
