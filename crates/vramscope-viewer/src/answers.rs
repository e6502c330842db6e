//! Answers about one device. Pictures and searches are in other files.

use std::collections::HashMap;

use vramscope_analysis::{Moment, Origin, Uses, event_times, region_runs, tensor_text};
use vramscope_trace::{StackId, TensorNote};

use crate::ViewError;
use crate::columns::{Columns, Reply};
use crate::device::{OpenDevice, by_kind};
use crate::protocol::{
    self, Allocation, Events, Layout, LayoutBlocks, LayoutSegments, NONE, Pools, Regions, Segments,
};
use crate::rows::rows_of;
use crate::tables::{action, kind, origin};

/// The maximum number of events in one answer.
const MOST_EVENTS: usize = 100_000;

/// The index of a stack in a column; [`NONE`] without a stack.
pub(crate) fn stack(id: Option<StackId>) -> u32 {
    id.map_or(NONE, |s| s.index() as u32)
}

/// A moment in a column; [`Moment::NEVER`] becomes [`NONE`].
pub(crate) fn moment(m: Moment) -> u32 {
    m.index() as u32
}

impl OpenDevice {
    pub(crate) fn layout(&self, at: usize) -> Reply<Layout> {
        let (history, at) = (self.history(), self.moment(at)?);
        let mut ranges = self.timeline.reserved_at(at);
        ranges.sort_by_key(|&id| history.reserved[id as usize].address);
        let mut blocks = self.timeline.active_at(at);
        blocks.sort_by_key(|&id| history.allocations[id as usize].address);
        let segments = || ranges.iter().map(|&id| &history.reserved[id as usize]);
        let active = || blocks.iter().map(|&id| &history.allocations[id as usize]);
        Columns::answer(|columns| Layout {
            moment: at.index(),
            counters: by_kind(self.timeline.counters_at(at)),
            segments: LayoutSegments {
                address: columns.sizes(segments().map(|r| r.address)),
                bytes: columns.sizes(segments().map(|r| r.size)),
                tags: columns.u32(ranges.iter().map(|&id| self.tags.ranges[id as usize])),
                kind: columns.u8(segments().map(|r| kind(r.kind))),
                expandable: columns.u8(segments().map(|r| r.expandable.into())),
                stack: columns.u32(segments().map(|r| stack(r.stack))),
                from: columns.u32(segments().map(|r| moment(r.from))),
            },
            blocks: LayoutBlocks {
                allocation: columns.u32(blocks.iter().copied()),
                address: columns.sizes(active().map(|a| a.address)),
                bytes: columns.sizes(active().map(|a| a.size)),
                requested: columns.sizes(active().map(|a| a.requested)),
                pending: columns.u8(active().map(|a| (!a.is_allocated_at(at)).into())),
                stack: columns.u32(active().map(|a| stack(a.stack))),
                tags: columns.u32(blocks.iter().map(|&id| self.tags.allocations[id as usize])),
                purpose: columns.u8(blocks.iter().map(|&id| self.purposes().allocations[id as usize])),
                from: columns.u32(active().map(|a| moment(a.from))),
                preexisting: columns.u8(active().map(|a| (a.origin != Origin::Recorded).into())),
            },
        })
    }

    pub(crate) fn events(&self, first: usize, count: usize) -> Reply<Events> {
        let history = self.history();
        let all = &history.device().events;
        let first = first.min(all.len());
        let numbers = first..first.saturating_add(count.min(MOST_EVENTS)).min(all.len());
        let events = || numbers.clone().map(|i| all.get(i));
        // Times are sent only if all events have one, as for the time axis.
        let origin = self.timeline.duration().and_then(|_| all.get(0).time_us);
        let time = |t: Option<i64>| t.zip(origin).map_or(f64::NAN, |(t, o)| t.saturating_sub(o) as f64);
        Columns::answer(|columns| Events {
            first,
            action: columns.u8(events().map(|e| action(e.action))),
            address: columns.sizes(events().map(|e| e.address_or_free)),
            bytes: columns.sizes(events().map(|e| e.size)),
            time_us: columns.f64(events().map(|e| time(e.time_us))),
            stack: columns.u32(events().map(|e| stack(e.stack))),
            tags: columns.u32(numbers.clone().map(|i| self.tags_of_event(i))),
            allocation: columns
                .u32(numbers.clone().map(|i| history.subject_number(i).map_or(NONE, |id| id as u32))),
        })
    }

    /// The tags of an event. An event that starts an allocation gets the allocation's tags, which may include the pool.
    pub(crate) fn tags_of_event(&self, event: usize) -> u32 {
        let history = self.history();
        match history.subject_number(event) {
            Some(id) if history.allocations[id].from == Moment::after(event) => self.tags.allocations[id],
            _ => history.device().events.get(event).tags.index() as u32,
        }
    }

    pub(crate) fn allocation(&self, id: usize) -> Result<Allocation<'_>, ViewError> {
        let history = self.history();
        let Some(a) = history.allocations.get(id) else {
            return Err(ViewError::Question(format!("no allocation {id}")));
        };
        let time = |m: Moment| self.timeline.time_of(m);
        let end = |m: Moment| Some(m).filter(|&m| m != Moment::NEVER);
        let freed = end(a.freed);
        let in_end_state = || {
            let block =
                history.device().blocks.iter().find(|b| b.address == a.address && a.to == Moment::NEVER)?;
            block.forward_frames
        };
        let trace = history.trace();
        let forward = a.tags.and_then(|tags| trace.tags.get(tags).forward_frames).or_else(in_end_state);
        let free_event = freed.and_then(Moment::event).filter(|&e| history.subject_number(e) == Some(id));
        let free_event = free_event.filter(|_| history.has_stacks_of_frees());
        Ok(Allocation {
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
            free_stack: free_event.and_then(|e| history.device().events.get(e).stack).map(StackId::index),
            forward: forward
                .map_or(&[][..], |lines| trace.string_lists.get(lines))
                .iter()
                .map(|&line| trace.strings.get(line))
                .collect(),
            tags: self.tags.allocations[id],
            purpose: self.purposes().allocations[id],
            origin: origin(a.origin),
            size_inferred: a.size_inferred,
            total: self.timeline.counters_at(a.from).allocated,
            uses: Uses::of(history, a).map(|uses| self.uses(uses)),
            tensor: tensor_text(history, a).and_then(|text| TensorNote::parse(trace.strings.get(text))).map(
                |TensorNote { name, dtype, shape, referrers }| protocol::Tensor {
                    name,
                    dtype,
                    shape,
                    referrers,
                },
            ),
        })
    }

    /// Converts the uses of an allocation, `None` without any, for an answer.
    fn uses(&self, uses: Option<Uses>) -> protocol::Uses {
        let time = |m: Moment| self.timeline.time_of(m);
        let rest = uses.filter(|uses| uses.count > 1).map(|uses| uses.longest_idle);
        protocol::Uses {
            count: uses.map_or(0, |uses| uses.count),
            first: uses.map(|uses| uses.first.index()),
            last: uses.map(|uses| uses.last.index()),
            first_us: uses.and_then(|uses| time(uses.first)),
            last_us: uses.and_then(|uses| time(uses.last)),
            longest_idle: rest.map(|(from, to)| [from.index(), to.index()]),
            longest_idle_us: rest.and_then(|(from, to)| Some(time(to)?.saturating_sub(time(from)?))),
        }
    }

    pub(crate) fn regions(&self, columns: &mut Columns) -> Regions<'_> {
        let history = self.history();
        let mut runs = region_runs(history.trace(), history.device());
        runs.sort_by_key(|r| (r.start_us, std::cmp::Reverse(r.end_us), r.depth));
        let times = event_times(history.device()).unwrap_or_default();
        let mut names: Vec<&str> = Vec::new();
        let mut index = HashMap::new();
        let name: Vec<u32> = runs
            .iter()
            .map(|s| {
                *index.entry(s.name).or_insert_with(|| {
                    names.push(history.trace().strings.get(s.name));
                    (names.len() - 1) as u32
                })
            })
            .collect();
        let origin = history.device().events.iter().next().and_then(|e| e.time_us).unwrap_or(0);
        let since = |t: i64| t.saturating_sub(origin) as f64;
        Regions {
            names,
            name: columns.u32(name),
            row: columns.u8(rows_of(runs.iter().map(|r| (r.start_us, r.end_us)))),
            from: columns.u32(runs.iter().map(|r| r.moments(&times).0 as u32)),
            to: columns.u32(runs.iter().map(|r| r.moments(&times).1 as u32)),
            from_us: columns.f64(runs.iter().map(|r| since(r.start_us))),
            to_us: columns.f64(runs.iter().map(|r| since(r.end_us))),
        }
    }

    pub(crate) fn segments<'p>(&self, pools: &'p Pools) -> Reply<Segments<'p>> {
        let history = self.history();
        let mut order: Vec<usize> = (0..history.reserved.len()).collect();
        order.sort_by_key(|&i| (history.reserved[i].from, history.reserved[i].address));
        let ranges = || order.iter().map(|&i| &history.reserved[i]);
        Columns::answer(|columns| Segments {
            address: columns.sizes(ranges().map(|r| r.address)),
            bytes: columns.sizes(ranges().map(|r| r.size)),
            from: columns.u32(ranges().map(|r| moment(r.from))),
            to: columns.u32(ranges().map(|r| moment(r.to))),
            tags: columns.u32(order.iter().map(|&i| self.tags.ranges[i])),
            kind: columns.u8(ranges().map(|r| kind(r.kind))),
            expandable: columns.u8(ranges().map(|r| r.expandable.into())),
            stack: columns.u32(ranges().map(|r| stack(r.stack))),
            pools: &pools.peaks,
            courses: &pools.courses,
        })
    }

    pub(crate) fn moment(&self, index: usize) -> Result<Moment, ViewError> {
        let last = self.timeline.moments() - 1;
        if index > last {
            return Err(ViewError::Question(format!("no moment {index}; the last is {last}")));
        }
        Ok(Moment::from_index(index))
    }
}
