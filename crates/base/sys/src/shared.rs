//! Memory that another process has, too: a file in memory (memfd_create(2), tmpfs, hugetlbfs), mapped here.
//!
//! Whoever holds such a file can cut it short, unless it is sealed, and pages of huge-page files can run out; a touch of what
//! is no longer there raises SIGBUS, which ends a process. A [`SharedMapping`] survives that: a handler for SIGBUS puts
//! private zeros in the place of the whole mapping, and [`SharedMapping::is_lost`] tells. A fault anywhere else goes to
//! whatever handled SIGBUS before. The handler is installed with the first mapping, and stays.
//!
//! The other process reads and writes the bytes at any time. So this module hands out an address and no reference: what is
//! read there must be copied first, or read once by atomics, and then checked.
#![allow(unsafe_code)]

mod places;

use crate::checked;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use places::{Claim, Places};

/// Bytes of an ordinary page, at least.
const PAGE: usize = 4096;
/// Unit of `st_blocks` (stat(3type)).
const BLOCK: u64 = 512;

/// A file of `bytes` zeros in memory that nobody can make shorter or longer: to be mapped here, and handed to another process.
///
/// # Errors
/// As memfd_create(2) and ftruncate(2).
pub fn memory_file(name: &CStr, bytes: usize) -> io::Result<OwnedFd> {
    // SAFETY: a terminated name and constants.
    let fd = checked(unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) })?;
    // SAFETY: `fd` was just made and belongs to nobody else.
    let file = unsafe { OwnedFd::from_raw_fd(fd) };
    let len = libc::off_t::try_from(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
    // SAFETY: takes a descriptor and a number.
    check(unsafe { libc::ftruncate(fd, len) })?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: takes a descriptor and a number.
    check(unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, seals) })?;
    Ok(file)
}

/// Another open file of the same memory, for another process: not a copy of the descriptor, so that [`is_open_here_alone`] can tell the
/// two apart. Whoever made the memory goes on with such a file, too, because the file as it was made does not count among the open ones.
///
/// # Errors
/// As open(2) of a file in `/proc/self/fd`.
pub fn open_again(file: BorrowedFd<'_>) -> io::Result<File> {
    File::options().read(true).write(true).open(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Sets the signal that tells of a lease to be given up (fcntl(2); linux/include/uapi/asm-generic/fcntl.h).
const F_SETSIG: libc::c_int = 10;

/// True if this open file is the only one of its memory: no other process has a descriptor or a mapping of it. A write lease (fcntl(2),
/// F_SETLEASE) can be had only then. False also where the kernel cannot tell.
pub fn is_open_here_alone(file: BorrowedFd<'_>) -> bool {
    let fd = file.as_raw_fd();
    // SAFETY: takes a descriptor, a command and a number.
    let set = |command: libc::c_int, value: libc::c_int| check(unsafe { libc::fcntl(fd, command, value) });
    // Whoever opens the file in this moment breaks the lease; what the holder is sent then must not end the process.
    let alone = set(F_SETSIG, libc::SIGURG).is_ok() && set(libc::F_SETLEASE, libc::F_WRLCK).is_ok();
    if alone {
        // A lease that was broken meanwhile is gone.
        let _ = set(libc::F_SETLEASE, libc::F_UNLCK);
    }
    alone
}

/// Where a file lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// Ordinary pages (tmpfs; also what memfd_create(2) makes).
    Memory,
    /// Huge pages.
    HugePages,
}

/// What is known of a file in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryFile {
    /// Bytes that it has now. Unless sealed it may have fewer at any time.
    pub bytes: u64,
    /// Bytes for which there are pages already, whoever touched them.
    pub held_bytes: u64,
    /// What it is made of.
    pub storage: Storage,
    /// Nobody can make it shorter.
    pub keeps_size: bool,
    /// Bytes of its pages.
    pub page_bytes: usize,
}

impl MemoryFile {
    /// Looks at a file that came from another process. Only files in memory pass: behind any other, a disk or another process
    /// (FUSE) decides how long a touch of a page lasts.
    ///
    /// # Errors
    /// It is no file in memory, or it cannot be looked at.
    pub fn of(file: BorrowedFd<'_>) -> io::Result<MemoryFile> {
        // SAFETY: a structure of integers, for which all zeros is a value.
        let (mut status, mut system): (libc::stat64, libc::statfs64) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        // SAFETY: the structures are live and of the right type.
        check(unsafe { libc::fstat64(file.as_raw_fd(), &mut status) })?;
        // SAFETY: as above.
        check(unsafe { libc::fstatfs64(file.as_raw_fd(), &mut system) })?;
        let storage = match system.f_type as libc::c_long {
            libc::TMPFS_MAGIC => Storage::Memory,
            libc::HUGETLBFS_MAGIC => Storage::HugePages,
            _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file in memory")),
        };
        if status.st_mode & libc::S_IFMT != libc::S_IFREG {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
        }
        // SAFETY: takes a descriptor and a command without an argument.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        let keeps_size = storage == Storage::Memory && seals >= 0 && seals & libc::F_SEAL_SHRINK != 0;
        let block_bytes = (status.st_blksize as usize).max(PAGE).next_power_of_two();
        let page_bytes = if storage == Storage::HugePages { block_bytes } else { PAGE };
        let (bytes, held_bytes) = (status.st_size as u64, (status.st_blocks as u64).saturating_mul(BLOCK));
        Ok(MemoryFile { bytes, held_bytes, storage, keeps_size, page_bytes })
    }
}

/// Bytes of a file in memory, mapped to be read and written.
#[derive(Debug)]
pub struct SharedMapping {
    start: NonNull<u8>,
    bytes: usize,
    /// Bytes of whole pages.
    span: usize,
    place: usize,
}

// SAFETY: the mapping belongs to this value alone; it hands out an address, and all access through that is unsafe.
unsafe impl Send for SharedMapping {}
// SAFETY: as above.
unsafe impl Sync for SharedMapping {}

impl SharedMapping {
    /// Maps the first `bytes` bytes of `file`. Its pages come when they are touched.
    ///
    /// # Errors
    /// As [`SharedMapping::map_at`].
    pub fn map(file: BorrowedFd<'_>, bytes: usize) -> io::Result<SharedMapping> {
        SharedMapping::map_at(file, 0, bytes)
    }

    /// Maps `bytes` bytes of `file` from `offset` on, which is a multiple of [`MemoryFile::page_bytes`].
    ///
    /// # Errors
    /// It is no file in memory, or shorter, or mmap(2) refuses, or there are 4,096 mappings already.
    pub fn map_at(file: BorrowedFd<'_>, offset: u64, bytes: usize) -> io::Result<SharedMapping> {
        let facts = MemoryFile::of(file)?;
        let wrong = |text: String| io::Error::new(io::ErrorKind::InvalidInput, text);
        let end = offset.checked_add(bytes as u64).filter(|end| bytes > 0 && *end <= facts.bytes);
        if end.is_none() {
            let from = if offset > 0 { format!(" from byte {offset} on") } else { String::new() };
            return Err(wrong(format!("the file has {} bytes, not {bytes}{from}", facts.bytes)));
        }
        let offset = libc::off64_t::try_from(offset).map_err(|error| wrong(error.to_string()))?;
        install_handler()?;
        let span = bytes.next_multiple_of(facts.page_bytes);
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_NORESERVE);
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let start = unsafe { libc::mmap64(std::ptr::null_mut(), span, protection, flags, file.as_raw_fd(), offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let Some(start) = NonNull::new(start.cast::<u8>()) else {
            return Err(io::Error::from_raw_os_error(libc::ENOMEM));
        };
        match PLACES.occupy(start.as_ptr() as usize, span) {
            Some(place) => Ok(SharedMapping { start, bytes, span, place }),
            None => {
                // SAFETY: the mapping was just made and nobody knows of it.
                unsafe { libc::munmap(start.as_ptr().cast(), span) };
                Err(io::Error::other("too many shared mappings"))
            }
        }
    }

    /// Makes all pages at once, in huge ones where the kernel does that for shared memory. Only for files of this process:
    /// the pages count as its own. A wish: what the kernel refuses comes when it is touched.
    pub fn populate(&self) {
        // SAFETY: the range is this mapping, and madvise with this value changes no contents.
        unsafe { libc::madvise(self.start.as_ptr().cast(), self.span, libc::MADV_HUGEPAGE) };
        self.map_pages();
    }

    /// Maps all pages at once, so that the first touch of each is not a fault; those that the file does not hold yet
    /// ([`MemoryFile::held_bytes`]) are made and count as this process's. A wish, as [`SharedMapping::populate`].
    pub fn map_pages(&self) {
        // SAFETY: as in `populate`.
        unsafe { libc::madvise(self.start.as_ptr().cast(), self.span, libc::MADV_POPULATE_WRITE) };
    }

    /// Address of the first byte.
    #[inline]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Number of bytes.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// True once something was touched that is not there any more. The mapping then holds zeros that nobody else sees.
    #[inline]
    pub fn is_lost(&self) -> bool {
        PLACES.is_lost(self.place)
    }
}

impl Drop for SharedMapping {
    fn drop(&mut self) {
        // The handler must not find a range that may be mapped anew, by anybody, a moment later.
        PLACES.vacate(self.place);
        // SAFETY: the mapping was made by `map` with this span (the handler may have replaced it by one of the same span), and
        // nothing refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.span) };
    }
}

static PLACES: Places<4096> = Places::new();

/// What handled SIGBUS before, and its flags.
static BEFORE: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);
static BEFORE_FLAGS: AtomicI32 = AtomicI32::new(0);

fn install_handler() -> io::Result<()> {
    static INSTALL: Once = Once::new();
    static ERROR: AtomicI32 = AtomicI32::new(0);
    INSTALL.call_once(|| {
        if let Err(error) = replace_handler() {
            ERROR.store(error.raw_os_error().unwrap_or(libc::EINVAL), Ordering::Relaxed);
        }
    });
    match ERROR.load(Ordering::Relaxed) {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

fn replace_handler() -> io::Result<()> {
    // SAFETY: a structure of integers, for which all zeros is a value.
    let (mut before, mut action): (libc::sigaction, libc::sigaction) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    // SAFETY: only asks, into a live structure.
    check(unsafe { libc::sigaction(libc::SIGBUS, std::ptr::null(), &mut before) })?;
    BEFORE.store(before.sa_sigaction, Ordering::Relaxed);
    BEFORE_FLAGS.store(before.sa_flags, Ordering::Release);
    action.sa_sigaction = on_bus_error as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the handler has the signature that SA_SIGINFO asks for, and does only what is allowed in one.
    check(unsafe { libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut()) })
}

/// Handles SIGBUS. Reads the table, calls mmap, and leaves errno as it was; nothing else.
extern "C" fn on_bus_error(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo_t to a handler that was installed with SA_SIGINFO.
    let (address, code) = unsafe { ((*info).si_addr() as usize, (*info).si_code) };
    // SAFETY: the address of the calling thread's errno is always valid.
    let errno = unsafe { &mut *libc::__errno_location() };
    let kept = *errno;
    // A signal that was sent (kill(2)), or that tells of broken memory which nobody touched yet, is no fault of this thread: then
    // nothing says that the mapping at this address is in use.
    let fault = matches!(code, libc::BUS_ADRERR | libc::BUS_OBJERR | libc::BUS_MCEERR_AR);
    let ours = fault && replace_mapping(address, code);
    *errno = kept;
    if !ours {
        pass_on(signal, code, info, context);
    }
}

/// Puts zeros in the place of the mapping in which the calling thread faulted, at `address`; false if there is none.
fn replace_mapping(address: usize, code: libc::c_int) -> bool {
    let Some(found) = PLACES.find(address) else { return false };
    match found.claim() {
        Claim::Mine => {}
        // Another thread faulted, too. The access is made again, and finds zeros, or faults until it does. A memory error in those zeros
        // is no matter of this module.
        Claim::Others => return code == libc::BUS_ADRERR,
        Claim::Failed => return false,
    }
    let (start, bytes) = (found.range.start, found.range.len());
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: the range is that of a live mapping of this process (the calling thread is using it, so it is not being dropped; see
    // `Places::find` for why it is this mapping's), of which only addresses are used; they stay valid, with zeros behind them.
    let replaced =
        unsafe { libc::mmap(start as *mut libc::c_void, bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    found.settle(replaced != libc::MAP_FAILED);
    replaced != libc::MAP_FAILED
}

/// Does what would have been done without this module.
fn pass_on(signal: libc::c_int, code: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let flags = BEFORE_FLAGS.load(Ordering::Acquire);
    // Faults come from the kernel and have codes above 0; they repeat when this returns, and cannot be ignored.
    let sent = code <= 0 || code == libc::BUS_MCEERR_AO;
    match BEFORE.load(Ordering::Relaxed) {
        libc::SIG_IGN if sent => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: restores the default action, which ends the process when the fault repeats.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        handler if flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: the kernel held this address as a handler of this signature.
            let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: as above, without SA_SIGINFO.
            let handler: extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
    if sent && is_default(signal) {
        // Rust's own handler, too, restores the default action and waits for a fault to repeat, which a signal that was sent does not.
        // SAFETY: takes a number. The signal is blocked until the handler returns, and then ends the process.
        unsafe { libc::raise(signal) };
    }
}

/// True if the signal's action is the default one.
fn is_default(signal: libc::c_int) -> bool {
    // SAFETY: a structure of integers, for which all zeros is a value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: only asks, into a live structure.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), &mut action) };
    asked == 0 && action.sa_sigaction == libc::SIG_DFL
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use super::*;

    fn unsealed(bytes: u64) -> File {
        // SAFETY: a terminated name and a constant.
        let fd = unsafe { libc::memfd_create(c"unsealed".as_ptr(), libc::MFD_CLOEXEC) };
        assert!(fd >= 0);
        // SAFETY: `fd` was just made and belongs to nobody else.
        let file = unsafe { File::from_raw_fd(fd) };
        file.set_len(bytes).unwrap();
        file
    }

    fn byte(mapping: &SharedMapping, at: usize) -> u8 {
        assert!(at < mapping.bytes());
        // SAFETY: inside the mapping.
        unsafe { mapping.start().add(at).as_ptr().read_volatile() }
    }

    fn set_byte(mapping: &SharedMapping, at: usize, value: u8) {
        assert!(at < mapping.bytes());
        // SAFETY: inside the mapping.
        unsafe { mapping.start().add(at).as_ptr().write_volatile(value) };
    }

    #[test]
    fn two_mappings_of_a_file_show_the_same_bytes() {
        let file = memory_file(c"test", 10_000).unwrap();
        assert!(MemoryFile::of(file.as_fd()).unwrap().keeps_size);
        let (one, two) =
            (SharedMapping::map(file.as_fd(), 10_000).unwrap(), SharedMapping::map(file.as_fd(), 5000).unwrap());
        one.populate();
        set_byte(&one, 4999, 7);
        assert_eq!((byte(&two, 4999), two.bytes(), two.is_lost()), (7, 5000, false));
        let second_page = SharedMapping::map_at(file.as_fd(), 4096, 1000).unwrap();
        assert_eq!((byte(&second_page, 4999 - 4096), second_page.bytes()), (7, 1000));
        assert!(File::from(file).set_len(100).is_err(), "it is sealed");
    }

    #[test]
    fn what_a_file_holds_is_known_before_it_is_mapped_page_by_page() {
        let file = memory_file(c"test", 100_000).unwrap();
        let held = || MemoryFile::of(file.as_fd()).unwrap().held_bytes;
        assert_eq!(held(), 0);
        let (one, two) =
            (SharedMapping::map(file.as_fd(), 100_000).unwrap(), SharedMapping::map(file.as_fd(), 100_000).unwrap());
        set_byte(&one, 0, 7);
        assert!(held() > 0);
        one.populate();
        assert!(held() >= 100_000, "{}", held());
        two.map_pages();
        assert_eq!(byte(&two, 0), 7);
    }

    #[test]
    fn a_file_cut_short_leaves_zeros_and_is_noticed() {
        let file = unsealed(1 << 20);
        assert!(!MemoryFile::of(file.as_fd()).unwrap().keeps_size);
        let (cut, other) = (SharedMapping::map(file.as_fd(), 1 << 20).unwrap(), unsealed(4096));
        let other = SharedMapping::map(other.as_fd(), 4096).unwrap();
        set_byte(&cut, 0, 1);
        set_byte(&cut, 100_000, 1);
        file.set_len(4096).unwrap();
        assert!(!cut.is_lost());
        assert_eq!(byte(&cut, 100_000), 0);
        assert!(cut.is_lost() && !other.is_lost());
        set_byte(&cut, (1 << 20) - 1, 3);
        assert_eq!((byte(&cut, 0), byte(&cut, (1 << 20) - 1)), (0, 3));
        drop(cut);
        // The place is used again, and starts sound.
        assert!(!SharedMapping::map(file.as_fd(), 4096).unwrap().is_lost());
    }

    /// Many threads fault in mappings that are cut short while others make and drop mappings at the same addresses: nobody loses
    /// what is his.
    #[test]
    fn threads_that_fault_while_mappings_come_and_go() {
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for number in 1..=2_u8 {
                let stop = &stop;
                scope.spawn(move || {
                    let file = memory_file(c"coming and going", 64 << 10).unwrap();
                    while !stop.load(Ordering::Relaxed) {
                        let mapping = SharedMapping::map(file.as_fd(), (usize::from(number) * 13) << 10).unwrap();
                        set_byte(&mapping, 5000, number);
                        assert!(byte(&mapping, 5000) == number && !mapping.is_lost());
                    }
                });
            }
            let done = StopAtEnd(&stop);
            for round in 0..300 {
                let file = unsealed(64 << 10);
                let sound = memory_file(c"sound", 64 << 10).unwrap();
                let (cut, sound) = (
                    SharedMapping::map(file.as_fd(), 64 << 10).unwrap(),
                    SharedMapping::map(sound.as_fd(), 64 << 10).unwrap(),
                );
                set_byte(&sound, 0, 9);
                file.set_len(0).unwrap();
                std::thread::scope(|scope| {
                    // What one thread wrote after its fault is not taken away by the fault of another.
                    for thread in 0..3 {
                        let cut = &cut;
                        scope.spawn(move || {
                            set_byte(cut, thread * 4096, thread as u8 + 1);
                            assert_eq!(byte(cut, thread * 4096), thread as u8 + 1, "round {round}");
                        });
                    }
                });
                assert!((0..3).all(|thread| byte(&cut, thread * 4096) == thread as u8 + 1), "round {round}");
                assert!(cut.is_lost() && !sound.is_lost() && byte(&sound, 0) == 9);
            }
            drop(done);
        });
    }

    struct StopAtEnd<'a>(&'a std::sync::atomic::AtomicBool);

    impl Drop for StopAtEnd<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    const CHILD: &str = "LINERATE_TEST_BUS_ERROR";

    /// A SIGBUS that is no fault in a mapping ends the process as it would without this module.
    #[test]
    fn a_signal_that_was_sent_is_not_swallowed() {
        use std::os::unix::process::ExitStatusExt;
        if std::env::var_os(CHILD).is_some() {
            let file = memory_file(c"test", 4096).unwrap();
            let _mapping = SharedMapping::map(file.as_fd(), 4096).unwrap();
            // SAFETY: takes a number.
            unsafe { libc::raise(libc::SIGBUS) };
            return;
        }
        let name = "shared::tests::a_signal_that_was_sent_is_not_swallowed";
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let output = child.args(["--exact", name, "--nocapture"]).env(CHILD, "1").output().unwrap();
        assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{output:?}");
    }

    #[test]
    fn what_is_no_memory_is_refused() {
        let text = |result: io::Result<SharedMapping>| result.map(|_| ()).unwrap_err().to_string();
        let status = File::open("/proc/self/status").unwrap();
        assert!(text(SharedMapping::map(status.as_fd(), 4096)).contains("no file in memory"));
        let (reader, _writer) = io::pipe().unwrap();
        assert!(text(SharedMapping::map(reader.as_fd(), 4096)).contains("no file in memory"));
        let file = unsealed(4096);
        assert!(text(SharedMapping::map(file.as_fd(), 4097)).contains("4096 bytes, not 4097"));
        assert!(text(SharedMapping::map(file.as_fd(), 0)).contains("not 0"));
        assert!(text(SharedMapping::map_at(file.as_fd(), 4096, 1)).contains("not 1 from byte 4096 on"));
        assert!(text(SharedMapping::map_at(file.as_fd(), u64::MAX, 1)).contains("4096 bytes"));
    }
}
