//! Values by index, whose places are used again.

use crate::{Array, PopulateError, ReserveError};

/// An [`Array`] with a stack of free indexes. The index that was freed last is given out first, because its lines are in the cache.
///
/// ```
/// let mut slab = linerate_slab::Slab::new(2).unwrap();
/// let (first, second) = (slab.insert('a').unwrap(), slab.insert('b').unwrap());
/// assert_eq!(slab.insert('c'), None);
/// assert_eq!(slab.remove(first), 'a');
/// assert_eq!(slab.vacant(), Some(&'a'));
/// assert_eq!((slab.insert('d'), slab[second], slab.len()), (Some(first), 'b', 2));
/// ```
pub struct Slab<T: Copy> {
    values: Array<T>,
    free: Array<u32>,
}

impl<T: Copy> Slab<T> {
    /// An empty slab with room for `capacity` values.
    ///
    /// # Errors
    /// The kernel does not reserve so much address space.
    pub fn new(capacity: usize) -> Result<Slab<T>, ReserveError> {
        Ok(Slab { values: Array::new(capacity)?, free: Array::new(capacity)? })
    }

    /// Takes memory for the first `count` values in advance, as [`Array::populate`], and for as many free indexes.
    ///
    /// # Errors
    /// There is not so much memory.
    pub fn populate(&mut self, count: usize) -> Result<(), PopulateError> {
        self.values.populate(count)?;
        self.free.populate(count)
    }

    /// Number of values.
    #[inline]
    pub fn len(&self) -> usize {
        self.values.len() - self.free.len()
    }

    /// True if there is no value.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Most values that the slab can have.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.values.capacity()
    }

    /// Number of places that were ever used: every index is below.
    #[inline]
    pub fn high_water(&self) -> usize {
        self.values.len()
    }

    /// Stores a value and returns its index; `None` if the slab is full.
    #[inline]
    pub fn insert(&mut self, value: T) -> Option<u32> {
        let Some(index) = self.free.pop() else { return self.values.push(value) };
        self.values[index] = value;
        Some(index)
    }

    /// The last value of the place that the next value is stored in; `None` if that place was never used, or there is none.
    #[inline]
    pub fn vacant(&self) -> Option<&T> {
        self.values.get(*self.free.as_slice().last()?)
    }

    /// Frees place `index`, which the caller owns, and returns its last value. The caller frees a place once only.
    #[inline]
    pub fn remove(&mut self, index: u32) -> T {
        let value = self.values[index];
        let noted = self.free.push(index);
        debug_assert!(noted.is_some(), "more places were freed than there are");
        value
    }

    /// The value at `index`; the last value of a free place; `None` if the place was never used.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&T> {
        self.values.get(index)
    }

    /// As [`Slab::get`], to write.
    #[inline]
    pub fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.values.get_mut(index)
    }

    /// Asks for the first two lines of place `index`, which will be written soon.
    #[inline]
    pub fn prefetch(&self, index: u32) {
        self.values.prefetch(index);
    }
}

impl<T: Copy> std::ops::Index<u32> for Slab<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: u32) -> &T {
        &self.values[index]
    }
}

impl<T: Copy> std::ops::IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.values[index]
    }
}
