//! The writer's side of atoms: one word under one mask, which several tables share, and the filter of the values that rules have there.

use std::collections::HashMap;

use super::filter::Filter;
use super::hash::Hashing;
use super::tuple::Part;
use super::value::Value;
use crate::fold::Folding;

/// An atom that tables share.
struct Shared {
    part: Part,
    tables: usize,
    present: Filter<2>,
    /// Values in the filter, about.
    values: usize,
}

/// All atoms, by number.
pub(crate) struct Atoms {
    all: Vec<Option<Shared>>,
    numbers: HashMap<(u8, u64), usize, Folding>,
}

impl Atoms {
    pub(crate) fn new(hashing: &Hashing) -> Atoms {
        Atoms { all: Vec::new(), numbers: HashMap::with_hasher(hashing.maps()) }
    }

    /// Takes part in an atom, which is made if no table has it yet.
    pub(crate) fn join(&mut self, part: Part, hashing: &Hashing) -> usize {
        let number = *self.numbers.entry((part.word, part.mask)).or_insert_with(|| {
            let present = Filter::new(0, hashing.filters);
            put(&mut self.all, Shared { part, tables: 0, present, values: 0 })
        });
        if let Some(Some(atom)) = self.all.get_mut(number) {
            atom.tables += 1;
        }
        number
    }

    /// A table less has the atom.
    pub(crate) fn leave(&mut self, number: usize) {
        let Some(place) = self.all.get_mut(number) else { return };
        if let Some(atom) = place {
            atom.tables -= 1;
            if atom.tables == 0 {
                self.numbers.remove(&(atom.part.word, atom.part.mask));
                *place = None;
            }
        }
    }

    /// Adds a value's words to the filters of a table's atoms; true if one of them is too small now.
    pub(crate) fn add(&mut self, numbers: &[usize], value: &Value, hashing: &Hashing) -> bool {
        let mut is_full = false;
        for (number, word) in numbers.iter().zip(value.words()) {
            let Some(Some(atom)) = self.all.get_mut(*number) else { continue };
            atom.values += usize::from(atom.present.add(hashing.finish(hashing.atom(*word, atom.part.secret))));
            is_full |= atom.values > atom.present.capacity();
        }
        is_full
    }

    /// Adds to those filters only that were emptied.
    pub(crate) fn add_again(&mut self, numbers: &[(usize, usize)], value: &Value, hashing: &Hashing) {
        for (at, number) in numbers {
            let Some(Some(atom)) = self.all.get_mut(*number) else { continue };
            let hash = hashing.finish(hashing.atom(value.words()[*at], atom.part.secret));
            atom.values += usize::from(atom.present.add(hash));
        }
    }

    /// Begins new filters, for all atoms or for those only that are more than half full; returns their numbers. Sets that were published have
    /// the old ones.
    pub(crate) fn empty(&mut self, all: bool, hashing: &Hashing) -> Vec<usize> {
        let mut emptied = Vec::new();
        for (number, atom) in self.all.iter_mut().enumerate() {
            let Some(atom) = atom else { continue };
            if all || atom.values * 2 > atom.present.capacity() {
                (atom.present, atom.values) = (Filter::new(atom.values * 2, hashing.filters), 0);
                emptied.push(number);
            }
        }
        emptied
    }

    /// The atom's filter.
    pub(crate) fn present(&self, number: usize) -> Option<&Filter<2>> {
        self.all.get(number)?.as_ref().map(|atom| &atom.present)
    }

    /// Bytes of all.
    pub(crate) fn bytes(&self) -> usize {
        self.all.iter().flatten().map(|atom| atom.present.bytes() + 2 * size_of::<Shared>()).sum()
    }
}

/// Puts a value where there is none, and returns where.
pub(crate) fn put<T>(all: &mut Vec<Option<T>>, value: T) -> usize {
    let number = all.iter().position(Option::is_none).unwrap_or(all.len());
    match all.get_mut(number) {
        Some(place) => *place = Some(value),
        None => all.push(Some(value)),
    }
    number
}
