//! A queue of fixed capacity, first in, first out.

use crate::{Array, PopulateError, ReserveError};

/// Elements in the order in which they came. The memory that the kernel gave is used again before new memory is touched.
///
/// ```
/// let mut fifo = linerate_slab::Fifo::new(2).unwrap();
/// assert!(fifo.push('a') && fifo.push('b') && !fifo.push('c'));
/// assert_eq!(fifo.front(), Some(&'a'));
/// assert_eq!((fifo.pop(), fifo.pop(), fifo.pop()), (Some('a'), Some('b'), None));
/// ```
pub struct Fifo<T: Copy> {
    elements: Array<T>,
    head: usize,
    len: usize,
}

impl<T: Copy> Fifo<T> {
    /// An empty queue for `capacity` elements.
    ///
    /// # Errors
    /// The kernel does not reserve so much address space.
    pub fn new(capacity: usize) -> Result<Fifo<T>, ReserveError> {
        Ok(Fifo { elements: Array::new(capacity)?, head: 0, len: 0 })
    }

    /// Takes memory for a queue of `count` elements in advance, as [`Array::populate`].
    ///
    /// # Errors
    /// There is not so much memory.
    pub fn populate(&mut self, count: usize) -> Result<(), PopulateError> {
        self.elements.populate(count)
    }

    /// Number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there is no element.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends an element; false if the queue is full.
    #[inline]
    pub fn push(&mut self, element: T) -> bool {
        if self.len == self.elements.capacity() {
            return false;
        }
        if self.len == 0 {
            self.head = 0;
        }
        let at = self.index(self.len);
        if at == self.elements.len() {
            self.elements.push(element);
        } else {
            self.elements[at as u32] = element;
        }
        self.len += 1;
        true
    }

    /// The first element.
    #[inline]
    pub fn front(&self) -> Option<&T> {
        self.nth(0)
    }

    /// The element behind `ahead` others.
    #[inline]
    pub fn nth(&self, ahead: usize) -> Option<&T> {
        (ahead < self.len).then(|| &self.elements[self.index(ahead) as u32])
    }

    /// Takes the first element out.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        let element = *self.front()?;
        self.head = self.index(1);
        self.len -= 1;
        Some(element)
    }

    #[inline]
    fn index(&self, ahead: usize) -> usize {
        let index = self.head + ahead;
        if index >= self.elements.capacity() { index - self.elements.capacity() } else { index }
    }
}
