//! A recording that is written during the run: events with their Python stacks.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use hashbrown::HashMap;
use pyo3::prelude::*;
use vramscope::allocator::{ExclusiveFile, Process, SourceFrame};
use vramscope::engine::Policy;
use vramscope::trace::formats::log::{LogEvent, LogFrame, LogSite, LogStack, LogWriter};
use vramscope::trace::{Action, PoolId, SegmentKind};
use vramscope_basics::lock;

use crate::call_tree::{CallTree, NodeId};

/// The maximum time that events wait in memory. A killed program loses them.
const INTERVAL: Duration = Duration::from_millis(250);

/// Pending bytes at which the thread that records an event also writes.
const MOST_WAITING: usize = 8 << 20;

/// Pending bytes at which a recording is abandoned because its disk accepts no writes.
const MOST_UNWRITTEN: usize = 256 << 20;

/// An event of the pool. Sizes are in bytes.
pub(crate) struct PoolEvent {
    pub(crate) action: Action,
    pub(crate) device: i64,
    /// For an out-of-memory event, the free bytes of the device; otherwise the device address.
    pub(crate) address_or_free: u64,
    /// The size that the caller requested; for device allocations, the reserved size.
    pub(crate) size: u64,
    /// For an allocation: the size of its block.
    pub(crate) block_size: u64,
    /// The raw stream.
    pub(crate) stream: u64,
}

impl PoolEvent {
    /// An event other than an allocation of a block.
    pub(crate) fn new(action: Action, device: i64, address_or_free: u64, size: u64, stream: u64) -> Self {
        Self { action, device, address_or_free, size, block_size: 0, stream }
    }
}

/// The output file for events. A forked child process records nothing.
pub(crate) struct EventLog {
    path: PathBuf,
    process: Process,
    tree: CallTree,
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    file: Mutex<LogFile>,
    closing: Condvar,
}

struct LogFile {
    /// `None` after the log is closed or abandoned.
    log: Option<LogWriter<ExclusiveFile>>,
    error: Option<io::Error>,
    /// The file's id of each frame's line, by frame index.
    sites: Vec<LogSite>,
    /// The file's id of each stack, by node.
    stacks: HashMap<NodeId, LogStack>,
}

impl EventLog {
    /// Creates the file at `path`, with the settings of `policy`.
    pub(crate) fn create(path: &Path, policy: &Policy) -> io::Result<Self> {
        let mut log = LogWriter::create(ExclusiveFile::create(path)?)?;
        log.settings(&policy.settings());
        log.flush()?;
        let file = LogFile { log: Some(log), error: None, sites: Vec::new(), stacks: HashMap::new() };
        let shared = Arc::new(Shared { file: Mutex::new(file), closing: Condvar::new() });
        let writer = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("vramscope-stream".to_owned());
        let thread = thread.spawn(move || writer.write_until_closed())?;
        let (path, process, tree) = (path.to_owned(), Process::this(), CallTree::default());
        Ok(Self { path, process, tree, shared, thread: Mutex::new(Some(thread)) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether this process made the recording. Another process must not take its locks.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.process.is_this()
    }

    /// Captures the stack for an event.
    pub(crate) fn stack(&self, py: Python<'_>) -> Option<NodeId> {
        self.tree.capture(py).ok()
    }

    /// Records a device, even if it has no events.
    pub(crate) fn device(&self, device: i64) {
        self.with(|log, _| log.device(device));
    }

    /// Records events that happen now, with one stack.
    pub(crate) fn add(&self, events: &[PoolEvent], stack: Option<NodeId>) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let time_us = i64::try_from(now.as_micros()).unwrap_or(i64::MAX);
        self.with(|log, names| {
            let stack = stack.and_then(|node| names.stack(log, &self.tree, node));
            for event in events {
                log.event(&LogEvent {
                    device: event.device,
                    action: event.action,
                    unknown_action: None,
                    address_or_free: event.address_or_free,
                    size: event.size,
                    block_size: event.block_size,
                    time_us,
                    stack,
                    stream: event.stream,
                    pool: Some(PoolId::default()),
                    user_metadata: None,
                    kind: SegmentKind::Large,
                });
            }
        });
    }

    fn with(&self, add: impl FnOnce(&mut LogWriter<ExclusiveFile>, &mut Names<'_>)) {
        if !self.is_of_this_process() {
            return;
        }
        let mut file = lock(&self.shared.file);
        let LogFile { log: Some(log), sites, stacks, .. } = &mut *file else { return };
        add(log, &mut Names { sites, stacks });
        if log.pending() > MOST_WAITING {
            file.flush();
        }
    }

    /// Writes pending events, closes the file, and returns the error of a failed write, if any.
    pub(crate) fn close(&self) -> io::Result<()> {
        if !self.is_of_this_process() {
            return Ok(());
        }
        {
            let mut file = lock(&self.shared.file);
            match file.log.take().map(LogWriter::finish) {
                Some(Err(error)) => file.error = Some(error),
                // The final write includes everything that failed before.
                Some(Ok(written)) => file.error = written.check_name().err(),
                None => {}
            }
            self.shared.closing.notify_all();
        }
        let thread = lock(&self.thread).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            return Err(io::Error::other("the thread that writes the recording panicked"));
        }
        lock(&self.shared.file).error.take().map_or(Ok(()), Err)
    }
}

impl Drop for EventLog {
    fn drop(&mut self) {
        if self.is_of_this_process() {
            self.close().ok();
        } else {
            // The handle's system id may belong to another thread in this process.
            let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(thread.take());
        }
    }
}

impl Shared {
    fn write_until_closed(&self) {
        let mut file = lock(&self.file);
        while file.log.is_some() {
            let waited = self.closing.wait_timeout(file, INTERVAL);
            file = waited.unwrap_or_else(PoisonError::into_inner).0;
            file.flush();
        }
    }
}

impl LogFile {
    fn flush(&mut self) {
        let Some(log) = &mut self.log else { return };
        self.error = log.flush().err();
        if log.pending() > MOST_UNWRITTEN {
            self.log = None;
        }
    }
}

/// The stacks that are already in the file.
struct Names<'a> {
    sites: &'a mut Vec<LogSite>,
    stacks: &'a mut HashMap<NodeId, LogStack>,
}

impl Names<'_> {
    fn stack(
        &mut self,
        log: &mut LogWriter<ExclusiveFile>,
        tree: &CallTree,
        node: NodeId,
    ) -> Option<LogStack> {
        if let Some(&stack) = self.stacks.get(&node) {
            return Some(stack);
        }
        tree.with(node, |stack, frames| {
            for frame in frames.iter().skip(self.sites.len()) {
                let SourceFrame { filename, line, name } = frame;
                self.sites.push(log.site(LogFrame { name, filename, line: *line }));
            }
            let sites: Vec<LogSite> = stack.iter().map(|&i| self.sites[i as usize]).collect();
            let stack = log.stack(&sites);
            self.stacks.insert(node, stack);
            Some(stack)
        })
    }
}
