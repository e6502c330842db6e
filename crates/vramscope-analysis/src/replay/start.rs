//! The layout of the device before the first event.

use std::collections::BTreeMap;

use vramscope_engine::{StartBlock, StartSegment};
use vramscope_trace::{PoolId, SegmentKind};

use super::first_use::FirstUses;
use super::program::{Program, StartStep, Step, StepKind};
use super::recorded_device::RecordedDevice;
use super::run::Run;
use crate::history::{History, Moment, ReservedRange};

/// The largest distance between two parts of one expandable segment. Its addresses cover nine eighths of the device, and no
/// device is larger than this (1 TiB).
const REACH: u64 = 1 << 40;

/// Segments and blocks before the first event, rebuilt by undoing the events from the end state.
pub(super) struct Start {
    segments: Vec<StartSegment>,
    /// The slots of the blocks, by segment.
    slots: Vec<Vec<u32>>,
    /// Number of blocks for which there was no room at their supposed addresses.
    pub(super) misplaced: usize,
}

impl Start {
    pub(super) fn of(history: &History, program: &Program, first_uses: &FirstUses) -> Self {
        let was_there = |r: &&ReservedRange| r.from == Moment::START && first_uses.get(r.address).is_none();
        let ranges = history.reserved.iter().filter(was_there);
        let segments = segments(ranges);
        let mut this = Self { slots: vec![Vec::new(); segments.len()], segments, misplaced: 0 };
        for (i, start) in program.start.iter().enumerate() {
            let a = &history.allocations[start.subject as usize];
            let next = program.start.get(i + 1);
            let next = next.map(|s| history.allocations[s.subject as usize].address);
            let block = StartBlock {
                address: a.address,
                size: a.size,
                requested: a.requested,
                pending: a.freed == Moment::START,
            };
            match this.place(block, next) {
                Some(segment) => this.slots[segment].push(start.slot),
                None => this.misplaced += 1,
            }
        }
        this
    }

    /// Returns the reserved bytes.
    pub(super) fn reserved(&self) -> u64 {
        let mapped = |s: &StartSegment| s.mapped.as_ref().map(|runs| runs.iter().map(|r| r.1).sum());
        self.segments.iter().map(|s| mapped(s).unwrap_or(s.size)).fold(0, u64::saturating_add)
    }

    /// Adds a block to the segment that contains it; `next` is the start of the next block. Returns the index of the segment.
    fn place(&mut self, block: StartBlock, next: Option<u64>) -> Option<usize> {
        let i = self.segments.partition_point(|s| s.address <= block.address).checked_sub(1)?;
        let segment = &mut self.segments[i];
        let end = match &segment.mapped {
            None => segment.address.saturating_add(segment.size),
            Some(runs) => {
                let run = runs.partition_point(|r| r.0 <= block.address).checked_sub(1)?;
                runs[run].0.saturating_add(runs[run].1)
            }
        };
        let room = next.map_or(end, |next| next.min(end)).checked_sub(block.address)?;
        let size = block.size.min(room);
        (size > 0).then(|| segment.blocks.push(StartBlock { size, ..block }))?;
        Some(i)
    }

    /// Recreates the layout at its original addresses.
    pub(super) fn install(&self, run: &mut Run<'_>, device: &RecordedDevice) {
        for (segment, slots) in self.segments.iter().zip(&self.slots) {
            let used = segment.mapped.as_ref().map(|runs| runs.iter().map(|r| r.1).sum());
            device.occupy(segment.address, segment.size, used.unwrap_or(segment.size));
            // Segments and blocks were made to fit when they were built.
            let Ok(blocks) = run.allocator.install(segment) else { continue };
            for (&slot, block) in slots.iter().zip(blocks) {
                run.place(slot, block);
            }
        }
        run.note_start();
    }
}

/// Converts ranges in address order to segments: each becomes a separate segment or a part of the preceding expandable segment.
fn segments<'h>(ranges: impl Iterator<Item = &'h ReservedRange>) -> Vec<StartSegment> {
    let mut segments: Vec<StartSegment> = Vec::new();
    let mut expandable: BTreeMap<(PoolId, u64, bool), usize> = BTreeMap::new();
    for range in ranges {
        let (pool, stream, kind) = (range.pool.unwrap_or_default(), range.stream, range.kind);
        let key = (pool, stream, kind == SegmentKind::Small);
        let segment = expandable.get(&key).map(|&i| &mut segments[i]).filter(|_| range.expandable);
        if let Some(segment) = segment
            && let Some(runs) = &mut segment.mapped
            && range.end() - segment.address <= segment.size
        {
            match runs.last_mut() {
                Some(last) if last.0 + last.1 == range.address => last.1 += range.size,
                _ => runs.push((range.address, range.size)),
            }
            continue;
        }
        if range.expandable {
            expandable.insert(key, segments.len());
        }
        segments.push(StartSegment {
            address: range.address,
            size: if range.expandable { REACH.min(u64::MAX - range.address) } else { range.size },
            pool,
            stream,
            kind,
            mapped: range.expandable.then(|| vec![(range.address, range.size)]),
            blocks: Vec::new(),
        });
    }
    segments
}

/// Requests the allocations that were live before the first event anew, in address order, because their addresses under other
/// settings are unknown. Returns false if there is no memory for them.
pub(super) fn request_start(run: &mut Run<'_>, history: &History, program: &Program) -> bool {
    for start in &program.start {
        let StartStep { subject, slot, arena } = *start;
        let step = Step { kind: StepKind::Malloc, arena, slot, event: 0, subject };
        if !run.request(&step) {
            return false;
        }
    }
    for start in &program.start {
        if history.allocations[start.subject as usize].freed == Moment::START {
            run.request_free(start.slot);
        }
    }
    true
}
