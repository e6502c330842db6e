//! The recorded history: PyTorch's `_record_memory_history`, for this crate's pools.
//!
//! Each event of a device is recorded under the lock that the change itself holds. So events are in the order in which memory changed, and
//! can be replayed. Stacks and texts belong to all devices of a pool, and are stored in its [`Recorder`].

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

/// Recording options: the arguments of PyTorch's `torch.cuda.memory._record_memory_history` (2.11), with its defaults. `compile_context`
/// and `global_record_annotations` exist only in Python; this crate records the regions of every thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryOptions {
    /// `None` stops recording and drops the recorded history.
    pub enabled: Option<Enabled>,
    /// When stacks are captured.
    pub context: Option<Context>,
    /// Which frames the recorded stacks contain.
    pub stacks: Stacks,
    /// Maximum number of events per device; the oldest are dropped.
    pub max_entries: usize,
    /// The device id, or `None` for all devices.
    pub device: Option<i32>,
    /// Whether to drop the history recorded so far.
    pub clear_history: bool,
    /// Actions that the history leaves out. The file of `stream_to` still contains them.
    pub skip_actions: Vec<Action>,
    /// A file to which all events are written while the program runs, four times a second and without a limit on their number. Readers of
    /// snapshots can read it, even after the program was killed. An existing file is replaced. The file is locked until recording ends or
    /// the pool is dropped, so that no other recording streams to it. Then the file is completed. A program that keeps its pool until it
    /// exits, such as in a `static`, must end recording first, or it loses the last quarter of a second. PyTorch has no such argument.
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
    /// Maximum number of events per device, and of region begins and ends.
    pub(crate) fn entries_kept(&self) -> usize {
        match self.enabled {
            Some(Enabled::All) => self.max_entries,
            Some(Enabled::State) => 1,
            None => 0,
        }
    }
}

/// How much history is recorded (`enabled` of `_record_memory_history`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enabled {
    /// `state`: the stacks of live blocks; of the events, only the newest.
    State,
    /// `all`: stacks, and the history of all events.
    All,
}

/// When a stack is captured (`context` of `_record_memory_history`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Context {
    /// `state`: for live blocks only; events have no stacks.
    State,
    /// `alloc`: also for events; a free shows where its block was allocated.
    Alloc,
    /// `all`: also for frees; a free shows where the block was freed.
    All,
}

/// An operation that may capture a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// A memory request begins.
    Malloc,
    /// A block is freed, or memory is released to the device.
    Free,
}

/// A recorded event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    event: DeviceEvent<StackKey>,
    /// Microseconds since the Unix epoch.
    time_us: i64,
    /// The metadata that the thread set with [`set_user_metadata`].
    metadata: Option<TextKey>,
    /// The arena's index in the device's history.
    arena: u32,
}

/// The recorded history of one device.
pub(crate) struct DeviceHistory {
    recorder: Arc<Recorder>,
    device_id: i32,
    recording: AtomicBool,
    /// [`Context`] as a number from 1; 0 if stacks are not captured.
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
    /// The pool and stream of each arena, by arena index. Index 0 stands for the whole device.
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

    /// Starts, changes or stops recording. The caller holds the device's locks. Returns the previous stream to a file.
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

    /// Returns the current stream to a file, if any.
    pub(crate) fn stream(&self) -> Option<Arc<Stream>> {
        lock(&self.ring).stream.clone()
    }

    /// Registers an arena and returns its index in the history.
    pub(crate) fn add_arena(&self, key: ArenaKey) -> u32 {
        let mut ring = lock(&self.ring);
        ring.arenas.push(key);
        ring.arenas.len() as u32 - 1
    }

    /// Captures the calling thread's stack; `None` if the options record no stack for `when` (`maybeGatherContext`).
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

    /// Whether events are currently recorded.
    #[inline]
    pub(crate) fn is_recording(&self) -> bool {
        self.recording.load(Ordering::Relaxed)
    }

    /// Records an event. The caller holds the lock under which it happened.
    pub(crate) fn record(&self, arena: u32, mut event: DeviceEvent<StackKey>) {
        // With the context `state`, only blocks have stacks.
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
