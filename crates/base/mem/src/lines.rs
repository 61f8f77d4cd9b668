//! Elements of a table by numbers that are made ahead, found by one mask.
#![allow(unsafe_code)]

use core::marker::PhantomData;

/// Bytes that a number counts: what x86-64 multiplies by in an address.
const UNIT: usize = 8;

/// A slice of `2^n` elements of `2^m` bytes, which are found by the bits of a hash: neither a multiplication nor a branch is between the
/// hash and the element.
///
/// ```
/// let table = [[0u64; 8], [1; 8], [2; 8], [3; 8]];
/// let lines = linerate_mem::Lines::new(&table);
/// assert_eq!(lines.get(lines.number(3 << 3))[0], 3);
/// ```
#[derive(Clone, Copy)]
pub struct Lines<'a, T> {
    first: *const T,
    /// Those bits of a number that name an element.
    mask: usize,
    elements: PhantomData<&'a [T]>,
}

impl<'a, T> Lines<'a, T> {
    /// # Panics
    /// When the number of elements is not a power of two, at most 2^32 bytes divided by an eighth of an element.
    #[inline]
    pub fn new(elements: &'a [T]) -> Lines<'a, T> {
        const { assert!(size_of::<T>().is_power_of_two() && size_of::<T>() >= UNIT) };
        assert!(elements.len().is_power_of_two(), "a table of {} elements", elements.len());
        let mask = (elements.len() - 1) * (size_of::<T>() / UNIT);
        Lines { first: elements.as_ptr(), mask, elements: PhantomData }
    }

    /// The number of the element that these bits name. Those below the size of an element in units of 8 bytes do not count (three of them for
    /// elements of 64 bytes).
    #[inline]
    pub fn number(&self, bits: u32) -> u32 {
        bits & self.mask as u32
    }

    /// The element of a number; bits that name none do not count.
    #[inline]
    pub fn get(&self, number: u32) -> &'a T {
        // SAFETY: the mask has neither a bit above that of the last element's place nor one below that of an element's size, so the place is that
        // of an element, whatever the number; the elements are borrowed as long.
        unsafe { &*self.first.byte_add((number as usize & self.mask) * UNIT) }
    }

    /// The line in which the element of a number that [`Lines::number`] made begins will be read.
    #[inline]
    pub fn prefetch(&self, number: u32) {
        crate::prefetch::prefetch_address(self.first.wrapping_byte_add(number as usize * UNIT).cast());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_names_an_element_and_every_element_has_a_number() {
        let table: Vec<[u64; 8]> = (0..16).map(|value| [value; 8]).collect();
        for len in [1, 2, 16] {
            let lines = Lines::new(&table[..len]);
            for (place, element) in table[..len].iter().enumerate() {
                let number = lines.number((place as u32) << 3);
                assert!(std::ptr::eq(lines.get(number), element));
                lines.prefetch(number);
            }
            for bits in [0, 7, 8, 0x7f, 0x80, u32::MAX - 8, u32::MAX] {
                let at = lines.get(bits)[0] as usize;
                assert_eq!((at, lines.get(lines.number(bits))[0] as usize), (bits as usize >> 3 & (len - 1), at));
            }
        }
    }

    #[test]
    #[should_panic(expected = "a table of 3 elements")]
    fn a_table_of_another_size_is_refused() {
        Lines::new(&[0u64; 3]);
    }
}
