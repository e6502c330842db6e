//! Fleets with a known result: recordings of many ranks, made from a real one with differences that a seed chooses.
//!
//! The events of a rank are changed: some allocations are freed, extra memory is held, a request fails at the end. The program under test
//! computes the results.
#![allow(clippy::unwrap_used, reason = "a test that cannot write its recordings fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use vramscope_trace::formats::{read, write_pickle};
use vramscope_trace::{
    Action, Block, BlockState, DeviceTrace, Event, Events, Segment, SegmentKind, StackId, Trace,
};

/// Pipeline stages.
const STAGES: u64 = 8;

/// Number of ranks per host.
const ON_A_HOST: u64 = 8;

/// The changes and their ranks; all other ranks are alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobPlan {
    /// Number of ranks, a multiple of eight.
    pub ranks: u64,
    /// The rank that leaks: all others free the leaked allocations.
    pub leaks: u64,
    /// The pipeline stage that holds a fifth more, and its ranks.
    pub larger_stage: (u64, Vec<u64>),
    /// The ranks that run out of memory, the earliest first.
    pub out_of_memory: [u64; 2],
    /// The ranks with a truncated file, an empty file, and a file of another format.
    pub broken: [u64; 3],
}

/// Deterministic pseudorandom numbers (SplitMix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % most
    }
}

impl JobPlan {
    /// Creates a plan for this number of ranks, a multiple of eight.
    pub fn new(ranks: u64, seed: u64) -> Self {
        let mut chance = Chance(seed);
        let stage = chance.below(STAGES);
        let each = ranks / STAGES;
        let larger_stage = (stage, (stage * each..(stage + 1) * each).collect::<Vec<_>>());
        let mut taken: BTreeSet<u64> = larger_stage.1.iter().copied().collect();
        let mut one = || loop {
            let rank = chance.below(ranks);
            if taken.insert(rank) {
                return rank;
            }
        };
        let (leaks, out_of_memory, mut broken) = (one(), [one(), one()], [one(), one(), one()]);
        broken.sort_unstable();
        Self { ranks, leaks, larger_stage, out_of_memory, broken }
    }

    /// Returns the path of a rank's recording in the folder of the fleet: `host-03/rank_0017_pp2.pickle`.
    pub fn file(&self, rank: u64) -> PathBuf {
        let stage = rank / (self.ranks / STAGES).max(1);
        format!("host-{:02}/rank_{rank:04}_pp{stage}.pickle", rank / ON_A_HOST).into()
    }

    /// Writes all recordings into `folder`, made from the recording `base`.
    ///
    /// # Panics
    /// They cannot be written.
    pub fn write(&self, folder: &Path, base: &Trace) {
        let healthy = {
            let mut trace = base.clone();
            free_what_leaks(&mut trace);
            trace
        };
        for rank in 0..self.ranks {
            let file = folder.join(self.file(rank));
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, self.recording(rank, base, &healthy)).unwrap();
        }
    }

    /// Returns the file of a rank.
    fn recording(&self, rank: u64, leaking: &Trace, healthy: &Trace) -> Vec<u8> {
        let mut trace = if rank == self.leaks { leaking.clone() } else { healthy.clone() };
        let mut chance = Chance(rank);
        // The files of two ranks always differ, as in real jobs.
        let jitter = 512 * (1 + chance.below(64));
        hold(&mut trace, jitter);
        if self.larger_stage.1.contains(&rank) {
            hold(&mut trace, 10 << 20);
        }
        // In time order, a second apart.
        if let Some(position) = self.out_of_memory.iter().position(|&of| of == rank) {
            run_out(&mut trace, 1_000_000 * (1 + position as i64));
        }
        let mut file = Vec::new();
        write_pickle(&trace, &mut file).unwrap();
        match self.broken.iter().position(|&of| of == rank) {
            Some(0) => file.truncate(file.len() / 2),
            Some(1) => file.clear(),
            Some(_) => file = b"Traceback (most recent call last):\n".to_vec(),
            None => {}
        }
        file
    }
}

/// Returns the committed recording of a leaking program, from which fleets are made.
///
/// # Panics
/// It cannot be read.
pub fn base() -> Trace {
    let file = fs::File::open(crate::book::root().join("examples/leak.pickle")).unwrap();
    Trace::clone(&read(file).unwrap().trace)
}

/// Removes the leak: each allocation that is never freed is freed just before the next one of its stack and size.
fn free_what_leaks(trace: &mut Trace) {
    let device = trace.devices.iter_mut().max_by_key(|device| device.events.len()).unwrap();
    let live: BTreeSet<u64> = device
        .blocks
        .iter()
        .filter(|block| block.state == BlockState::ActiveAllocated)
        .map(|block| block.address)
        .collect();
    let mut last: BTreeMap<u64, usize> = BTreeMap::new();
    for (at, event) in device.events.iter().enumerate().filter(|(_, event)| event.action == Action::Alloc) {
        last.insert(event.address(), at);
    }
    let mut events = Events::default();
    let mut before: BTreeMap<(Option<StackId>, u64), Event> = BTreeMap::new();
    let mut freed: BTreeSet<u64> = BTreeSet::new();
    for (at, event) in device.events.iter().enumerate() {
        let is_kept = last.get(&event.address()) == Some(&at) && live.contains(&event.address());
        if event.action == Action::Alloc
            && is_kept
            && let Some(kept) = before.insert((event.stack, event.size), event)
        {
            for action in [Action::FreeRequested, Action::FreeCompleted] {
                events.push(Event { action, time_us: event.time_us, ..kept });
            }
            freed.insert(kept.address());
        }
        events.push(event);
    }
    device.events = events;
    for segment in &mut device.segments {
        let blocks = &mut device.blocks[segment.blocks.clone()];
        for block in blocks.iter_mut().filter(|block| freed.contains(&block.address)) {
            block.state = BlockState::Inactive;
            let sums = [
                (&mut segment.allocated_size, block.size),
                (&mut segment.active_size, block.size),
                (&mut segment.requested_size, block.requested_size),
            ];
            sums.into_iter().for_each(|(sum, size)| *sum = sum.map(|sum| sum - size));
        }
    }
}

/// Holds this many more bytes from start to end, in a separate segment, at the first allocating line.
fn hold(trace: &mut Trace, bytes: u64) {
    const SMALL: u64 = 1 << 20;
    const SEGMENT: u64 = 2 << 20;
    let device = trace.devices.iter_mut().max_by_key(|device| device.events.len()).unwrap();
    let first =
        device.events.iter().find(|event| event.action == Action::Alloc && event.stack.is_some()).unwrap();
    let end = device.segments.iter().map(|segment| segment.address + segment.total_size);
    let end = end
        .chain(
            device
                .events
                .iter()
                .filter(|event| event.action != Action::Oom)
                .map(|event| event.address() + event.size),
        )
        .max()
        .unwrap();
    let address = end.next_multiple_of(1 << 30);
    let size = bytes.next_multiple_of(if bytes > SMALL { SEGMENT } else { 512 });
    let total = size.next_multiple_of(SEGMENT);
    let event = |action, size| Event { action, address_or_free: address, size, ..first };
    let added = [event(Action::SegmentAlloc, total), event(Action::Alloc, size)];
    device.events = added.into_iter().chain(device.events.iter()).fold(Events::default(), pushed);
    let segment = device.segments[0].clone();
    let kind = if bytes > SMALL { SegmentKind::Large } else { SegmentKind::Small };
    let segment = Segment {
        address,
        total_size: total,
        allocated_size: Some(size),
        active_size: Some(size),
        requested_size: Some(size),
        kind,
        ..segment
    };
    let block = Block {
        address,
        size,
        requested_size: size,
        state: BlockState::ActiveAllocated,
        stack: first.stack,
        forward_frames: None,
        user_metadata: None,
    };
    let rest = Block {
        address: address + size,
        size: total - size,
        requested_size: 0,
        state: BlockState::Inactive,
        stack: None,
        ..block
    };
    device.push_segment(segment, [block, rest].into_iter().filter(|block| block.size > 0));
}

/// Adds a request that fails this many microseconds after the last event.
fn run_out(trace: &mut Trace, after_us: i64) {
    let device =
        trace.devices.iter_mut().max_by_key(|device: &&mut DeviceTrace| device.events.len()).unwrap();
    let last = device.events.get(device.events.len() - 1);
    let asked = device.events.iter().filter(|event| event.action == Action::Alloc).last().unwrap();
    let time_us = last.time_us.map(|time| time + after_us);
    // As PyTorch writes it: the address is the driver's free bytes.
    device.events.push(Event {
        action: Action::Oom,
        address_or_free: 64 << 20,
        size: 1 << 30,
        time_us,
        ..asked
    });
}

fn pushed(mut events: Events, event: Event) -> Events {
    events.push(event);
    events
}
