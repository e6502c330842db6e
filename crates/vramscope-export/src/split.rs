//! Parts of a long recording, each a recording of its own.
//!
//! A part has the events between two moments, and the segments and blocks at its end, as a snapshot that PyTorch took at that moment has
//! them. Blocks that were live before the part and were freed in it are its [`start_blocks`](DeviceTrace::start_blocks). So a part is a
//! recording that began late, with all sizes and stacks known.

use std::ops::Range;
use std::sync::Arc;

use vramscope_analysis::{
    Frames, History, Moment, Options, Origin, RecordedAllocation, Summary, event_times,
};
use vramscope_trace::{Action, Annotation, Block, DeviceTrace, Event, Trace};

use crate::source::Source;
use thiserror::Error;

/// The largest number of parts.
pub const MOST_PARTS: usize = 9999;

/// Why a recording cannot be split.
#[derive(Debug, Error)]
pub enum SplitError {
    /// No device has events.
    #[error("the recording has no events, so it has no parts")]
    NoEvents,
    /// Nothing repeats.
    #[error("the recording has no steps; split it by events or time")]
    NoSteps,
    /// An event has no time.
    #[error("some events have no time; split the recording by events")]
    NoTimes,
    /// Without times, events of several devices have no common order.
    #[error(
        "some events have no time, so the devices cannot be split at the same moments; choose one device"
    )]
    SeveralDevices,
    /// There would be too many parts.
    #[error("this makes more than {} parts; choose longer parts", crate::MOST_PARTS)]
    TooMany,
}

/// Where a recording is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SplitBy {
    /// After this many events of the device with the most events.
    Events(usize),
    /// After this many training or serving steps.
    Steps(usize),
    /// After this many microseconds.
    Microseconds(u64),
}

/// A recording, and where it is cut.
#[derive(Debug)]
pub struct Split {
    trace: Arc<Trace>,
    histories: Vec<History>,
    /// For each device, the event at which each part begins. All devices have the same number of parts.
    begins: Vec<Vec<usize>>,
    /// The time at which each part begins, if events have times.
    times: Option<Vec<i64>>,
}

/// The events of a part on one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartOfDevice {
    /// The device's number.
    pub device: i64,
    /// The events of the whole recording that are in the part.
    pub events: Range<usize>,
    /// Number of `alloc` events before them, which stand for blocks that were live before. Only in recordings without segments, whose end
    /// state cannot have blocks.
    pub repeated: usize,
}

impl Split {
    /// Cuts a recording.
    ///
    /// # Errors
    /// If there are no steps, a time is missing, or there would be more than [`MOST_PARTS`] parts.
    pub fn of(source: &Source<'_>, by: SplitBy) -> Result<Self, SplitError> {
        let mut used: Vec<usize> = source.devices.clone();
        used.retain(|&position| source.trace.devices[position].was_used());
        let histories: Vec<History> =
            used.iter().map(|&position| History::replayed(source.trace, position)).collect();
        let largest = (0..histories.len()).max_by_key(|&i| histories[i].device().events.len());
        let Some(largest) = largest.filter(|&i| !histories[i].device().events.is_empty()) else {
            return Err(SplitError::NoEvents);
        };
        let all_times = histories.iter().map(|history| event_times(history.device())).collect();
        let all_times: Option<Vec<Vec<i64>>> = all_times;
        let as_on_all = |events| as_on(largest, events, &histories, all_times.as_deref());
        let begins = match by {
            SplitBy::Events(count) => {
                let events = (0..histories[largest].device().events.len()).step_by(count.max(1));
                as_on_all(events.take(MOST_PARTS + 1).collect())?
            }
            SplitBy::Steps(count) => as_on_all(step_cuts(source.frames, &histories[largest], count.max(1))?)?,
            SplitBy::Microseconds(microseconds) => {
                let times = all_times.as_ref().ok_or(SplitError::NoTimes)?;
                let cuts = equal_cuts(times, microseconds.max(1))?;
                let begins = |times: &Vec<i64>| {
                    cuts.iter().map(|cut| times.partition_point(|time| time < cut)).collect()
                };
                times.iter().map(begins).collect()
            }
        };
        let times = all_times.map(|times| begin_times(&times, &begins));
        Ok(Self { trace: Arc::clone(source.trace), histories, begins, times }.without_empty_parts())
    }

    /// Returns the number of parts, at least 1.
    pub fn parts(&self) -> usize {
        self.begins.first().map_or(0, Vec::len)
    }

    /// Returns the events of part `part`, counted from 0, on each device.
    pub fn events(&self, part: usize) -> impl Iterator<Item = PartOfDevice> + '_ {
        self.histories.iter().zip(&self.begins).map(move |(history, begins)| {
            let events = range(history, begins, part);
            let repeated = repeated(history, &events, None).len();
            PartOfDevice { device: history.device().device, events, repeated }
        })
    }

    /// Returns the history of the whole recording of each device, in the order of [`events`](Self::events).
    pub fn histories(&self) -> &[History] {
        &self.histories
    }

    /// Returns part `part`, counted from 0, as a recording.
    pub fn part(&self, part: usize) -> Trace {
        let whole = &*self.trace;
        let devices = self.histories.iter().zip(&self.begins);
        let devices = devices.map(|(history, begins)| cut(history, range(history, begins, part))).collect();
        Trace {
            strings: whole.strings.clone(),
            string_lists: whole.string_lists.clone(),
            frames: whole.frames.clone(),
            stacks: whole.stacks.clone(),
            tags: whole.tags.clone(),
            devices,
            kind: whole.kind,
            records_host: whole.records_host,
            settings: whole.settings.clone(),
            annotations: self.annotations(part),
            process: None,
            accesses: None,
            ends_early: whole.ends_early && part + 1 == self.parts(),
            operators: None,
        }
    }

    /// The annotations between the beginning of a part and that of the next. One without a time is beside the one before it.
    fn annotations(&self, part: usize) -> Option<Vec<Annotation>> {
        let all = self.trace.annotations.as_ref()?;
        let Some(times) = &self.times else { return Some(if part == 0 { all.clone() } else { Vec::new() }) };
        let mut latest = i64::MIN;
        let of_part = all.iter().filter(|a| {
            latest = a.time_us.unwrap_or(latest);
            let after = times.partition_point(|&begin| begin <= latest);
            after.saturating_sub(1) == part
        });
        Some(of_part.copied().collect())
    }

    /// Joins parts without events with the part before.
    fn without_empty_parts(mut self) -> Self {
        let has_events = |part: usize| {
            let mut devices = self.histories.iter().zip(&self.begins);
            devices.any(|(history, begins)| !range(history, begins, part).is_empty())
        };
        let kept: Vec<usize> = (0..self.parts()).filter(|&part| has_events(part)).collect();
        let begins = self.begins.iter().map(|begins| kept.iter().map(|&part| begins[part]).collect());
        self.begins = begins.collect();
        self.times = self.times.map(|times| kept.iter().map(|&part| times[part]).collect());
        self
    }
}

fn range(history: &History, begins: &[usize], part: usize) -> Range<usize> {
    let end = history.device().events.len();
    begins[part]..begins.get(part + 1).copied().unwrap_or(end)
}

/// The times between two parts of equal duration, beginning with the first time.
fn equal_cuts(times: &[Vec<i64>], microseconds: u64) -> Result<Vec<i64>, SplitError> {
    let firsts = times.iter().filter_map(|times| times.first());
    let lasts = times.iter().filter_map(|times| times.last());
    let (Some(&first), Some(&last)) = (firsts.min(), lasts.max()) else { return Err(SplitError::NoEvents) };
    let parts = first.abs_diff(last) / microseconds + 1;
    if parts > MOST_PARTS as u64 {
        return Err(SplitError::TooMany);
    }
    Ok((0..parts).map(|part| first.saturating_add_unsigned(part * microseconds)).collect())
}

/// The events at which every `count`th step begins, and 0.
fn step_cuts(frames: &Frames, history: &History, count: usize) -> Result<Vec<usize>, SplitError> {
    let summary = Summary::of(history.trace(), history.position(), frames, &Options::default());
    let steps = summary.steps.steps;
    if steps.is_empty() {
        return Err(SplitError::NoSteps);
    }
    let mut cuts: Vec<usize> = steps.iter().step_by(count).map(|step| step.from.index()).collect();
    // Events before the first step belong to the first part.
    cuts[0] = 0;
    Ok(cuts)
}

/// Converts events of the device `largest` to the events of each device that happened at or after the same times.
fn as_on(
    largest: usize,
    events: Vec<usize>,
    histories: &[History],
    times: Option<&[Vec<i64>]>,
) -> Result<Vec<Vec<usize>>, SplitError> {
    if events.len() > MOST_PARTS {
        return Err(SplitError::TooMany);
    }
    if histories.len() == 1 {
        return Ok(vec![events]);
    }
    let times = times.ok_or(SplitError::SeveralDevices)?;
    let at = |event: usize| times[largest].get(event).copied().unwrap_or(i64::MAX);
    let of_device = |(i, times): (usize, &Vec<i64>)| {
        let begins = events.iter().enumerate().map(|(part, &event)| match part {
            0 => 0,
            _ if i == largest => event,
            _ => times.partition_point(|&time| time < at(event)),
        });
        begins.collect()
    };
    Ok(times.iter().enumerate().map(of_device).collect())
}

/// The time of the first event of each part; that of the next part if a part has none.
fn begin_times(times: &[Vec<i64>], begins: &[Vec<usize>]) -> Vec<i64> {
    let parts = begins.first().map_or(0, Vec::len);
    let first = |part: usize| {
        let of_devices = times.iter().zip(begins).filter_map(|(times, begins)| times.get(begins[part]));
        of_devices.min().copied().unwrap_or(i64::MAX)
    };
    (0..parts).map(first).collect()
}

fn has_segments(history: &History) -> bool {
    !history.reserved.is_empty()
}

/// The `alloc` events in front of a part of a recording without segments, for the allocations that are active right before it. A part at
/// the beginning needs none for an allocation that it frees.
fn repeated(history: &History, range: &Range<usize>, first_time: Option<i64>) -> Vec<Event> {
    if has_segments(history) {
        return Vec::new();
    }
    let (begin, end) = (Moment::from_index(range.start), Moment::from_index(range.end));
    let live = history.allocations.iter().filter(|a| a.is_active_at(begin));
    let live = live.filter(|a| range.start > 0 || a.to > end);
    live.filter_map(|a| allocation(history, a, first_time)).collect()
}

/// Returns the part of a device's recording.
fn cut(history: &History, range: Range<usize>) -> DeviceTrace {
    let whole = history.device();
    let is_last = range.end == whole.events.len();
    let mut part = DeviceTrace {
        device: whole.device,
        max_entries: whole.max_entries.filter(|_| range.start == 0 && is_last),
        total_bytes: whole.total_bytes,
        ..DeviceTrace::default()
    };
    if range.start == 0 {
        part.overflowed = whole.overflowed;
        part.start_blocks.clone_from(&whole.start_blocks);
    }
    let before = if has_segments(history) { 0 } else { repeated(history, &range, None).len() };
    part.gap = whole.gap.as_ref().filter(|gap| gap.start <= range.end && gap.end >= range.start).map(|gap| {
        let [start, end] =
            [gap.start, gap.end].map(|at| at.clamp(range.start, range.end) - range.start + before);
        start..end
    });
    if !has_segments(history) {
        let first_time = range.clone().next().and_then(|event| whole.events.time(event));
        part.events = repeated(history, &range, first_time).into_iter().collect();
        part.events.extend_from(&whole.events, range);
        return part;
    }
    part.events.extend_from(&whole.events, range.clone());
    if is_last {
        (part.segments, part.blocks) = (whole.segments.clone(), whole.blocks.clone());
    } else {
        (part.segments, part.blocks) = history.state_at(Moment::from_index(range.end));
    }
    if range.start > 0 {
        part.start_blocks = Some(freed_blocks(history, &range));
    }
    part
}

/// The blocks that were active before a range of events and are freed in it, or become available.
fn freed_blocks(history: &History, range: &Range<usize>) -> Vec<Block> {
    let (begin, end) = (Moment::from_index(range.start), Moment::from_index(range.end));
    let (_, mut blocks) = history.state_at(begin);
    let is_freed = |a: &&RecordedAllocation| a.to <= end || (begin < a.freed && a.freed <= end);
    let live = history.allocations.iter().filter(|a| a.is_active_at(begin));
    let mut freed: Vec<u64> = live.filter(is_freed).map(|a| a.address).collect();
    freed.sort_unstable();
    blocks.retain(|b| b.state.is_active() && freed.binary_search(&b.address).is_ok());
    blocks
}

/// The `alloc` event of an allocation. One without its own is at the time of the part's first event, without a stack. A recording without
/// segments has no blocks of the end state, and so no allocation without tags.
fn allocation(history: &History, a: &RecordedAllocation, first_time: Option<i64>) -> Option<Event> {
    if let (Origin::Recorded, Some(event)) = (a.origin, a.from.event()) {
        return Some(history.device().events.get(event));
    }
    Some(Event {
        action: Action::Alloc,
        address_or_free: a.address,
        size: a.requested,
        time_us: first_time,
        stack: None,
        tags: a.tags?,
    })
}

#[cfg(test)]
mod tests;
