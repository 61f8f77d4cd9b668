//! What the running kernel's types look like: offsets of structure members, names of enumeration values.
//!
//! Programs that read kernel structures take their offsets from here instead of being compiled for one kernel. The bytes come
//! from `/sys/kernel/btf/vmlinux`, and nothing in them is trusted: every offset is checked, and walks end.
//!
//! Source: Linux `Documentation/bpf/btf.rst`, `include/uapi/linux/btf.h`.

use std::fs;
use std::io;
use std::sync::OnceLock;

/// Where the kernel shows its own types.
const KERNEL: &str = "/sys/kernel/btf/vmlinux";

const MAGIC: u16 = 0xeb9f;
const HEADER_BYTES_MIN: usize = 24;
const TYPE_BYTES: usize = 12;
const MEMBER_BYTES: usize = 12;
/// Longest chain of typedefs and qualifiers, and deepest nesting of members without a name, that are followed.
const DEPTH_MAX: u32 = 32;
/// Most members that one search looks at: the kernel's largest structures have some hundreds.
const MEMBERS_MAX: u32 = 10_000;

/// Why types could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BtfError {
    /// The kernel does not show its types (CONFIG_DEBUG_INFO_BTF), or /sys is not mounted.
    #[error("{KERNEL}: {0}")]
    Unreadable(io::Error),
    /// The bytes are not BTF, or contradict themselves.
    #[error("BTF is damaged: {0}")]
    Damaged(&'static str),
    /// Another kernel than this was written for.
    #[error("this kernel has no {0}")]
    Missing(String),
}

/// A set of types.
#[derive(Debug)]
pub struct Btf {
    bytes: Vec<u8>,
    /// Where the type with number `index + 1` starts; type 0 is `void`.
    types: Vec<usize>,
    strings: std::ops::Range<usize>,
}

/// `BTF_KIND_*`.
mod kind {
    pub const INT: u32 = 1;
    pub const PTR: u32 = 2;
    pub const ARRAY: u32 = 3;
    pub const STRUCT: u32 = 4;
    pub const UNION: u32 = 5;
    pub const ENUM: u32 = 6;
    pub const FWD: u32 = 7;
    pub const TYPEDEF: u32 = 8;
    pub const VOLATILE: u32 = 9;
    pub const CONST: u32 = 10;
    pub const RESTRICT: u32 = 11;
    pub const FUNC: u32 = 12;
    pub const FUNC_PROTO: u32 = 13;
    pub const VAR: u32 = 14;
    pub const DATASEC: u32 = 15;
    pub const FLOAT: u32 = 16;
    pub const DECL_TAG: u32 = 17;
    pub const TYPE_TAG: u32 = 18;
    pub const ENUM64: u32 = 19;
}

/// `struct btf_type`, with the place of what follows it.
#[derive(Clone, Copy)]
struct Type {
    name: u32,
    kind: u32,
    /// Members have a bit field size in the upper byte of their offset.
    bit_fields: bool,
    entries: usize,
    /// The type meant, or a size.
    referred: u32,
    rest: usize,
}

impl Btf {
    /// The running kernel's types.
    ///
    /// # Errors
    /// [`BtfError::Unreadable`], [`BtfError::Damaged`].
    pub fn of_kernel() -> Result<Btf, BtfError> {
        Btf::parse(fs::read(KERNEL).map_err(BtfError::Unreadable)?)
    }

    /// What `read` finds in the running kernel's types, which one process reads once.
    pub(crate) fn once<Found, Failed: From<BtfError>>(
        known: &'static OnceLock<Found>,
        read: impl FnOnce(&Btf) -> Result<Found, Failed>,
    ) -> Result<&'static Found, Failed> {
        if let Some(found) = known.get() {
            return Ok(found);
        }
        let found = read(&Btf::of_kernel()?)?;
        Ok(known.get_or_init(|| found))
    }

    /// Types from bytes in this machine's byte order.
    ///
    /// # Errors
    /// [`BtfError::Damaged`].
    pub fn parse(bytes: Vec<u8>) -> Result<Btf, BtfError> {
        let damaged = BtfError::Damaged;
        if u16_at(&bytes, 0) != Some(MAGIC) {
            return Err(damaged("no magic number of this byte order"));
        }
        let field = |at| u32_at(&bytes, at).map(|value| value as usize).ok_or(damaged("the header is cut"));
        let header_bytes = field(4)?;
        if header_bytes < HEADER_BYTES_MIN {
            return Err(damaged("the header is too short"));
        }
        let section = |offset: usize, length: usize| {
            let start = header_bytes.checked_add(offset)?;
            let end = start.checked_add(length)?;
            (end <= bytes.len()).then_some(start..end)
        };
        let type_section = section(field(8)?, field(12)?).ok_or(damaged("types beyond the end"))?;
        let strings = section(field(16)?, field(20)?).ok_or(damaged("strings beyond the end"))?;
        let mut btf = Btf { bytes, types: Vec::new(), strings };
        let mut at = type_section.start;
        while at < type_section.end {
            let next = btf.read_type(at).and_then(|found| found.rest.checked_add(found.rest_bytes()?));
            let next = next.filter(|next| *next <= type_section.end).ok_or(damaged("a type is cut or unknown"))?;
            btf.types.push(at);
            at = next;
        }
        Ok(btf)
    }

    /// How many types there are, `void` not counted.
    pub fn len(&self) -> usize {
        self.types.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    /// Bytes from the start of `structure` to the member that `path` leads to. Members of structures inside are reached by
    /// naming each; those inside members without a name are found as C finds them. Pointers are not followed.
    ///
    /// # Errors
    /// [`BtfError::Missing`]; also for a bit field.
    pub fn offset_bytes(&self, structure: &str, path: &[&str]) -> Result<u32, BtfError> {
        let missing = || BtfError::Missing(format!("{structure}.{}", path.join(".")));
        let is_structure = |found: &Type| matches!(found.kind, kind::STRUCT | kind::UNION) && found.entries > 0;
        let mut inside = self.find(structure, is_structure).ok_or_else(missing)?;
        let mut bits = 0_u32;
        let mut budget = MEMBERS_MAX;
        for name in path {
            let (offset_bits, member) = self.member(inside, name, DEPTH_MAX, &mut budget).ok_or_else(missing)?;
            bits = bits.checked_add(offset_bits).ok_or_else(missing)?;
            inside = self.resolved(member).unwrap_or(inside);
        }
        if bits.is_multiple_of(8) { Ok(bits / 8) } else { Err(missing()) }
    }

    /// Names and values of an enumeration, in its order.
    ///
    /// # Errors
    /// [`BtfError::Missing`].
    pub fn enumeration(&self, name: &str) -> Result<Vec<(String, i64)>, BtfError> {
        let is_enumeration = |found: &Type| matches!(found.kind, kind::ENUM | kind::ENUM64) && found.entries > 0;
        let found = self.find(name, is_enumeration).ok_or_else(|| BtfError::Missing(format!("enum {name}")))?;
        let wide = found.kind == kind::ENUM64;
        let bytes = if wide { 12 } else { 8 };
        let value = |number: usize| {
            let at = found.rest + number * bytes;
            let name = self.string(u32_at(&self.bytes, at)?)?.to_owned();
            let low = u32_at(&self.bytes, at + 4)?;
            let value = match wide {
                true => (u64::from(u32_at(&self.bytes, at + 8)?) << 32 | u64::from(low)) as i64,
                false => i64::from(low as i32),
            };
            Some((name, value))
        };
        Ok((0..found.entries).filter_map(value).collect())
    }

    /// Types of the parameters of a typedef of a function or of a pointer to one: `sk_buff *`, `skb_drop_reason`. (The kernel
    /// keeps no names of such parameters.)
    ///
    /// # Errors
    /// [`BtfError::Missing`].
    pub fn parameters(&self, name: &str) -> Result<Vec<String>, BtfError> {
        let missing = || BtfError::Missing(format!("function type {name}"));
        let mut found = self.find(name, |found| found.kind == kind::TYPEDEF).ok_or_else(missing)?;
        for _ in 0..DEPTH_MAX {
            if found.kind == kind::FUNC_PROTO {
                let meant = |number: usize| u32_at(&self.bytes, found.rest + number * 8 + 4).unwrap_or(0);
                return Ok((0..found.entries).map(|number| self.describe(meant(number))).collect());
            }
            found = self.numbered(found.referred).filter(|_| found.refers()).ok_or_else(missing)?;
        }
        Err(missing())
    }

    /// A type in C's words, without `struct`, `enum` and qualifiers.
    fn describe(&self, mut number: u32) -> String {
        let mut stars = 0;
        for _ in 0..DEPTH_MAX {
            let Some(found) = self.numbered(number) else { break };
            let name = self.string(found.name).unwrap_or_default();
            match found.kind {
                kind::PTR => stars += 1,
                _ if found.refers() && name.is_empty() => {}
                _ => return format!("{name}{}{}", if stars > 0 { " " } else { "" }, "*".repeat(stars)),
            }
            number = found.referred;
        }
        format!("void{}{}", if stars > 0 { " " } else { "" }, "*".repeat(stars))
    }

    /// Offset in bits and type number of the member `name`.
    fn member(&self, inside: Type, name: &str, depth: u32, budget: &mut u32) -> Option<(u32, u32)> {
        if !matches!(inside.kind, kind::STRUCT | kind::UNION) {
            return None;
        }
        for number in 0..inside.entries {
            *budget = budget.checked_sub(1)?;
            let at = inside.rest + number * MEMBER_BYTES;
            let (member_name, member_type) = (u32_at(&self.bytes, at)?, u32_at(&self.bytes, at + 4)?);
            let offset = u32_at(&self.bytes, at + 8)?;
            let (offset_bits, bit_field) =
                if inside.bit_fields { (offset & 0xff_ffff, offset >> 24 != 0) } else { (offset, false) };
            if member_name != 0 {
                if self.string(member_name) == Some(name) {
                    return (!bit_field).then_some((offset_bits, member_type));
                }
                continue;
            }
            let Some(inner) = self.resolved(member_type).filter(|_| depth > 0) else { continue };
            if let Some((inner_bits, found)) = self.member(inner, name, depth - 1, budget) {
                return Some((offset_bits.checked_add(inner_bits)?, found));
            }
        }
        None
    }

    /// The first type of this name that `wanted` takes.
    fn find(&self, name: &str, wanted: impl Fn(&Type) -> bool) -> Option<Type> {
        let types = self.types.iter().filter_map(|at| self.read_type(*at));
        types.filter(wanted).find(|found| self.string(found.name) == Some(name))
    }

    fn numbered(&self, number: u32) -> Option<Type> {
        let index = (number as usize).checked_sub(1)?;
        self.read_type(*self.types.get(index)?)
    }

    /// The type behind typedefs and qualifiers.
    fn resolved(&self, number: u32) -> Option<Type> {
        let mut found = self.numbered(number)?;
        for _ in 0..DEPTH_MAX {
            if !found.refers() || found.kind == kind::PTR {
                return Some(found);
            }
            found = self.numbered(found.referred)?;
        }
        None
    }

    fn string(&self, offset: u32) -> Option<&str> {
        let section = self.bytes.get(self.strings.clone())?;
        let rest = section.get(offset as usize..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        std::str::from_utf8(rest.get(..end)?).ok()
    }

    fn read_type(&self, at: usize) -> Option<Type> {
        let info = u32_at(&self.bytes, at + 4)?;
        Some(Type {
            name: u32_at(&self.bytes, at)?,
            kind: info >> 24 & 0x1f,
            bit_fields: info >> 31 == 1,
            entries: (info & 0xffff) as usize,
            referred: u32_at(&self.bytes, at + 8)?,
            rest: at + TYPE_BYTES,
        })
    }
}

impl Type {
    /// Bytes that follow the type's head; none of a kind that is not known.
    fn rest_bytes(&self) -> Option<usize> {
        match self.kind {
            kind::INT | kind::VAR | kind::DECL_TAG => Some(4),
            kind::ARRAY => Some(12),
            kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => Some(12 * self.entries),
            kind::ENUM | kind::FUNC_PROTO => Some(8 * self.entries),
            kind::PTR
            | kind::FWD
            | kind::TYPEDEF
            | kind::VOLATILE
            | kind::CONST
            | kind::RESTRICT
            | kind::FUNC
            | kind::FLOAT
            | kind::TYPE_TAG => Some(0),
            _ => None,
        }
    }

    /// Whether it stands for another type.
    fn refers(&self) -> bool {
        matches!(self.kind, kind::PTR | kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT | kind::TYPE_TAG)
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let field = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_ne_bytes(field.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let field = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(field.try_into().ok()?))
}
