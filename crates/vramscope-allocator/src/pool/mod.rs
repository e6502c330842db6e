//! [`MemoryPool`], the pool that a program uses.

mod allocation;
mod device_pool;
mod error;
mod limit;
mod memory_summary;
mod pool_observer;

use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
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
/// A freed block is cached and serves a later request on the same stream. A handle is cheap to clone, and
/// every method may be called from any thread. Methods of [`DevicePool`] on the pool itself are those of its
/// first device. When the last handle is gone, the cache goes back to the device; allocations stay valid.
///
/// # After a fork
///
/// A pool is of the process that made it. In a child that was forked from it, requests fail with
/// [`AllocError::Forked`], [`record_memory_history`](Self::record_memory_history) with [`HistoryError::Forked`],
/// and dropping the pool, its allocations, guards and regions does nothing: no memory goes back, no thread is waited
/// for, and the parent's recording is left alone. The host's memory in a child's allocations is a copy, as all its
/// memory is. Nothing else of the pool may be asked there: another thread may have held its locks when the process was
/// forked, and would never give them back. Pools that the child makes work as they do anywhere.
#[derive(Clone)]
pub struct MemoryPool {
    inner: Arc<Inner>,
}

/// A handle that does not keep its pool alive: for callbacks and observers, which the pool owns.
#[derive(Clone)]
pub struct WeakPool {
    inner: Weak<Inner>,
}

impl WeakPool {
    /// The pool, as long as another handle is left.
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
    /// Nothing would be recorded: `max_entries` is 0, and there is no file to stream to.
    #[error("max_entries is 0, so that no event would be kept; name 1 or more, or a file to stream to")]
    NothingKept,
    /// The file to stream to is being written already.
    #[error("{path}: is being written already; give another name", path = path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The file to stream to could not be written.
    #[error("{path}: {why}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        why: io::Error,
    },
    /// The pool is of the process that this one was forked from.
    #[error("the pool is of the process that this one was forked from; make another after the fork")]
    Forked,
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
        let mut engines = Vec::new();
        for (device, device_id) in devices.into_iter().zip(0..) {
            let history = DeviceHistory::new(Arc::clone(&recorder), device_id);
            let observed = PoolObserver::new(history, Arc::clone(&hooks));
            engines.push(Arc::new(Engine::new(device, device_id, policy.clone(), observed)?));
        }
        let inner = Arc::new_cyclic(|pool: &Weak<Inner>| {
            let devices =
                engines.into_iter().map(|engine| DevicePool { engine, pool: pool.clone() }).collect();
            Inner { devices, hooks, recorder, regions: Arc::default(), oom_observers: Mutex::default() }
        });
        Ok(Self { inner })
    }

    /// A pool of at most `capacity` bytes of the host's memory.
    ///
    /// # Errors
    /// Where the policy asks for expandable segments, which the host's memory does not have.
    pub fn on_host(policy: Policy, capacity: u64) -> Result<Self, DeviceError> {
        Self::new(&policy, vec![Arc::new(HostDevice::with_capacity(capacity))])
    }

    /// Obeys `CUPY_GPU_MEMORY_LIMIT`, as CuPy's pool does when it is made: bytes, or a percentage of a device,
    /// on each device. A pool that does not ask for it is not limited by it.
    ///
    /// ```
    /// use vramscope_allocator::{MemoryPool, Policy};
    ///
    /// let pool = MemoryPool::on_host(Policy::cupy(), 1 << 20)?.with_limit_from_env()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Where the variable is not set, nothing changes; a limit of 0 is none. A percentage is of each device's own
    /// memory.
    ///
    /// # Errors
    /// [`LimitError::Variable`] where it is set to something that is no limit; [`LimitError::Device`] where a
    /// device does not say how large it is.
    pub fn with_limit_from_env(self) -> Result<Self, LimitError> {
        if let Some(limit) = Limit::from_env()? {
            self.inner.devices.iter().try_for_each(|device| device.set_limit(limit))?;
        }
        Ok(self)
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

    /// A handle that does not keep the pool alive.
    pub fn downgrade(&self) -> WeakPool {
        WeakPool { inner: Arc::downgrade(&self.inner) }
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
    /// request returns. No lock is held and the recording is whole, so it may dump a snapshot of the pool it
    /// is given. A request of its own that fails is not told to observers. An observer that owns a handle of
    /// the pool would keep the pool for ever.
    pub fn on_oom(&self, observer: OomObserver) {
        lock(&self.inner.oom_observers).push(observer);
    }

    // ---- history ----

    /// Where frames of another language come from, for recorded stacks.
    pub fn set_stack_source(&self, source: Option<Arc<dyn StackSource>>) {
        self.inner.recorder.set_stack_source(source);
    }

    /// Begins, changes or ends the recording of history (`torch.cuda.memory._record_memory_history`). A file
    /// that was streamed to is completed when no device writes to it any more, or the pool is gone.
    ///
    /// # Errors
    /// Where there is no such device, or the file to stream to cannot be written: nothing has changed then.
    /// Where the file until now could not be completed: what was asked for has begun all the same.
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
            // With every lock of every chosen device held, so that no event lies between the state that is written to the
            // file and the first event in it.
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
            // Regions belong to all devices: they are recorded as long as any device is.
            if options.enabled.is_some() || !histories().any(DeviceHistory::is_recording) {
                let stream = stream.as_ref().map(Arc::downgrade).unwrap_or_default();
                self.inner.regions.set(options.entries_kept(), options.clear_history, stream);
            }
        }
        // With nothing locked: the file is completed when no device has it any more.
        for stream in before.into_iter().filter_map(Arc::into_inner) {
            stream.close().map_err(|why| HistoryError::Io { path: stream.path().to_owned(), why })?;
        }
        Ok(())
    }

    /// Whether the history of any device is recorded now, be it of events or of live blocks alone ([`Enabled::State`]).
    ///
    /// [`Enabled::State`]: crate::Enabled::State
    pub fn is_recording_history(&self) -> bool {
        self.inner.devices.iter().any(|d| d.engine.observer().history.is_recording())
    }

    /// The error that a file streamed to met last, such as a full disk. What it did not take is tried again.
    pub fn stream_error(&self) -> Option<io::ErrorKind> {
        let mut streams = self.inner.devices.iter().filter_map(|d| d.engine.observer().history.stream());
        streams.find_map(|stream| stream.error())
    }

    /// Tells the observers of a request that failed.
    pub(crate) fn observe(&self, error: &OutOfMemory) {
        thread_local! {
            static OBSERVING: Cell<bool> = const { Cell::new(false) };
        }
        if !OBSERVING.replace(true) {
            let observers = lock(&self.inner.oom_observers).clone();
            let called = catch_unwind(AssertUnwindSafe(|| {
                observers.iter().for_each(|observer| observer(self, error));
            }));
            OBSERVING.set(false);
            called.unwrap_or_else(|panic| resume_unwind(panic));
        }
    }

    /// What the pool holds and what was recorded (`torch.cuda.memory._snapshot`). Addresses in native stacks
    /// are looked up now, which takes a while the first time.
    ///
    /// The trace is what `History::of` of the crate `vramscope-analysis` takes.
    ///
    /// # Errors
    /// Where there is too much for one trace.
    pub fn snapshot(&self) -> Result<Arc<Trace>, TableFull> {
        let devices = self.inner.devices.iter().map(|device| {
            let mut whole = device.engine.lock_all();
            let layout = DeviceLayout::of(&device.engine.observer().history, whole.segments());
            whole.record_snapshot();
            layout
        });
        // The locks are released before addresses are looked up, which takes long.
        let devices = devices.collect();
        history::snapshot(
            devices,
            self.inner.devices[0].engine.policy().settings(),
            &self.inner.recorder,
            &self.inner.regions,
        )
        .map(Arc::new)
    }

    /// Writes a snapshot (`torch.cuda.memory._dump_snapshot`): a pickle that memory_viz and `vramscope report`
    /// open. A file of that name is replaced when the new one is whole.
    ///
    /// # Errors
    /// Where there is too much for one trace, or the file cannot be written.
    pub fn dump_snapshot(&self, path: impl AsRef<Path>) -> Result<(), SnapshotError> {
        let path = path.as_ref();
        let trace = self.snapshot()?;
        formats::write_pickle_file(&trace, path)
            .map_err(|why| SnapshotError::Io { path: path.to_owned(), why })
    }

    /// Names what happens until the guard is dropped (`torch.profiler.record_function`): a region in the
    /// snapshot.
    pub fn annotate(&self, name: &str) -> Region {
        self.annotate_on(0, name)
    }

    /// As [`annotate`](Self::annotate), for the device of this number.
    pub fn annotate_on(&self, device_id: i32, name: &str) -> Region {
        let name: Arc<str> = name.into();
        self.inner.regions.record(Stage::Start, &name, device_id);
        Region { regions: Arc::clone(&self.inner.regions), name, device_id }
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
    regions: Arc<Regions>,
    name: Arc<str>,
    device_id: i32,
}

impl Drop for Region {
    fn drop(&mut self) {
        self.regions.record(Stage::End, &self.name, self.device_id);
    }
}
