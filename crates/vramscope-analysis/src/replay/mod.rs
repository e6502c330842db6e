//! Recordings run again through the allocator: under the recorded settings, to prove that its rules are those
//! that made the recording, and under others, to say what would have happened.

mod program;
mod recorded_device;
mod run;
mod start;

use std::sync::Arc;

use vramscope_allocator::{CachingAllocator, Device, DeviceError, Policy, SearchOrder, VirtualDevice};
use vramscope_trace::{Action, BlockState};

use crate::history::History;
use program::Program;
use recorded_device::RecordedDevice;
use run::Run;
use start::Start;

pub use recorded_device::Capacity;
pub use run::{Failure, Outcome};

/// Something that happened to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Happened {
    /// What: a segment event, or [`Action::Alloc`].
    pub action: Action,
    /// First byte on the device.
    pub address: u64,
    /// Bytes: of the segment or range; of an allocation, as asked for.
    pub size: u64,
}

/// The first place where a replay did something else than was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Divergence {
    /// While events were followed.
    Event {
        /// The event.
        event: usize,
        /// What was recorded there; `None` for nothing.
        recorded: Option<Happened>,
        /// What the replay did; `None` for nothing.
        replayed: Option<Happened>,
    },
    /// Every event was followed, and the layout at the end is another.
    EndState {
        /// The recorded block; `None` for none.
        recorded: Option<EndBlock>,
        /// The replay's.
        replayed: Option<EndBlock>,
    },
}

/// A block of the layout at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndBlock {
    /// First byte of its segment.
    pub segment: u64,
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// What it is doing.
    pub state: BlockState,
}

/// A recording that can be run again.
pub struct Replay<'h, 't> {
    history: &'h History<'t>,
    program: Program,
    start: Start,
    /// The rules under which it was made.
    policy: Policy,
}

/// A recording run again under its own settings.
#[derive(Debug, Clone)]
pub struct Reproduction {
    /// What the allocator counted.
    pub outcome: Outcome,
    /// Where the replay left the recording, if it did.
    pub divergence: Option<Divergence>,
    /// The block size of each allocation by its number in the history, as far as the recording was followed;
    /// 0 where it was not.
    pub sizes: Vec<u64>,
}

/// How large a device is taken for where no size is given: 16 TiB, more than any recording needs.
const UNBOUNDED: u64 = 1 << 44;

impl<'h, 't> Replay<'h, 't> {
    /// Prepares the recording behind `history` for replay.
    ///
    /// Snapshots do not name the release that made them, and releases differ in which of several blocks of
    /// the same size serves first. Where the order that the recording seems to have does not reproduce it
    /// and the other does, that is taken.
    pub fn of(history: &'h History<'t>) -> Self {
        let program = Program::of(history);
        let start = Start::of(history, &program);
        Self { history, program, start, policy: history.policy.clone() }
    }

    /// The rules under which the recording was made, as far as it tells.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Runs the recording again under its own settings. On a device of which the size is given, the replay
    /// decides itself when it is full; else it follows the recording.
    pub fn reproduce(&mut self, capacity: Option<Capacity>) -> Result<Reproduction, DeviceError> {
        let first = self.reproduce_under(&self.policy, capacity)?;
        if first.divergence.is_none() || self.policy.name != "torch" {
            return Ok(first);
        }
        let other = Policy {
            search_order: match self.policy.search_order {
                SearchOrder::Address => SearchOrder::SegmentAge,
                SearchOrder::SegmentAge => SearchOrder::Address,
            },
            ..self.policy.clone()
        };
        let second = self.reproduce_under(&other, capacity)?;
        if second.divergence.is_some() {
            return Ok(first);
        }
        self.policy = other;
        Ok(second)
    }

    fn reproduce_under(
        &self,
        policy: &Policy,
        capacity: Option<Capacity>,
    ) -> Result<Reproduction, DeviceError> {
        let device = Arc::new(RecordedDevice::new(&self.history.device.events, capacity));
        let mut run = self.run(policy, capacity, Arc::clone(&device) as Arc<dyn Device>)?;
        self.start.install(&mut run, &device);
        let mut sizes = vec![0; self.history.allocations.len()];
        let finished = run.follow(&device, self.history, &mut |id, size| sizes[id as usize] = size);
        let divergence = device.divergence().or_else(|| self.end_state_differs(&run));
        Ok(Reproduction { outcome: run.outcome(!finished), divergence, sizes })
    }

    /// Runs the recording's requests under other rules or on a device of another size.
    ///
    /// # Errors
    /// Where the device cannot do what the rules ask for.
    pub fn under(&self, policy: &Policy, capacity: Option<Capacity>) -> Result<Outcome, DeviceError> {
        let mut run = self.start_under(policy, capacity)?;
        let finished = self.finish(&mut run);
        Ok(run.outcome(!finished))
    }

    fn start_under(&self, policy: &Policy, capacity: Option<Capacity>) -> Result<Run<'_>, DeviceError> {
        let device = match capacity {
            Some(c) => VirtualDevice::with_capacity(c.total).with_used(c.overhead),
            None => VirtualDevice::with_capacity(UNBOUNDED),
        };
        self.run(policy, capacity, Arc::new(device))
    }

    fn finish(&self, run: &mut Run<'_>) -> bool {
        start::request_start(run, self.history, &self.program) && run.finish()
    }

    fn run(
        &self,
        policy: &Policy,
        capacity: Option<Capacity>,
        device: Arc<dyn Device>,
    ) -> Result<Run<'_>, DeviceError> {
        let mut policy = policy.clone();
        if capacity.is_none() {
            // A fraction of nobody knows what.
            policy.memory_fraction = None;
        }
        Ok(Run::new(&self.program, CachingAllocator::new(policy, device)?))
    }

    /// Where the layout at the end is not the recorded one.
    fn end_state_differs(&self, run: &Run<'_>) -> Option<Divergence> {
        let recorded = &self.history.device;
        let quality = &self.history.quality;
        // Trace and end state are copied one after the other: where they disagree, neither can be had.
        if recorded.segments.is_empty() || quality.end_state_disagreements > 0 {
            return None;
        }
        let replayed = run.allocator.segments();
        let replayed = replayed.iter().flat_map(|(segment, blocks)| {
            blocks.iter().map(|b| EndBlock {
                segment: segment.address,
                address: b.address,
                size: b.size,
                state: b.state,
            })
        });
        let recorded = recorded.segments.iter().flat_map(|segment| {
            recorded.blocks_of(segment).iter().map(|b| EndBlock {
                segment: segment.address,
                address: b.address,
                size: b.size,
                state: b.state,
            })
        });
        let (mut recorded, mut replayed) = (recorded, replayed);
        loop {
            match (recorded.next(), replayed.next()) {
                (None, None) => return None,
                (recorded, replayed) if recorded != replayed => {
                    return Some(Divergence::EndState { recorded, replayed });
                }
                _ => {}
            }
        }
    }
}
