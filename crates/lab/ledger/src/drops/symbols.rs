//! Names of the kernel's functions by address, from `/proc/kallsyms` (proc(5)). Writing its hundred thousand lines takes the kernel as long as
//! reading them takes us, so what was found is kept as long as the process lives, but for modules, which can come back elsewhere.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

const FILE: &str = "/proc/kallsyms";

/// A function of the kernel, or of one of its modules.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Function {
    name: String,
    is_of_module: bool,
}

/// Functions outside of modules by addresses that were asked for.
static OF_KERNEL: Mutex<BTreeMap<u64, Function>> = Mutex::new(BTreeMap::new());
/// Functions outside of modules, and where they are.
static EXTENTS: Mutex<BTreeMap<&str, Range<u64>>> = Mutex::new(BTreeMap::new());

/// Addresses that were asked for, with the functions that they are in.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    known: BTreeMap<u64, Option<Function>>,
}

impl Symbols {
    /// Reads the names of those addresses that are new. Where the file cannot be read they have none.
    pub(super) fn learn(&mut self, addresses: impl Iterator<Item = u64>) {
        let mut new: Vec<u64> = addresses.filter(|address| !self.known.contains_key(address)).collect();
        if new.is_empty() {
            return;
        }
        let mut of_kernel = OF_KERNEL.lock().unwrap_or_else(PoisonError::into_inner);
        self.known.extend(new.iter().map(|address| (*address, of_kernel.get(address).cloned())));
        new.retain(|address| !of_kernel.contains_key(address));
        if let (false, Ok(file)) = (new.is_empty(), File::open(FILE)) {
            let found = functions_at(BufReader::with_capacity(1 << 16, file), new);
            let lasting = |(address, function): &(u64, Option<Function>)| {
                let function = function.as_ref().filter(|function| !function.is_of_module)?;
                Some((*address, function.clone()))
            };
            of_kernel.extend(found.iter().filter_map(lasting));
            self.known.extend(found);
        }
    }

    /// The function that `address` is in.
    pub(super) fn name(&self, address: u64) -> Option<&str> {
        Some(&self.known.get(&address)?.as_ref()?.name)
    }
}

/// The addresses that return into a function; none where the kernel hides them.
pub(super) fn extent(function: &'static str) -> Option<Range<u64>> {
    let mut extents = EXTENTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = extents.get(function) {
        return Some(known.clone());
    }
    let (extent, is_of_module) = extent_in(&fs::read_to_string(FILE).ok()?, function)?;
    if !is_of_module {
        extents.insert(function, extent.clone());
    }
    Some(extent)
}

/// Where it is, and whether it is of a module.
fn extent_in(text: &str, function: &str) -> Option<(Range<u64>, bool)> {
    let starts = || text.lines().filter_map(code);
    let is_meant = |(_, name): &(u64, &str)| name.starts_with(function) && without_module(name) == function;
    let (start, name) = starts().find(is_meant)?;
    let end = starts().map(|(address, _)| address).filter(|address| *address > start).min()?;
    // The address after a call, even one that the function ends with.
    Some((start + 1..end + 1, is_of_module(name)))
}

/// Address and name of a line about code: `ffffffff81000000 T name`, and behind it a tab and `[module]` where it is of one. An address of 0 is one
/// that the kernel hides. There are a hundred thousand lines, so no more of one is looked at than it takes.
fn code(line: &str) -> Option<(u64, &str)> {
    let (address, rest) = line.split_at(line.find(' ')?);
    let [b' ', b't' | b'T' | b'w' | b'W', b' ', ..] = rest.as_bytes() else { return None };
    let address = u64::from_str_radix(address, 16).ok().filter(|address| *address > 0)?;
    Some((address, rest.get(3..)?))
}

/// The name of a function, without the module or the end of the line behind it.
fn without_module(name: &str) -> &str {
    name.split_ascii_whitespace().next().unwrap_or_default()
}

/// Whether a module stands behind the name.
fn is_of_module(name: &str) -> bool {
    name.contains('[')
}

/// For each address the last function that starts at or before it. Parts that the compiler split off (`.cold`, `.isra.0`)
/// count as their function.
fn functions_at(mut text: impl BufRead, mut addresses: Vec<u64>) -> Vec<(u64, Option<Function>)> {
    addresses.sort_unstable();
    let mut best: Vec<(u64, String)> = vec![(0, String::new()); addresses.len()];
    let mut line = String::new();
    while text.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
        if let Some((address, name)) = code(&line) {
            let first = addresses.partition_point(|wanted| *wanted < address);
            for (start, found) in best.iter_mut().skip(first).filter(|(start, _)| *start < address) {
                *start = address;
                name.clone_into(found);
            }
        }
        line.clear();
    }
    let named = |(address, (start, line)): (u64, (u64, String))| {
        let name = without_module(&line).split('.').next().unwrap_or_default();
        (address, (start > 0).then(|| Function { name: name.to_owned(), is_of_module: is_of_module(&line) }))
    };
    addresses.into_iter().zip(best).map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_belongs_to_the_function_before_it() {
        let text = "0000000000001000 T first\n0000000000002000 t second.cold\n0000000000002800 d data\n\
                    0000000000001800 t middle\t[module]\nnot a line\n";
        let found = functions_at(text.as_bytes(), vec![0x2900, 0x1fff, 0x1000, 0x10]);
        let function = |name: &str, is_of_module| Some(Function { name: name.to_owned(), is_of_module });
        let functions: Vec<Option<Function>> = found.into_iter().map(|(_, function)| function).collect();
        assert_eq!(functions, [None, function("first", false), function("middle", true), function("second", false)]);
    }

    #[test]
    fn a_function_reaches_to_the_next_one() {
        let text = "0000000000001000 T first_of_all\n0000000000001100 T first\t[module]\n0000000000002000 t second\n0000000000001800 t middle\n";
        assert_eq!(extent_in(text, "first"), Some((0x1101..0x1801, true)));
        assert_eq!(extent_in(text, "middle"), Some((0x1801..0x2001, false)));
        assert_eq!(extent_in(text, "second"), None, "where it ends is not known");
        assert_eq!(extent_in("0000000000000000 T first\n0000000000000000 T second\n", "first"), None);
    }

    #[test]
    fn hidden_addresses_have_no_names() {
        let text = "0000000000000000 T first\n0000000000000000 T second\n";
        assert_eq!(functions_at(text.as_bytes(), vec![0x2000]), [(0x2000, None)]);
    }
}
