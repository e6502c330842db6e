//! The pool of this process: blocks by address, and the requests that belong to private pools.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once, OnceLock};

use hashbrown::HashMap;
use vramscope::allocator::{
    AllocError, Allocation, CudaDevice, Device, DevicePool, HistoryOptions, MemoryPool, OutOfMemory, Policy,
    Process,
};
use vramscope::engine::Plan;
use vramscope::trace::PoolId;
use vramscope_basics::lock;

use super::checks::Checks;
use super::device::LazyDevice;
use super::filter::StreamFilter;
use super::throw::Kind;

/// The pool under PyTorch; a process has at most one, and it lives until the process ends.
pub(super) static POOL: OnceLock<Pool> = OnceLock::new();

/// A raw `cudaStream_t`, as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StreamKey(pub(super) u64);

impl StreamKey {
    pub(super) fn of(stream: *mut std::ffi::c_void) -> Self {
        Self(stream.expose_provenance() as u64)
    }

    fn pointer(self) -> *mut std::ffi::c_void {
        std::ptr::with_exposed_provenance_mut(self.0 as usize)
    }
}

/// Why a call failed, for PyTorch to raise.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) kind: Kind,
    pub(super) text: String,
}

impl Failure {
    fn other(text: impl std::fmt::Display) -> Self {
        Self { kind: Kind::Runtime, text: format!("vramscope's pool: {text}") }
    }

    pub(super) fn no_pool() -> Self {
        Self::other("PyTorch has not initialized CUDA yet; call torch.cuda.init() first")
    }
}

/// The pool under PyTorch. PyTorch says how many GPUs there are when it initializes CUDA.
pub(super) struct Pool {
    policy: Policy,
    /// The plan that requests of each GPU follow.
    plan: Option<Arc<Plan>>,
    /// Whether every block is checked.
    checks: bool,
    process: Process,
    /// The history to record from the first request on.
    history: Mutex<Option<HistoryOptions>>,
    gpus: OnceLock<Gpus>,
}

struct Gpus {
    pool: MemoryPool,
    gpus: Vec<Gpu>,
}

/// One GPU.
struct Gpu {
    device: Arc<LazyDevice>,
    /// Opens the device at the first request.
    opened: Once,
    /// PyTorch's blocks by address.
    live: Mutex<HashMap<u64, Allocation>>,
    /// Private pools that receive requests now, oldest first: captures of CUDA graphs, and regions of the program.
    routes: Mutex<Vec<(PoolId, StreamFilter)>>,
    has_routes: AtomicBool,
    /// In the checking mode: the blocks in use.
    checks: Option<Mutex<Checks>>,
    /// How often each private pool is used: by captures, graphs and the program.
    users: Mutex<HashMap<PoolId, u32>>,
}

impl Gpu {
    fn new(ordinal: i32, checks: bool) -> Self {
        Self {
            device: Arc::new(LazyDevice::new(ordinal)),
            opened: Once::new(),
            live: Mutex::default(),
            routes: Mutex::default(),
            has_routes: AtomicBool::new(false),
            checks: checks.then(Mutex::default),
            users: Mutex::default(),
        }
    }

    /// The pool that serves a request on this stream, from this thread.
    #[inline]
    fn pool_for(&self, stream: StreamKey) -> PoolId {
        if self.has_routes.load(Ordering::Relaxed) { self.route_of(stream) } else { PoolId::default() }
    }

    #[cold]
    fn route_of(&self, stream: StreamKey) -> PoolId {
        let routes = lock(&self.routes);
        let found = routes.iter().find(|(_, filter)| filter.accepts(stream.pointer()));
        found.map_or(PoolId::default(), |&(id, _)| id)
    }
}

impl Pool {
    pub(super) fn new(policy: Policy, plan: Option<Arc<Plan>>, checks: bool) -> Self {
        Self {
            policy,
            plan,
            checks,
            process: Process::this(),
            history: Mutex::default(),
            gpus: OnceLock::new(),
        }
    }

    /// Creates the pool over this number of GPUs. A second call does nothing.
    pub(super) fn init(&self, devices: i32) -> Result<(), Failure> {
        if devices <= 0 || self.gpus.get().is_some() {
            return Ok(());
        }
        let gpus: Vec<Gpu> = (0..devices).map(|ordinal| Gpu::new(ordinal, self.checks)).collect();
        let devices = gpus.iter().map(|gpu| Arc::clone(&gpu.device) as Arc<dyn Device>).collect();
        // The device's size is known at its first request.
        let mut policy = self.policy.clone();
        policy.memory_fraction = None;
        let pool = MemoryPool::new(&policy, devices).map_err(Failure::other)?;
        if let Some(plan) = &self.plan {
            pool.devices().iter().for_each(|device| _ = device.follow_plan(Arc::clone(plan)));
        }
        if let Some(options) = lock(&self.history).take() {
            pool.record_memory_history(&options).map_err(Failure::other)?;
        }
        self.gpus.set(Gpus { pool, gpus }).ok();
        Ok(())
    }

    /// The pool, once PyTorch has initialized CUDA.
    pub(super) fn started(&self) -> Option<&MemoryPool> {
        self.gpus.get().map(|gpus| &gpus.pool)
    }

    /// Records history from now on, or from the initialization of CUDA on.
    pub(super) fn record_history(&self, options: HistoryOptions) -> Result<(), String> {
        match self.started() {
            Some(pool) => pool.record_memory_history(&options).map_err(|error| error.to_string()),
            None => {
                *lock(&self.history) = Some(options);
                Ok(())
            }
        }
    }

    /// One GPU and its part of the pool.
    #[inline]
    fn gpu(&self, device: i32) -> Option<(&Gpu, &DevicePool)> {
        let gpus = self.gpus.get()?;
        let index = usize::try_from(device).ok()?;
        Some((gpus.gpus.get(index)?, gpus.pool.device(device)?))
    }

    fn checked(&self, device: i32) -> Result<(&Gpu, &DevicePool), Failure> {
        if !self.process.is_this() {
            return Err(Failure::other(AllocError::Forked));
        }
        self.gpu(device).ok_or_else(Failure::no_pool)
    }

    /// Allocates a block and returns its address; 0 for 0 bytes.
    #[inline]
    pub(super) fn malloc(&self, size: u64, device: i32, stream: StreamKey) -> Result<u64, Failure> {
        if size == 0 {
            return Ok(0);
        }
        let (gpu, pool) = self.checked(device)?;
        if !gpu.opened.is_completed() {
            gpu.opened.call_once(|| self.open(gpu, pool));
        }
        match pool.malloc_from(gpu.pool_for(stream), stream.0, size) {
            Ok(block) => {
                let address = block.address();
                if let Some(checks) = &gpu.checks {
                    let checked = lock(checks).allocated(gpu.device.as_ref(), address, block.size());
                    checked.map_err(|wrong| Failure::other(format!("checking mode: {wrong}")))?;
                }
                lock(&gpu.live).insert(address, block);
                Ok(address)
            }
            Err(error) => Err(failure(pool, &error)),
        }
    }

    /// Opens the device, and applies the fraction of its memory that the settings allow.
    #[cold]
    fn open(&self, gpu: &Gpu, pool: &DevicePool) {
        // The request reports the error of a device that does not open.
        if gpu.device.open().is_ok()
            && let Some(fraction) = self.policy.memory_fraction
        {
            pool.set_memory_fraction(fraction).ok();
        }
    }

    /// Frees a block. Unknown addresses, and those of a parent process, are ignored.
    #[inline]
    pub(super) fn free(&self, address: u64, device: i32) {
        if !self.process.is_this() {
            return;
        }
        let Some((gpu, _)) = self.gpu(device) else { return };
        if let Some(checks) = &gpu.checks {
            let capturing = gpu.has_routes.load(Ordering::Relaxed);
            lock(checks).freed(gpu.device.as_ref(), address, capturing);
        }
        // Dropped without the lock.
        let block = lock(&gpu.live).remove(&address);
        drop(block);
    }

    pub(super) fn empty_cache(&self) -> Result<(), Failure> {
        let Some(gpus) = self.gpus.get().filter(|_| self.process.is_this()) else { return Ok(()) };
        gpus.pool.devices().iter().try_for_each(|device| device.free_all_blocks().map_err(Failure::other))
    }

    pub(super) fn set_memory_fraction(&self, fraction: f64, device: i32) -> Result<(), Failure> {
        let (gpu, pool) = self.checked(device)?;
        gpu.device.open().map_err(Failure::other)?;
        // The settings' fraction does not replace this one at the first request.
        gpu.opened.call_once(|| ());
        pool.set_memory_fraction(fraction).map_err(Failure::other)
    }

    pub(super) fn segment_at(&self, address: u64) -> Option<(u64, u64)> {
        let gpus = self.gpus.get().filter(|_| self.process.is_this())?;
        gpus.pool.devices().iter().find_map(|device| device.segment_at(address))
    }

    /// Records that a stream uses a block. `adopt` introduces the stream to the block's device. Addresses that are not of this pool are
    /// ignored, as by PyTorch's own allocator.
    pub(super) fn record_stream(
        &self,
        address: u64,
        stream: StreamKey,
        adopt: impl Fn(&CudaDevice),
    ) -> Result<(), Failure> {
        let Some(gpus) = self.gpus.get().filter(|_| self.process.is_this()) else { return Ok(()) };
        for gpu in &gpus.gpus {
            let live = lock(&gpu.live);
            let Some(block) = live.get(&address) else { continue };
            if block.stream() == stream.0 {
                return Ok(());
            }
            adopt(gpu.device.open().map_err(Failure::other)?);
            if let Some(checks) = &gpu.checks {
                lock(checks).used_by(address, stream.0);
            }
            return block.record_stream(stream.0).map_err(Failure::other);
        }
        Ok(())
    }

    // ---- private pools ----

    pub(super) fn begin_allocate_to_pool(
        &self,
        device: i32,
        id: PoolId,
        filter: StreamFilter,
    ) -> Result<(), Failure> {
        let (gpu, pool) = self.checked(device)?;
        *lock(&gpu.users).entry(id).or_default() += 1;
        pool.open_pool(id);
        pool.begin_capture();
        let mut routes = lock(&gpu.routes);
        routes.push((id, filter));
        gpu.has_routes.store(true, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn end_allocate_to_pool(&self, device: i32, id: PoolId) -> Result<(), Failure> {
        let (gpu, pool) = self.checked(device)?;
        let mut routes = lock(&gpu.routes);
        let Some(position) = routes.iter().position(|&(open, _)| open == id) else {
            return Err(Failure::other("end_allocate_to_pool: the pool receives no requests"));
        };
        let ended = routes.remove(position);
        gpu.has_routes.store(!routes.is_empty(), Ordering::Relaxed);
        drop(routes);
        drop(ended);
        pool.end_capture();
        Ok(())
    }

    pub(super) fn release_pool(&self, device: i32, id: PoolId) {
        let Ok((gpu, pool)) = self.checked(device) else { return };
        let mut users = lock(&gpu.users);
        let Some(count) = users.get_mut(&id) else { return };
        *count -= 1;
        if *count == 0 {
            users.remove(&id);
            pool.release_pool(id);
        }
    }
}

#[cold]
fn failure(pool: &DevicePool, error: &AllocError) -> Failure {
    match error {
        AllocError::OutOfMemory(error) => {
            Failure { kind: Kind::OutOfMemory, text: out_of_memory(pool, error) }
        }
        error => Failure::other(error),
    }
}

/// The text of PyTorch's error (`DeviceCachingAllocator::malloc`), as far as the pool knows the numbers.
fn out_of_memory(pool: &DevicePool, error: &OutOfMemory) -> String {
    let want = pool.policy().segment_size(error.size);
    let mut text = format!("CUDA out of memory. Tried to allocate {}. GPU {}", size(want), error.device_id);
    if let Ok(info) = pool.memory_info() {
        text +=
            &format!(" has a total capacity of {} of which {} is free.", size(info.total), size(info.free));
    }
    if let Some(limit) = error.limit {
        text += &format!(" {} allowed;", size(limit));
    }
    let allocated = pool.used_bytes();
    let cached = error.total.saturating_sub(allocated);
    text += &format!(
        " Of the allocated memory {} is allocated by PyTorch, and {} is reserved by vramscope's pool but unallocated.",
        size(allocated),
        size(cached)
    );
    text
}

/// A size as in PyTorch's errors (`format_size`).
fn size(bytes: u64) -> String {
    match bytes {
        0..=1024 => format!("{bytes} bytes"),
        1025..=1_048_576 => format!("{:.2} KiB", bytes as f64 / 1024.0),
        1_048_577..=1_073_741_824 => format!("{:.2} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.2} GiB", bytes as f64 / 1_073_741_824.0),
    }
}
