//! [`MemoryPool`], the memory pool of a program.

mod allocation;
mod device_pool;
mod error;
mod limit;
mod memory_summary;
mod pool_observer;

use std::cell::Cell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

use thiserror::Error;
use vramscope_trace::{Stage, TableFull, Trace, formats};

pub use allocation::Allocation;
pub use device_pool::{DevicePool, OomObserver, PeakScope, PrivatePool};
pub use error::AllocError;
pub use limit::{Limit, LimitError};

use vramscope_engine::{Device, DeviceError, Engine, OutOfMemory, Policy};

use crate::device::HostDevice;
use crate::history::{self, DeviceHistory, DeviceLayout, HistoryOptions, Recorder, Regions, Stream};
use crate::hooks::{HookError, HookGuard, MemoryHook, PoolHooks};
use crate::stacks::StackSource;
use crate::threads::FlagSet;
use pool_observer::PoolObserver;
use vramscope_basics::lock;

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
/// A freed block is cached and serves a later request on the same stream. A handle is cheap to clone, and every method may be called from
/// any thread. The [`DevicePool`] methods of a pool act on its first device. When the last handle is dropped, the cache is released to the
/// device; allocations stay valid.
///
/// # After a fork
///
/// A pool belongs to the process that created it. In a forked child, requests fail with [`AllocError::Forked`], and
/// [`record_memory_history`](Self::record_memory_history) fails with [`HistoryError::Forked`]. There, dropping the pool, its allocations,
/// guards and regions does nothing: it frees no memory, waits for no thread, and leaves the parent's recording unchanged. Host memory in a
/// child's allocations is a copy, like all of the child's memory. Do not use any other method there: another thread may have held the
/// pool's locks during the fork, and the child would wait for them forever. Pools that the child creates work normally.
#[derive(Clone)]
pub struct MemoryPool {
    inner: Arc<Inner>,
}

/// A handle that does not keep its pool alive, for callbacks and observers that the pool owns.
#[derive(Clone)]
pub struct WeakPool {
    inner: Weak<Inner>,
}

impl WeakPool {
    /// Returns the pool while another handle exists.
    pub fn upgrade(&self) -> Option<MemoryPool> {
        Some(MemoryPool { inner: self.inner.upgrade()? })
    }
}

struct Inner {
    devices: Vec<DevicePool>,
    hooks: Arc<PoolHooks>,
    recorder: Arc<Recorder>,
    regions: Arc<Regions>,
    oom_observers: Mutex<Vec<OomObserver>>,
}

/// The reason why a snapshot was not written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// There is too much data for one trace.
    #[error(transparent)]
    TableFull(#[from] TableFull),
    /// The file cannot be written.
    #[error("{path}: {why}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        why: io::Error,
    },
}

/// The reason why recording did not start or end.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// The pool has no such device.
    #[error("the pool has no device {0}")]
    NoDevice(i32),
    /// Nothing would be recorded: `max_entries` is 0, and there is no file to stream to.
    #[error("max_entries is 0, so no event would be kept; set it to 1 or more, or set a file to stream to")]
    NothingKept,
    /// Another recording writes to the file.
    #[error("{path}: another recording writes to this file; choose another name", path = path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The file to stream to cannot be written.
    #[error("{path}: {why}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        why: io::Error,
    },
    /// The pool belongs to the process that this process was forked from.
    #[error("the pool belongs to the parent process; create another pool after the fork")]
    Forked,
}

impl MemoryPool {
    /// Creates a pool over `devices`, numbered from 0, with one policy for all.
    ///
    /// # Errors
    /// The policy needs a feature that a device lacks, or a device fails.
    ///
    /// # Panics
    /// `devices` is empty.
    pub fn new(policy: &Policy, devices: Vec<Arc<dyn Device>>) -> Result<Self, DeviceError> {
        assert!(!devices.is_empty(), "a pool needs at least one device");
        let hooks = Arc::new(PoolHooks::default());
        let recorder = Arc::new(Recorder::default());
        let mut engines = Vec::new();
        for (device, device_id) in devices.into_iter().zip(0..) {
            let history = DeviceHistory::new(Arc::clone(&recorder), device_id);
            let observed = PoolObserver::new(history, Arc::clone(&hooks));
            engines.push(Arc::new(Engine::new(device, device_id, policy.clone(), observed)?));
        }
        let inner = Arc::new_cyclic(|pool: &Weak<Inner>| {
            let devices = engines.into_iter().map(|engine| DevicePool::new(engine, pool.clone())).collect();
            Inner { devices, hooks, recorder, regions: Arc::default(), oom_observers: Mutex::default() }
        });
        Ok(Self { inner })
    }

    /// Creates a pool of at most `capacity` bytes of host memory.
    ///
    /// # Errors
    /// The policy uses expandable segments, which host memory does not support.
    pub fn on_host(policy: Policy, capacity: u64) -> Result<Self, DeviceError> {
        Self::new(&policy, vec![Arc::new(HostDevice::with_capacity(capacity))])
    }

    /// Applies `CUPY_GPU_MEMORY_LIMIT` to each device, as CuPy's pool does when it is created: bytes, or a percentage of a device. Without
    /// this call, the variable does not limit the pool.
    ///
    /// ```
    /// use vramscope_allocator::{MemoryPool, Policy};
    ///
    /// let pool = MemoryPool::on_host(Policy::cupy(), 1 << 20)?.with_limit_from_env()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// If the variable is not set, nothing changes; 0 is no limit. A percentage refers to each device's memory.
    ///
    /// # Errors
    /// [`LimitError::Variable`] if the value is not a valid limit; [`LimitError::Device`] if a device cannot report its size.
    pub fn with_limit_from_env(self) -> Result<Self, LimitError> {
        if let Some(limit) = Limit::from_env()? {
            self.inner.devices.iter().try_for_each(|device| device.set_limit(limit))?;
        }
        Ok(self)
    }

    /// Returns the part of the pool on one device.
    pub fn device(&self, device_id: i32) -> Option<&DevicePool> {
        usize::try_from(device_id).ok().and_then(|i| self.inner.devices.get(i))
    }

    /// Returns the parts on all devices, by device id.
    pub fn devices(&self) -> &[DevicePool] {
        &self.inner.devices
    }

    /// Allocates `size` bytes on the first device's default stream.
    ///
    /// # Errors
    /// See [`AllocError`].
    #[inline]
    pub fn malloc(&self, size: u64) -> Result<Allocation, AllocError> {
        self.inner.devices[0].malloc(size)
    }

    /// Returns a handle that does not keep the pool alive.
    pub fn downgrade(&self) -> WeakPool {
        WeakPool { inner: Arc::downgrade(&self.inner) }
    }

    // ---- hooks ----

    /// Registers a hook for allocations of all threads from this pool, until the guard is dropped. It runs after the thread's hooks.
    ///
    /// # Errors
    /// [`HookError::AlreadyExists`] if the pool has a hook of that name.
    pub fn register_hook(&self, hook: Arc<dyn MemoryHook>) -> Result<HookGuard, HookError> {
        self.inner.hooks.register(hook)
    }

    /// Adds an observer of requests that fail because memory ran out. It runs after every attempt failed, before the request returns. No
    /// lock is held and the recording is complete, so it may dump a snapshot of the pool that it receives. If a request of the observer
    /// fails, observers do not run for it. An observer that owns a handle of the pool keeps the pool alive forever.
    pub fn on_oom(&self, observer: OomObserver) {
        lock(&self.inner.oom_observers).push(observer);
    }

    // ---- history ----

    /// Sets the source of frames of another language, for recorded stacks.
    pub fn set_stack_source(&self, source: Option<Arc<dyn StackSource>>) {
        self.inner.recorder.set_stack_source(source);
    }

    /// Starts, changes or stops the recording of history (`torch.cuda.memory._record_memory_history`). A file that was streamed to is
    /// completed when no device writes to it any more, or when the pool is dropped.
    ///
    /// # Errors
    /// There is no such device, or the file to stream to cannot be written: nothing changes. The previous file cannot be completed: the new
    /// recording has started.
    pub fn record_memory_history(&self, options: &HistoryOptions) -> Result<(), HistoryError> {
        if !self.inner.devices[0].engine.observer().process.is_this() {
            return Err(HistoryError::Forked);
        }
        let chosen: Vec<&DevicePool> = match options.device {
            Some(id) => vec![self.device(id).ok_or(HistoryError::NoDevice(id))?],
            None => self.inner.devices.iter().collect(),
        };
        if options.enabled == Some(history::Enabled::All)
            && options.max_entries == 0
            && options.stream_to.is_none()
        {
            return Err(HistoryError::NothingKept);
        }
        let histories = || self.inner.devices.iter().map(|d| &d.engine.observer().history);
        if let Some(path) = &options.stream_to
            && histories().any(|h| h.stream().is_some_and(|stream| stream.path() == path))
        {
            return Err(HistoryError::Busy { path: path.clone() });
        }
        let mut before = Vec::new();
        {
            // Hold every lock of every chosen device, so that no event falls between the state written to the file and its first event.
            let wholes: Vec<_> = chosen.iter().map(|d| (d.engine.as_ref(), d.engine.lock_all())).collect();
            let stream = match &options.stream_to {
                Some(path) if options.enabled.is_some() => {
                    let state: Vec<_> = wholes.iter().map(|(e, w)| (e.device_id(), w.segments())).collect();
                    let settings = self.inner.devices[0].engine.policy().settings();
                    let stream = Stream::create(path, Arc::clone(&self.inner.recorder), &settings, &state);
                    Some(stream.map_err(|why| match why.kind() {
                        io::ErrorKind::ResourceBusy => HistoryError::Busy { path: path.clone() },
                        _ => HistoryError::Io { path: path.clone(), why },
                    })?)
                }
                _ => None,
            };
            for (engine, _) in &wholes {
                before.extend(engine.observer().history.set(options, stream.clone()));
            }
            // Regions belong to all devices: they are recorded while any device records.
            if options.enabled.is_some() || !histories().any(DeviceHistory::is_recording) {
                let stream = stream.as_ref().map(Arc::downgrade).unwrap_or_default();
                self.inner.regions.set(options.entries_kept(), options.clear_history, stream);
            }
        }
        // Without a lock: a file is completed when no device uses it any more.
        for stream in before.into_iter().filter_map(Arc::into_inner) {
            stream.close().map_err(|why| HistoryError::Io { path: stream.path().to_owned(), why })?;
        }
        Ok(())
    }

    /// Whether any device records history, of events or only of live blocks ([`Enabled::State`]).
    ///
    /// [`Enabled::State`]: crate::Enabled::State
    pub fn is_recording_history(&self) -> bool {
        self.inner.devices.iter().any(|d| d.engine.observer().history.is_recording())
    }

    /// Returns the last write error of a file that is streamed to, such as a full disk. Failed writes are tried again.
    pub fn stream_error(&self) -> Option<io::ErrorKind> {
        let mut streams = self.inner.devices.iter().filter_map(|d| d.engine.observer().history.stream());
        streams.find_map(|stream| stream.error())
    }

    /// Runs the observers of a failed request.
    pub(crate) fn observe(&self, error: &OutOfMemory) {
        thread_local! {
            static OBSERVING: Cell<bool> = const { Cell::new(false) };
        }
        if !OBSERVING.get() {
            let _observing = FlagSet::of(&OBSERVING);
            let observers = lock(&self.inner.oom_observers).clone();
            observers.iter().for_each(|observer| observer(self, error));
        }
    }

    /// Returns the pool's state and history (`torch.cuda.memory._snapshot`). Resolves the addresses in native stacks, which is slow the
    /// first time.
    ///
    /// Pass the trace to `History::of` of the crate `vramscope-analysis`.
    ///
    /// # Errors
    /// There is too much data for one trace.
    pub fn snapshot(&self) -> Result<Arc<Trace>, TableFull> {
        let devices = self.inner.devices.iter().map(|device| {
            let mut whole = device.engine.lock_all();
            let layout = DeviceLayout::of(&device.engine.observer().history, whole.segments());
            whole.record_snapshot();
            layout
        });
        // Release the locks before resolving addresses, which is slow.
        let devices = devices.collect();
        history::snapshot(
            devices,
            self.inner.devices[0].engine.policy().settings(),
            &self.inner.recorder,
            &self.inner.regions,
        )
        .map(Arc::new)
    }

    /// Writes a snapshot (`torch.cuda.memory._dump_snapshot`): a pickle that memory_viz and `vramscope report` open. An existing file is
    /// replaced once the new one is complete.
    ///
    /// # Errors
    /// There is too much data for one trace, or the file cannot be written.
    pub fn dump_snapshot(&self, path: impl AsRef<Path>) -> Result<(), SnapshotError> {
        let path = path.as_ref();
        let trace = self.snapshot()?;
        formats::write_pickle_file(&trace, path)
            .map_err(|why| SnapshotError::Io { path: path.to_owned(), why })
    }

    /// Starts a named region of the snapshot, which ends when the guard is dropped (`torch.profiler.record_function`).
    pub fn annotate(&self, name: &str) -> RegionGuard {
        self.annotate_on(0, name)
    }

    /// Like [`annotate`](Self::annotate), for the device with this id.
    pub fn annotate_on(&self, device_id: i32, name: &str) -> RegionGuard {
        let name: Arc<str> = name.into();
        self.inner.regions.record(Stage::Start, &name, device_id);
        RegionGuard { regions: Arc::clone(&self.inner.regions), name, device_id }
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
pub struct RegionGuard {
    regions: Arc<Regions>,
    name: Arc<str>,
    device_id: i32,
}

impl Drop for RegionGuard {
    fn drop(&mut self) {
        self.regions.record(Stage::End, &self.name, self.device_id);
    }
}
