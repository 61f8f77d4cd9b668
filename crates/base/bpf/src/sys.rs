//! The bpf(2) system call and mmap(2) of a map: the crate's only unsafe code.
//!
//! Layouts: `union bpf_attr` of Linux `include/uapi/linux/bpf.h`. Each command reads its own fields
//! from the start of the union and wants the rest zero, so each has its own structure here.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use crate::insn::Insn;

const BPF_MAP_CREATE: i32 = 0;
const BPF_MAP_LOOKUP_ELEM: i32 = 1;
const BPF_MAP_UPDATE_ELEM: i32 = 2;
const BPF_MAP_DELETE_ELEM: i32 = 3;
const BPF_MAP_GET_NEXT_KEY: i32 = 4;
const BPF_PROG_LOAD: i32 = 5;
const BPF_PROG_TEST_RUN: i32 = 10;
const BPF_OBJ_GET_INFO_BY_FD: i32 = 15;
const BPF_RAW_TRACEPOINT_OPEN: i32 = 17;
const BPF_LINK_CREATE: i32 = 28;
const BPF_LINK_UPDATE: i32 = 29;

/// `BPF_XDP` of `enum bpf_attach_type`.
const ATTACH_XDP: u32 = 37;
/// What kind of program to load: `enum bpf_prog_type` and `enum bpf_attach_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProgramKind {
    /// On an interface's frames.
    Xdp,
    /// At a tracepoint, with its arguments as they are.
    RawTracepoint,
}

/// What a map is made of, as the kernel wants it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MapShape {
    pub kind: u32,
    pub key_bytes: u32,
    pub value_bytes: u32,
    pub entries: u32,
    pub flags: u32,
    pub name: [u8; 16],
    /// Bytes that a lookup or update moves: more than `value_bytes` for per-CPU maps.
    pub moved_bytes: usize,
}

#[repr(C)]
#[derive(Default)]
struct MapCreateAttr {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    map_name: [u8; 16],
}

#[repr(C)]
#[derive(Default)]
struct MapElementAttr {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct ProgramLoadAttr {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
}

#[repr(C)]
#[derive(Default)]
struct LinkCreateAttr {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct LinkUpdateAttr {
    link_fd: u32,
    new_prog_fd: u32,
    flags: u32,
    old_prog_fd: u32,
}

#[repr(C)]
#[derive(Default)]
struct RawTracepointAttr {
    name: u64,
    prog_fd: u32,
    padding: u32,
}

#[repr(C)]
#[derive(Default)]
struct InfoAttr {
    bpf_fd: u32,
    info_len: u32,
    info: u64,
}

/// `struct bpf_prog_info` up to the last field that is read here.
#[repr(C)]
struct ProgramInfo {
    before: [u64; 26],
    recursion_misses: u64,
}

#[repr(C)]
#[derive(Default)]
struct TestRunAttr {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    padding: u32,
}

/// A map's descriptor with the sizes that the kernel reads and writes through user pointers.
/// Only [`map_create`] makes one, so the sizes are the map's own.
#[derive(Debug)]
pub(crate) struct RawMap {
    fd: OwnedFd,
    shape: MapShape,
}

/// A memory mapping of an array map, shared with programs. Unmapped on drop; lives on after the
/// map's descriptor is closed.
#[derive(Debug)]
pub(crate) struct Mapping {
    address: NonNull<AtomicU64>,
    words: usize,
    mapped_bytes: usize,
}

// SAFETY: the mapping is memory of the process, not of a thread, and only `&AtomicU64` is handed out.
unsafe impl Send for Mapping {}
// SAFETY: as above; atomics may be shared between threads.
unsafe impl Sync for Mapping {}

/// The parts of a test run.
pub(crate) struct TestRun<'a> {
    pub frame: &'a [u8],
    pub output: &'a mut [u8],
    pub context: Option<[u32; 6]>,
    pub repeat: u32,
    pub flags: u32,
    pub batch_size: u32,
}

/// What a test run answers.
pub(crate) struct TestRunAnswer {
    pub retval: u32,
    pub duration_ns: u32,
    pub output_bytes: u32,
}

/// Creates a map.
pub(crate) fn map_create(shape: MapShape) -> io::Result<RawMap> {
    let mut attr = MapCreateAttr {
        map_type: shape.kind,
        key_size: shape.key_bytes,
        value_size: shape.value_bytes,
        max_entries: shape.entries,
        map_flags: shape.flags,
        map_name: shape.name,
        ..MapCreateAttr::default()
    };
    // SAFETY: BPF_MAP_CREATE reads the structure and follows no pointer.
    let fd = unsafe { bpf(BPF_MAP_CREATE, &mut attr) }?;
    Ok(RawMap { fd: owned(fd), shape })
}

impl RawMap {
    pub(crate) fn shape(&self) -> &MapShape {
        &self.shape
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Reads the element at `key` into `value`; the lengths must be the map's.
    pub(crate) fn lookup(&self, key: &[u8], value: &mut [u8]) -> io::Result<()> {
        self.check(key, Some(value.len()))?;
        let address = value.as_mut_ptr() as u64;
        // SAFETY: `check` made sure that both buffers have the lengths that the kernel uses.
        unsafe { self.element(BPF_MAP_LOOKUP_ELEM, key, address, 0) }
    }

    /// Writes `value` at `key`; the lengths must be the map's.
    pub(crate) fn update(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.check(key, Some(value.len()))?;
        // SAFETY: as in `lookup`; the kernel only reads `value`.
        unsafe { self.element(BPF_MAP_UPDATE_ELEM, key, value.as_ptr() as u64, 0) }
    }

    /// Deletes the element at `key`, which must have the map's key length.
    pub(crate) fn delete(&self, key: &[u8]) -> io::Result<()> {
        self.check(key, None)?;
        // SAFETY: as in `lookup`; there is no value.
        unsafe { self.element(BPF_MAP_DELETE_ELEM, key, 0, 0) }
    }

    /// The key after `key` in the kernel's order, or the first one; `None` after the last.
    pub(crate) fn next_key(&self, key: Option<&[u8]>) -> io::Result<Option<Vec<u8>>> {
        if let Some(key) = key {
            self.check(key, None)?;
        }
        let mut next = vec![0; self.shape.key_bytes as usize];
        let mut attr = MapElementAttr {
            map_fd: number(&self.fd),
            key: key.map_or(0, |key| key.as_ptr() as u64),
            value: next.as_mut_ptr() as u64,
            ..MapElementAttr::default()
        };
        // SAFETY: both buffers live until the call returns and are as long as the map's keys; without a key the
        // kernel takes the null pointer for the start.
        match unsafe { bpf(BPF_MAP_GET_NEXT_KEY, &mut attr) } {
            Ok(_) => Ok(Some(next)),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn check(&self, key: &[u8], value_bytes: Option<usize>) -> io::Result<()> {
        let value_fits = value_bytes.is_none_or(|bytes| bytes == self.shape.moved_bytes);
        if key.len() == self.shape.key_bytes as usize && value_fits {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(libc::EINVAL))
        }
    }

    /// # Safety
    /// `key` and the memory at `value` must be as long as the map's shape says.
    unsafe fn element(&self, command: i32, key: &[u8], value: u64, flags: u64) -> io::Result<()> {
        let mut attr = MapElementAttr {
            map_fd: number(&self.fd),
            key: key.as_ptr() as u64,
            value,
            flags,
            ..MapElementAttr::default()
        };
        // SAFETY: the caller vouches for both pointers, which live until the call returns.
        unsafe { bpf(command, &mut attr) }.map(|_| ())
    }

    /// Maps the whole array, readable and writable. The map must have been created mappable.
    pub(crate) fn map_memory(&self) -> io::Result<Mapping> {
        let value_bytes = (self.shape.value_bytes as usize).next_multiple_of(8);
        let data_bytes = value_bytes.checked_mul(self.shape.entries as usize);
        let data_bytes = data_bytes.filter(|&bytes| bytes > 0 && bytes < isize::MAX as usize / 2);
        let data_bytes = data_bytes.ok_or(io::Error::from_raw_os_error(libc::EINVAL))?;
        let mapped_bytes = data_bytes.next_multiple_of(page_bytes());
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let (flags, fd) = (libc::MAP_SHARED, self.fd.as_raw_fd());
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), mapped_bytes, protection, flags, fd, 0) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let address = NonNull::new(address.cast::<AtomicU64>());
        let address = address.ok_or(io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Mapping { address, words: data_bytes / 8, mapped_bytes })
    }
}

impl Mapping {
    /// The array as 64-bit words.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has `words` words, is page-aligned, stays until drop, and other
        // writers (programs in the kernel) are why the element type is atomic.
        unsafe { std::slice::from_raw_parts(self.address.as_ptr(), self.words) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `map_memory`, and no borrow of it is left.
        unsafe { libc::munmap(self.address.as_ptr().cast::<c_void>(), self.mapped_bytes) };
    }
}

/// Loads a program under the GPL, which the helpers for time, redirect and kernel memory ask for.
/// `log` receives the verifier's words if it is not empty.
pub(crate) fn program_load(
    kind: ProgramKind,
    insns: &[Insn],
    flags: u32,
    name: [u8; 16],
    log: &mut [u8],
) -> io::Result<OwnedFd> {
    let bytes: Vec<[u8; 8]> = insns.iter().map(|insn| insn.encode()).collect();
    let (prog_type, expected_attach_type) = match kind {
        ProgramKind::Xdp => (6, ATTACH_XDP),
        ProgramKind::RawTracepoint => (17, 0),
    };
    let mut attr = ProgramLoadAttr {
        prog_type,
        insn_cnt: length(bytes.len())?,
        insns: bytes.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        prog_flags: flags,
        prog_name: name,
        expected_attach_type,
        ..ProgramLoadAttr::default()
    };
    if !log.is_empty() {
        attr.log_level = 1;
        attr.log_size = length(log.len())?;
        attr.log_buf = log.as_mut_ptr() as u64;
    }
    // SAFETY: the three pointers go to live memory of the lengths given; only the log is written.
    let fd = unsafe { bpf(BPF_PROG_LOAD, &mut attr) }?;
    Ok(owned(fd))
}

/// Attaches an XDP program to an interface through a new link.
pub(crate) fn link_create(program: BorrowedFd<'_>, ifindex: u32, flags: u32) -> io::Result<OwnedFd> {
    let mut attr =
        LinkCreateAttr { prog_fd: number(&program), target_ifindex: ifindex, attach_type: ATTACH_XDP, flags };
    // SAFETY: BPF_LINK_CREATE reads the structure and follows no pointer for XDP.
    let fd = unsafe { bpf(BPF_LINK_CREATE, &mut attr) }?;
    Ok(owned(fd))
}

/// Gives a link another program.
pub(crate) fn link_update(link: &OwnedFd, program: BorrowedFd<'_>) -> io::Result<()> {
    let mut attr = LinkUpdateAttr { link_fd: number(link), new_prog_fd: number(&program), flags: 0, old_prog_fd: 0 };
    // SAFETY: BPF_LINK_UPDATE reads the structure and follows no pointer.
    unsafe { bpf(BPF_LINK_UPDATE, &mut attr) }.map(|_| ())
}

/// Attaches a program to the tracepoint `name` through a new link.
pub(crate) fn raw_tracepoint_open(program: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    let mut attr =
        RawTracepointAttr { name: name.as_ptr() as u64, prog_fd: number(&program), ..RawTracepointAttr::default() };
    // SAFETY: the name is a C string that lives until the call returns; it is only read.
    let fd = unsafe { bpf(BPF_RAW_TRACEPOINT_OPEN, &mut attr) }?;
    Ok(owned(fd))
}

/// How often a program was not run because it was already running on that CPU.
pub(crate) fn program_misses(program: BorrowedFd<'_>) -> io::Result<u64> {
    let mut info = ProgramInfo { before: [0; 26], recursion_misses: 0 };
    let mut attr = InfoAttr {
        bpf_fd: number(&program),
        info_len: size_of::<ProgramInfo>() as u32,
        info: std::ptr::from_mut(&mut info) as u64,
    };
    // SAFETY: the kernel writes at most `info_len` bytes to the structure. Of the fields in it that are pointers or
    // lengths of further arrays, all are zero, so it writes nowhere else.
    unsafe { bpf(BPF_OBJ_GET_INFO_BY_FD, &mut attr) }?;
    Ok(info.recursion_misses)
}

/// Runs a program on a frame given.
pub(crate) fn test_run(program: BorrowedFd<'_>, run: TestRun<'_>) -> io::Result<TestRunAnswer> {
    let mut attr = TestRunAttr {
        prog_fd: number(&program),
        data_size_in: length(run.frame.len())?,
        data_in: run.frame.as_ptr() as u64,
        repeat: run.repeat,
        flags: run.flags,
        batch_size: run.batch_size,
        ..TestRunAttr::default()
    };
    if !run.output.is_empty() {
        attr.data_size_out = length(run.output.len())?;
        attr.data_out = run.output.as_mut_ptr() as u64;
    }
    if let Some(context) = &run.context {
        attr.ctx_size_in = size_of_val(context) as u32;
        attr.ctx_in = context.as_ptr() as u64;
    }
    // SAFETY: the pointers go to live memory of the lengths given; only `output` is written.
    unsafe { bpf(BPF_PROG_TEST_RUN, &mut attr) }?;
    Ok(TestRunAnswer { retval: attr.retval, duration_ns: attr.duration, output_bytes: attr.data_size_out })
}

/// Whether this thread's network namespace has an interface with this index.
pub(crate) fn interface_exists(ifindex: u32) -> bool {
    let mut name = [0 as libc::c_char; libc::IF_NAMESIZE];
    // SAFETY: the buffer has IF_NAMESIZE bytes, as if_indextoname(3) asks for.
    let found = unsafe { libc::if_indextoname(ifindex, name.as_mut_ptr()) };
    !found.is_null()
}

/// # Safety
/// `attr` must be the structure of `command`, with pointers valid for what the command does.
unsafe fn bpf<T>(command: i32, attr: &mut T) -> io::Result<i32> {
    // SAFETY: the structure is live, its size is passed along, and the caller vouches for the rest.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attr), size_of::<T>() as u32) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

fn owned(fd: RawFd) -> OwnedFd {
    // SAFETY: called with a descriptor that the kernel has just made for us, and only once.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn number(fd: &impl AsRawFd) -> u32 {
    fd.as_raw_fd() as u32
}

fn length(bytes: usize) -> io::Result<u32> {
    u32::try_from(bytes).map_err(|_| io::Error::from_raw_os_error(libc::E2BIG))
}

fn page_bytes() -> usize {
    // SAFETY: sysconf has no preconditions.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_kernels_offsets() {
        assert_eq!(size_of::<MapCreateAttr>(), 44);
        assert_eq!(size_of::<MapElementAttr>(), 32);
        assert_eq!(std::mem::offset_of!(ProgramLoadAttr, log_buf), 32);
        assert_eq!(std::mem::offset_of!(ProgramLoadAttr, prog_name), 48);
        assert_eq!(std::mem::offset_of!(ProgramLoadAttr, expected_attach_type), 68);
        assert_eq!(std::mem::offset_of!(ProgramInfo, recursion_misses), 208);
        assert_eq!(std::mem::offset_of!(TestRunAttr, ctx_in), 48);
        assert_eq!(std::mem::offset_of!(TestRunAttr, batch_size), 72);
    }
}
