//! What is FreeBSD's own: numbers of requests, the scheduler, and what its users are told.

use crate::abi;

/// What `_IO` adds to the number of a request (sys/ioccom.h).
pub(super) const IOC_VOID: libc::c_ulong = 0x2000_0000;
// NIOCTXSYNC and NIOCRXSYNC, as a C compiler has them.
const _: () = assert!(IOC_VOID | abi::TX_SYNC == 0x2000_6994 && IOC_VOID | abi::RX_SYNC == 0x2000_6995);

/// How netmap gets into the kernel.
pub(crate) const INSTALL: &str =
    "GENERIC has it; another kernel needs `device netmap` in its configuration, or `kldload netmap`";
/// Where the number of buffers and their size are set.
pub(crate) const BUFFERS_SETTING: &str = "dev.netmap.buf_num (sysctl)";
pub(crate) const BUFFER_SIZE_SETTING: &str = "dev.netmap.buf_size (sysctl)";

/// Does nothing: this system has no class of threads that let others finish.
pub(crate) fn let_wakers_finish() {}
