//! Explains why a replayed request failed.

use std::ops::Range;

use vramscope_engine::{CachingAllocator, Policy, Statistics};
use vramscope_trace::{Block, BlockState, Segment};

use super::capacity::ReplayDevice;
use super::error::ReplayError;
use super::program::{NOTHING, Program, StepKind};
use super::run::{Failure, Run};
use super::runs::Replay;
use crate::findings::{Failing, Fragmentation, Inside, OomExplanation, Pending, Pins, Request, is_at_limit};
use crate::groups::by_line;
use crate::history::{Counters, FreeBlock, History, Moment, RecordedAllocation};
use crate::stacks::Frames;

impl Replay<'_> {
    /// Explains the first request that fails under these rules; returns `None` if none fails.
    ///
    /// # Errors
    /// See [`ReplayError`].
    pub fn explain(
        &self,
        frames: &Frames,
        policy: &Policy,
        device: impl Into<ReplayDevice>,
    ) -> Result<Option<OomExplanation>, ReplayError> {
        let device = self.with_its_size(device.into());
        let (run, _) = self.run(policy, device, true)?;
        let failure = run.failure;
        Ok(failure.map(|failure| explain(self.history, frames, policy, device, &run, failure)))
    }
}

/// Explains the failure at which a run stopped.
fn explain(
    history: &History,
    frames: &Frames,
    policy: &Policy,
    device: ReplayDevice,
    run: &Run<'_>,
    failure: Failure,
) -> OomExplanation {
    let live = live(history, run, failure.event);
    let Statistics { requested, allocated, active, reserved, .. } = run.allocator.statistics();
    let counters = Counters {
        requested: requested.current,
        allocated: allocated.current,
        active: active.current,
        reserved: reserved.current,
    };
    let request = Request { bytes: failure.size, stream: failure.stream, pool: Some(failure.pool) };
    let asked: u64 = live.iter().map(|a| a.requested).sum();
    let moment = Moment::after(failure.event);
    let free = free_blocks(&run.allocator);
    let event =
        (failure.event < history.device().events.len()).then(|| history.device().events.get(failure.event));
    let fragmentation = Fragmentation::of(moment, counters, asked, &free, request, policy);
    let at_limit = is_at_limit(policy, failure.size, failure.device_free);
    let device_total = match device {
        ReplayDevice::Of(capacity) => Some(capacity.total),
        ReplayDevice::Recorded | ReplayDevice::Unlimited => None,
    };
    let failing = Failing {
        policy,
        settings_are_known: true,
        request,
        counters,
        fragmentation: &fragmentation,
        device_free: failure.device_free,
        device_total,
        at_limit,
        inside: Inside::of(policy, live.iter().map(|a| (a.size, a.requested))),
        // Fitting blocks that did not serve the request became free during it.
        pending: Pending {
            fitting: fragmentation.usable,
            waiting: counters.active.saturating_sub(counters.allocated),
        },
        idle: 0,
        rise: None,
    };
    OomExplanation {
        event: failure.event,
        time_us: event.and_then(|e| e.time_us),
        request,
        device_free: failure.device_free,
        device_total,
        at_limit,
        counters,
        rise: None,
        causes: failing.causes(),
        fragmentation,
        pins: Pins::of(history, frames, places(&run.allocator, &live).into_iter()),
        stack: event.and_then(|e| e.stack),
        holders: by_line(history, frames, live.iter()),
        late_block: None,
    }
}

/// Returns the live allocations, with their addresses and block sizes in the replay.
fn live(history: &History, run: &Run<'_>, event: usize) -> Vec<RecordedAllocation> {
    let program: &Program = run.program;
    let mut holder = vec![NOTHING; program.slots];
    for start in &program.start {
        holder[start.slot as usize] = start.subject;
    }
    let before = program.steps.iter().take_while(|step| step.event as usize <= event);
    for step in before.filter(|step| step.kind == StepKind::Malloc) {
        holder[step.slot as usize] = step.subject;
    }
    let held = holder.iter().enumerate().filter_map(|(slot, &subject)| {
        let a = history.allocations.get(subject as usize)?;
        let (address, size) = run.block_in(slot)?;
        Some(RecordedAllocation { address, size, ..*a })
    });
    held.collect()
}

/// Returns the segments with the allocations in them. `live` may be in any order.
fn places<'l>(
    allocator: &CachingAllocator,
    live: &'l [RecordedAllocation],
) -> Vec<(Range<u64>, Vec<&'l RecordedAllocation>)> {
    let mut by_address: Vec<&RecordedAllocation> = live.iter().collect();
    by_address.sort_unstable_by_key(|a| a.address);
    let place = |(segment, blocks): (Segment, Vec<Block>)| {
        let end = blocks.last().map_or(segment.address, |b| b.address.saturating_add(b.size));
        let first_from = |address: u64| by_address.partition_point(|a| a.address < address);
        let inside = first_from(segment.address)..first_from(end);
        (segment.address..end, by_address[inside].to_vec())
    };
    allocator.segments().into_iter().map(place).collect()
}

fn free_blocks(allocator: &CachingAllocator) -> Vec<FreeBlock> {
    let mut free = Vec::new();
    for (segment, blocks) in allocator.segments() {
        let expandable = segment.is_expandable == Some(true);
        for block in blocks.iter().filter(|b| b.state == BlockState::Inactive) {
            free.push(FreeBlock {
                address: block.address,
                size: block.size,
                stream: segment.stream,
                kind: segment.kind,
                pool: segment.pool,
                whole_segment: blocks.len() == 1 && !expandable,
            });
        }
    }
    free
}
