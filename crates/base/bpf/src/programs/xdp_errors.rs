//! Counts the frames that XDP programs could not send on, by network namespace, interface and error.
//!
//! Two programs stand at the tracepoints `xdp:xdp_exception` (a program that aborted, or a frame that it sent back by XDP_TX and the
//! driver did not take) and `xdp:xdp_redirect_err` (a redirect that failed). The kernel passes them for such frames alone, so others
//! cost nothing.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::device_key::{self, DeviceLayout};
use crate::asm::Assembler;
use crate::btf::{Btf, BtfError};
use crate::error::BpfError;
use crate::insn::{Insn, Reg::*, Width};
use crate::tally::Tally;
use crate::tracepoint::Tracepoint;

/// Different combinations of namespace, interface and error that are kept apart.
const ENTRIES_MAX: u32 = 256;

// The key on the stack: namespace, interface, tracepoint, code.
const KEY: i16 = -32;
const KEY_BYTES: u32 = 16;
const KEY_TRACEPOINT: i16 = KEY + 8;
const KEY_CODE: i16 = KEY + 12;
const SCRATCH: i16 = -40;

const EXCEPTION: u32 = 0;
const REDIRECT: u32 = 1;

/// The programs, attached; gone when dropped.
#[derive(Debug)]
pub struct XdpErrors {
    _tracepoints: [Tracepoint; 2],
    tally: Tally,
}

/// What went wrong with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum XdpError {
    /// The program ended with this action (`enum xdp_action`), which failed or is no action.
    Exception(u32),
    /// It was to be redirected, and this errno hindered it.
    Redirect(i32),
}

/// One kind of error on one interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct XdpErrorKey {
    /// The inode number of the network namespace.
    pub namespace: u32,
    /// The index of the interface on which the program ran.
    pub interface: u32,
    /// What went wrong.
    pub error: XdpError,
}

impl XdpErrors {
    /// Loads and attaches the programs for the namespaces with these inode numbers.
    ///
    /// # Errors
    /// As [`super::drop_reasons::DropReasons::attach`].
    pub fn attach(namespaces: &[u32]) -> Result<XdpErrors, BpfError> {
        device_key::check(namespaces)?;
        let layout = Layout::known()?;
        let tally = Tally::new("xdp_errors", KEY_BYTES, ENTRIES_MAX)?;
        let exception = emit(layout, (EXCEPTION, layout.action), namespaces, &tally)?;
        let redirect = emit(layout, (REDIRECT, layout.errno), namespaces, &tally)?;
        let tracepoints = [
            Tracepoint::attach(c"xdp_exception", "linerate_xdp_ex", &exception)?,
            Tracepoint::attach(c"xdp_redirect_err", "linerate_xdp_re", &redirect)?,
        ];
        Ok(XdpErrors { _tracepoints: tracepoints, tally })
    }

    /// Frames since the programs were attached.
    ///
    /// # Errors
    /// [`BpfError::System`].
    pub fn read(&self) -> Result<BTreeMap<XdpErrorKey, u64>, BpfError> {
        let entries = self.tally.read()?;
        Ok(entries.into_iter().filter_map(|(key, count)| Some((XdpErrorKey::from_bytes(&key)?, count))).collect())
    }
}

impl XdpErrorKey {
    fn from_bytes(bytes: &[u8]) -> Option<XdpErrorKey> {
        let word = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
        let error = match word(8)? {
            EXCEPTION => XdpError::Exception(word(12)?),
            _ => XdpError::Redirect((word(12)? as i32).wrapping_abs()),
        };
        Some(XdpErrorKey { namespace: word(0)?, interface: word(4)?, error })
    }
}

/// Where this kernel keeps what the programs read, in bytes.
struct Layout {
    device: DeviceLayout,
    /// Of the first tracepoint.
    action: i16,
    /// Of the second one.
    errno: i16,
}

impl Layout {
    fn known() -> Result<&'static Layout, BpfError> {
        static KNOWN: OnceLock<Layout> = OnceLock::new();
        Ok(Btf::once(&KNOWN, Layout::read)?)
    }

    fn read(btf: &Btf) -> Result<Layout, BtfError> {
        Ok(Layout {
            device: DeviceLayout::read(btf)?,
            action: device_key::argument(btf, "xdp_exception", "u32")?,
            errno: device_key::argument(btf, "xdp_redirect_err", "int")?,
        })
    }
}

/// Both tracepoints have the device as their first argument, and a code.
fn emit(
    layout: &Layout,
    (tracepoint, code): (u32, i16),
    namespaces: &[u32],
    tally: &Tally,
) -> Result<Vec<Insn>, BpfError> {
    let mut asm = Assembler::new();
    let out = asm.label();
    asm.load(Width::Dw, R9, R1, 0);
    asm.load(Width::Dw, R7, R1, code);
    layout.device.emit(&mut asm, namespaces, KEY, out);
    asm.store_imm(Width::W, R10, KEY_TRACEPOINT, tracepoint as i32);
    asm.store(Width::W, R10, KEY_CODE, R7);
    tally.emit_count(&mut asm, KEY, SCRATCH);
    asm.bind(out);
    asm.mov64(R0, 0);
    asm.exit();
    Ok(asm.assemble()?)
}
