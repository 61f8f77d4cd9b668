//! What a switch holds by number, as workers see it: groups, meters.

use std::collections::HashMap;
use std::sync::Arc;

/// Pages of a map, a power of two. With 65,536 groups a page holds 256.
const PAGES: u32 = 256;

/// A map in pages. A state is copied for each change of it, and the copy shares all pages but those that change: to add one group to 65,535 others
/// costs as much as copying 512 pointers.
#[derive(Debug)]
pub struct ByNumber<V> {
    /// By the low bits of the number, since controllers count upwards.
    pages: Vec<Arc<HashMap<u32, Arc<V>>>>,
}

impl<V> ByNumber<V> {
    /// What has this number.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&Arc<V>> {
        self.pages[place(number)].get(&number)
    }

    /// True if something has this number.
    pub fn contains(&self, number: u32) -> bool {
        self.get(number).is_some()
    }

    /// Puts something in the place of what had this number.
    pub fn insert(&mut self, number: u32, value: Arc<V>) {
        Arc::make_mut(&mut self.pages[place(number)]).insert(number, value);
    }

    /// Takes out what has this number.
    pub fn remove(&mut self, number: u32) {
        let page = &mut self.pages[place(number)];
        if page.contains_key(&number) {
            Arc::make_mut(page).remove(&number);
        }
    }
}

fn place(number: u32) -> usize {
    (number % PAGES) as usize
}

impl<V> Default for ByNumber<V> {
    fn default() -> ByNumber<V> {
        let empty = Arc::default();
        ByNumber { pages: (0..PAGES).map(|_| Arc::clone(&empty)).collect() }
    }
}

impl<V> Clone for ByNumber<V> {
    fn clone(&self) -> ByNumber<V> {
        ByNumber { pages: self.pages.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_changes_alone() {
        let mut first = ByNumber::default();
        [7, 7 + PAGES, u32::MAX].iter().for_each(|number| first.insert(*number, Arc::new(*number)));
        let mut second = first.clone();
        second.insert(7, Arc::new(1));
        second.remove(u32::MAX);
        second.remove(8);
        let all = |map: &ByNumber<u32>| [7, 7 + PAGES, u32::MAX, 8].map(|number| map.get(number).map(|value| **value));
        assert_eq!(all(&first), [Some(7), Some(7 + PAGES), Some(u32::MAX), None]);
        assert_eq!(all(&second), [Some(1), Some(7 + PAGES), None, None]);
        assert!(!second.contains(u32::MAX) && second.contains(7));
    }
}
