//! Counts the packets that the kernel drops, by network namespace, interface, reason and place in the kernel.
//!
//! The program stands at the tracepoint `skb:kfree_skb`, which the kernel passes for each socket buffer that it drops and not
//! for those that it delivers. Only drops of the namespaces given count: a packet's namespace is that of its interface
//! (`skb->dev->nd_net.net->ns.inum`). The offsets come from the running kernel's [`Btf`].
//!
//! What it cannot see: frames that are no socket buffers yet (XDP), and packets without an interface.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::OnceLock;

use super::device_key::{self, DeviceLayout};
use crate::asm::Assembler;
use crate::btf::Btf;
use crate::error::BpfError;
use crate::insn::{Cond, Insn, Reg::*, Width};
use crate::tally::Tally;
use crate::tracepoint::Tracepoint;

pub use super::device_key::NAMESPACES_MAX;

/// Different combinations of namespace, interface, reason and place that are kept apart.
pub const ENTRIES_MAX: u32 = 1024;

/// What a packet that was not dropped carries: freed in peace (`SKB_CONSUMED`), or no reason set yet.
const NO_DROPS: [&str; 2] = ["SKB_NOT_DROPPED_YET", "SKB_CONSUMED"];

// The key on the stack: namespace, interface, reason, zero, place.
const KEY: i16 = -32;
const KEY_BYTES: u32 = 24;
const KEY_REASON: i16 = KEY + 8;
const KEY_ZERO: i16 = KEY + 12;
const KEY_PLACE: i16 = KEY + 16;
const SCRATCH: i16 = -40;

/// The program, attached; gone when dropped.
#[derive(Debug)]
pub struct DropReasons {
    tracepoint: Tracepoint,
    tally: Tally,
    reasons: BTreeMap<u32, String>,
}

/// Drops that are left out before anything else is looked at, which makes them almost free.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ignored<'a> {
    /// Reasons by their names without prefix: `OTHERHOST`.
    pub reasons: &'a [&'a str],
    /// Addresses of kernel code, for instance of a function that drops what it has counted.
    pub places: &'a [Range<u64>],
}

/// One kind of drop, as the program tells it apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DropKey {
    /// The inode number of the network namespace.
    pub namespace: u32,
    /// The interface's index in it.
    pub interface: u32,
    /// `enum skb_drop_reason`; the upper half names another subsystem's reasons.
    pub reason: u32,
    /// Address of the kernel code that dropped it; `/proc/kallsyms` has the names.
    pub place: u64,
}

impl DropReasons {
    /// Loads and attaches the program for the namespaces with these inode numbers, without drops that are [`Ignored`].
    ///
    /// # Errors
    /// [`BpfError::Permission`] without CAP_BPF and CAP_PERFMON; [`BpfError::Types`] on a kernel that does not show its types
    /// or gives no reasons (before 5.17); [`BpfError::Argument`] for too many namespaces.
    pub fn attach(namespaces: &[u32], ignored: &Ignored<'_>) -> Result<DropReasons, BpfError> {
        device_key::check(namespaces)?;
        let kernel = Kernel::known()?;
        let mut reasons = BTreeMap::new();
        let mut ignored_numbers = Vec::new();
        for (name, value) in &kernel.reasons {
            let Ok(number) = u32::try_from(*value) else { continue };
            let short = name.strip_prefix("SKB_DROP_REASON_").unwrap_or(name);
            if NO_DROPS.contains(&name.as_str()) || ignored.reasons.contains(&short) {
                ignored_numbers.push(number);
            }
            // Some names stand for ranges (SUBSYS_MASK, MAX); the first name of a value is the reason.
            reasons.entry(number).or_insert_with(|| short.to_owned());
        }
        let tally = Tally::new("drop_reasons", KEY_BYTES, ENTRIES_MAX)?;
        let insns = emit(&kernel.layout, namespaces, &ignored_numbers, ignored.places, &tally)?;
        let tracepoint = Tracepoint::attach(c"kfree_skb", "linerate_drops", &insns)?;
        Ok(DropReasons { tracepoint, tally, reasons })
    }

    /// What was dropped since the program was attached.
    ///
    /// # Errors
    /// [`BpfError::System`].
    pub fn read(&self) -> Result<BTreeMap<DropKey, u64>, BpfError> {
        let entries = self.tally.read()?;
        Ok(entries.into_iter().filter_map(|(key, count)| Some((DropKey::from_bytes(&key)?, count))).collect())
    }

    /// Drops that were not counted: the table was full, or the program was interrupted by a drop.
    ///
    /// # Errors
    /// [`BpfError::System`].
    pub fn uncounted(&self) -> Result<u64, BpfError> {
        Ok(self.tally.overflow()? + self.tracepoint.misses().unwrap_or(0))
    }

    /// The kernel's name of a reason without its prefix, `NO_SOCKET` for one; a number where there is no name.
    pub fn reason(&self, number: u32) -> String {
        match (self.reasons.get(&number), number >> 16) {
            (Some(name), _) => name.clone(),
            (None, 0) => format!("reason {number}"),
            (None, subsystem) => format!("reason {} of subsystem {subsystem}", number & 0xffff),
        }
    }
}

impl DropKey {
    fn from_bytes(bytes: &[u8]) -> Option<DropKey> {
        let word = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
        let place = bytes.get(16..24)?.try_into().ok().map(u64::from_ne_bytes)?;
        Some(DropKey { namespace: word(0)?, interface: word(4)?, reason: word(8)?, place })
    }
}

/// What the program needs to know of the running kernel, which stays the same.
struct Kernel {
    layout: Layout,
    reasons: Vec<(String, i64)>,
}

impl Kernel {
    fn known() -> Result<&'static Kernel, BpfError> {
        static KNOWN: OnceLock<Kernel> = OnceLock::new();
        Btf::once(&KNOWN, |btf| Ok(Kernel { layout: Layout::read(btf)?, reasons: btf.enumeration("skb_drop_reason")? }))
    }
}

/// Where this kernel keeps what the program reads, in bytes.
struct Layout {
    skb_argument: i16,
    place_argument: i16,
    reason_argument: i16,
    skb_dev: u32,
    device: DeviceLayout,
}

impl Layout {
    fn read(btf: &Btf) -> Result<Layout, BpfError> {
        let argument = |wanted: &str| device_key::argument(btf, "kfree_skb", wanted);
        Ok(Layout {
            skb_argument: argument("sk_buff *")?,
            place_argument: argument("void *")?,
            reason_argument: argument("skb_drop_reason")?,
            skb_dev: btf.offset_bytes("sk_buff", &["dev"])?,
            device: DeviceLayout::read(btf)?,
        })
    }
}

fn emit(
    layout: &Layout,
    namespaces: &[u32],
    ignored: &[u32],
    ignored_places: &[Range<u64>],
    tally: &Tally,
) -> Result<Vec<Insn>, BpfError> {
    let mut asm = Assembler::new();
    let out = asm.label();
    asm.load(Width::Dw, R7, R1, layout.reason_argument);
    for number in ignored {
        asm.jump_if32(Cond::Eq, R7, *number as i32, out);
    }
    asm.load(Width::Dw, R8, R1, layout.place_argument);
    for places in ignored_places {
        let elsewhere = asm.label();
        asm.load_imm64(R2, places.start);
        asm.jump_if(Cond::Lt, R8, R2, elsewhere);
        asm.load_imm64(R2, places.end);
        asm.jump_if(Cond::Lt, R8, R2, out);
        asm.bind(elsewhere);
    }
    asm.load(Width::Dw, R6, R1, layout.skb_argument);
    device_key::emit_pointer(&mut asm, R9, R6, layout.skb_dev, out);
    layout.device.emit(&mut asm, namespaces, KEY, out);
    asm.store(Width::W, R10, KEY_REASON, R7);
    asm.store_imm(Width::W, R10, KEY_ZERO, 0);
    asm.store(Width::Dw, R10, KEY_PLACE, R8);
    tally.emit_count(&mut asm, KEY, SCRATCH);
    asm.bind(out);
    asm.mov64(R0, 0);
    asm.exit();
    Ok(asm.assemble()?)
}
