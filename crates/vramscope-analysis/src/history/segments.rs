//! The reserved ranges of a device over time.

use std::collections::BTreeMap;

use vramscope_engine::Policy;
use vramscope_trace::{Action, DeviceTrace, Event, PoolId, Segment, SegmentKind, StackId, Tags, Trace};

use super::moment::Moment;
use super::segment_events::{is_growth, segment_events};

/// A range of device memory while the allocator held it: a `cudaMalloc`, or a part mapped into an expandable segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReservedRange {
    /// Device address of the first byte.
    pub address: u64,
    /// Size in bytes.
    pub size: u64,
    /// The only stream whose requests the range serves.
    pub stream: u64,
    /// The pool (small or large) that the range serves. If the range was released before the end, this is inferred from its size.
    pub kind: SegmentKind,
    /// The private pool of the range, if known.
    pub pool: Option<PoolId>,
    /// Whether the range is part of an expandable segment, which is mapped part by part. Blocks may cross the borders of adjacent
    /// parts.
    pub expandable: bool,
    /// The stack that allocated the range, if known.
    pub stack: Option<StackId>,
    /// The first moment at which it is reserved.
    pub from: Moment,
    /// The first moment at which the range is no longer reserved; [`Moment::NEVER`] if it is reserved at the end.
    pub to: Moment,
}

impl ReservedRange {
    /// Returns the address after the last byte.
    pub fn end(&self) -> u64 {
        self.address.saturating_add(self.size)
    }

    /// Whether the range is reserved at `moment`.
    pub fn lives_at(&self, moment: Moment) -> bool {
        self.from <= moment && moment < self.to
    }
}

/// All ranges that a device's allocator held during a recording, and how well trace and end state agree.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reserved {
    pub(crate) ranges: Vec<ReservedRange>,
    /// Number of segment events that contradict the end state, such as the release of a range that was never allocated.
    pub(crate) contradictions: usize,
    /// Number of segments that are larger or smaller at the end than when they were allocated.
    pub(crate) resized: usize,
}

/// Ranges by address, without overlaps.
#[derive(Default)]
struct RangeSet(BTreeMap<u64, ReservedRange>);

impl RangeSet {
    /// Adds `range`; does nothing and returns false if it overlaps another range.
    fn add(&mut self, range: ReservedRange) -> bool {
        let before = self.0.range(..range.end()).next_back();
        if range.size == 0 || before.is_some_and(|(_, r)| r.end() > range.address) {
            return false;
        }
        self.0.insert(range.address, range);
        true
    }

    /// Removes the parts of ranges in `address..address + size`, cutting ranges at both ends. Returns the removed parts.
    fn remove(&mut self, address: u64, size: u64) -> Vec<ReservedRange> {
        let end = address.saturating_add(size);
        let mut hit: Vec<ReservedRange> = Vec::new();
        while let Some((&start, &r)) = self.0.range(..end).next_back().filter(|(_, r)| r.end() > address) {
            self.0.remove(&start);
            if r.end() > end {
                self.0.insert(end, ReservedRange { address: end, size: r.end() - end, ..r });
            }
            if start < address {
                self.0.insert(start, ReservedRange { size: address - start, ..r });
            }
            let (from, to) = (start.max(address), r.end().min(end));
            hit.push(ReservedRange { address: from, size: to - from, ..r });
        }
        hit
    }
}

impl Reserved {
    pub(crate) fn of(trace: &Trace, device: &DeviceTrace, policy: &Policy) -> Self {
        let mut this = Self::default();
        let mut set = this.before_recording(trace, device, policy);
        for (event, e) in segment_events(device) {
            let at = Moment::after(event);
            if is_growth(e.action) {
                let tags = trace.tags.get(e.tags);
                let range = from_event(e, tags, policy, at);
                if !set.add(range) {
                    this.contradictions += 1;
                }
            } else {
                let gone = set.remove(e.address(), e.size);
                if gone.iter().map(|r| r.size).sum::<u64>() != e.size {
                    this.contradictions += 1;
                }
                this.ranges.extend(gone.into_iter().map(|r| ReservedRange { to: at, ..r }));
            }
        }
        // For ranges that still exist, the end state is better than a guess.
        this.ranges.extend(set.0.into_values().map(|range| match segment_at_end(device, &range) {
            Some(s) => ReservedRange { kind: s.kind, pool: range.pool.or(s.pool), ..range },
            None => range,
        }));
        this.ranges.sort_by_key(|r| (r.address, r.from));
        this
    }

    /// Returns the ranges held when recording began: the end state with all events undone, last first.
    fn before_recording(&mut self, trace: &Trace, device: &DeviceTrace, policy: &Policy) -> RangeSet {
        let mut set = RangeSet::default();
        for s in &device.segments {
            let added = set.add(ReservedRange {
                address: s.address,
                size: s.total_size,
                stream: s.stream,
                kind: s.kind,
                pool: s.pool,
                expandable: s.is_expandable.unwrap_or(false),
                stack: s.stack,
                from: Moment::START,
                to: Moment::NEVER,
            });
            self.contradictions += usize::from(!added && s.total_size > 0);
        }
        // Without an end state, there is nothing to undo: ranges begin where they first occur.
        let known_end = !device.segments.is_empty();
        for (_, e) in segment_events(device).rev() {
            let tags = trace.tags.get(e.tags);
            if is_growth(e.action) {
                let undone: u64 = set.remove(e.address(), e.size).iter().map(|r| r.size).sum();
                self.contradictions += usize::from(undone != e.size && known_end);
                // A missing release takes a whole segment.
                let is_whole = undone == 0 || undone == e.size || e.action != Action::SegmentAlloc;
                self.resized += usize::from(!is_whole && known_end);
            } else {
                let range = from_event(e, tags, policy, Moment::START);
                self.contradictions += usize::from(!set.add(range));
            }
        }
        set
    }
}

/// Returns the segment of the end state that is this range, or that contains it if the range is expandable.
fn segment_at_end<'d>(device: &'d DeviceTrace, range: &ReservedRange) -> Option<&'d Segment> {
    let i = device.segments.partition_point(|s| s.address <= range.address).checked_sub(1)?;
    let s = &device.segments[i];
    let whole = s.address == range.address && s.total_size == range.size;
    let around = range.expandable && range.end() <= s.address.saturating_add(s.total_size);
    (whole || around).then_some(s)
}

fn from_event(e: Event, tags: Tags, policy: &Policy, from: Moment) -> ReservedRange {
    ReservedRange {
        address: e.address(),
        size: e.size,
        stream: tags.stream,
        kind: policy.kind_of_segment(e.size),
        pool: tags.pool,
        expandable: matches!(e.action, Action::SegmentMap | Action::SegmentUnmap),
        stack: e.stack.filter(|_| is_growth(e.action)),
        from,
        to: Moment::NEVER,
    }
}
