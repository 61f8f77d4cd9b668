//! Elements of a table by places that are made ahead, found by one mask.
#![allow(unsafe_code)]

use core::marker::PhantomData;

/// A slice of `2^n` elements of `2^m` bytes, which are found by the bits of a hash: neither a multiplication nor a branch is between the
/// hash and the element.
///
/// ```
/// let table = [[0u64; 8], [1; 8], [2; 8], [3; 8]];
/// let lines = linerate_mem::Lines::new(&table);
/// assert_eq!(lines.get(lines.place(3 << 6))[0], 3);
/// ```
#[derive(Clone, Copy)]
pub struct Lines<'a, T> {
    first: *const T,
    /// Those bits of a place that name an element.
    mask: usize,
    elements: PhantomData<&'a [T]>,
}

impl<'a, T> Lines<'a, T> {
    /// # Panics
    /// When the number of elements is not a power of two, or the slice is longer than 4 GiB.
    #[inline]
    pub fn new(elements: &'a [T]) -> Lines<'a, T> {
        const { assert!(size_of::<T>().is_power_of_two()) };
        assert!(elements.len().is_power_of_two(), "a table of {} elements", elements.len());
        let mask = (elements.len() - 1) * size_of::<T>();
        assert!(mask <= u32::MAX as usize, "a table of {} elements of {} bytes", elements.len(), size_of::<T>());
        Lines { first: elements.as_ptr(), mask, elements: PhantomData }
    }

    /// The place of the element that these bits name, in bytes from the first. Bits below the size of an element do not count (six of them for
    /// elements of 64 bytes).
    #[inline]
    pub fn place(&self, bits: u32) -> u32 {
        bits & self.mask as u32
    }

    /// The element at a place; bits that name none do not count.
    #[inline]
    pub fn get(&self, place: u32) -> &'a T {
        // SAFETY: the mask has neither a bit above that of the last element's place nor one below that of an element's size, so the place is that
        // of an element, whatever the bits; the elements are borrowed as long.
        unsafe { &*self.first.byte_add(self.place(place) as usize) }
    }

    /// The first element, and how many bytes from it the one at a place is.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[inline]
    pub(crate) fn address(&self, place: u32) -> (*const T, usize) {
        (self.first, self.place(place) as usize)
    }

    /// The line in which the element at a place that [`Lines::place`] made begins will be read.
    #[inline]
    pub fn prefetch(&self, place: u32) {
        crate::prefetch::prefetch_address(self.first.wrapping_byte_add(place as usize).cast());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_names_an_element_and_every_element_has_a_place() {
        let table: Vec<[u64; 8]> = (0..16).map(|value| [value; 8]).collect();
        for len in [1, 2, 16] {
            let lines = Lines::new(&table[..len]);
            for (place, element) in table[..len].iter().enumerate() {
                let at = lines.place((place as u32) << 6);
                assert!(std::ptr::eq(lines.get(at), element));
                lines.prefetch(at);
            }
            for bits in [0, 63, 64, 0x3ff, 0x400, u32::MAX - 64, u32::MAX] {
                let at = lines.get(bits)[0] as usize;
                assert_eq!((at, lines.get(lines.place(bits))[0] as usize), (bits as usize >> 6 & (len - 1), at));
            }
        }
    }

    #[test]
    #[should_panic(expected = "a table of 3 elements")]
    fn a_table_of_another_size_is_refused() {
        Lines::new(&[0u64; 3]);
    }
}
