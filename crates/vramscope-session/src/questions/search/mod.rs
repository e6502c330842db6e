//! Searches for allocations of one device.

mod texts;

use std::cmp::Reverse;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use vramscope_analysis::{
    Axis, ByteKind, Cancel, Moment, Origin, RecordedAllocation, ReservedRange, Timeline,
};
use vramscope_basics::lock;
use vramscope_basics::units::parse_bytes;
use vramscope_trace::Category;

use crate::SessionError;
use crate::questions::bits::{Bits, STRIDE, Spans};
use crate::questions::columns::{Columns, Reply, U8s, U32s, moment, stack};
use crate::questions::conditions::{Condition, LifetimeUnit, Search, SearchQuery, SizeSign, Sought};
use crate::questions::device::{OpenDevice, Searched};
use crate::questions::transforms::{ORIGINS, Prepared};
use texts::Finder;

/// The matches of a search: their number, a bit set, and the largest of them.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Found {
    pub(crate) count: usize,
    /// The bytes of all matches, summed over the recording.
    pub(crate) bytes: u64,
    /// A bit for each allocation, starting with the lowest bit of the first byte: 1 for a match.
    pub(crate) allocations: U8s,
    /// The same for each reserved range.
    pub(crate) ranges: U8s,
    /// The indices of the largest matches.
    pub(crate) id: U32s,
    /// For each of `CATEGORIES`: 0 if the search cannot match it, judged by its category conditions.
    pub(crate) categories: Vec<u8>,
    /// Why conditions are ignored.
    pub(crate) unclear: Vec<String>,
    /// Whether no condition is valid, so that everything matches.
    pub(crate) is_empty: bool,
}

/// Requests the positions of matches that are smaller than a pixel in a window.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct SpecksQuery {
    pub(crate) search: SearchQuery,
    #[cfg_attr(test, ts(type = "Axis"))]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub(crate) axis: Axis,
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) width: u16,
    /// The bytes per pixel.
    pub(crate) bytes: f64,
}

/// Matches that are too small for a picture.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Specks {
    /// 1 for each pixel column in which such an allocation begins. Allocations from before the window count in the first
    /// column.
    pub(crate) at: U8s,
    pub(crate) count: usize,
}

/// Requests the position of an allocation in the stacked timeline.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct PlaceQuery {
    pub(crate) id: usize,
    #[cfg_attr(test, ts(type = "ByteKind"))]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub(crate) stacked: ByteKind,
    /// The search whose matches alone are stacked; null for all allocations.
    pub(crate) only: Option<SearchQuery>,
}

/// The position of an allocation in the stacked timeline.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Place {
    /// Its first moment, and the first moment after its end; the end of the recording if it stays.
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) from_us: Option<i64>,
    pub(crate) to_us: Option<i64>,
    /// Its bytes as stacked.
    pub(crate) bytes: u64,
    /// The bytes below it at its first moment and at its last moment. The second number is never larger.
    pub(crate) below_first: u64,
    pub(crate) below_last: u64,
}

/// The maximum number of listed matches, largest first. All matches are counted.
const MOST_FOUND: usize = 1000;

/// The maximum number of conditions in a search. Every allocation is checked against each.
const MOST_CONDITIONS: usize = 256;

/// The tolerance of a size without a sign, in thousandths.
const ABOUT: u64 = 5;

/// Prepares a search.
fn read(device: &OpenDevice, query: &SearchQuery, cancel: &Cancel) -> Result<Search, SessionError> {
    let mut reader = Reader { device, cancel, unclear: Vec::new(), conditions: 0 };
    let condition = reader.read(query)?;
    Ok(Search { condition, unclear: reader.unclear })
}

/// Converts a query to conditions.
struct Reader<'r> {
    device: &'r OpenDevice,
    cancel: &'r Cancel,
    unclear: Vec<String>,
    conditions: usize,
}

impl Reader<'_> {
    /// Converts a query. `None` if the condition is invalid and is ignored.
    fn read(&mut self, query: &SearchQuery) -> Result<Option<Condition>, SessionError> {
        self.conditions += 1;
        if self.conditions > MOST_CONDITIONS {
            let why = format!("a search has at most {MOST_CONDITIONS} conditions");
            return Err(SessionError::Argument(why));
        }
        let read = match query {
            SearchQuery::All { of } => self.several(of, Condition::All)?,
            SearchQuery::Any { of } => self.several(of, Condition::Any)?,
            SearchQuery::Not { of } => self.read(of)?.map(|one| Condition::Not(Box::new(one))),
            SearchQuery::Transforms { transforms } => {
                let (trace, frames) = (self.device.history().trace(), self.device.frames());
                let kept = Prepared::of(trace, frames, transforms)?.kept(trace, frames, self.cancel)?;
                Some(Condition::Kept(Box::new(kept)))
            }
            SearchQuery::Frame { field, sought } => match self.finder(sought) {
                Some(finder) => {
                    Some(Condition::Stacks(texts::stacks_with(self.device, *field, &finder, self.cancel)?))
                }
                None => None,
            },
            SearchQuery::Tag { field, sought } => {
                let finder = self.finder(sought);
                let tags = finder.map(|finder| texts::tags_with(self.device, *field, sought, &finder));
                tags.and_then(|tags| self.understood(tags)).map(Condition::Tags)
            }
            SearchQuery::Category { sought } => {
                self.understood(texts::categories_with(sought)).map(Condition::Categories)
            }
            SearchQuery::Region { sought } => {
                let finder = self.finder(sought);
                finder
                    .map(|finder| Condition::Allocated(Spans::of(texts::regions_with(self.device, &finder))))
            }
            SearchQuery::Phase { sought } => self
                .understood(texts::phases_with(self.device, sought))
                .map(|spans| Condition::Allocated(Spans::of(spans))),
            &SearchQuery::Step { from, to } => Some(Condition::Allocated(self.steps(from, to))),
            SearchQuery::Size { sign, size } => self.size(*sign, size),
            &SearchQuery::Address { address, version } => Some(Condition::Address { at: address, version }),
            &SearchQuery::Lived { from, to, unit } => self.lived(from, to, unit),
            SearchQuery::Allocated { spans } => Some(Condition::Allocated(Spans::of(spans.clone()))),
            SearchQuery::Freed { spans } => Some(Condition::Freed(Spans::of(spans.clone()))),
            &SearchQuery::Leak { leak } => Some(Condition::Leak(leak)),
            &SearchQuery::Idle { idle } => Some(Condition::Idle(idle)),
        };
        Ok(read)
    }

    fn several(
        &mut self,
        of: &[SearchQuery],
        put_together: fn(Vec<Condition>) -> Condition,
    ) -> Result<Option<Condition>, SessionError> {
        let mut conditions = Vec::with_capacity(of.len());
        for one in of {
            conditions.extend(self.read(one)?);
        }
        Ok((!conditions.is_empty()).then(|| put_together(conditions)))
    }

    fn finder(&mut self, sought: &Sought) -> Option<Finder> {
        self.understood(Finder::of(sought))
    }

    /// Unwraps a result. Records the reason of an error, once.
    fn understood<T>(&mut self, read: Result<T, String>) -> Option<T> {
        match read {
            Ok(read) => Some(read),
            Err(why) => {
                if !self.unclear.contains(&why) {
                    self.unclear.push(why);
                }
                None
            }
        }
    }

    fn size(&mut self, sign: SizeSign, size: &str) -> Option<Condition> {
        let read = parse_bytes(size).map_err(|why| format!("{}: {why}", size.trim()));
        let bytes = self.understood(read)?;
        let part = (u128::from(bytes) * u128::from(ABOUT) / 1000) as u64;
        let (min, max) = match sign {
            SizeSign::Above => (bytes.saturating_add(1), u64::MAX),
            SizeSign::AtLeast => (bytes, u64::MAX),
            SizeSign::Below => (0, bytes.saturating_sub(1)),
            SizeSign::AtMost => (0, bytes),
            SizeSign::About => (bytes - part, bytes.saturating_add(part)),
        };
        Some(Condition::Size { min, max })
    }

    fn lived(&mut self, from: f64, to: Option<f64>, unit: LifetimeUnit) -> Option<Condition> {
        if unit == LifetimeUnit::Us && self.device.timeline.duration().is_none() {
            return self
                .understood(Err("lived: the recording has no times; lived:>100 counts events".to_owned()));
        }
        Some(Condition::Lived { min: from, max: to.unwrap_or(f64::INFINITY), unit })
    }

    /// The intervals of the moments right after allocations in these steps, counted from 1.
    fn steps(&self, from: f64, to: Option<f64>) -> Spans {
        let steps = &self.device.purposes().steps.steps;
        let is_asked = |&(number, _): &(usize, _)| {
            let number = (number + 1) as f64;
            from <= number && to.is_none_or(|to| number <= to)
        };
        let asked = steps.iter().enumerate().filter(is_asked);
        let spans = asked.map(|(_, step)| [step.from.index() as u32 + 1, step.to.index() as u32]);
        Spans::of(spans.filter(|[from, to]| from <= to).collect())
    }
}

/// An allocation or reserved range, as a search sees it.
struct Thing {
    address: u64,
    size: u64,
    stack: u32,
    tags: u32,
    from: u32,
    freed: u32,
    /// The index of the allocation. A reserved range has no category and no version.
    allocation: Option<usize>,
}

/// Decides which allocations of a device match a search.
pub(crate) struct Matcher<'d> {
    device: &'d OpenDevice,
    search: Arc<Search>,
}

impl<'d> Matcher<'d> {
    /// The matcher of a search; `None` without a valid condition.
    ///
    /// # Errors
    /// Fails if the search has too many conditions or is cancelled.
    pub(crate) fn of(
        device: &'d OpenDevice,
        query: Option<&SearchQuery>,
        cancel: &Cancel,
    ) -> Result<Option<Self>, SessionError> {
        let search = query.map(|query| device.ready(query, cancel)).transpose()?;
        Ok(search.filter(|search| search.condition.is_some()).map(|search| Self { device, search }))
    }

    /// Whether the allocation with this index matches.
    pub(crate) fn finds(&self, id: usize) -> bool {
        let a: &RecordedAllocation = &self.device.history().allocations[id];
        self.takes(&Thing {
            address: a.address,
            size: a.size,
            stack: stack(a.stack),
            tags: self.device.tags.allocations[id],
            from: moment(a.from),
            freed: moment(a.freed),
            allocation: Some(id),
        })
    }

    /// Whether the reserved range with this index matches.
    fn finds_range(&self, number: usize) -> bool {
        let r: &ReservedRange = &self.device.history().reserved[number];
        self.takes(&Thing {
            address: r.address,
            size: r.size,
            stack: stack(r.stack),
            tags: self.device.tags.ranges[number],
            from: moment(r.from),
            freed: moment(r.to),
            allocation: None,
        })
    }

    fn takes(&self, thing: &Thing) -> bool {
        self.search.condition.as_ref().is_none_or(|condition| self.holds(condition, thing))
    }

    fn holds(&self, condition: &Condition, thing: &Thing) -> bool {
        // Categories and versions are computed for the whole device, so only conditions that need them access them.
        match condition {
            Condition::All(of) => of.iter().all(|one| self.holds(one, thing)),
            Condition::Any(of) => of.iter().any(|one| self.holds(one, thing)),
            Condition::Not(of) => !self.holds(of, thing),
            Condition::Stacks(stacks) => stacks.has(thing.stack),
            Condition::Kept(kept) => {
                let history = self.device.history();
                let origin = thing.allocation.map_or(Origin::Recorded, |id| history.allocations[id].origin);
                let of = ORIGINS.iter().position(|&one| one == origin).unwrap_or_default();
                kept[of].has(thing.stack.min(history.trace().stacks.len() as u32))
            }
            Condition::Tags(tags) => tags.has(thing.tags),
            Condition::Categories(categories) => thing.allocation.is_some_and(|id| {
                let purposes = self.device.purposes();
                let number = purposes.table[usize::from(purposes.allocations[id])].category;
                categories.get(usize::from(number)).copied().unwrap_or_default()
            }),
            &Condition::Address { at, version } => {
                let (begin, size) = (thing.address as f64, thing.size as f64);
                let is_version = |version| {
                    begin == at && thing.allocation.is_some_and(|id| self.device.versions()[id] == version)
                };
                begin <= at && at < begin + size.max(1.0) && version.is_none_or(is_version)
            }
            Condition::Size { min, max } => (*min..=*max).contains(&thing.size),
            &Condition::Lived { min, max, unit } => {
                self.lived(thing, unit).is_some_and(|(lived, is_exact)| {
                    // A lifetime that the recording cuts off has no upper bound.
                    min <= lived && if is_exact { lived <= max } else { max == f64::INFINITY }
                })
            }
            Condition::Allocated(spans) => spans.has(thing.from),
            Condition::Freed(spans) => spans.has(thing.freed),
            Condition::Leak(leak) => thing.allocation.is_some_and(|id| {
                let suspect = self.device.leaks().get(*leak);
                suspect.is_some_and(|of| of.keeps(&self.device.history().allocations[id]))
            }),
            Condition::Idle(idle) => thing.allocation.is_some_and(|id| {
                let finding = self.device.idle().and_then(|of| of.findings.get(*idle));
                finding.is_some_and(|of| of.allocations.binary_search(&(id as u32)).is_ok())
            }),
        }
    }
}

impl Matcher<'_> {
    /// How long a thing was live in the recording, and whether the recording has both ends. `None` without times.
    fn lived(&self, thing: &Thing, unit: LifetimeUnit) -> Option<(f64, bool)> {
        let end = moment(self.device.history().end());
        let is_exact = thing.from > 0 && thing.freed <= end;
        let (from, to) = (thing.from, thing.freed.min(end));
        let lived = match unit {
            LifetimeUnit::Events => i64::from(to) - i64::from(from),
            LifetimeUnit::Us => {
                let us = |at: u32| self.device.timeline.time_of(Moment::from_index(at as usize));
                us(to)? - us(from).unwrap_or(0)
            }
        };
        Some((lived as f64, is_exact))
    }
}

impl OpenDevice {
    /// Prepares a search. The last one is cached, because pictures and tables request it again.
    fn ready(&self, query: &SearchQuery, cancel: &Cancel) -> Result<Arc<Search>, SessionError> {
        if let Some(last) = lock(&self.searched).as_ref().filter(|last| last.query == *query) {
            return Ok(last.search.clone());
        }
        let search = Arc::new(read(self, query, cancel)?);
        *lock(&self.searched) =
            Some(Searched { query: query.clone(), search: search.clone(), found: None, timeline: None });
        Ok(search)
    }

    /// The timeline of the matches alone; `None` without a search, or without a valid condition in it.
    pub(crate) fn only(
        &self,
        query: Option<&SearchQuery>,
        cancel: &Cancel,
    ) -> Result<Option<Arc<Timeline>>, SessionError> {
        let Some(query) = query else { return Ok(None) };
        let search = self.ready(query, cancel)?;
        if search.condition.is_none() {
            return Ok(None);
        }
        let is_it = |last: &&mut Searched| Arc::ptr_eq(&last.search, &search);
        if let Some(known) =
            lock(&self.searched).as_mut().filter(is_it).and_then(|last| last.timeline.clone())
        {
            return Ok(Some(known));
        }
        let found = self.found(query, cancel)?;
        let only = self.timeline.only(|id| found.has(id as u32), cancel).ok_or(SessionError::Cancelled)?;
        let only = Arc::new(only);
        if let Some(last) = lock(&self.searched).as_mut().filter(is_it) {
            last.timeline = Some(only.clone());
        }
        Ok(Some(only))
    }

    /// The allocations that match a search.
    pub(crate) fn found(&self, query: &SearchQuery, cancel: &Cancel) -> Result<Arc<Bits>, SessionError> {
        let search = self.ready(query, cancel)?;
        let is_it = |last: &&mut Searched| Arc::ptr_eq(&last.search, &search);
        if let Some(found) = lock(&self.searched).as_mut().filter(is_it).and_then(|last| last.found.clone()) {
            return Ok(found);
        }
        let matcher = Matcher { device: self, search: search.clone() };
        let length = self.history().allocations.len();
        let found = Arc::new(Bits::those(length, cancel, |id| matcher.finds(id))?);
        if let Some(last) = lock(&self.searched).as_mut().filter(is_it) {
            last.found = Some(found.clone());
        }
        Ok(found)
    }

    pub(crate) fn search(&self, query: &SearchQuery, cancel: &Cancel) -> Reply<Found> {
        let history = self.history();
        let allocations = &history.allocations;
        let search = self.ready(query, cancel)?;
        let found = self.found(query, cancel)?;
        let matcher = Matcher { device: self, search: search.clone() };
        let ranges = Bits::those(history.reserved.len(), cancel, |number| matcher.finds_range(number))?;
        let finds =
            |category| search.condition.as_ref().and_then(|one| one.of_category(category)) != Some(false);
        let (mut count, mut bytes) = (0, 0);
        let mut largest: Vec<(Reverse<u64>, usize)> = Vec::new();
        // Allocations below this size are not among the largest.
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
            categories: (0..Category::ALL.len()).map(|category| u8::from(finds(category))).collect(),
            unclear: search.unclear.clone(),
            is_empty: search.condition.is_none(),
        })
    }

    pub(crate) fn specks(&self, query: &SpecksQuery, cancel: &Cancel) -> Reply<Specks> {
        let &SpecksQuery { from, to, width, bytes, .. } = query;
        if !(from.is_finite() && to.is_finite() && from < to && bytes.is_finite()) {
            return Err(SessionError::Argument("invalid window: position out of range".to_owned()));
        }
        self.check(query.axis)?;
        let end = self.history().end();
        let place = |at: Moment| match query.axis {
            Axis::Events => at.index() as f64,
            Axis::Time => self.timeline.time_of(at).unwrap_or(0) as f64,
        };
        let pixel = (to - from) / f64::from(width);
        let mut at = vec![0; usize::from(width)];
        let mut count = 0;
        for (number, id) in self.found(&query.search, cancel)?.numbers().enumerate() {
            if number % STRIDE == 0 && cancel.is_cancelled() {
                return Err(SessionError::Cancelled);
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

    /// The position of an allocation in a stack of some kind of bytes.
    pub(crate) fn place(
        &self,
        &PlaceQuery { id, stacked, ref only }: &PlaceQuery,
        cancel: &Cancel,
    ) -> Result<Place, SessionError> {
        let only = self.only(only.as_ref(), cancel)?;
        let timeline = only.as_deref().unwrap_or(&self.timeline);
        let history = self.history();
        let Some(a) = history.allocations.get(id) else {
            return Err(SessionError::Argument(format!("no allocation {id}")));
        };
        let is_allocated = stacked == ByteKind::Allocated;
        let bytes =
            |of: &RecordedAllocation| if stacked == ByteKind::Requested { of.requested } else { of.size };
        let to = if is_allocated { a.freed } else { a.to };
        let to = to.min(Moment::from_index(history.end().index() + 1));
        let below = |at: Moment| -> u64 {
            let older = timeline.active_at(at).into_iter().map(|id| id as usize).take_while(|&of| of != id);
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
    use vramscope_analysis::StepPhase;

    use super::*;
    use crate::questions::conditions::FrameField;
    use crate::questions::conditions::TagField;
    use crate::questions::recording::OpenRecording;
    use crate::questions::recording::example as open;
    use crate::questions::tables::category;

    /// Pseudorandom numbers, equal in every run.
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % end
        }

        fn of<'t>(&mut self, texts: &[&'t str]) -> &'t str {
            texts[self.below(texts.len() as u64) as usize]
        }

        /// A random search of a device, usually about values in it.
        fn search(&mut self, device: &OpenDevice, depth: u32) -> SearchQuery {
            let history = device.history();
            let any = &history.allocations[self.below(history.allocations.len() as u64) as usize];
            let end = history.end().index() as u64 + 2;
            let mut span = || [self.below(end) as u32, self.below(end) as u32];
            let mut spans = vec![span(), span()];
            match self.below(if depth == 0 { 10 } else { 13 }) {
                0 => {
                    let of = [FrameField::Any, FrameField::File, FrameField::Function, FrameField::Line];
                    let field = of[self.below(4) as usize];
                    SearchQuery::Frame { field, sought: text(self.of(&["forward", "TRAIN", "nn/", "st"])) }
                }
                1 => SearchQuery::Tag { field: TagField::Stream, sought: text(self.of(&["default", "0x3"])) },
                2 => SearchQuery::Category { sought: text(self.of(&["grad", "a", "optimizer state"])) },
                3 => SearchQuery::Address {
                    address: any.address as f64,
                    version: Some(self.below(3) as u32).filter(|&v| v > 0),
                },
                4 => {
                    let signs = [SizeSign::Above, SizeSign::AtLeast, SizeSign::Below, SizeSign::AtMost];
                    SearchQuery::Size { sign: signs[self.below(4) as usize], size: any.size.to_string() }
                }
                5 => SearchQuery::Allocated { spans },
                6 => {
                    spans.push([u32::MAX; 2]);
                    SearchQuery::Freed { spans }
                }
                7 => SearchQuery::Step { from: self.below(5) as f64, to: Some(self.below(9) as f64) },
                8 => {
                    let (unit, most) = match self.below(2) {
                        0 => (LifetimeUnit::Events, end),
                        _ => (LifetimeUnit::Us, device.timeline.duration().unwrap_or(1) as u64),
                    };
                    let from = self.below(most / 8);
                    let to = (self.below(2) == 0).then(|| (from + self.below(most / 8)) as f64);
                    SearchQuery::Lived { from: from as f64, to, unit }
                }
                9 => SearchQuery::Phase { sought: text(self.of(&["forward", "WARD", "zero grad", "optim"])) },
                10 => SearchQuery::All { of: (0..3).map(|_| self.search(device, depth - 1)).collect() },
                11 => SearchQuery::Any { of: (0..3).map(|_| self.search(device, depth - 1)).collect() },
                _ => SearchQuery::Not { of: Box::new(self.search(device, depth - 1)) },
            }
        }
    }

    fn text(text: &str) -> Sought {
        Sought { text: text.to_owned(), is_pattern: false }
    }

    /// A reference implementation that compares texts one by one.
    fn matches(query: &SearchQuery, device: &OpenDevice, id: usize) -> bool {
        let allocations = &device.history().allocations;
        let trace = device.history().trace();
        let a = &allocations[id];
        let inside = |spans: &[[u32; 2]], at: Moment| {
            spans.iter().any(|&[from, to]| from as usize <= at.index() && at.index() <= to as usize)
        };
        let has = |within: &str, sought: &Sought| within.to_lowercase().contains(&sought.text.to_lowercase());
        match query {
            SearchQuery::All { of } => of.iter().filter(|one| !matches(one, device, id)).count() == 0,
            SearchQuery::Any { of } => of.iter().filter(|one| matches(one, device, id)).count() > 0,
            SearchQuery::Not { of } => !matches(of, device, id),
            // `held.rs` compares these with the call tree.
            SearchQuery::Transforms { .. } => unreachable!("not among the random searches"),
            SearchQuery::Frame { field, sought } => a.stack.is_some_and(|stack| {
                let names = vramscope_report::Names { trace, frames: device.frames() };
                let label = |id| String::from(names.frame(id));
                if *field == FrameField::Line {
                    let own = device.frames().own_frame(trace, stack);
                    return own.is_some_and(|own| has(&label(own), sought));
                }
                trace.stacks.get(stack).iter().any(|&id| {
                    let frame = trace.frames.get(id);
                    let [file, function] = [frame.filename, frame.name].map(|text| trace.strings.get(text));
                    let whole = format!("{file}:{} {function}", frame.line);
                    match field {
                        FrameField::File => has(file, sought),
                        FrameField::Function => has(function, sought),
                        _ => has(&label(id), sought) || has(&whole, sought),
                    }
                })
            }),
            &SearchQuery::Lived { from, to, unit } => {
                let end = device.history().end();
                let us = |at: Moment| match unit {
                    LifetimeUnit::Events => at.index() as i64,
                    LifetimeUnit::Us => device.timeline.time_of(at).unwrap_or(0),
                };
                let lived = (us(a.freed.min(end)) - us(a.from)) as f64;
                let is_cut_off = a.from == Moment::START || a.freed == Moment::NEVER;
                from <= lived && to.is_none_or(|to| !is_cut_off && lived <= to)
            }
            SearchQuery::Tag { sought, .. } => {
                let stream = if sought.text == "default" { 0 } else { 3 };
                device.tags.table[device.tags.allocations[id] as usize].stream == stream
            }
            SearchQuery::Category { sought } => {
                let category = device.purposes().category(id as u32);
                has(&category.name().replace('_', " "), sought)
            }
            SearchQuery::Phase { sought } => {
                let is_there = |phase: &&StepPhase| phase.from < a.from && a.from <= phase.to;
                let phase = device.purposes().steps.phases.iter().find(is_there);
                phase.is_some_and(|phase| has(&phase.phase.name().replace('_', " "), sought))
            }
            SearchQuery::Step { from, to } => {
                let step = device.purposes().steps.at(a.from).filter(|_| a.from > Moment::START);
                let number = step.map(|step| (step + 1) as f64);
                number.is_some_and(|n| *from <= n && to.is_none_or(|to| n <= to))
            }
            SearchQuery::Address { address, version } => {
                let at = *address as u64;
                let before = allocations[..id].iter().filter(|of| of.address == a.address).count();
                match version {
                    Some(version) => a.address == at && before == *version as usize,
                    None => a.address == at || (a.address < at && at < a.address + a.size),
                }
            }
            SearchQuery::Size { sign, size } => {
                let size: u64 = size.parse().unwrap();
                match sign {
                    SizeSign::Above => a.size > size,
                    SizeSign::AtLeast => a.size >= size,
                    SizeSign::Below => a.size < size,
                    SizeSign::AtMost => a.size <= size,
                    SizeSign::About => a.size.abs_diff(size) * 200 <= size,
                }
            }
            SearchQuery::Allocated { spans } => inside(spans, a.from),
            SearchQuery::Freed { spans } => inside(spans, a.freed),
            SearchQuery::Region { .. } => unreachable!(),
            SearchQuery::Leak { leak } => device.leaks().get(*leak).is_some_and(|of| of.keeps(a)),
            SearchQuery::Idle { .. } => unreachable!(),
        }
    }

    /// The result of a search in the example with annotated regions: the number of matches, the ignored conditions, whether the
    /// search is empty, and the possible categories.
    fn answered(query: &SearchQuery) -> (usize, Vec<String>, bool, Vec<u8>) {
        let file = open("training.pickle.zst");
        let device = &file.devices[0];
        let search = device.ready(query, &Cancel::default()).unwrap();
        let found = device.found(query, &Cancel::default()).unwrap().numbers().count();
        let finds = |category| search.condition.as_ref().and_then(|one| one.of_category(category));
        let categories = (0..Category::ALL.len()).map(|n| u8::from(finds(n) != Some(false))).collect();
        (found, search.unclear.clone(), search.condition.is_none(), categories)
    }

    #[test]
    fn a_condition_that_means_nothing_does_not_count() {
        let pattern = |text: &str| Sought { text: text.to_owned(), is_pattern: true };
        let wrong = || SearchQuery::Frame { field: FrameField::Any, sought: pattern("(") };
        let forward = || SearchQuery::Frame { field: FrameField::Any, sought: text("forward") };
        let (some, ..) = answered(&forward());
        assert!(some > 100);
        let (all, unclear, is_empty, _) = answered(&SearchQuery::All { of: vec![wrong(), wrong()] });
        assert!(is_empty && all > some);
        assert_eq!(unclear.len(), 1, "{unclear:?}");
        let (found, unclear, is_empty, _) = answered(&SearchQuery::Any { of: vec![wrong(), forward()] });
        assert!((found, is_empty) == (some, false) && unclear[0].contains("invalid regular expression"));
        let size = |size: &str| SearchQuery::Size { sign: SizeSign::AtLeast, size: size.to_owned() };
        let (_, unclear, is_empty, _) = answered(&size("5 parsecs"));
        assert!(is_empty && unclear[0].starts_with("5 parsecs: a size is"), "{unclear:?}");
        assert!(!answered(&size("1.5MiB")).2);
    }

    #[test]
    fn a_search_has_a_bounded_number_of_conditions() {
        let file = open("leak.pickle");
        let leaf = || SearchQuery::Size { sign: SizeSign::AtLeast, size: "1".to_owned() };
        let any = |count| SearchQuery::Any { of: (1..count).map(|_| leaf()).collect() };
        let found = |query: &SearchQuery| file.devices[0].found(query, &Cancel::default());
        assert!(found(&any(MOST_CONDITIONS)).is_ok());
        assert!(matches!(found(&any(MOST_CONDITIONS + 1)), Err(SessionError::Argument(_))));
    }

    #[test]
    fn regions_are_found_by_their_names() {
        let in_region = |name: &str| answered(&SearchQuery::Region { sought: text(name) }).0;
        assert!(in_region("forward") > 0 && in_region("no such region") == 0);
        assert!(in_region("") > in_region("forward"));
    }

    #[test]
    fn categories_are_faded_that_a_search_cannot_find() {
        let of = |text: &str| SearchQuery::Category { sought: super::tests::text(text) };
        let not = |of| SearchQuery::Not { of: Box::new(of) };
        let frame = || SearchQuery::Frame { field: FrameField::Any, sought: text("forward") };
        let all = |of| SearchQuery::All { of };
        let any = |of| SearchQuery::Any { of };
        for (query, finds) in [
            (frame(), true),
            (of("gradient"), true),
            (not(of("gradient")), false),
            (of("unknown"), false),
            (any(vec![of("unknown"), frame()]), true),
            (all(vec![of("unknown"), frame()]), false),
            (not(any(vec![of("gradient"), frame()])), false),
            (not(all(vec![of("gradient"), frame()])), true),
        ] {
            assert_eq!(
                answered(&query).3[usize::from(category(Category::Gradient))] == 1,
                finds,
                "{query:?}"
            );
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
    fn the_height_of_an_allocation_is_its_place_in_the_stack() {
        let file = open("oom.pickle");
        let device = &file.devices[0];
        let history = device.history();
        for id in (0..history.allocations.len()).step_by(37) {
            let a = &history.allocations[id];
            let place = device
                .place(&PlaceQuery { id, stacked: ByteKind::Allocated, only: None }, &Cancel::default())
                .unwrap();
            assert!(place.below_last <= place.below_first);
            // Younger allocations are above it.
            if a.from > Moment::START {
                let total = device.timeline.counters_at(a.from).allocated;
                assert_eq!(place.below_first + place.bytes, total);
            }
        }
        let length = history.allocations.len();
        assert!(
            device
                .place(
                    &PlaceQuery { id: length, stacked: ByteKind::Allocated, only: None },
                    &Cancel::default()
                )
                .is_err()
        );
    }

    #[test]
    fn the_timeline_of_matches_has_the_matches_alone() {
        let file = open("training.pickle.zst");
        let device = &file.devices[0];
        let history = device.history();
        let cancel = Cancel::default();
        let search = SearchQuery::Category { sought: text("gradient") };
        let only = device.only(Some(&search), &cancel).unwrap().unwrap();
        let found = device.found(&search, &cancel).unwrap();
        let everything = device.timeline.only(|_| true, &cancel).unwrap();
        let mut most = 0;
        for at in (0..=history.end().index()).map(Moment::from_index) {
            let whole = device.timeline.counters_at(at);
            assert_eq!(everything.counters_at(at), whole);
            let matches = found.numbers().map(|id| &history.allocations[id]);
            let live: u64 = matches.filter(|a| a.is_allocated_at(at)).map(|a| a.size).sum();
            let counters = only.counters_at(at);
            assert_eq!((counters.allocated, counters.reserved), (live, whole.reserved));
            most = most.max(live);
        }
        assert!(most > 0 && only.peaks().allocated.bytes == most);
        // The stack of an allocation's place has only matches below it.
        let id = found.numbers().last().unwrap();
        let place = device
            .place(&PlaceQuery { id, stacked: ByteKind::Allocated, only: Some(search) }, &cancel)
            .unwrap();
        let at = history.allocations[id].from;
        assert_eq!(place.below_first + place.bytes, only.counters_at(at).allocated);
        // A search without a valid condition stacks everything.
        let invalid = SearchQuery::Size { sign: SizeSign::Above, size: "many".to_owned() };
        assert!(device.only(Some(&invalid), &cancel).unwrap().is_none());
        assert!(device.only(None, &cancel).unwrap().is_none());
        cancel.cancel();
        assert!(device.timeline.only(|_| true, &cancel).is_none());
    }

    /// A block of 4 KiB, used once and freed three events later, and one of 1 KiB in between, in use all the time.
    fn with_accesses() -> OpenRecording {
        let event = |action: &str, address: u64, size: u64, line: u32| {
            let frames =
                [serde_json::json!({"name": "step", "filename": "/home/user/train.py", "line": line})];
            serde_json::json!({"action": action, "addr": address, "size": size, "stream": 0, "frames": frames, "time_us": address / 16})
        };
        let events = [
            event("alloc", 0x1000, 4096, 1),
            event("alloc", 0x2000, 1024, 2),
            event("free_completed", 0x2000, 1024, 3),
            event("free_completed", 0x1000, 4096, 3),
        ];
        let snapshot = serde_json::json!({"segments": [], "device_traces": [events]}).to_string();
        let mut recording = vramscope_trace::formats::read(snapshot.as_bytes()).unwrap();
        let uses = |allocation: usize, first: usize, last: usize| vramscope_trace::AllocationAccesses {
            device: 0,
            allocation,
            first,
            last,
            count: (last - first + 1) as u64,
            longest_idle: (first, (first + 1).min(last)),
        };
        let allocations = vec![uses(0, 1, 1), uses(1, 2, 2)];
        Arc::get_mut(&mut recording.trace).unwrap().accesses =
            Some(vramscope_trace::Accesses { allocations, launches: 9, unknown_launches: 2 });
        OpenRecording::of("f".to_owned(), None, recording, &Cancel::default()).unwrap()
    }

    #[test]
    fn idle_memory_is_reported_and_found_by_search() {
        let file = with_accesses();
        let report = file.report(0, crate::ReportRequest::default(), &Cancel::default()).unwrap();
        let idle = &report.device["idle"];
        assert_eq!(idle["findings"][0]["kind"], "freed_late");
        assert_eq!((&idle["unknown_launches"], &idle["lower_bound_bytes"]), (&2.into(), &4096.into()));
        let texts = report.idle.unwrap();
        assert_eq!(
            texts.told,
            [
                "If every allocation lived from its first to its last use, the peak of allocated bytes would be 4.00 KiB instead of 5.00 KiB.",
                "The parameters of 2 of all 9 launches are unknown. These launches may have used this memory."
            ]
        );
        let text = "used once, 2 events (256 us) before it was freed; freed then, the peak would be 4.00 KiB instead of 5.00 KiB";
        assert_eq!(texts.findings, [["train.py:1 step".to_owned(), text.to_owned()]]);
        let device = &file.devices[0];
        let found = |idle| {
            device
                .found(&SearchQuery::Idle { idle }, &Cancel::default())
                .unwrap()
                .numbers()
                .collect::<Vec<_>>()
        };
        assert_eq!((found(0), found(1)), (vec![0], vec![]));
        let uses = device.allocation(0).unwrap().uses.unwrap();
        assert_eq!((uses.count, uses.first, uses.last, uses.longest_idle), (1, Some(1), Some(1), None));
        assert!(open("leak.pickle").devices[0].allocation(0).unwrap().uses.is_none());
    }

    #[test]
    fn a_cancelled_search_ends_at_once() {
        let file = open("leak.pickle");
        let cancel = Cancel::default();
        cancel.cancel();
        let all = SearchQuery::All { of: Vec::new() };
        assert!(matches!(file.devices[0].search(&all, &cancel), Err(SessionError::Cancelled)));
    }
}
