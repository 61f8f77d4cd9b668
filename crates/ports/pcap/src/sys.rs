//! libpcap's functions, found at run time (pcap(3), pcap/pcap.h of libpcap 1.5 and later).
#![allow(unsafe_code)]

use linerate_sys::checked;
use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_uint, c_void};
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::{Mutex, OnceLock, PoisonError};

use libloading::Library;
use linerate_filter::Instruction;

/// Names under which distributions install it.
const FILES: [&str; 3] = ["libpcap.so.1", "libpcap.so.0.8", "libpcap.so"];

/// PCAP_ERRBUF_SIZE.
const ERROR_BYTES: usize = 256;

/// PCAP_TSTAMP_PRECISION_NANO, PCAP_D_IN.
const NANOSECONDS: c_int = 1;
const INCOMING: c_int = 1;

/// `PCAP_ERROR_*` that matter here.
pub(crate) const ERROR_NO_SUCH_DEVICE: i32 = -5;
pub(crate) const ERROR_PERMISSION: i32 = -8;
pub(crate) const ERROR_NOT_UP: i32 = -9;
pub(crate) const ERROR_PROMISCUOUS_PERMISSION: i32 = -11;

/// `pcap_t`, of which only the address is known.
#[repr(C)]
struct RawHandle {
    _opaque: [u8; 0],
}

/// `struct pcap_pkthdr`; with nanosecond precision `tv_usec` holds nanoseconds.
#[repr(C)]
struct RawHeader {
    time: libc::timeval,
    captured: u32,
    len: u32,
}

/// `struct pcap_stat`, with room for members that other systems add.
#[repr(C)]
#[derive(Default)]
struct RawCounts {
    received: c_uint,
    dropped: c_uint,
    interface_dropped: c_uint,
    _more: [c_uint; 5],
}

/// `struct bpf_insn`, the same everywhere.
#[repr(C)]
struct RawInstruction {
    code: u16,
    jt: u8,
    jf: u8,
    k: u32,
}

/// `struct bpf_program`.
#[repr(C)]
struct RawProgram {
    count: c_uint,
    instructions: *mut RawInstruction,
}

type Callback = extern "C" fn(*mut c_uchar, *const RawHeader, *const c_uchar);
type Setter = unsafe extern "C" fn(*mut RawHandle, c_int) -> c_int;

/// The functions used here. They stay valid as long as the library is loaded, which is for ever.
struct Functions {
    create: unsafe extern "C" fn(*const c_char, *mut c_char) -> *mut RawHandle,
    set_snaplen: Setter,
    set_promisc: Setter,
    set_timeout: Setter,
    set_buffer_size: Setter,
    set_tstamp_precision: Setter,
    activate: unsafe extern "C" fn(*mut RawHandle) -> c_int,
    setnonblock: unsafe extern "C" fn(*mut RawHandle, c_int, *mut c_char) -> c_int,
    setdirection: Setter,
    datalink: unsafe extern "C" fn(*mut RawHandle) -> c_int,
    get_selectable_fd: unsafe extern "C" fn(*mut RawHandle) -> c_int,
    dispatch: unsafe extern "C" fn(*mut RawHandle, c_int, Callback, *mut c_uchar) -> c_int,
    inject: unsafe extern "C" fn(*mut RawHandle, *const c_void, usize) -> c_int,
    stats: unsafe extern "C" fn(*mut RawHandle, *mut RawCounts) -> c_int,
    geterr: unsafe extern "C" fn(*mut RawHandle) -> *const c_char,
    close: unsafe extern "C" fn(*mut RawHandle),
    open_dead: unsafe extern "C" fn(c_int, c_int) -> *mut RawHandle,
    compile: unsafe extern "C" fn(*mut RawHandle, *mut RawProgram, *const c_char, c_int, u32) -> c_int,
    freecode: unsafe extern "C" fn(*mut RawProgram),
    setfilter: unsafe extern "C" fn(*mut RawHandle, *mut RawProgram) -> c_int,
    lib_version: unsafe extern "C" fn() -> *const c_char,
    _library: Library,
}

fn functions() -> Result<&'static Functions, String> {
    static LOADED: OnceLock<Result<Functions, String>> = OnceLock::new();
    LOADED.get_or_init(load).as_ref().map_err(String::clone)
}

fn load() -> Result<Functions, String> {
    let mut refusals = Vec::new();
    for file in FILES {
        // SAFETY: libpcap's initialisers do nothing that this process could not bear.
        match unsafe { Library::new(file) } {
            Ok(library) => return find(library).map_err(|error| format!("{file} is too old: {error}")),
            Err(error) => refusals.push(error.to_string()),
        }
    }
    Err(refusals.into_iter().next().unwrap_or_default())
}

fn find(library: Library) -> Result<Functions, libloading::Error> {
    macro_rules! function {
        ($name:literal) => {
            // SAFETY: the type that is asked for (the member's) is the one that pcap/pcap.h declares for this name.
            unsafe { *library.get(concat!($name, "\0").as_bytes())? }
        };
    }
    Ok(Functions {
        create: function!("pcap_create"),
        set_snaplen: function!("pcap_set_snaplen"),
        set_promisc: function!("pcap_set_promisc"),
        set_timeout: function!("pcap_set_timeout"),
        set_buffer_size: function!("pcap_set_buffer_size"),
        set_tstamp_precision: function!("pcap_set_tstamp_precision"),
        activate: function!("pcap_activate"),
        setnonblock: function!("pcap_setnonblock"),
        setdirection: function!("pcap_setdirection"),
        datalink: function!("pcap_datalink"),
        get_selectable_fd: function!("pcap_get_selectable_fd"),
        dispatch: function!("pcap_dispatch"),
        inject: function!("pcap_inject"),
        stats: function!("pcap_stats"),
        geterr: function!("pcap_geterr"),
        close: function!("pcap_close"),
        open_dead: function!("pcap_open_dead"),
        compile: function!("pcap_compile"),
        freecode: function!("pcap_freecode"),
        setfilter: function!("pcap_setfilter"),
        lib_version: function!("pcap_lib_version"),
        _library: library,
    })
}

/// What the library calls itself: "libpcap version 1.10.3 (with TPACKET_V3)".
///
/// # Errors
/// Why it cannot be loaded.
pub(crate) fn version() -> Result<String, String> {
    let functions = functions()?;
    // SAFETY: takes nothing, returns a terminated string that is never freed.
    Ok(unsafe { text((functions.lib_version)()) })
}

/// How a handle is to capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub snaplen: i32,
    pub promiscuous: bool,
    pub timeout_ms: i32,
    pub buffer_bytes: i32,
}

/// A function that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PcapError {
    pub operation: &'static str,
    /// A `PCAP_ERROR_*` number.
    pub code: i32,
    /// What libpcap says.
    pub text: String,
}

/// A captured packet, valid during the call that shows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Captured<'a> {
    pub bytes: &'a [u8],
    /// Bytes that it had before it was cut to the snap length.
    pub len: usize,
    /// Nanoseconds since 1970.
    pub time_ns: u64,
}

/// An activated `pcap_t`.
pub(crate) struct Handle {
    functions: &'static Functions,
    raw: NonNull<RawHandle>,
}

// SAFETY: libpcap lets one thread at a time use a pcap_t, whichever it is; `&mut self` on what changes it sees to that.
unsafe impl Send for Handle {}

impl Handle {
    /// Opens an interface of the calling thread's network namespace, without blocking, for what arrives on it.
    pub(crate) fn open(interface: &str, settings: Settings) -> Result<Handle, PcapError> {
        let error = |operation, text| PcapError { operation, code: -1, text };
        let functions = functions().map_err(|text| error("loading libpcap", text))?;
        let name = CString::new(interface).map_err(|_| error("pcap_create", "the name has a zero byte".into()))?;
        let mut text_buffer = [0; ERROR_BYTES];
        // SAFETY: a terminated name and a buffer of the size that the interface demands.
        let raw = unsafe { (functions.create)(name.as_ptr(), text_buffer.as_mut_ptr()) };
        // SAFETY: on failure pcap_create wrote a terminated text.
        let raw = NonNull::new(raw).ok_or_else(|| error("pcap_create", unsafe { text(text_buffer.as_ptr()) }))?;
        let handle = Handle { functions, raw };
        handle.set("pcap_set_snaplen", functions.set_snaplen, settings.snaplen)?;
        handle.set("pcap_set_promisc", functions.set_promisc, settings.promiscuous.into())?;
        handle.set("pcap_set_timeout", functions.set_timeout, settings.timeout_ms)?;
        handle.set("pcap_set_buffer_size", functions.set_buffer_size, settings.buffer_bytes)?;
        handle.set("pcap_set_tstamp_precision", functions.set_tstamp_precision, NANOSECONDS)?;
        // SAFETY: a handle that is not active yet.
        handle.check("pcap_activate", unsafe { (functions.activate)(raw.as_ptr()) })?;
        // SAFETY: an active handle and a buffer of the size that the interface demands.
        let nonblocking = unsafe { (functions.setnonblock)(raw.as_ptr(), 1, text_buffer.as_mut_ptr()) };
        handle.check("pcap_setnonblock", nonblocking)?;
        handle.set("pcap_setdirection", functions.setdirection, INCOMING)?;
        Ok(handle)
    }

    /// A handle that compiles filters for Ethernet packets of up to `snaplen` bytes, and does nothing else.
    pub(crate) fn dead(snaplen: i32) -> Result<Handle, PcapError> {
        const ETHERNET: c_int = 1;
        let error = |text: String| PcapError { operation: "pcap_open_dead", code: -1, text };
        let functions = functions().map_err(|text| PcapError { operation: "loading libpcap", code: -1, text })?;
        // SAFETY: takes numbers, returns a new handle or null.
        let raw = NonNull::new(unsafe { (functions.open_dead)(ETHERNET, snaplen) });
        Ok(Handle { functions, raw: raw.ok_or_else(|| error("no memory".into()))? })
    }

    /// Compiles an expression in tcpdump's language.
    pub(crate) fn compile(&self, expression: &str, optimize: bool) -> Result<Vec<Instruction>, PcapError> {
        self.with_program(expression, optimize, |program| {
            let mut instructions = Vec::new();
            if !program.instructions.is_null() {
                // SAFETY: on success the program has as many instructions as it says.
                let raw = unsafe { std::slice::from_raw_parts(program.instructions, program.count as usize) };
                let copied = raw.iter().map(|&RawInstruction { code, jt, jf, k }| Instruction { code, jt, jf, k });
                instructions.extend(copied);
            }
            Ok(instructions)
        })
    }

    /// Takes only packets that pass an expression; libpcap gives it to the kernel where it can, and throws away what came before.
    pub(crate) fn set_filter(&mut self, expression: &str) -> Result<(), PcapError> {
        self.with_program(expression, true, |program| {
            // SAFETY: an active handle and a program that pcap_compile filled; libpcap copies it.
            self.check("pcap_setfilter", unsafe { (self.functions.setfilter)(self.raw.as_ptr(), program) }).map(drop)
        })
    }

    /// Compiles an expression for as long as `then` runs.
    fn with_program<T>(
        &self,
        expression: &str,
        optimize: bool,
        then: impl FnOnce(&mut RawProgram) -> Result<T, PcapError>,
    ) -> Result<T, PcapError> {
        /// PCAP_NETMASK_UNKNOWN.
        const NO_MASK: u32 = u32::MAX;
        /// Before 1.8 libpcap's compiler could not be used by several threads at once.
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let no_text = |_| PcapError { operation: "pcap_compile", code: -1, text: "the text has a zero byte".into() };
        let text = CString::new(expression).map_err(no_text)?;
        let mut program = RawProgram { count: 0, instructions: std::ptr::null_mut() };
        let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: a handle, a program to fill, and a terminated text.
        let result = unsafe {
            (self.functions.compile)(self.raw.as_ptr(), &mut program, text.as_ptr(), optimize.into(), NO_MASK)
        };
        drop(guard);
        self.check("pcap_compile", result)?;
        let outcome = then(&mut program);
        // SAFETY: the program was filled by pcap_compile and is not used any more.
        unsafe { (self.functions.freecode)(&mut program) };
        outcome
    }

    fn set(&self, operation: &'static str, setter: Setter, value: c_int) -> Result<(), PcapError> {
        // SAFETY: the handle is valid as long as `self` is.
        self.check(operation, unsafe { setter(self.raw.as_ptr(), value) }).map(drop)
    }

    /// Results below 0 are errors; above, counts or warnings.
    fn check(&self, operation: &'static str, result: c_int) -> Result<usize, PcapError> {
        usize::try_from(result).map_err(|_| PcapError { operation, code: result, text: self.error_text() })
    }

    fn error_text(&self) -> String {
        // SAFETY: returns a terminated string inside the handle.
        unsafe { text((self.functions.geterr)(self.raw.as_ptr())) }
    }

    /// Link type of the interface; 1 is Ethernet.
    pub(crate) fn link_type(&self) -> i32 {
        // SAFETY: an active handle.
        unsafe { (self.functions.datalink)(self.raw.as_ptr()) }
    }

    /// The descriptor to sleep on.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: an active handle.
        let fd = unsafe { (self.functions.get_selectable_fd)(self.raw.as_ptr()) };
        // SAFETY: the descriptor stays open as long as the handle, which `self` keeps.
        (fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Shows up to `count` waiting packets to `each` and returns how many.
    pub(crate) fn dispatch(&mut self, count: usize, each: &mut dyn FnMut(Captured<'_>)) -> Result<usize, PcapError> {
        let mut each: &mut dyn FnMut(Captured<'_>) = each;
        let user: *mut &mut dyn FnMut(Captured<'_>) = &mut each;
        let count = count.min(1 << 20) as c_int;
        // SAFETY: an active handle; `show` gets `user` back, which lives until this call is over.
        let result = unsafe { (self.functions.dispatch)(self.raw.as_ptr(), count, show, user.cast()) };
        self.check("pcap_dispatch", result)
    }

    /// Sends one packet.
    pub(crate) fn inject(&mut self, bytes: &[u8]) -> io::Result<()> {
        // SAFETY: an active handle; the bytes are valid for reading their length.
        checked(unsafe { (self.functions.inject)(self.raw.as_ptr(), bytes.as_ptr().cast(), bytes.len()) }).map(drop)
    }

    /// Packets that found no room in the buffer, and those that the interface itself dropped, each since the handle was made,
    /// modulo 2^32.
    pub(crate) fn drops(&mut self) -> Result<(u32, u32), PcapError> {
        let mut counts = RawCounts::default();
        // SAFETY: an active handle and a structure at least as large as this system's.
        self.check("pcap_stats", unsafe { (self.functions.stats)(self.raw.as_ptr(), &mut counts) })?;
        Ok((counts.dropped, counts.interface_dropped))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle is not used any more.
        unsafe { (self.functions.close)(self.raw.as_ptr()) };
    }
}

/// Called by libpcap for each packet.
extern "C" fn show(user: *mut c_uchar, header: *const RawHeader, bytes: *const c_uchar) {
    if header.is_null() || bytes.is_null() {
        return;
    }
    let user: *mut &mut dyn FnMut(Captured<'_>) = user.cast();
    // SAFETY: libpcap passes on what `dispatch` gave it, a valid header, and as many bytes as the header says.
    let (each, header, bytes) = unsafe {
        let captured = (*header).captured as usize;
        (&mut *user, &*header, std::slice::from_raw_parts(bytes, captured))
    };
    let time_ns = (header.time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(header.time.tv_usec as u64);
    each(Captured { bytes, len: header.len as usize, time_ns });
}

/// # Safety
/// `from` is null or a terminated string.
unsafe fn text(from: *const c_char) -> String {
    if from.is_null() {
        return String::new();
    }
    // SAFETY: by the caller's word.
    unsafe { CStr::from_ptr(from) }.to_string_lossy().into_owned()
}
