//! [`Numbered`]: strings, sites or stacks by their numbers, some of which damage may have taken.

/// Items that are numbered from 0 in the order of the file.
#[derive(Debug)]
pub(super) struct Numbered<T> {
    items: Vec<T>,
    /// Numbers behind lost ones: the first number, and the index of its item. Ascending.
    resumed: Vec<(u64, usize)>,
    /// Whether the number of the next item is unknown.
    is_lost: bool,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self { items: Vec::new(), resumed: Vec::new(), is_lost: false }
    }
}

impl<T> Numbered<T> {
    /// All items, without those that were lost.
    pub(super) fn items(&self) -> &[T] {
        &self.items
    }

    pub(super) fn items_mut(&mut self) -> &mut [T] {
        &mut self.items
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Adds an item. One whose number is unknown is dropped: nothing can refer to it.
    pub(super) fn push(&mut self, item: T) {
        if !self.is_lost {
            self.items.push(item);
        }
    }

    /// The number of the next item, unless it is unknown.
    pub(super) fn next(&self) -> u64 {
        let (number, index) = self.resumed.last().copied().unwrap_or((0, 0));
        number + (self.items.len() - index) as u64
    }

    /// Marks the number of the next item as unknown, because items may be missing.
    pub(super) fn lose(&mut self) {
        self.is_lost = true;
    }

    /// Sets the number of the next item. Returns false if it contradicts the items so far.
    pub(super) fn resume(&mut self, number: u64) -> bool {
        let next = self.next();
        if number > next && self.is_lost && number < u64::MAX / 2 {
            self.resumed.push((number, self.items.len()));
        }
        let agrees = if self.is_lost { number >= next } else { number == next };
        self.is_lost &= !agrees;
        agrees
    }

    /// The index of the item with this number; `None` if there is none.
    pub(super) fn index(&self, number: u64) -> Option<usize> {
        let after = self.resumed.partition_point(|&(first, _)| first <= number);
        let (first, index) = after.checked_sub(1).map_or((0, 0), |at| self.resumed[at]);
        let end = self.resumed.get(after).map_or(self.items.len(), |&(_, end)| end);
        let index = usize::try_from(number - first).ok()?.checked_add(index)?;
        (index < end).then_some(index)
    }

    /// Whether no item was lost, so that an unknown number is an error.
    pub(super) fn is_whole(&self) -> bool {
        self.resumed.is_empty() && !self.is_lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_on_behind_lost_items() {
        let mut letters = Numbered::default();
        "ab".chars().for_each(|letter| letters.push(letter));
        assert!(letters.is_whole() && letters.resume(2) && !letters.resume(3));
        letters.lose();
        letters.push('x');
        assert_eq!((letters.next(), letters.index(2), letters.is_whole()), (2, None, false));
        assert!(!letters.resume(1) && letters.resume(5));
        "fg".chars().for_each(|letter| letters.push(letter));
        letters.lose();
        assert!(letters.resume(7));
        letters.push('h');
        let all: String =
            (0..9).map(|number| letters.index(number).map_or('-', |at| letters.items()[at])).collect();
        assert_eq!((all.as_str(), letters.next()), ("ab---fgh-", 8));
    }
}
