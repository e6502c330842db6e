//! Answers about one device, as bundles. Their columns are described by the types of `viewer/src/source/source.ts`.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use vramscope_analysis::{
    Axis, ByteKind, Cancel, LARGEST_SIDE, Moment, Origin, Window, event_times, region_runs,
};
use vramscope_trace::{Action, SegmentKind, StackId};

use crate::ViewError;
use crate::bundle::{Answer, Bundle, NONE};
use crate::device::{CountersJson, OpenDevice, PoolJson};

/// The window of `picture`.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct WindowQuery {
    stacked: Stacked,
    axis: AxisQuery,
    from: f64,
    to: f64,
    width: u16,
    height: u16,
    low: f64,
    high: Option<f64>,
    fit_reserved: u8,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Stacked {
    Requested,
    Allocated,
    Active,
    Reserved,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AxisQuery {
    Events,
    Time,
}

/// What `search` looks for; see `Query` in `viewer/src/source/source.ts`.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct SearchQuery {
    stacks: Option<Vec<u32>>,
    tags: Option<Vec<u32>>,
    address: Option<f64>,
    /// Which of the allocations that begin at the address, from 0.
    version: Option<u32>,
    min: Option<f64>,
    max: Option<f64>,
}

/// Matches that are listed; all are counted.
const MOST_FOUND: usize = 1000;

/// Events in one answer.
const MOST_EVENTS: usize = 100_000;

/// Pixels of a picture.
const MOST_PIXELS: u32 = 64 << 20;

impl TryFrom<WindowQuery> for Window {
    type Error = ViewError;

    fn try_from(q: WindowQuery) -> Result<Self, ViewError> {
        let sides = [q.width, q.height];
        let numbers = [q.from, q.to, q.low, q.high.unwrap_or(0.0)];
        let sound = numbers.iter().all(|n| n.is_finite())
            && q.from < q.to
            && sides.iter().all(|&s| (1..=LARGEST_SIDE).contains(&s))
            && u32::from(q.width) * u32::from(q.height) <= MOST_PIXELS;
        if !sound {
            return Err(ViewError::Question("no window of that size or place can be drawn".to_owned()));
        }
        Ok(Self {
            stacked: match q.stacked {
                Stacked::Requested => ByteKind::Requested,
                Stacked::Allocated => ByteKind::Allocated,
                Stacked::Active => ByteKind::Active,
                Stacked::Reserved => ByteKind::Reserved,
            },
            axis: match q.axis {
                AxisQuery::Events => Axis::Events,
                AxisQuery::Time => Axis::Time,
            },
            from: q.from,
            to: q.to,
            width: q.width,
            height: q.height,
            low: q.low,
            high: q.high,
            fit_reserved: q.fit_reserved != 0,
        })
    }
}

pub(crate) fn stack(id: Option<StackId>) -> u32 {
    id.map_or(NONE, |s| s.index() as u32)
}

fn moment(m: Moment) -> u32 {
    m.index() as u32
}

pub(crate) fn kind(kind: SegmentKind) -> u8 {
    match kind {
        SegmentKind::Small => 0,
        SegmentKind::Large => 1,
        SegmentKind::Unknown => 2,
    }
}

pub(crate) fn origin(origin: Origin) -> u8 {
    match origin {
        Origin::Recorded => 0,
        Origin::EndState => 1,
        Origin::FreeOnly => 2,
    }
}

/// The number of an action in the page's `ACTIONS`.
pub(crate) fn action(action: Action) -> u8 {
    Action::KNOWN.iter().position(|&a| a == action).unwrap_or(Action::KNOWN.len()) as u8
}

#[derive(Serialize)]
struct AtMoment {
    moment: usize,
    counters: CountersJson,
}

impl OpenDevice<'_> {
    pub(crate) fn picture(&self, query: WindowQuery, cancel: &Cancel) -> Answer {
        let window = Window::try_from(query)?;
        if window.axis == Axis::Time && self.timeline.duration().is_none() {
            return Err(ViewError::Question("the recording has no times".to_owned()));
        }
        let view = self.timeline.view_unless(&window, cancel).ok_or(ViewError::Unwanted)?;
        let (picture, history) = (view.picture, self.history());
        #[derive(Serialize)]
        struct Ends {
            low: f64,
            high: f64,
        }
        let things = || picture.things.iter().map(|&id| id as usize);
        let bundle = Bundle::new(Ends { low: picture.low, high: picture.high })
            .u32("id", picture.things.iter().copied());
        let bundle = if window.stacked == ByteKind::Reserved {
            let ranges = || things().map(|i| &history.reserved[i]);
            bundle
                .bytes("address", ranges().map(|r| r.address))
                .bytes("bytes", ranges().map(|r| r.size))
                .u32("from", ranges().map(|r| moment(r.from)))
                .u32("to", ranges().map(|r| moment(r.to)))
                .u32("stack", ranges().map(|r| stack(r.stack)))
                .u32("tags", things().map(|i| self.tags.ranges[i]))
        } else {
            let allocations = || things().map(|i| &history.allocations[i]);
            let requested = window.stacked == ByteKind::Requested;
            let until_freed = window.stacked == ByteKind::Allocated;
            let sizes = requested.then(|| allocations().map(|a| a.size));
            let bundle = match sizes {
                Some(sizes) => bundle.bytes("size", sizes),
                None => bundle,
            };
            bundle
                .bytes("address", allocations().map(|a| a.address))
                .bytes("bytes", allocations().map(|a| if requested { a.requested } else { a.size }))
                .u32("from", allocations().map(|a| moment(a.from)))
                .u32("to", allocations().map(|a| moment(if until_freed { a.freed } else { a.to })))
                .u32("stack", allocations().map(|a| stack(a.stack)))
                .u32("tags", things().map(|i| self.tags.allocations[i]))
        };
        let [requested, allocated, active, reserved] = view.highest;
        bundle
            .u32("column", picture.column)
            .u32("moment", picture.moment)
            .u32("start", picture.start)
            .u32("item", picture.thing)
            .u16("end", picture.end)
            .bytes("requested", requested)
            .bytes("allocated", allocated)
            .bytes("active", active)
            .bytes("reserved", reserved)
            .finish()
    }

    pub(crate) fn live(&self, at: usize) -> Answer {
        #[derive(Default)]
        struct Sum {
            bytes: u64,
            requested: u64,
            count: u32,
        }
        let (history, at) = (self.history(), self.moment(at)?);
        let mut groups: Vec<((u32, u32, u8), Sum)> = Vec::new();
        let mut index: HashMap<(u32, u32, u8), usize> = HashMap::new();
        for id in self.timeline.active_at(at) {
            let a = &history.allocations[id as usize];
            if !a.is_allocated_at(at) {
                continue;
            }
            let key = (stack(a.stack), self.tags.allocations[id as usize], origin(a.origin));
            let group = *index.entry(key).or_insert_with(|| {
                groups.push((key, Sum::default()));
                groups.len() - 1
            });
            let sum = &mut groups[group].1;
            sum.bytes += a.size;
            sum.requested += a.requested;
            sum.count += 1;
        }
        Bundle::new(self.at(at))
            .u32("stack", groups.iter().map(|g| g.0.0))
            .u32("tags", groups.iter().map(|g| g.0.1))
            .u8("origin", groups.iter().map(|g| g.0.2))
            .bytes("bytes", groups.iter().map(|g| g.1.bytes))
            .bytes("requested", groups.iter().map(|g| g.1.requested))
            .u32("count", groups.iter().map(|g| g.1.count))
            .finish()
    }

    pub(crate) fn layout(&self, at: usize) -> Answer {
        let (history, at) = (self.history(), self.moment(at)?);
        let mut ranges = self.timeline.reserved_at(at);
        ranges.sort_by_key(|&id| history.reserved[id as usize].address);
        let mut blocks = self.timeline.active_at(at);
        blocks.sort_by_key(|&id| history.allocations[id as usize].address);
        let segments = || ranges.iter().map(|&id| &history.reserved[id as usize]);
        let active = || blocks.iter().map(|&id| &history.allocations[id as usize]);
        Bundle::new(self.at(at))
            .bytes("segment_address", segments().map(|r| r.address))
            .bytes("segment_bytes", segments().map(|r| r.size))
            .u32("segment_tags", ranges.iter().map(|&id| self.tags.ranges[id as usize]))
            .u8("segment_kind", segments().map(|r| kind(r.kind)))
            .u8("segment_expandable", segments().map(|r| r.expandable.into()))
            .u32("segment_stack", segments().map(|r| stack(r.stack)))
            .u32("segment_from", segments().map(|r| moment(r.from)))
            .u32("block_allocation", blocks.iter().copied())
            .bytes("block_address", active().map(|a| a.address))
            .bytes("block_bytes", active().map(|a| a.size))
            .bytes("block_requested", active().map(|a| a.requested))
            .u8("block_pending", active().map(|a| (!a.is_allocated_at(at)).into()))
            .u32("block_stack", active().map(|a| stack(a.stack)))
            .u32("block_tags", blocks.iter().map(|&id| self.tags.allocations[id as usize]))
            .u32("block_from", active().map(|a| moment(a.from)))
            .finish()
    }

    pub(crate) fn events(&self, first: usize, count: usize) -> Answer {
        let history = self.history();
        let all = &history.device.events;
        let first = first.min(all.len());
        let numbers = first..first.saturating_add(count.min(MOST_EVENTS)).min(all.len());
        let events = || numbers.clone().map(|i| all.get(i));
        // As the axis: where every event has a time.
        let origin = self.timeline.duration().and_then(|_| all.get(0).time_us);
        let time = |t: Option<i64>| t.zip(origin).map_or(f64::NAN, |(t, o)| t.saturating_sub(o) as f64);
        #[derive(Serialize)]
        struct First {
            first: usize,
        }
        Bundle::new(First { first })
            .u8("action", events().map(|e| action(e.action)))
            .bytes("address", events().map(|e| e.address))
            .bytes("bytes", events().map(|e| e.size))
            .f64("time_us", events().map(|e| time(e.time_us)))
            .u32("stack", events().map(|e| stack(e.stack)))
            .u32("tags", numbers.clone().map(|i| self.tags_of_event(i)))
            .u32(
                "allocation",
                numbers.clone().map(|i| history.subject_number(i).map_or(NONE, |id| id as u32)),
            )
            .finish()
    }

    /// The tags of an event; of one that makes an allocation, the allocation's, which may tell more.
    fn tags_of_event(&self, event: usize) -> u32 {
        let history = self.history();
        match history.subject_number(event) {
            Some(id) if history.allocations[id].from == Moment::after(event) => self.tags.allocations[id],
            _ => history.device.events.get(event).tags.index() as u32,
        }
    }

    pub(crate) fn allocation(&self, id: usize) -> Result<AllocationJson, ViewError> {
        let history = self.history();
        let Some(a) = history.allocations.get(id) else {
            return Err(ViewError::Question(format!("there is no allocation {id}")));
        };
        let time = |m: Moment| self.timeline.time_of(m);
        let end = |m: Moment| Some(m).filter(|&m| m != Moment::NEVER);
        let freed = end(a.freed);
        let free_event = freed.and_then(Moment::event).filter(|&e| history.subject_number(e) == Some(id));
        Ok(AllocationJson {
            id,
            address: a.address,
            version: self.versions()[id],
            requested: a.requested,
            bytes: a.size,
            from: a.from.index(),
            freed: freed.map(Moment::index),
            to: end(a.to).map(Moment::index),
            from_us: time(a.from),
            freed_us: freed.and_then(time),
            to_us: end(a.to).and_then(time),
            stack: a.stack.map(StackId::index),
            free_stack: free_event.and_then(|e| history.device.events.get(e).stack).map(StackId::index),
            tags: self.tags.allocations[id],
            origin: origin(a.origin),
            size_inferred: a.size_inferred,
            total: self.timeline.counters_at(a.from).allocated,
        })
    }

    pub(crate) fn search(&self, mut query: SearchQuery, cancel: &Cancel) -> Answer {
        let allocations = &self.history().allocations;
        let holds =
            |list: &Option<Vec<u32>>, n: u32| list.as_ref().is_none_or(|l| l.binary_search(&n).is_ok());
        for list in [&mut query.stacks, &mut query.tags].into_iter().flatten() {
            list.sort_unstable();
        }
        // Counted for this alone where nobody has asked: a search without a version needs none.
        let is_version = |id: usize, begin: f64| {
            query.version.is_none_or(|v| query.address == Some(begin) && self.versions()[id] == v)
        };
        let matches = |id: usize| {
            let a = &allocations[id];
            let (size, begin) = (a.size as f64, a.address as f64);
            query.min.is_none_or(|min| size >= min)
                && query.max.is_none_or(|max| size <= max)
                && query.address.is_none_or(|at| begin <= at && at < begin + size.max(1.0))
                && is_version(id, begin)
                && holds(&query.tags, self.tags.allocations[id])
                && holds(&query.stacks, stack(a.stack))
        };
        /// Between two looks whether the answer is still wanted.
        const STRIDE: usize = 1 << 16;
        let mut found: Vec<usize> = Vec::new();
        for first in (0..allocations.len()).step_by(STRIDE) {
            if cancel.is_cancelled() {
                return Err(ViewError::Unwanted);
            }
            let end = allocations.len().min(first + STRIDE);
            found.extend((first..end).filter(|&id| matches(id)));
        }
        #[derive(Serialize)]
        struct Total {
            count: usize,
            bytes: u64,
        }
        let total = Total { count: found.len(), bytes: found.iter().map(|&id| allocations[id].size).sum() };
        found.sort_by_key(|&id| (std::cmp::Reverse(allocations[id].size), id));
        found.truncate(MOST_FOUND);
        let rows = || found.iter().map(|&id| &allocations[id]);
        Bundle::new(total)
            .u32("id", found.iter().map(|&id| id as u32))
            .bytes("address", rows().map(|a| a.address))
            .bytes("size", rows().map(|a| a.size))
            .u32("from", rows().map(|a| moment(a.from)))
            .u32("to", rows().map(|a| moment(a.to)))
            .u32("stack", rows().map(|a| stack(a.stack)))
            .u32("tags", found.iter().map(|&id| self.tags.allocations[id]))
            .finish()
    }

    pub(crate) fn regions(&self) -> Answer {
        let history = self.history();
        let mut runs = region_runs(history.trace, history.device);
        runs.sort_by_key(|r| (r.start_us, r.depth));
        let times = event_times(history.device).unwrap_or_default();
        let mut names: Vec<&str> = Vec::new();
        let mut index = HashMap::new();
        let name: Vec<u32> = runs
            .iter()
            .map(|s| {
                *index.entry(s.name).or_insert_with(|| {
                    names.push(history.trace.strings.get(s.name));
                    (names.len() - 1) as u32
                })
            })
            .collect();
        let origin = history.device.events.iter().next().and_then(|e| e.time_us).unwrap_or(0);
        let since = |t: i64| t.saturating_sub(origin) as f64;
        #[derive(Serialize)]
        struct Names<'t> {
            names: Vec<&'t str>,
        }
        Bundle::new(Names { names })
            .u32("name", name)
            .u8("depth", runs.iter().map(|r| r.depth.min(255) as u8))
            .u32("from", runs.iter().map(|r| r.moments(&times).0 as u32))
            .u32("to", runs.iter().map(|r| r.moments(&times).1 as u32))
            .f64("from_us", runs.iter().map(|r| since(r.start_us)))
            .f64("to_us", runs.iter().map(|r| since(r.end_us)))
            .finish()
    }

    pub(crate) fn segments(&self) -> Answer {
        let history = self.history();
        let mut order: Vec<usize> = (0..history.reserved.len()).collect();
        order.sort_by_key(|&i| (history.reserved[i].from, history.reserved[i].address));
        let ranges = || order.iter().map(|&i| &history.reserved[i]);
        #[derive(Serialize)]
        struct Pools<'p> {
            pools: &'p [PoolJson],
        }
        Bundle::new(Pools { pools: self.pools() })
            .bytes("address", ranges().map(|r| r.address))
            .bytes("bytes", ranges().map(|r| r.size))
            .u32("from", ranges().map(|r| moment(r.from)))
            .u32("to", ranges().map(|r| moment(r.to)))
            .u32("tags", order.iter().map(|&i| self.tags.ranges[i]))
            .u8("kind", ranges().map(|r| kind(r.kind)))
            .u8("expandable", ranges().map(|r| r.expandable.into()))
            .u32("stack", ranges().map(|r| stack(r.stack)))
            .finish()
    }

    fn at(&self, at: Moment) -> AtMoment {
        AtMoment { moment: at.index(), counters: self.timeline.counters_at(at).into() }
    }

    fn moment(&self, index: usize) -> Result<Moment, ViewError> {
        let last = self.timeline.moments() - 1;
        if index > last {
            return Err(ViewError::Question(format!("there is no moment {index}; the last is {last}")));
        }
        Ok(Moment::from_index(index))
    }
}

/// See `Allocation` in `viewer/src/source/source.ts`.
#[derive(Debug, Serialize)]
pub(crate) struct AllocationJson {
    id: usize,
    address: u64,
    version: u32,
    requested: u64,
    bytes: u64,
    from: usize,
    freed: Option<usize>,
    to: Option<usize>,
    from_us: Option<i64>,
    freed_us: Option<i64>,
    to_us: Option<i64>,
    stack: Option<usize>,
    free_stack: Option<usize>,
    tags: u32,
    origin: u8,
    size_inferred: bool,
    total: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page reads numbers: its list must be this one.
    #[test]
    fn the_page_names_actions_as_snapshots_do() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../viewer/src/source/source.ts");
        let page = std::fs::read_to_string(page).unwrap();
        let list = page.split("export const ACTIONS = [").nth(1).unwrap().split(']').next().unwrap();
        let names: Vec<&str> = list.split('\'').skip(1).step_by(2).collect();
        let ours: Vec<&str> = Action::KNOWN.iter().chain([&Action::Unknown]).map(|a| a.name()).collect();
        assert_eq!(names, ours);
        for (number, &known) in Action::KNOWN.iter().enumerate() {
            assert_eq!(usize::from(action(known)), number);
        }
    }
}
