//! Values by number, with the numbers of removed ones used again.

/// A table of values.
#[derive(Debug)]
pub struct Table<T> {
    values: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table { values: Vec::new(), free: Vec::new() }
    }
}

impl<T> Table<T> {
    /// Adds a value, and returns its number.
    pub fn insert(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.values[number as usize] = Some(value);
                number
            }
            None => {
                self.values.push(Some(value));
                self.values.len() as u32 - 1
            }
        }
    }

    /// The value of this number; `None` if it was removed.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&T> {
        self.values.get(number as usize)?.as_ref()
    }

    /// The value of this number, to change it; `None` if it was removed.
    #[inline]
    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.values.get_mut(number as usize)?.as_mut()
    }

    /// Takes a value out.
    pub fn remove(&mut self, number: u32) -> Option<T> {
        let value = self.values.get_mut(number as usize)?.take()?;
        self.free.push(number);
        Some(value)
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.values.len() - self.free.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One more than the highest number there ever was.
    pub fn end(&self) -> u32 {
        self.values.len() as u32
    }

    /// All values.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.values.iter().flatten()
    }
}
