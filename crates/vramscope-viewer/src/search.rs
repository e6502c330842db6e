//! Searches for allocations of one device.

use std::cmp::Reverse;
use std::sync::Arc;

use vramscope_analysis::{Allocation, Cancel, Moment, ReservedRange};
use vramscope_basics::lock;

use crate::ViewError;
use crate::answers::{moment, stack};
use crate::bits::{Bits, STRIDE, Spans};
use crate::columns::{Answer, Columns};
use crate::device::{OpenDevice, Searched};
use crate::protocol::{ByteKind, Found, Place, PlaceQuery, SearchQuery, Specks, SpecksQuery};

/// How many matches a search lists, the largest first; all are counted.
const MOST_FOUND: usize = 1000;
/// What is searched for, ready to be asked of many things.
#[derive(Debug)]
enum Condition {
    All(Vec<Condition>),
    Any(Vec<Condition>),
    Not(Box<Condition>),
    Stacks(Bits),
    Tags(Bits),
    Purposes(Bits),
    Address { at: f64, version: Option<u32> },
    Size { min: f64, max: f64 },
    Allocated(Spans),
    Freed(Spans),
    Leak(usize),
}

impl From<SearchQuery> for Condition {
    fn from(query: SearchQuery) -> Self {
        let all = |of: Vec<SearchQuery>| of.into_iter().map(Self::from).collect();
        let bits = |numbers: Vec<u32>| Bits::of(numbers.into_iter().map(|n| n as usize));
        match query {
            SearchQuery::All { of } => Self::All(all(of)),
            SearchQuery::Any { of } => Self::Any(all(of)),
            SearchQuery::Not { of } => Self::Not(Box::new((*of).into())),
            SearchQuery::Stacks { stacks } => Self::Stacks(bits(stacks)),
            SearchQuery::Tags { tags } => Self::Tags(bits(tags)),
            SearchQuery::Purposes { purposes } => {
                Self::Purposes(Bits::of(purposes.into_iter().map(usize::from)))
            }
            SearchQuery::Address { address, version } => Self::Address { at: address, version },
            SearchQuery::Size { min, max } => Self::Size { min, max: max.unwrap_or(f64::INFINITY) },
            SearchQuery::Allocated { spans } => Self::Allocated(Spans::of(spans)),
            SearchQuery::Freed { spans } => Self::Freed(Spans::of(spans)),
            SearchQuery::Leak { leak } => Self::Leak(leak),
        }
    }
}

/// An allocation, or a reserved range, as it is searched.
struct Thing {
    address: u64,
    size: u64,
    stack: u32,
    tags: u32,
    from: u32,
    freed: u32,
    /// The number of the allocation; a range is for nothing, and none of several allocations.
    allocation: Option<usize>,
}

/// Tells which allocations of a device a search finds.
pub(crate) struct Matcher<'d> {
    device: &'d OpenDevice,
    condition: Condition,
}

impl<'d> Matcher<'d> {
    pub(crate) fn of(device: &'d OpenDevice, query: SearchQuery) -> Self {
        Self { device, condition: query.into() }
    }

    /// Whether it finds the allocation of this number.
    pub(crate) fn finds(&self, id: usize) -> bool {
        let a: &Allocation = &self.device.history().allocations[id];
        self.holds(
            &self.condition,
            &Thing {
                address: a.address,
                size: a.size,
                stack: stack(a.stack),
                tags: self.device.tags.allocations[id],
                from: moment(a.from),
                freed: moment(a.freed),
                allocation: Some(id),
            },
        )
    }

    /// Whether it finds the reserved range of this number.
    fn finds_range(&self, number: usize) -> bool {
        let r: &ReservedRange = &self.device.history().reserved[number];
        self.holds(
            &self.condition,
            &Thing {
                address: r.address,
                size: r.size,
                stack: stack(r.stack),
                tags: self.device.tags.ranges[number],
                from: moment(r.from),
                freed: moment(r.to),
                allocation: None,
            },
        )
    }

    fn holds(&self, condition: &Condition, thing: &Thing) -> bool {
        // What is counted for the whole device, purposes and versions, is counted only where a search needs it.
        match condition {
            Condition::All(of) => of.iter().all(|one| self.holds(one, thing)),
            Condition::Any(of) => of.iter().any(|one| self.holds(one, thing)),
            Condition::Not(of) => !self.holds(of, thing),
            Condition::Stacks(stacks) => stacks.has(thing.stack),
            Condition::Tags(tags) => tags.has(thing.tags),
            Condition::Purposes(purposes) => {
                let of = thing.allocation.map(|id| self.device.purposes().allocations[id]);
                of.is_some_and(|purpose| purposes.has(purpose.into()))
            }
            &Condition::Address { at, version } => {
                let (begin, size) = (thing.address as f64, thing.size as f64);
                let is_version = |version| {
                    begin == at && thing.allocation.is_some_and(|id| self.device.versions()[id] == version)
                };
                begin <= at && at < begin + size.max(1.0) && version.is_none_or(is_version)
            }
            Condition::Size { min, max } => (*min..=*max).contains(&(thing.size as f64)),
            Condition::Allocated(spans) => spans.has(thing.from),
            Condition::Freed(spans) => spans.has(thing.freed),
            Condition::Leak(leak) => thing.allocation.is_some_and(|id| {
                let suspect = self.device.leaks().get(*leak);
                suspect.is_some_and(|of| of.keeps(&self.device.history().allocations[id]))
            }),
        }
    }
}

impl OpenDevice {
    /// The allocations that a search finds. The last one is remembered, for pictures and tables ask for it again.
    pub(crate) fn found(&self, query: &SearchQuery, cancel: &Cancel) -> Result<Arc<Bits>, ViewError> {
        if let Some(last) = lock(&self.searched).as_ref().filter(|last| last.query == *query) {
            return Ok(last.found.clone());
        }
        let matcher = Matcher::of(self, query.clone());
        let length = self.history().allocations.len();
        let found = Arc::new(Bits::those(length, cancel, |id| matcher.finds(id))?);
        *lock(&self.searched) = Some(Searched { query: query.clone(), found: found.clone() });
        Ok(found)
    }

    pub(crate) fn search(&self, query: &SearchQuery, cancel: &Cancel) -> Answer {
        let history = self.history();
        let allocations = &history.allocations;
        let found = self.found(query, cancel)?;
        let matcher = Matcher::of(self, query.clone());
        let ranges = Bits::those(history.reserved.len(), cancel, |number| matcher.finds_range(number))?;
        let (mut count, mut bytes) = (0, 0);
        let mut largest: Vec<(Reverse<u64>, usize)> = Vec::new();
        // What is no larger than so many others is not listed.
        let mut least = 0;
        for id in found.numbers() {
            let size = allocations[id].size;
            (count, bytes) = (count + 1, bytes + size);
            if size < least {
                continue;
            }
            largest.push((Reverse(size), id));
            if largest.len() == 2 * MOST_FOUND {
                let (_, last, _) = largest.select_nth_unstable(MOST_FOUND - 1);
                least = last.0.0;
                largest.truncate(MOST_FOUND);
            }
        }
        largest.sort_unstable();
        largest.truncate(MOST_FOUND);
        Columns::answer(|columns| Found {
            count,
            bytes,
            allocations: columns.u8(found.bytes().iter().copied()),
            ranges: columns.u8(ranges.bytes().iter().copied()),
            id: columns.u32(largest.into_iter().map(|(_, id)| id as u32)),
        })
    }

    pub(crate) fn specks(&self, query: &SpecksQuery, cancel: &Cancel) -> Answer {
        let &SpecksQuery { from, to, width, bytes, .. } = query;
        if !(from.is_finite() && to.is_finite() && from < to && bytes.is_finite()) {
            return Err(ViewError::Question("no window of that place has pixels".to_owned()));
        }
        let axis = query.axis.into();
        self.check(axis)?;
        let end = self.history().end();
        let place = |at: Moment| match axis {
            vramscope_analysis::Axis::Events => at.index() as f64,
            vramscope_analysis::Axis::Time => self.timeline.time_of(at).unwrap_or(0) as f64,
        };
        let pixel = (to - from) / f64::from(width);
        let mut at = vec![0; usize::from(width)];
        let mut count = 0;
        for (number, id) in self.found(&query.search, cancel)?.numbers().enumerate() {
            if number % STRIDE == 0 && cancel.is_cancelled() {
                return Err(ViewError::Unwanted);
            }
            let a = &self.history().allocations[id];
            let (begin, end) = (place(a.from), place(a.freed.min(end)));
            let is_small = (a.size as f64) < bytes || end - begin < pixel;
            if is_small && begin < to && end >= from {
                let column = ((begin - from) / pixel).max(0.0) as usize;
                if let Some(at) = at.get_mut(column) {
                    *at = 1;
                    count += 1;
                }
            }
        }
        Columns::answer(|columns| Specks { at: columns.u8(at), count })
    }

    /// Where an allocation lies in the stack of some kind of bytes.
    pub(crate) fn place(&self, PlaceQuery { id, stacked }: PlaceQuery) -> Result<Place, ViewError> {
        let history = self.history();
        let Some(a) = history.allocations.get(id) else {
            return Err(ViewError::Question(format!("there is no allocation {id}")));
        };
        let is_allocated = stacked == ByteKind::Allocated;
        let bytes = |of: &Allocation| if stacked == ByteKind::Requested { of.requested } else { of.size };
        let to = if is_allocated { a.freed } else { a.to };
        let to = to.min(Moment::from_index(history.end().index() + 1));
        let below = |at: Moment| -> u64 {
            let older =
                self.timeline.active_at(at).into_iter().map(|id| id as usize).take_while(|&of| of != id);
            let older = older.map(|id| &history.allocations[id]);
            older.filter(|of| !is_allocated || of.is_allocated_at(at)).map(bytes).sum()
        };
        Ok(Place {
            from: a.from.index(),
            to: to.index(),
            from_us: self.timeline.time_of(a.from),
            to_us: self.timeline.time_of(to.min(history.end())),
            bytes: bytes(a),
            below_first: below(a.from),
            below_last: below(Moment::from_index(to.index().saturating_sub(1)).max(a.from)),
        })
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::recording::example as open;

    /// Numbers that look random, the same in every run.
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % end
        }

        fn some(&mut self, end: usize) -> Vec<u32> {
            (0..self.below(6)).map(|_| self.below(end.max(1) as u64) as u32).collect()
        }

        /// Any search of a device: about what is in it, as a rule.
        fn search(&mut self, device: &OpenDevice, depth: u32) -> SearchQuery {
            let history = device.history();
            let any = &history.allocations[self.below(history.allocations.len() as u64) as usize];
            let end = history.end().index() as u64 + 2;
            let mut span = || [self.below(end) as u32, self.below(end) as u32];
            let mut spans = vec![span(), span()];
            match self.below(if depth == 0 { 7 } else { 10 }) {
                0 => SearchQuery::Stacks { stacks: self.some(history.trace().stacks.len()) },
                1 => SearchQuery::Tags { tags: self.some(device.tags.table.len()) },
                2 => SearchQuery::Purposes {
                    purposes: self.some(device.purposes().table.len()).iter().map(|&p| p as u8).collect(),
                },
                3 => SearchQuery::Address {
                    address: any.address as f64,
                    version: Some(self.below(3) as u32).filter(|&v| v > 0),
                },
                4 => SearchQuery::Size {
                    min: self.below(any.size + 1) as f64,
                    max: Some(any.size as f64).filter(|_| !any.size.is_multiple_of(3)),
                },
                5 => SearchQuery::Allocated { spans },
                6 => {
                    spans.push([u32::MAX; 2]);
                    SearchQuery::Freed { spans }
                }
                7 => SearchQuery::All { of: (0..3).map(|_| self.search(device, depth - 1)).collect() },
                8 => SearchQuery::Any { of: (0..3).map(|_| self.search(device, depth - 1)).collect() },
                _ => SearchQuery::Not { of: Box::new(self.search(device, depth - 1)) },
            }
        }
    }

    /// The same as what is tested, by looking at lists one by one.
    fn matches(query: &SearchQuery, device: &OpenDevice, id: usize) -> bool {
        let allocations = &device.history().allocations;
        let a = &allocations[id];
        let inside = |spans: &[[u32; 2]], at: Moment| {
            spans.iter().any(|&[from, to]| from as usize <= at.index() && at.index() <= to as usize)
        };
        match query {
            SearchQuery::All { of } => of.iter().filter(|one| !matches(one, device, id)).count() == 0,
            SearchQuery::Any { of } => of.iter().filter(|one| matches(one, device, id)).count() > 0,
            SearchQuery::Not { of } => !matches(of, device, id),
            SearchQuery::Stacks { stacks } => a.stack.is_some_and(|s| stacks.contains(&(s.index() as u32))),
            SearchQuery::Tags { tags } => tags.contains(&device.tags.allocations[id]),
            SearchQuery::Purposes { purposes } => purposes.contains(&device.purposes().allocations[id]),
            SearchQuery::Address { address, version } => {
                let at = *address as u64;
                let before = allocations[..id].iter().filter(|of| of.address == a.address).count();
                match version {
                    Some(version) => a.address == at && before == *version as usize,
                    None => a.address == at || (a.address < at && at < a.address + a.size),
                }
            }
            SearchQuery::Size { min, max } => {
                a.size as f64 >= *min && max.is_none_or(|max| a.size as f64 <= max)
            }
            SearchQuery::Allocated { spans } => inside(spans, a.from),
            SearchQuery::Freed { spans } => inside(spans, a.freed),
            SearchQuery::Leak { leak } => device.leaks().get(*leak).is_some_and(|of| of.keeps(a)),
        }
    }

    #[test]
    fn a_search_finds_what_looking_at_every_allocation_finds() {
        let mut random = Random(7);
        for example in ["leak.pickle", "oom.pickle", "training.pickle.zst"] {
            let file = open(example);
            let device = &file.devices[0];
            let all = device.history().allocations.len();
            let mut told = 0;
            for _ in 0..150 {
                let query = random.search(device, 3);
                let found = device.found(&query, &Cancel::default()).unwrap();
                let naive: Vec<usize> = (0..all).filter(|&id| matches(&query, device, id)).collect();
                assert_eq!(found.numbers().collect::<Vec<_>>(), naive, "{example} {query:?}");
                told += usize::from(!naive.is_empty() && naive.len() < all);
            }
            assert!(told > 50, "{told} searches of {example} told allocations apart");
        }
    }

    #[test]
    fn an_allocation_lies_where_the_stack_has_it() {
        let file = open("oom.pickle");
        let device = &file.devices[0];
        let history = device.history();
        for id in (0..history.allocations.len()).step_by(37) {
            let a = &history.allocations[id];
            let place = device.place(PlaceQuery { id, stacked: ByteKind::Allocated }).unwrap();
            assert!(place.below_last <= place.below_first);
            // What is younger lies above it.
            if a.from > Moment::START {
                let total = device.timeline.counters_at(a.from).allocated;
                assert_eq!(place.below_first + place.bytes, total);
            }
        }
        let length = history.allocations.len();
        assert!(device.place(PlaceQuery { id: length, stacked: ByteKind::Allocated }).is_err());
    }

    #[test]
    fn nobody_waits_for_a_search_that_is_cancelled() {
        let file = open("leak.pickle");
        let cancel = Cancel::default();
        cancel.cancel();
        let all = SearchQuery::All { of: Vec::new() };
        assert!(matches!(file.devices[0].search(&all, &cancel), Err(ViewError::Unwanted)));
    }
}
