//! The recorded history: PyTorch's `_record_memory_history`, for this crate's pools.
//!
//! A device's events are recorded under the locks under which they happen, so their order is the order of
//! the bytes: the history can be replayed. What belongs to all devices of a pool (stacks, texts, regions, the
//! file that is written meanwhile) is the [`Recorder`]'s.

mod exclusive_file;
mod metadata;
mod recorder;
mod regions;
mod snapshot;
mod stream;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use vramscope_trace::Action;

pub use metadata::{UserMetadata, set_user_metadata, user_metadata};
pub(crate) use recorder::Recorder;
pub(crate) use regions::Regions;
pub(crate) use snapshot::{DeviceLayout, snapshot};
pub(crate) use stream::{Stream, StreamItem};

pub(crate) use crate::stacks::StackKey;
use crate::stacks::Stacks;
use recorder::TextKey;
use vramscope_basics::lock;
use vramscope_engine::{ArenaKey, DeviceEvent};

/// What is recorded, in the arguments of PyTorch's `torch.cuda.memory._record_memory_history` (2.11) and with
/// their defaults. `compile_context` and `global_record_annotations` are of Python alone; regions of every
/// thread are recorded here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryOptions {
    /// `None` stops recording and drops what was recorded.
    pub enabled: Option<Enabled>,
    /// When stacks are captured.
    pub context: Option<Context>,
    /// Which frames they have.
    pub stacks: Stacks,
    /// Events held for each device; the oldest are dropped.
    pub max_entries: usize,
    /// One device by its id; `None` for all.
    pub device: Option<i32>,
    /// Drops what was recorded so far.
    pub clear_history: bool,
    /// Actions that are left out of the history. The file of `stream_to` has them all the same.
    pub skip_actions: Vec<Action>,
    /// A file that every event is also written to while the program runs, at least every quarter of a
    /// second and without bound. It opens as a snapshot does, also after the program was killed. It is
    /// completed when recording ends or the pool is gone; until then it is locked, and nobody else can stream to
    /// it. A file that is there already is replaced. A program that keeps its pool to its end, in a
    /// static say, should end the recording first, or lose the last quarter of a second. Beyond PyTorch.
    pub stream_to: Option<PathBuf>,
}

impl Default for HistoryOptions {
    fn default() -> Self {
        Self {
            enabled: Some(Enabled::All),
            context: Some(Context::All),
            stacks: Stacks::All,
            max_entries: usize::MAX,
            device: None,
            clear_history: false,
            skip_actions: Vec::new(),
            stream_to: None,
        }
    }
}

impl HistoryOptions {
    /// Events that are held, of each device, and ends of regions.
    pub(crate) fn entries_kept(&self) -> usize {
        match self.enabled {
            Some(Enabled::All) => self.max_entries,
            Some(Enabled::State) => 1,
            None => 0,
        }
    }
}

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enabled {
    /// `state`: stacks of what is live now, and only the last event.
    State,
    /// `all`: the history of events too.
    All,
}

/// When a stack is captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Context {
    /// `state`: for blocks that are live; events have none.
    State,
    /// `alloc`: for events too; a free shows where its block was allocated.
    Alloc,
    /// `all`: a free shows where it was freed.
    All,
}

/// An occasion to capture a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// A request begins.
    Malloc,
    /// Memory goes back.
    Free,
}

/// An event as it is kept: what happened, when and where.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) event: DeviceEvent<StackKey>,
    /// Microseconds since the Unix epoch.
    pub(crate) time_us: i64,
    /// What the program had set with [`set_user_metadata`].
    pub(crate) metadata: Option<TextKey>,
    /// Number of the arena on its device.
    arena: u32,
}

/// One device's history.
pub(crate) struct History {
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) device_id: i32,
    recording: AtomicBool,
    /// `Context` as a number; 0 for none.
    context: AtomicU8,
    python_only: AtomicBool,
    ring: Mutex<Ring>,
}

#[derive(Default)]
struct Ring {
    entries: VecDeque<Entry>,
    max_entries: usize,
    skip_actions: Vec<Action>,
    overflowed: bool,
    /// What arena numbers mean; the first stands for the device.
    arenas: Vec<ArenaKey>,
    stream: Option<Arc<Stream>>,
}

impl History {
    pub(crate) fn new(recorder: Arc<Recorder>, device_id: i32) -> Self {
        let ring = Ring { arenas: vec![ArenaKey::default()], ..Ring::default() };
        Self {
            recorder,
            device_id,
            recording: AtomicBool::new(false),
            context: AtomicU8::new(0),
            python_only: AtomicBool::new(false),
            ring: Mutex::new(ring),
        }
    }

    /// Begins or ends recording. Nothing happens on the device meanwhile: its locks are held. Returns the file
    /// that was written until now.
    pub(crate) fn set(&self, options: &HistoryOptions, stream: Option<Arc<Stream>>) -> Option<Arc<Stream>> {
        let mut ring = lock(&self.ring);
        let recording = options.enabled.is_some();
        ring.max_entries = options.entries_kept();
        ring.skip_actions.clone_from(&options.skip_actions);
        if !recording || options.clear_history {
            ring.entries = VecDeque::new();
            ring.overflowed = false;
        }
        while ring.entries.len() > ring.max_entries {
            ring.entries.pop_front();
            ring.overflowed = true;
        }
        let before = std::mem::replace(&mut ring.stream, stream);
        let context = options.context.filter(|_| recording).map_or(0, |context| context as u8 + 1);
        self.context.store(context, Ordering::Relaxed);
        self.python_only.store(options.stacks == Stacks::Python, Ordering::Relaxed);
        self.recording.store(recording, Ordering::Relaxed);
        before
    }

    /// The file that is written now.
    pub(crate) fn stream(&self) -> Option<Arc<Stream>> {
        lock(&self.ring).stream.clone()
    }

    /// Gives an arena its number in the history.
    pub(crate) fn add_arena(&self, key: ArenaKey) -> u32 {
        let mut ring = lock(&self.ring);
        ring.arenas.push(key);
        ring.arenas.len() as u32 - 1
    }

    /// The calling thread's stack, where one is wanted now (`maybeGatherContext`).
    #[inline]
    pub(crate) fn capture(&self, when: When) -> Option<StackKey> {
        let from = match when {
            When::Malloc => Context::State,
            When::Free => Context::All,
        };
        if self.context.load(Ordering::Relaxed) <= from as u8 { None } else { self.capture_stack() }
    }

    #[inline(never)]
    fn capture_stack(&self) -> Option<StackKey> {
        let python_only = self.python_only.load(Ordering::Relaxed);
        self.recorder.stacks.capture(if python_only { Stacks::Python } else { Stacks::All })
    }

    /// Events are recorded.
    #[inline]
    pub(crate) fn is_recording(&self) -> bool {
        self.recording.load(Ordering::Relaxed)
    }

    /// Something happened. The caller holds the lock under which it did.
    pub(crate) fn record(&self, arena: u32, mut event: DeviceEvent<StackKey>) {
        // Under `state`, events have no stack; the blocks keep theirs.
        if self.context.load(Ordering::Relaxed) <= Context::State as u8 + 1 {
            event.stack = None;
        }
        let metadata = metadata::current(&self.recorder);
        let mut ring = lock(&self.ring);
        let entry = Entry { event, time_us: recorder::now_us(), metadata, arena };
        if let Some(stream) = &ring.stream {
            stream.push(StreamItem::Event(self.device_id, ring.arenas[arena as usize], entry));
        }
        if ring.skip_actions.contains(&event.action) {
            return;
        }
        if ring.entries.len() >= ring.max_entries {
            ring.overflowed = true;
            ring.entries.pop_front();
        }
        if ring.max_entries > 0 {
            ring.entries.push_back(entry);
        }
    }
}
