//! Lifetimes of items, indexed for queries at any moment.

use crate::history::Moment;

/// Half-open lifetimes of numbered items, in order of begin: the order in which the timeline stacks them.
///
/// The live items at a moment are found in time that depends on their number, not on the length of the recording: the live items
/// are stored every [`spacing`](Self::spacing) moments.
///
/// ```text
///   moment       0         4096       8192
///   live      [a b c]    [a c q]    [a r s]
/// ```
#[derive(Debug, Clone)]
pub(crate) struct Lifetimes {
    ids: Vec<u32>,
    from: Vec<u32>,
    to: Vec<u32>,
    /// Number of moments between two stored lists.
    spacing: usize,
    /// The live items at moments 0, `spacing`, ..., as positions in order of begin.
    living: Vec<Vec<u32>>,
}

const SPACING: usize = 4096;

impl Lifetimes {
    /// Indexes the items `(id, from, to)` of a recording with `moments` moments.
    pub(crate) fn of(things: impl Iterator<Item = (u32, Moment, Moment)>, moments: usize) -> Self {
        let most = things.size_hint().1.unwrap_or_default();
        let column = || Vec::with_capacity(most);
        let mut this =
            Self { ids: column(), from: column(), to: column(), spacing: SPACING, living: Vec::new() };
        for (id, from, to) in things.filter(|(_, from, to)| from < to) {
            this.ids.push(id);
            this.from.push(from.index() as u32);
            this.to.push(to.index() as u32);
        }
        this.sort();
        // All lists together have at most one entry per item and moment, even if many items are live at once.
        let end = moments as u32;
        let lifetimes = this.from.iter().zip(&this.to);
        let lived: u64 = lifetimes.map(|(&from, &to)| u64::from(to.min(end).saturating_sub(from))).sum();
        let spacing = SPACING.max((lived / (this.ids.len() + moments).max(1) as u64) as usize);
        this.spacing = spacing;
        for moment in (0..end).step_by(spacing) {
            let list = this.at(moment);
            this.living.push(list);
        }
        this
    }

    /// Sorts the columns by begin; usually they are already sorted.
    fn sort(&mut self) {
        if self.from.iter().zip(&self.ids).is_sorted() {
            return;
        }
        let columns = self.from.iter().zip(&self.ids).zip(&self.to);
        let mut things: Vec<(u32, u32, u32)> = columns.map(|((&from, &id), &to)| (from, id, to)).collect();
        things.sort_unstable();
        for (i, (from, id, to)) in things.into_iter().enumerate() {
            (self.from[i], self.ids[i], self.to[i]) = (from, id, to);
        }
    }

    /// Returns the number of the item at `position` in order of begin.
    pub(crate) fn id(&self, position: u32) -> u32 {
        self.ids[position as usize]
    }

    /// Returns the first moment of the item's lifetime.
    pub(crate) fn from(&self, position: u32) -> u32 {
        self.from[position as usize]
    }

    /// Returns the first moment after the item's lifetime.
    pub(crate) fn to(&self, position: u32) -> u32 {
        self.to[position as usize]
    }

    /// Returns the positions of the items that are live at `moment`, in order of begin.
    pub(crate) fn at(&self, moment: u32) -> Vec<u32> {
        // While the lists are being built, the last existing one is used.
        let list = (moment as usize / self.spacing).min(self.living.len().saturating_sub(1));
        let (old, since): (&[u32], usize) = match self.living.get(list) {
            Some(old) => (old, self.born_by((list * self.spacing) as u32)),
            None => (&[], 0),
        };
        let born = since..self.born_by(moment);
        let positions = old.iter().copied().chain(born.map(|p| p as u32));
        positions.filter(|&p| self.to(p) > moment).collect()
    }

    /// Returns the numbers of the items that are live at any moment in `first..=last`.
    pub(crate) fn between(&self, first: u32, last: u32) -> impl Iterator<Item = u32> {
        let born = self.born_by(first)..self.born_by(last);
        self.at(first).into_iter().chain(born.map(|p| p as u32)).map(|p| self.id(p))
    }

    /// Returns the positions of the items that are live at any of `moments` (ascending), in order of begin. Some items that begin
    /// and end between two of the moments may be included.
    pub(crate) fn at_any(&self, moments: &[u32]) -> impl Iterator<Item = u32> {
        let first = moments.first().map(|&first| self.at(first)).unwrap_or_default();
        let later = moments.array_windows().flat_map(|&[before, now]| {
            let born = self.born_by(before)..self.born_by(now);
            if born.len() <= self.spacing {
                born.map(|p| p as u32).collect()
            } else {
                // Most of them have ended by then.
                let mut living = self.at(now);
                living.retain(|&p| p as usize >= born.start);
                living
            }
        });
        first.into_iter().chain(later)
    }

    /// Returns the number of items that begin up to and including `moment`.
    fn born_by(&self, moment: u32) -> usize {
        self.from.partition_point(|&f| f <= moment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_allocations_equal_those_of_a_scan() {
        let mut state = 1u64;
        let mut random = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        for (moments, count, longest) in
            [(30_000, 20_000, 300), (30_000, 5_000, 30_000), (1, 3, 2), (9000, 0, 1)]
        {
            let things: Vec<(u32, Moment, Moment)> = (0..count)
                .map(|id| {
                    let from = random(moments) as usize;
                    (id, Moment::from_index(from), Moment::from_index(from + random(longest) as usize))
                })
                .collect();
            let lifetimes = Lifetimes::of(things.iter().copied(), moments as usize);
            for moment in (0..moments as usize).step_by(617) {
                let m = Moment::from_index(moment);
                let mut scan: Vec<(Moment, u32)> =
                    things.iter().filter(|t| t.1 <= m && m < t.2).map(|t| (t.1, t.0)).collect();
                scan.sort_unstable();
                let found: Vec<(Moment, u32)> = lifetimes
                    .at(moment as u32)
                    .into_iter()
                    .map(|p| (Moment::from_index(lifetimes.from(p) as usize), lifetimes.id(p)))
                    .collect();
                assert_eq!(found, scan, "at {moment}");
            }
            // Moments that are close together, and moments that are far apart.
            for step in [7, 9000] {
                let shown: Vec<u32> = (0..moments as u32).step_by(step).collect();
                let lives = |&p: &u32| shown.iter().any(|&m| lifetimes.from(p) <= m && m < lifetimes.to(p));
                let found: Vec<u32> = lifetimes.at_any(&shown).filter(lives).collect();
                let scan: Vec<u32> = (0..lifetimes.ids.len() as u32).filter(lives).collect();
                assert_eq!(found, scan, "every {step} moments");
            }
        }
    }
}
