//! Things that begin and end, in the order of time.

use crate::moment::Moment;

/// What happens to a thing at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Its life ends: the moment is the first after it.
    Ends,
    /// Its life begins.
    Begins,
}

/// The begins and ends of things with half-open lifetimes, told as time goes by.
///
/// At one moment what ends is told before what begins, and otherwise things are told in their own order. What lives to
/// the end of the recording never ends, and what has no moment of life is not told.
///
/// ```
/// use vramscope_analysis::{Change, Changes, Moment};
///
/// let lifetimes = [(Moment::START, Moment::after(4), 'a'), (Moment::after(4), Moment::NEVER, 'b')];
/// let mut changes = Changes::of(lifetimes);
/// assert_eq!(changes.next_until(Moment::after(3)), Some((Change::Begins, 'a')));
/// assert_eq!(changes.next_until(Moment::after(3)), None);
/// assert_eq!(changes.next_until(Moment::after(4)), Some((Change::Ends, 'a')));
/// assert_eq!(changes.next_until(Moment::after(4)), Some((Change::Begins, 'b')));
/// ```
#[derive(Debug, Clone)]
pub struct Changes<T> {
    all: Vec<(Moment, Change, T)>,
    next: usize,
}

impl<T: Copy + Ord> Changes<T> {
    /// The changes of things `(from, to, thing)`, which live in the moments `from..to`.
    pub fn of(lifetimes: impl IntoIterator<Item = (Moment, Moment, T)>) -> Self {
        let mut all = Vec::new();
        for (from, to, thing) in lifetimes.into_iter().filter(|(from, to, _)| from < to) {
            all.push((from, Change::Begins, thing));
            if to != Moment::NEVER {
                all.push((to, Change::Ends, thing));
            }
        }
        all.sort_unstable();
        Self { all, next: 0 }
    }

    /// The next change, if it happens at `now` or before.
    #[inline]
    pub fn next_until(&mut self, now: Moment) -> Option<(Change, T)> {
        let &(at, change, thing) = self.all.get(self.next)?;
        if at > now {
            return None;
        }
        self.next += 1;
        Some((change, thing))
    }
}

/// Every change with its moment.
impl<T: Copy> Iterator for Changes<T> {
    type Item = (Moment, Change, T);

    fn next(&mut self) -> Option<Self::Item> {
        let next = *self.all.get(self.next)?;
        self.next += 1;
        Some(next)
    }
}
