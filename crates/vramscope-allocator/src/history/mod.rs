//! The recorded history: PyTorch's `_record_memory_history`, for this crate's pools.
//!
//! A device's events are recorded under the locks under which they happen. So they are in the order in which the memory
//! changed, and can be replayed. Stacks and texts belong to all devices of a pool, and are kept in its [`Recorder`].

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

pub use exclusive_file::ExclusiveFile;
pub use metadata::{UserMetadata, set_user_metadata, user_metadata};
pub(crate) use recorder::Recorder;
pub(crate) use regions::Regions;
pub(crate) use snapshot::{DeviceLayout, snapshot};
pub(crate) use stream::Stream;

pub(crate) use crate::stacks::StackKey;
use crate::stacks::Stacks;
use recorder::TextKey;
use stream::StreamItem;
use vramscope_basics::lock;
use vramscope_engine::{ArenaKey, DeviceEvent};

/// What is recorded: the arguments of PyTorch's `torch.cuda.memory._record_memory_history` (2.11), with its defaults.
/// `compile_context` and `global_record_annotations` exist in Python alone; here, regions of every thread are recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryOptions {
    /// `None` stops recording and drops what was recorded.
    pub enabled: Option<Enabled>,
    /// When stacks are captured.
    pub context: Option<Context>,
    /// Which frames recorded stacks have.
    pub stacks: Stacks,
    /// Events held for each device; the oldest are dropped.
    pub max_entries: usize,
    /// One device by its id; `None` for all.
    pub device: Option<i32>,
    /// Drops what was recorded so far.
    pub clear_history: bool,
    /// Actions that are left out of the history. The file of `stream_to` has them all the same.
    pub skip_actions: Vec<Action>,
    /// A file that every event is also written to while the program runs, four times a second, however many there are.
    /// It is read as snapshots are, also after the program was killed. A file that is already there is replaced. Until
    /// recording ends or the pool is gone the file is locked, so that nothing else streams to it; then it is completed. A
    /// program that keeps its pool until it exits, such as one in a `static`, should end the recording before, or it loses the
    /// last quarter of a second. PyTorch has no such argument.
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
    /// How many events are held for each device, and how many beginnings and ends of regions.
    pub(crate) fn entries_kept(&self) -> usize {
        match self.enabled {
            Some(Enabled::All) => self.max_entries,
            Some(Enabled::State) => 1,
            None => 0,
        }
    }
}

/// How much is kept (`enabled` of `_record_memory_history`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enabled {
    /// `state`: the stacks of live blocks, and only the last event.
    State,
    /// `all`: stacks, and the history of events.
    All,
}

/// When a stack is captured (`context` of `_record_memory_history`).
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
    /// A request for memory begins.
    Malloc,
    /// A block is freed, or memory is given back to the device.
    Free,
}

/// An event as it is kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    event: DeviceEvent<StackKey>,
    /// Microseconds since the Unix epoch.
    time_us: i64,
    /// The text that the thread had set with [`set_user_metadata`].
    metadata: Option<TextKey>,
    /// The number of the arena in its device's history.
    arena: u32,
}

/// The recorded history of one device.
pub(crate) struct DeviceHistory {
    recorder: Arc<Recorder>,
    device_id: i32,
    recording: AtomicBool,
    /// [`Context`] as a number from 1; 0 where stacks are not captured.
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
    /// The pool and stream of each arena, by its number. Number 0 stands for the whole device.
    arenas: Vec<ArenaKey>,
    stream: Option<Arc<Stream>>,
}

impl DeviceHistory {
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

    /// Begins, changes or ends recording. The caller holds the device's locks. Returns the stream to a file that was written
    /// until now.
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

    /// The stream to a file, where one is written now.
    pub(crate) fn stream(&self) -> Option<Arc<Stream>> {
        lock(&self.ring).stream.clone()
    }

    /// Gives an arena its number in the history.
    pub(crate) fn add_arena(&self, key: ArenaKey) -> u32 {
        let mut ring = lock(&self.ring);
        ring.arenas.push(key);
        ring.arenas.len() as u32 - 1
    }

    /// The calling thread's stack; `None` where none is wanted on this occasion (`maybeGatherContext`).
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

    /// Whether events are recorded now.
    #[inline]
    pub(crate) fn is_recording(&self) -> bool {
        self.recording.load(Ordering::Relaxed)
    }

    /// Records an event. The caller holds the lock under which it happened.
    pub(crate) fn record(&self, arena: u32, mut event: DeviceEvent<StackKey>) {
        // With `context` `state`, only blocks have stacks.
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
