//! The shim over libdpdk (shim/shim.h), and safe handles on what it makes.
#![allow(unsafe_code)]

mod abi;
mod memory;
mod queue;

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int};

use abi::Request;
pub(crate) use abi::{DeviceInfo, TX_TCP, TX_TSO, TX_UDP};
pub(crate) use memory::FrameStore;
pub(crate) use queue::{Moved, Queue};

/// The version of libdpdk.
pub(crate) fn version() -> String {
    // SAFETY: returns a static text.
    unsafe { CStr::from_ptr(abi::rte_version()) }.to_string_lossy().into_owned()
}

/// Starts the EAL, on a thread that it may pin, once a process.
///
/// # Errors
/// The last lines that libdpdk logged.
pub(crate) fn start_eal(arguments: &[String]) -> Result<(), String> {
    let texts: Vec<CString> = arguments.iter().filter_map(|text| CString::new(text.as_str()).ok()).collect();
    let mut pointers: Vec<*mut c_char> = texts.iter().map(|text| text.as_ptr().cast_mut()).collect();
    let count = pointers.len() as c_int;
    pointers.push(std::ptr::null_mut());
    // SAFETY: the array has `count` texts and ends in a null pointer; the EAL copies what it keeps, and may reorder the array.
    let result = unsafe { abi::ln_eal_start(count, pointers.as_mut_ptr()) };
    if result == 0 { Ok(()) } else { Err(logged()) }
}

/// Which step of opening a device failed, and why.
pub(crate) struct Failure {
    pub step: String,
    pub why: String,
}

/// How to open a device.
pub(crate) struct DeviceRequest<'a> {
    pub name: &'a str,
    pub devargs: &'a str,
    pub queues: u16,
    pub descriptors: u16,
    pub mtu: u16,
    pub promiscuous: Option<bool>,
    pub symmetric: bool,
    pub link_wait_ms: u32,
    pub copy_frames: u32,
    pub copy_room: u32,
}

/// Opens a device with the frames of `store`.
pub(crate) fn open_device(request: &DeviceRequest<'_>, store: &FrameStore) -> Result<DeviceInfo, Failure> {
    let text = |text: &str| {
        CString::new(text).map_err(|_| Failure { step: "its name has a zero byte".into(), why: String::new() })
    };
    let (name, devargs) = (text(request.name)?, text(request.devargs)?);
    let raw = Request {
        name: name.as_ptr(),
        devargs: devargs.as_ptr(),
        queues: request.queues,
        descriptors: request.descriptors,
        mtu: request.mtu,
        promiscuous: request.promiscuous.map_or(2, u8::from),
        symmetric: u8::from(request.symmetric),
        link_wait_ms: request.link_wait_ms,
        copy_frames: request.copy_frames,
        copy_room: request.copy_room,
        memory: store.raw(),
    };
    let mut info = DeviceInfo::default();
    logged();
    // SAFETY: both structures are valid for the call, the texts live as long, and the memory as long as the store, which the
    // caller keeps until the device is closed.
    let result = unsafe { abi::ln_device_open(&raw, &mut info) };
    if result == 0 {
        return Ok(info);
    }
    // SAFETY: `step` is null or a static text.
    let step = (!info.step.is_null()).then(|| unsafe { CStr::from_ptr(info.step) }.to_string_lossy().into_owned());
    let error = std::io::Error::from_raw_os_error(-result);
    let why = if result < 0 { format!("{error}; {}", logged()) } else { logged() };
    Err(Failure { step: step.unwrap_or_default(), why: why.trim_end_matches("; ").into() })
}

/// Stops and closes a device, whose queues nobody uses any more.
pub(crate) fn close_device(info: &mut DeviceInfo, store: &FrameStore) {
    // SAFETY: the device was opened with this store.
    unsafe { abi::ln_device_close(info, store.raw()) };
}

/// Whether the link is up; `None` if the device does not say.
pub(crate) fn link_is_up(port: u16) -> Option<bool> {
    // SAFETY: any number may be asked about.
    match unsafe { abi::ln_device_link(port) } {
        0.. if port == u16::MAX => None,
        state @ 0.. => Some(state != 0),
        _ => None,
    }
}

/// Whether the device was unplugged.
pub(crate) fn is_removed(port: u16) -> bool {
    // SAFETY: as above.
    unsafe { abi::ln_device_removed(port) != 0 }
}

/// The device's extended statistics: name and value.
pub(crate) fn statistics(port: u16) -> Vec<(String, u64)> {
    const MOST: usize = 512;
    let (mut values, mut names) = (vec![0; MOST], vec![[0; 64]; MOST]);
    // SAFETY: both arrays have room for so many.
    let count = unsafe { abi::ln_device_statistics(port, values.as_mut_ptr(), names.as_mut_ptr(), MOST as u32) };
    let count = usize::try_from(count).unwrap_or(0).min(MOST);
    let text = |name: &[u8; 64]| {
        let name: Vec<u8> = name.iter().copied().take_while(|byte| *byte != 0).collect();
        String::from_utf8_lossy(&name).into_owned()
    };
    names.iter().map(text).zip(values).take(count).collect()
}

/// Takes what libdpdk logged since the last call, its last lines in one.
fn logged() -> String {
    let mut text = [0; 1024];
    // SAFETY: writes at most so many bytes, the last of which is 0.
    unsafe { abi::ln_log_take(text.as_mut_ptr(), text.len()) };
    let text: Vec<u8> = text.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8).collect();
    let text = String::from_utf8_lossy(&text).into_owned();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(3)..].join("; ")
}

thread_local! {
    /// Whether the thread has asked for a number; the number goes back when the thread ends.
    static REGISTERED: Cell<bool> = const { Cell::new(false) };
    static NUMBER: Number = const { Number };
}

/// A number that the EAL gave to the thread.
struct Number;

impl Drop for Number {
    fn drop(&mut self) {
        memory::flush_all();
        // SAFETY: the thread is registered, and uses no mempool after this.
        unsafe { abi::ln_thread_unregister() };
    }
}

/// Gives the calling thread a number, without which mempools have no cache for it. A thread that gets none works, but slower.
#[inline]
pub(crate) fn register_thread() {
    if !REGISTERED.get() {
        register();
    }
}

#[cold]
fn register() {
    REGISTERED.set(true);
    // SAFETY: the EAL runs, because a port is open.
    if unsafe { abi::ln_thread_register() } == 0 {
        // The first access makes the destructor run at the thread's end.
        NUMBER.with(|_| {});
    }
}
