//! The begins and ends of lifetimes, in time order.

use super::moment::Moment;

/// A change in an item's lifetime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LifetimeChange {
    /// The lifetime ends; the moment of the change is the first one after it.
    Ends,
    /// The lifetime begins.
    Begins,
}

/// The begins and ends of half-open lifetimes `from..to`, in time order.
///
/// At one moment, ends come before begins; otherwise, items are in their natural order. An item that lives until the end of the
/// recording has no end change. An item with an empty lifetime has no changes.
///
/// ```
/// use vramscope_analysis::{LifetimeChange, LifetimeChanges, Moment};
///
/// let lifetimes = [(Moment::START, Moment::after(4), 'a'), (Moment::after(4), Moment::NEVER, 'b')];
/// let mut changes = LifetimeChanges::of(lifetimes);
/// assert_eq!(changes.next_until(Moment::after(3)), Some((LifetimeChange::Begins, 'a')));
/// assert_eq!(changes.next_until(Moment::after(3)), None);
/// assert_eq!(changes.next_until(Moment::after(4)), Some((LifetimeChange::Ends, 'a')));
/// assert_eq!(changes.next_until(Moment::after(4)), Some((LifetimeChange::Begins, 'b')));
/// ```
#[derive(Debug, Clone)]
pub struct LifetimeChanges<T> {
    all: Vec<(Moment, LifetimeChange, T)>,
    next: usize,
}

impl<T: Copy + Ord> LifetimeChanges<T> {
    /// The changes of items `(from, to, item)`, which live in the moments `from..to`.
    pub fn of(lifetimes: impl IntoIterator<Item = (Moment, Moment, T)>) -> Self {
        let mut all = Vec::new();
        for (from, to, thing) in lifetimes.into_iter().filter(|(from, to, _)| from < to) {
            all.push((from, LifetimeChange::Begins, thing));
            if to != Moment::NEVER {
                all.push((to, LifetimeChange::Ends, thing));
            }
        }
        all.sort_unstable();
        Self { all, next: 0 }
    }

    /// Returns the next change if it happens at `now` or earlier.
    #[inline]
    pub fn next_until(&mut self, now: Moment) -> Option<(LifetimeChange, T)> {
        let &(at, change, thing) = self.all.get(self.next)?;
        if at > now {
            return None;
        }
        self.next += 1;
        Some((change, thing))
    }
}

/// Iterates over the changes with their moments.
impl<T: Copy> Iterator for LifetimeChanges<T> {
    type Item = (Moment, LifetimeChange, T);

    fn next(&mut self) -> Option<Self::Item> {
        let next = *self.all.get(self.next)?;
        self.next += 1;
        Some(next)
    }
}
