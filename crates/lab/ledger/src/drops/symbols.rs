//! Names of the kernel's functions by address, from `/proc/kallsyms` (proc(5)).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::ops::Range;

const FILE: &str = "/proc/kallsyms";

/// Addresses that were asked for, with the functions that they are in.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    known: BTreeMap<u64, Option<String>>,
}

impl Symbols {
    /// Reads the names of those addresses that are new. Where the file cannot be read they have none.
    pub(super) fn learn(&mut self, addresses: impl Iterator<Item = u64>) {
        let new: Vec<u64> = addresses.filter(|address| !self.known.contains_key(address)).collect();
        if new.is_empty() {
            return;
        }
        self.known.extend(new.iter().map(|address| (*address, None)));
        if let Ok(file) = File::open(FILE) {
            self.known.extend(functions_at(BufReader::with_capacity(1 << 16, file), new));
        }
    }

    /// The function that `address` is in.
    pub(super) fn name(&self, address: u64) -> Option<&str> {
        self.known.get(&address)?.as_deref()
    }
}

/// The addresses that return into a function; none where the kernel hides them.
pub(super) fn extent(function: &str) -> Option<Range<u64>> {
    extent_in(&fs::read_to_string(FILE).ok()?, function)
}

fn extent_in(text: &str, function: &str) -> Option<Range<u64>> {
    let starts = || text.lines().filter_map(code);
    let start = starts().find(|(_, name)| name.starts_with(function) && without_module(name) == function)?.0;
    let end = starts().map(|(address, _)| address).filter(|address| *address > start).min()?;
    // The address after a call, even one that the function ends with.
    Some(start + 1..end + 1)
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

/// For each address the last function that starts at or before it. Parts that the compiler split off (`.cold`, `.isra.0`)
/// count as their function.
fn functions_at(mut text: impl BufRead, mut addresses: Vec<u64>) -> Vec<(u64, Option<String>)> {
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
    let named = |(address, (start, name)): (u64, (u64, String))| {
        let name = without_module(&name).split('.').next().unwrap_or_default();
        (address, (start > 0).then(|| name.to_owned()))
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
        let names: Vec<Option<&str>> = found.iter().map(|(_, name)| name.as_deref()).collect();
        assert_eq!(names, [None, Some("first"), Some("middle"), Some("second")]);
    }

    #[test]
    fn a_function_reaches_to_the_next_one() {
        let text = "0000000000001000 T first_of_all\n0000000000001100 T first\t[module]\n0000000000002000 t second\n0000000000001800 t middle\n";
        assert_eq!(extent_in(text, "first"), Some(0x1101..0x1801));
        assert_eq!(extent_in(text, "second"), None, "where it ends is not known");
        assert_eq!(extent_in("0000000000000000 T first\n0000000000000000 T second\n", "first"), None);
    }

    #[test]
    fn hidden_addresses_have_no_names() {
        let text = "0000000000000000 T first\n0000000000000000 T second\n";
        assert_eq!(functions_at(text.as_bytes(), vec![0x2000]), [(0x2000, None)]);
    }
}
