//! The effect of `max_split_size_mb` on reserved bytes, by a replay without it.

use crate::findings::UnsplitGrowth;
use crate::history::{History, Layout, Moment};
use crate::replay::{Replay, ReplayDevice};

/// The setting is a finding if it adds at least this many bytes, the size of a large segment.
const LEAST: u64 = 20 << 20;

/// The setting is a finding if it adds at least one of this many parts of the peak.
const PARTS: u64 = 20;

/// Replays without `max_split_size_mb`, if the recording has it, up to the peak of reserved bytes.
pub(super) fn unsplit_growth(history: &History, replay: &Replay<'_>) -> Option<UnsplitGrowth> {
    let (max_split_size, release) = (replay.policy.max_split_size?, replay.policy.release()?);
    let mut policy = replay.policy.clone();
    policy.max_split_size = None;
    let outcome = replay.under(&policy, ReplayDevice::Recorded).ok()?;
    // Replays reserve memory at the event of the request.
    let recorded = &replay.reproduction.outcome.reserved;
    let &(last, reserved) = recorded.iter().rev().max_by_key(|&&(_, bytes)| bytes)?;
    let moment = Moment::after(last);
    if outcome.failure.is_some_and(|failure| failure.event <= last) {
        return None;
    }
    let without = outcome.reserved.iter().take_while(|&&(event, _)| event <= last);
    let without = without.map(|&(_, bytes)| bytes).max()?;
    if reserved.saturating_sub(without) < LEAST.max(reserved / PARTS) {
        return None;
    }
    let layout = Layout::at(history, moment);
    let free = layout.free_blocks();
    let unsplit: Vec<u64> =
        free.iter().map(|free| free.size).filter(|&size| size >= max_split_size).collect();
    Some(UnsplitGrowth {
        max_split_size,
        is_expandable: policy.expandable_segments,
        release,
        event: Some(last),
        reserved,
        allocated: layout.counters().allocated,
        without,
        unsplit: unsplit.iter().sum(),
        blocks: unsplit.len(),
        is_exact: replay.limitations(&policy, ReplayDevice::Recorded).is_empty(),
    })
}
