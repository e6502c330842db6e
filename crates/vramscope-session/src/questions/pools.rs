//! Pools: their peaks, their reserved bytes over time, and their holders.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use vramscope_analysis::{Both, By, Cancel, LifetimeChange, LifetimeChanges, Moment, changed_holders};
use vramscope_report::Names;
use vramscope_trace::{PoolId, StackId};

use crate::questions::cached::{PoolCourse, PoolPeaks, Pools};
use crate::questions::columns::{Columns, F64s, Reply, U8s, U32s, moment, stack};
use crate::questions::device::OpenDevice;
use crate::questions::held::{DeviceAt, Holders, holders};
use crate::questions::recording::OpenRecording;
use crate::questions::tables::kind;

/// Every reserved range, ordered by its first moment, and the peaks of each pool.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Segments<'r> {
    pub(crate) address: F64s,
    pub(crate) bytes: F64s,
    pub(crate) from: U32s,
    /// `NONE` if it still exists at the end.
    pub(crate) to: U32s,
    pub(crate) tags: U32s,
    /// A position in `SEGMENT_KINDS`.
    pub(crate) kind: U8s,
    /// 1 if the segment is expandable.
    pub(crate) expandable: U8s,
    pub(crate) stack: U32s,
    pub(crate) pools: &'r [PoolPeaks],
    /// The reserved bytes of each pool over time, default pool first.
    pub(crate) courses: &'r [PoolCourse],
}

/// Requests the holders of a pool at a moment.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct PoolQuery {
    pub(crate) pool: Option<[u64; 2]>,
    pub(crate) moment: usize,
    #[cfg_attr(test, ts(type = "By"))]
    #[cfg_attr(feature = "schema", schemars(schema_with = "crate::values::schema::by"))]
    pub(crate) by: By,
}

/// The holders of a pool.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct PoolHeld {
    pub(crate) reserved: u64,
    pub(crate) allocated: u64,
    /// Groups of the pool's live allocations.
    pub(crate) holders: Holders,
}

/// The maximum number of points in a line chart, which is drawn small.
const MOST_POINTS: usize = 400;

/// A map by pool id.
type ByPool<T> = BTreeMap<Option<[u64; 2]>, T>;

/// The peaks of each pool on each stream, and the first moment of each pool's peak of active bytes.
fn peaks(device: &OpenDevice) -> (Vec<PoolPeaks>, ByPool<Moment>) {
    /// The current bytes, and their peak.
    #[derive(Default)]
    struct HighWater {
        now: u64,
        peak: u64,
    }
    impl HighWater {
        /// Applies a change. Returns whether the current bytes exceed every earlier value.
        fn change(&mut self, change: LifetimeChange, bytes: u64) -> bool {
            match change {
                LifetimeChange::Begins => self.now += bytes,
                LifetimeChange::Ends => self.now -= bytes,
            }
            let is_more = self.now > self.peak;
            self.peak = self.peak.max(self.now);
            is_more
        }
    }
    let (history, tags) = (device.history(), &device.tags);
    // Reserved ranges and allocations in one list: begin, tags, whether it is a range, and bytes.
    let ranges = history.reserved.iter().zip(&tags.ranges);
    let ranges = ranges.map(|(r, &tags)| (r.from, r.to, (r.from, tags, true, r.size)));
    let allocations = history.allocations.iter().zip(&tags.allocations);
    let allocations = allocations.map(|(a, &tags)| (a.from, a.to, (a.from, tags, false, a.size)));
    let mut changes = LifetimeChanges::of(ranges.chain(allocations));
    let mut pools: BTreeMap<(Option<[u64; 2]>, u64), [HighWater; 2]> = BTreeMap::new();
    let mut active: ByPool<HighWater> = BTreeMap::new();
    let mut fullest: ByPool<Moment> = BTreeMap::new();
    while let Some((change, (begin, number, is_reserved, bytes))) = changes.next_until(Moment::NEVER) {
        let tags = &tags.table[number as usize];
        let [reserved, on_stream] = pools.entry((tags.pool, tags.stream)).or_default();
        if is_reserved {
            reserved.change(change, bytes);
            continue;
        }
        on_stream.change(change, bytes);
        if active.entry(tags.pool).or_default().change(change, bytes) {
            fullest.insert(tags.pool, begin);
        }
    }
    let rows = pools.into_iter().map(|((pool, stream), [reserved, active])| PoolPeaks {
        pool,
        stream,
        peak_reserved: reserved.peak,
        peak_active: active.peak,
    });
    (rows.collect(), fullest)
}

/// The reserved bytes of a pool over time.
struct Course {
    /// The stack that reserved its first memory.
    stack: Option<StackId>,
    /// The change in bytes at each moment.
    changes: BTreeMap<Moment, i64>,
}

fn courses(device: &OpenDevice, names: Names<'_>, fullest: &ByPool<Moment>) -> Vec<PoolCourse> {
    let history = device.history();
    let mut pools: ByPool<Course> = BTreeMap::new();
    let mut ranges: Vec<_> = history.reserved.iter().zip(&device.tags.ranges).collect();
    ranges.sort_by_key(|(r, _)| r.from);
    for (range, &tags) in ranges {
        let pool = device.tags.table[tags as usize].pool;
        let course =
            pools.entry(pool).or_insert_with(|| Course { stack: range.stack, changes: BTreeMap::new() });
        *course.changes.entry(range.from).or_default() += range.size as i64;
        if range.to != Moment::NEVER {
            *course.changes.entry(range.to).or_default() -= range.size as i64;
        }
    }
    let told = pools.into_iter().map(|(pool, course)| {
        let mut now = 0;
        let points: Vec<(usize, u64)> = course
            .changes
            .into_iter()
            .map(|(at, by)| {
                now += by;
                (at.index(), u64::try_from(now).unwrap_or(0))
            })
            .collect();
        let id = pool.map(|[a, b]| PoolId(a, b));
        PoolCourse {
            pool,
            name: names.pool(id),
            kind: names.pool_kind(id),
            stack: stack(course.stack),
            peak_reserved: points.iter().map(|&(_, bytes)| bytes).max().unwrap_or(0),
            fullest_moment: fullest.get(&pool).map_or(0, |at| at.index()),
            points: thinned(points),
        }
    });
    told.collect()
}

/// Reduces the points to the maximum of each chunk, and the last point.
fn thinned(points: Vec<(usize, u64)>) -> Vec<(usize, u64)> {
    let each = points.len().div_ceil(MOST_POINTS).max(1);
    let last = points.last().copied();
    let highest = |few: &[(usize, u64)]| few.iter().copied().rev().max_by_key(|&(_, bytes)| bytes);
    let mut kept: Vec<(usize, u64)> = points.chunks(each).filter_map(highest).collect();
    kept.extend(last.filter(|&last| kept.last() != Some(&last)));
    kept
}

impl OpenRecording {
    pub(crate) fn segments(&self, device: usize) -> Reply<Segments<'_>> {
        let device = self.device(device)?;
        let pools = || {
            let (peaks, fullest) = peaks(device);
            Pools { peaks, courses: courses(device, self.session.names(), &fullest) }
        };
        device.segments(device.pools(pools))
    }

    /// The holders of a pool at a moment.
    pub(crate) fn pool(&self, device: usize, query: &PoolQuery) -> Reply<PoolHeld> {
        let mut now = DeviceAt::of(self, device, query.moment, None, &Cancel::default())?;
        let (history, tags) = (now.device.history(), &now.device.tags);
        let is_in = |number: u32| tags.table[number as usize].pool == query.pool;
        now.allocated.retain(|&id| is_in(tags.allocations[id]));
        let ranges = now.device.timeline.reserved_at(now.moment);
        let ranges = ranges.iter().filter(|&&id| is_in(tags.ranges[id as usize]));
        let reserved = ranges.map(|&id| history.reserved[id as usize].size).sum();
        let allocated = now.allocated.iter().map(|&id| history.allocations[id].size).sum();
        let groups = changed_holders(Both { a: Vec::new(), b: now.holders(query.by) }, &|_, _| false);
        let names = Both { a: self.session.names(), b: self.session.names() };
        Columns::answer(|columns| PoolHeld {
            reserved,
            allocated,
            holders: holders(columns, groups.iter(), &names, &now.place(), None),
        })
    }
}

impl OpenDevice {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_a_line_keeps_its_peak_and_its_end() {
        let points: Vec<(usize, u64)> = (0..10_000).map(|n| (n, (n as u64 * 7919) % 10_007)).collect();
        let kept = thinned(points.clone());
        assert!(kept.len() <= MOST_POINTS + 1 && kept.is_sorted());
        assert_eq!(kept.iter().map(|p| p.1).max(), points.iter().map(|p| p.1).max());
        assert_eq!(kept.last(), points.last());
        assert_eq!(thinned(points[..7].to_vec()), points[..7]);
    }
}
