//! The pool a program uses.

mod allocation;
mod device_pool;

use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use thiserror::Error;
use vramscope_trace::{Stage, TableFull, Trace, formats};

pub use allocation::Allocation;
pub use device_pool::{DevicePool, LimitError, OomObserver, PeakScope, PrivatePool};

use crate::device::{Device, DeviceError, HostDevice};
use crate::engine::{AllocError, Core, Engine};
use crate::history::{self, Enabled, History, HistoryOptions, Recorder, Stream};
use crate::hooks::{HookError, HookGuard, MemoryHook, PoolHooks};
use crate::policy::Policy;
use crate::stacks::StackSource;
use crate::sync::lock;

/// A caching memory pool over one or more devices.
///
/// ```
/// use vramscope_allocator::{MemoryPool, Policy};
///
/// let pool = MemoryPool::on_host(Policy::cupy(), 1 << 20)?;
/// let a = pool.malloc(1000)?;
/// assert_eq!((a.requested_size(), a.size()), (1000, 1024));
/// drop(a);
/// assert_eq!((pool.used_bytes(), pool.total_bytes()), (0, 1024));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A freed block is cached and serves a later request on the same stream. A handle is cheap to clone, and
/// every method may be called from any thread. Methods of [`DevicePool`] on the pool itself are those of its
/// first device. When the last handle is gone, the cache goes back to the device; allocations stay valid.
#[derive(Clone)]
pub struct MemoryPool {
    inner: Arc<Inner>,
}

struct Inner {
    devices: Vec<DevicePool>,
    hooks: Arc<PoolHooks>,
    recorder: Arc<Recorder>,
    oom_observers: Arc<Mutex<Vec<OomObserver>>>,
    stream: Mutex<Option<Arc<Stream>>>,
}

/// Why a snapshot was not written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// There is too much for one trace.
    #[error(transparent)]
    TableFull(#[from] TableFull),
    /// The file could not be written.
    #[error("{path}: {why}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        why: io::Error,
    },
}

/// Why recording did not begin.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// The pool has no such device.
    #[error("the pool has no device {0}")]
    NoDevice(i32),
    /// The file to stream to could not be written.
    #[error("{path}: {why}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        why: io::Error,
    },
}

impl MemoryPool {
    /// A pool over `devices`, numbered from 0, all under the same policy.
    ///
    /// # Errors
    /// Where the policy asks for what a device cannot do, or a device does not answer.
    ///
    /// # Panics
    /// Where there is no device.
    pub fn new(policy: &Policy, devices: Vec<Arc<dyn Device>>) -> Result<Self, DeviceError> {
        assert!(!devices.is_empty(), "a pool needs at least one device");
        let hooks = Arc::new(PoolHooks::default());
        let recorder = Arc::new(Recorder::default());
        let oom_observers = Arc::default();
        let mut pools = Vec::new();
        for (device, device_id) in devices.into_iter().zip(0..) {
            let history = History::new(Arc::clone(&recorder), device_id);
            let core = Core::new(device, device_id, policy.clone(), history, Arc::clone(&hooks))?;
            let oom_observers = Arc::clone(&oom_observers);
            pools.push(DevicePool { engine: Arc::new(Engine::new(core)), oom_observers });
        }
        let stream = Mutex::default();
        Ok(Self { inner: Arc::new(Inner { devices: pools, hooks, recorder, oom_observers, stream }) })
    }

    /// A pool of at most `capacity` bytes of the host's memory.
    ///
    /// # Errors
    /// Where the policy asks for expandable segments, which the host's memory does not have.
    pub fn on_host(policy: Policy, capacity: u64) -> Result<Self, DeviceError> {
        Self::new(&policy, vec![Arc::new(HostDevice::with_capacity(capacity))])
    }

    /// The part on one device.
    pub fn device(&self, device_id: i32) -> Option<&DevicePool> {
        usize::try_from(device_id).ok().and_then(|i| self.inner.devices.get(i))
    }

    /// The parts on all devices, by number.
    pub fn devices(&self) -> &[DevicePool] {
        &self.inner.devices
    }

    /// Takes `size` bytes on the first device's default stream.
    ///
    /// # Errors
    /// See [`AllocError`].
    #[inline]
    pub fn malloc(&self, size: u64) -> Result<Allocation, AllocError> {
        self.inner.devices[0].malloc(size)
    }

    // ---- hooks ----

    /// Registers a hook for allocations of all threads from this pool, until the guard is dropped. They are
    /// called after the thread's own.
    ///
    /// # Errors
    /// [`HookError::AlreadyExists`] where the pool has a hook of that name.
    pub fn register_hook(&self, hook: Arc<dyn MemoryHook>) -> Result<HookGuard, HookError> {
        self.inner.hooks.register(hook)
    }

    /// Calls `observer` when a request fails for want of memory: after everything was tried, before the
    /// request returns. No lock is held and the recording is whole, so it may dump a snapshot.
    pub fn on_oom(&self, observer: OomObserver) {
        lock(&self.inner.oom_observers).push(observer);
    }

    // ---- history ----

    /// Where frames of another language come from, for recorded stacks.
    pub fn set_stack_source(&self, source: Option<Arc<dyn StackSource>>) {
        self.inner.recorder.stacks.set_source(source);
    }

    /// Begins, changes or ends the recording of history (`torch.cuda.memory._record_memory_history`).
    ///
    /// # Errors
    /// Where there is no such device, or the file to stream to cannot be written. Nothing has changed then.
    pub fn record_memory_history(&self, options: &HistoryOptions) -> Result<(), HistoryError> {
        let chosen: Vec<&DevicePool> = match options.device {
            Some(id) => vec![self.device(id).ok_or(HistoryError::NoDevice(id))?],
            None => self.inner.devices.iter().collect(),
        };
        let before = {
            // Every lock of every chosen device, so that the file begins with the state its first event meets.
            let wholes: Vec<_> = chosen.iter().map(|d| (d.engine.as_ref(), d.engine.whole())).collect();
            let stream = match &options.stream_to {
                Some(path) if options.enabled.is_some() => {
                    let state: Vec<_> = wholes.iter().map(|(engine, w)| (*engine, w.segments())).collect();
                    let stream = Stream::create(path, Arc::clone(&self.inner.recorder), &state);
                    Some(stream.map_err(|why| HistoryError::Io { path: path.clone(), why })?)
                }
                _ => None,
            };
            for (engine, _) in &wholes {
                engine.core.history.set(options, stream.clone());
            }
            let max_regions = match options.enabled {
                Some(Enabled::All) => options.max_entries,
                Some(Enabled::State) => 1,
                None => 0,
            };
            self.inner.recorder.set_regions(max_regions, options.clear_history, stream.clone());
            std::mem::replace(&mut *lock(&self.inner.stream), stream)
        };
        match before.map(|stream| stream.close()) {
            Some(Err(why)) => Err(HistoryError::Io { path: PathBuf::from("the recording so far"), why }),
            _ => Ok(()),
        }
    }

    /// What the pool holds and what was recorded (`torch.cuda.memory._snapshot`). Addresses in native stacks
    /// are looked up now, which takes a while the first time.
    ///
    /// # Errors
    /// Where there is too much for one trace.
    pub fn snapshot(&self) -> Result<Trace, TableFull> {
        let engines: Vec<&Engine> = self.inner.devices.iter().map(|d| d.engine.as_ref()).collect();
        history::snapshot(&engines, &self.inner.recorder)
    }

    /// Writes a snapshot (`torch.cuda.memory._dump_snapshot`): a pickle that memory_viz and `vramscope report`
    /// open. A file of that name is replaced when the new one is whole.
    ///
    /// # Errors
    /// Where there is too much for one trace, or the file cannot be written.
    pub fn dump_snapshot(&self, path: impl AsRef<Path>) -> Result<(), SnapshotError> {
        let path = path.as_ref();
        let trace = self.snapshot()?;
        let mut beside = path.as_os_str().to_owned();
        beside.push(format!(".{}.tmp", std::process::id()));
        let beside = PathBuf::from(beside);
        let write = || {
            let mut out = BufWriter::new(std::fs::File::create(&beside)?);
            formats::write_pickle(&trace, &mut out)?;
            out.flush()?;
            std::fs::rename(&beside, path)
        };
        write().map_err(|why| {
            std::fs::remove_file(&beside).ok();
            SnapshotError::Io { path: path.to_owned(), why }
        })
    }

    /// Names what happens until the guard is dropped (`torch.profiler.record_function`): a region in the
    /// snapshot.
    pub fn annotate(&self, name: &str) -> Region {
        self.annotate_on(0, name)
    }

    /// As [`annotate`](Self::annotate), for a device.
    pub fn annotate_on(&self, device_id: i32, name: &str) -> Region {
        let name: Arc<str> = name.into();
        self.inner.recorder.region(Stage::Start, &name, device_id);
        Region { recorder: Arc::clone(&self.inner.recorder), name, device_id }
    }
}

/// The pool's first device.
impl std::ops::Deref for MemoryPool {
    type Target = DevicePool;

    fn deref(&self) -> &DevicePool {
        &self.inner.devices[0]
    }
}

/// A region that ends when it is dropped.
#[must_use = "the region ends when the guard is dropped"]
pub struct Region {
    recorder: Arc<Recorder>,
    name: Arc<str>,
    device_id: i32,
}

impl Drop for Region {
    fn drop(&mut self) {
        self.recorder.region(Stage::End, &self.name, self.device_id);
    }
}
