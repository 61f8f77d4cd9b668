//! Attaching an XDP program to an interface through a bpf_link.
//!
//! The link is a descriptor: it detaches when it is dropped, and the kernel drops it when the
//! process ends in any way, so nothing is left behind.

use std::os::fd::OwnedFd;

use crate::error::BpfError;
use crate::program::Program;
use crate::sys;
use std::os::fd::AsFd;

/// Where the program runs (`XDP_FLAGS_*` of `include/uapi/linux/if_link.h`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttachMode {
    /// In the driver if it can, else in the stack.
    #[default]
    Any,
    /// In the stack, on socket buffers; any driver.
    Generic,
    /// In the driver.
    Native,
}

impl AttachMode {
    fn flags(self) -> u32 {
        match self {
            AttachMode::Any => 0,
            AttachMode::Generic => 1 << 1,
            AttachMode::Native => 1 << 2,
        }
    }
}

/// A program attached to an interface; detached on drop.
#[derive(Debug)]
pub struct XdpLink {
    fd: OwnedFd,
    ifindex: u32,
}

impl XdpLink {
    /// Attaches `program` to interface `ifindex` of this thread's network namespace.
    ///
    /// # Errors
    /// [`BpfError::Busy`], [`BpfError::MtuTooLarge`], [`BpfError::Unsupported`],
    /// [`BpfError::NoInterface`], [`BpfError::Permission`]; [`BpfError::System`] for anything else.
    pub fn attach(program: &Program, ifindex: u32, mode: AttachMode) -> Result<XdpLink, BpfError> {
        let result = sys::link_create(program.as_fd(), ifindex, mode.flags());
        let fd = result.map_err(|source| match source.raw_os_error() {
            Some(libc::EBUSY | libc::EEXIST) => BpfError::Busy { ifindex },
            Some(libc::ERANGE | libc::EMSGSIZE) => BpfError::MtuTooLarge { ifindex },
            Some(libc::EOPNOTSUPP) => BpfError::Unsupported { ifindex },
            // bpf_xdp_link_attach() says EINVAL for an unknown index.
            Some(libc::ENODEV | libc::EINVAL) if !sys::interface_exists(ifindex) => BpfError::NoInterface { ifindex },
            _ => BpfError::system("attach an XDP program", source),
        })?;
        Ok(XdpLink { fd, ifindex })
    }

    /// Puts `program` in the place of the attached one, without a moment without any: the interface's receive rings and NAPI
    /// threads stay as they are.
    ///
    /// # Errors
    /// [`BpfError::System`], for instance when the interface is gone.
    pub fn replace(&self, program: &Program) -> Result<(), BpfError> {
        let result = sys::link_update(&self.fd, program.as_fd());
        result.map_err(|source| BpfError::system("replace an XDP program", source))
    }

    /// The interface's index at the time of attachment.
    pub fn ifindex(&self) -> u32 {
        self.ifindex
    }
}
