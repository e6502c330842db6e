//! The pool of this process: blocks by address, the requests that belong to private pools, and the parts of the program.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once, OnceLock, PoisonError, RwLock, Weak};

use hashbrown::HashMap;
use pyo3::PyResult;
use vramscope::allocator::{
    AllocError, Allocation, CudaDevice, Device, DevicePool, HistoryOptions, Policy, Process,
};
use vramscope::analysis::PlanSource;
use vramscope::engine::MemorySummary;
use vramscope::trace::PoolId;
use vramscope_basics::lock;

use super::checks::Checks;
use super::device::LazyDevice;
use super::failure::Failure;
use super::filter::StreamFilter;
use super::hooks::{PoolHooks, PythonHook};
use super::part::{Part, PartOptions};
use super::share::{Framework, Share};
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

thread_local! {
    /// The parts of the program that this thread is in, outermost first.
    static ENTERED: RefCell<Vec<Arc<Part>>> = const { RefCell::new(Vec::new()) };
}

/// The pool under PyTorch. PyTorch says how many GPUs there are when it initializes CUDA.
pub(super) struct Pool {
    /// The rules of the whole program.
    options: Mutex<PartOptions>,
    /// The fraction of each GPU that the settings allow.
    memory_fraction: Option<f64>,
    /// Whether every block is checked.
    checks: bool,
    /// Whether PyTorch's own allocator asks for segments. It has to see that memory is short, not an exception.
    serves_segments: AtomicBool,
    process: Process,
    gpus: OnceLock<Gpus>,
    /// Hooks on all parts. This lock is taken before that of the parts.
    hooks: Mutex<PoolHooks>,
}

struct Gpus {
    /// The program without its parts.
    whole: Arc<Part>,
    /// The parts of the program, which stay until the process ends: their blocks may be in use.
    parts: RwLock<Vec<Arc<Part>>>,
    /// Whether there are parts.
    has_parts: AtomicBool,
    /// Number of parts that are entered now, by any thread.
    entered: AtomicUsize,
    /// The parts that all threads are in, outermost first.
    entered_by_all: Mutex<Vec<Arc<Part>>>,
    gpus: Vec<Gpu>,
}

impl Gpus {
    /// The part that serves the requests of this thread.
    #[cold]
    fn current(&self) -> Arc<Part> {
        let own = ENTERED.try_with(|entered| entered.borrow().last().cloned()).ok().flatten();
        own.or_else(|| lock(&self.entered_by_all).last().cloned()).unwrap_or_else(|| Arc::clone(&self.whole))
    }

    /// The whole program and its parts.
    fn all(&self) -> Vec<Arc<Part>> {
        let parts = self.parts.read().unwrap_or_else(PoisonError::into_inner);
        std::iter::once(&self.whole).chain(parts.iter()).cloned().collect()
    }
}

/// Bytes of all parts together on one GPU.
#[derive(Default)]
struct Peaks {
    allocated: AtomicU64,
    reserved: AtomicU64,
}

/// One GPU.
struct Gpu {
    device: Arc<LazyDevice>,
    /// Opens the device at the first request.
    opened: Once,
    /// PyTorch's blocks.
    torch: Share,
    /// CuPy's blocks.
    cupy: Share,
    /// Private pools that receive requests now, oldest first: captures of CUDA graphs, and regions of the program.
    routes: Mutex<Vec<(PoolId, StreamFilter)>>,
    has_routes: AtomicBool,
    /// In the checking mode: the blocks in use.
    checks: Option<Mutex<Checks>>,
    /// How often each private pool is used: by captures, graphs and the program.
    users: Mutex<HashMap<PoolId, u32>>,
    /// The peaks since the program has parts.
    peaks: Peaks,
}

impl Gpu {
    fn new(ordinal: i32, checks: bool) -> Self {
        Self {
            device: Arc::new(LazyDevice::new(ordinal, checks)),
            opened: Once::new(),
            torch: Share::default(),
            cupy: Share::default(),
            routes: Mutex::default(),
            has_routes: AtomicBool::new(false),
            checks: checks.then(Mutex::default),
            users: Mutex::default(),
            peaks: Peaks::default(),
        }
    }

    #[inline]
    fn share(&self, framework: Framework) -> &Share {
        match framework {
            Framework::Torch => &self.torch,
            Framework::Cupy => &self.cupy,
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
    pub(super) fn new(policy: Policy, plan: Option<PlanSource>, checks: bool) -> Self {
        Self {
            memory_fraction: policy.memory_fraction,
            options: Mutex::new(PartOptions { policy, plan, history: None }),
            checks,
            serves_segments: AtomicBool::new(false),
            process: Process::this(),
            gpus: OnceLock::new(),
            hooks: Mutex::default(),
        }
    }

    /// Creates the pool over this number of GPUs. A second call does nothing.
    pub(super) fn init(&self, devices: i32) -> Result<(), Failure> {
        if devices <= 0 || self.gpus.get().is_some() {
            return Ok(());
        }
        let gpus: Vec<Gpu> = (0..devices).map(|ordinal| Gpu::new(ordinal, self.checks)).collect();
        let whole = Part::new(lock(&self.options).clone(), devices_of(&gpus))?;
        let gpus = Gpus {
            whole,
            parts: RwLock::default(),
            has_parts: AtomicBool::new(false),
            entered: AtomicUsize::new(0),
            entered_by_all: Mutex::default(),
            gpus,
        };
        let mut hooks = lock(&self.hooks);
        if self.gpus.set(gpus).is_ok()
            && let Some(whole) = self.whole()
        {
            hooks.extend_to(&whole.pool);
        }
        Ok(())
    }

    // ---- hooks ----

    /// Registers a hook for all threads and all parts.
    pub(super) fn add_hook(&self, hook: PythonHook) -> PyResult<()> {
        let mut hooks = lock(&self.hooks);
        let parts = self.gpus.get().map(Gpus::all).unwrap_or_default();
        hooks.add(hook, parts.iter().map(|part| &part.pool))
    }

    /// Removes a hook. Returns false if there is none of this name.
    pub(super) fn remove_hook(&self, name: &str) -> bool {
        let removed = lock(&self.hooks).remove(name);
        removed.is_some()
    }

    /// Serves PyTorch's own allocator, which asks for segments.
    pub(super) fn serve_segments(&self, devices: i32) -> Result<(), Failure> {
        self.serves_segments.store(true, Ordering::Relaxed);
        self.init(devices)
    }

    /// The program without its parts, once PyTorch has initialized CUDA.
    pub(super) fn whole(&self) -> Option<&Arc<Part>> {
        self.gpus.get().map(|gpus| &gpus.whole)
    }

    /// Records history from now on, or from the initialization of CUDA on.
    pub(super) fn record_history(&self, options: HistoryOptions) -> Result<(), String> {
        match self.whole() {
            Some(whole) => whole.record_history(options),
            None => {
                lock(&self.options).history = Some(options);
                Ok(())
            }
        }
    }

    /// One GPU.
    #[inline]
    fn gpu(&self, device: i32) -> Option<&Gpu> {
        self.gpus.get()?.gpus.get(usize::try_from(device).ok()?)
    }

    // ---- parts of the program ----

    /// Adds a part. Each part releases the cache of all others when it finds no memory.
    pub(super) fn add_part(&self, options: PartOptions) -> Result<Arc<Part>, Failure> {
        let gpus = self.gpus.get().ok_or_else(Failure::no_pool)?;
        let part = Part::new(options, devices_of(&gpus.gpus))?;
        if !gpus.has_parts.swap(true, Ordering::Relaxed) {
            for (gpu, device) in gpus.gpus.iter().zip(gpus.whole.pool.devices()) {
                let peaks = device.statistics();
                gpu.peaks.allocated.store(peaks.allocated.peak, Ordering::Relaxed);
                gpu.peaks.reserved.store(peaks.reserved.peak, Ordering::Relaxed);
            }
            release_others_for(&gpus.whole);
        }
        release_others_for(&part);
        let mut hooks = lock(&self.hooks);
        hooks.extend_to(&part.pool);
        gpus.parts.write().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&part));
        Ok(part)
    }

    /// Serves the requests of this thread, or of all threads that are in no part of their own, by the rules of a part.
    pub(super) fn enter(&self, part: &Arc<Part>, all_threads: bool) {
        let Some(gpus) = self.gpus.get() else { return };
        gpus.entered.fetch_add(1, Ordering::Relaxed);
        if all_threads {
            lock(&gpus.entered_by_all).push(Arc::clone(part));
        } else {
            ENTERED.with(|entered| entered.borrow_mut().push(Arc::clone(part)));
        }
    }

    /// Ends [`enter`](Self::enter). Returns false if the part is not entered.
    pub(super) fn leave(&self, part: &Arc<Part>, all_threads: bool) -> bool {
        let Some(gpus) = self.gpus.get() else { return false };
        let remove = |entered: &mut Vec<Arc<Part>>| {
            let position = entered.iter().rposition(|other| Arc::ptr_eq(other, part));
            position.map(|position| entered.remove(position)).is_some()
        };
        let was_entered = if all_threads {
            remove(&mut lock(&gpus.entered_by_all))
        } else {
            ENTERED.with(|entered| remove(&mut entered.borrow_mut()))
        };
        if was_entered {
            gpus.entered.fetch_sub(1, Ordering::Relaxed);
        }
        was_entered
    }

    /// Releases the caches of all parts except this one.
    fn release_others(&self, part: &Weak<Part>, device: i32) {
        let Some(gpus) = self.gpus.get() else { return };
        for other in gpus.all() {
            if !std::ptr::eq(Arc::as_ptr(&other), part.as_ptr())
                && let Some(pool) = other.device(device)
            {
                // The request reports that memory is short.
                pool.free_all_blocks().ok();
            }
        }
    }

    /// The statistics of all parts together on one GPU.
    pub(super) fn totals(&self, device: i32) -> Option<Totals> {
        let gpus = self.gpus.get()?;
        let gpu = self.gpu(device)?;
        let parts = gpus.all();
        let mut totals = parts.iter().filter_map(|part| part.device(device)).map(Totals::of);
        let first = totals.next()?;
        let mut all = totals.fold(first, Totals::plus);
        if gpus.has_parts.load(Ordering::Relaxed) {
            all.summary.allocated_bytes.all.peak = Some(gpu.peaks.allocated.load(Ordering::Relaxed));
            all.summary.reserved_bytes.all.peak = Some(gpu.peaks.reserved.load(Ordering::Relaxed));
        }
        Some(all)
    }

    /// Resets the peaks of a GPU.
    pub(super) fn reset_peaks(&self, device: i32) {
        let (Some(gpus), Some(gpu)) = (self.gpus.get(), self.gpu(device)) else { return };
        gpus.all().iter().filter_map(|part| part.device(device)).for_each(DevicePool::reset_peak_stats);
        gpu.peaks.allocated.store(0, Ordering::Relaxed);
        gpu.peaks.reserved.store(0, Ordering::Relaxed);
        raise_peaks(gpus, gpu, device);
    }

    // ---- blocks ----

    fn checked(&self, device: i32) -> Result<(&Gpus, &Gpu), Failure> {
        if !self.process.is_this() {
            return Err(Failure::other(AllocError::Forked));
        }
        let gpus = self.gpus.get().ok_or_else(Failure::no_pool)?;
        Ok((gpus, self.gpu(device).ok_or_else(Failure::no_pool)?))
    }

    /// Allocates a block for a framework and returns its address; 0 for 0 bytes. `adopt` introduces the stream to the device, if streams
    /// share memory.
    #[inline]
    pub(super) fn malloc(
        &self,
        framework: Framework,
        size: u64,
        device: i32,
        stream: StreamKey,
        adopt: impl Fn(&CudaDevice),
    ) -> Result<u64, Failure> {
        if size == 0 {
            return Ok(0);
        }
        let (gpus, gpu) = self.checked(device)?;
        let route = gpu.pool_for(stream);
        let current;
        let mut part = &gpus.whole;
        if gpus.entered.load(Ordering::Relaxed) > 0 && route == PoolId::default() {
            current = gpus.current();
            part = &current;
        }
        let pool = part.device(device).ok_or_else(Failure::no_pool)?;
        if !gpu.opened.is_completed() {
            gpu.opened.call_once(|| self.open(gpu, pool));
        }
        if pool.shares_streams() {
            let device = gpu.device.open().map_err(Failure::other)?;
            if !device.knows_stream(stream.0) {
                adopt(device);
            }
        }
        let share = gpu.share(framework);
        if let Err(limit) = share.check(size) {
            return self.refused(pool, framework, size, limit);
        }
        match pool.malloc_from(route, stream.0, size) {
            Ok(block) => {
                if let Err(limit) = share.take(block.size()) {
                    return self.refused(pool, framework, size, limit);
                }
                let address = block.address();
                if let Some(checks) = &gpu.checks {
                    let checked = lock(checks).allocated(&gpu.device, address, block.size(), stream.0);
                    checked.map_err(|wrong| Failure::other(format!("checking mode: {wrong}")))?;
                }
                lock(&share.live).insert(address, block);
                if gpus.has_parts.load(Ordering::Relaxed) {
                    raise_peaks(gpus, gpu, device);
                }
                part.count(device as usize);
                Ok(address)
            }
            Err(AllocError::OutOfMemory(_)) if self.serves_segments.load(Ordering::Relaxed) => Ok(0),
            Err(error) => Err(failure(pool, &error)),
        }
    }

    /// A request beyond the limit of its framework.
    #[cold]
    fn refused(
        &self,
        pool: &DevicePool,
        framework: Framework,
        bytes: u64,
        limit: u64,
    ) -> Result<u64, Failure> {
        if self.serves_segments.load(Ordering::Relaxed) {
            return Ok(0);
        }
        let allowed = format!("{} allowed for {framework}", size(limit));
        Err(Failure { kind: Kind::OutOfMemory, text: out_of_memory(pool, bytes, Some(&allowed)) })
    }

    /// Opens the device, and applies the fraction of its memory that the settings allow.
    #[cold]
    fn open(&self, gpu: &Gpu, pool: &DevicePool) {
        // The request reports the error of a device that does not open.
        if gpu.device.open().is_ok()
            && let Some(fraction) = self.memory_fraction
        {
            pool.set_memory_fraction(fraction).ok();
        }
    }

    /// Frees a block of a framework. Unknown addresses, and those of a parent process, are ignored.
    #[inline]
    pub(super) fn free(&self, framework: Framework, address: u64, device: i32) {
        if !self.process.is_this() {
            return;
        }
        let Some(gpu) = self.gpu(device) else { return };
        let share = gpu.share(framework);
        if let Some(checks) = &gpu.checks {
            let capturing = gpu.has_routes.load(Ordering::Relaxed);
            let stream = lock(&share.live).get(&address).map(Allocation::stream);
            lock(checks).freed(&gpu.device, address, stream.unwrap_or_default(), capturing);
        }
        let block = lock(&share.live).remove(&address);
        // Dropped without the lock.
        if let Some(block) = block {
            share.give_back(block.size());
        }
    }

    /// A framework's blocks on a GPU.
    pub(super) fn share(&self, framework: Framework, device: i32) -> Option<&Share> {
        self.gpu(device).map(|gpu| gpu.share(framework))
    }

    pub(super) fn empty_cache(&self) -> Result<(), Failure> {
        let Some(gpus) = self.gpus.get().filter(|_| self.process.is_this()) else { return Ok(()) };
        for part in gpus.all() {
            part.pool
                .devices()
                .iter()
                .try_for_each(|device| device.free_all_blocks().map_err(Failure::other))?;
        }
        Ok(())
    }

    /// Limits each part of the program to a fraction of the GPU.
    pub(super) fn set_memory_fraction(&self, fraction: f64, device: i32) -> Result<(), Failure> {
        let (gpus, gpu) = self.checked(device)?;
        gpu.device.open().map_err(Failure::other)?;
        // The settings' fraction does not replace this one at the first request.
        gpu.opened.call_once(|| ());
        let parts = gpus.all();
        let mut pools = parts.iter().filter_map(|part| part.device(device));
        pools.try_for_each(|pool| pool.set_memory_fraction(fraction).map_err(Failure::other))
    }

    pub(super) fn segment_at(&self, address: u64) -> Option<(u64, u64)> {
        let gpus = self.gpus.get().filter(|_| self.process.is_this())?;
        let of_part =
            |part: Arc<Part>| part.pool.devices().iter().find_map(|device| device.segment_at(address));
        gpus.all().into_iter().find_map(of_part)
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
            let live = lock(&gpu.torch.live);
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
        let (gpus, gpu) = self.checked(device)?;
        *lock(&gpu.users).entry(id).or_default() += 1;
        if let Some(pool) = gpus.whole.device(device) {
            pool.open_pool(id);
        }
        gpus.all().iter().filter_map(|part| part.device(device)).for_each(DevicePool::begin_capture);
        let mut routes = lock(&gpu.routes);
        routes.push((id, filter));
        gpu.has_routes.store(true, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn end_allocate_to_pool(&self, device: i32, id: PoolId) -> Result<(), Failure> {
        let (gpus, gpu) = self.checked(device)?;
        let mut routes = lock(&gpu.routes);
        let Some(position) = routes.iter().position(|&(open, _)| open == id) else {
            return Err(Failure::other("end_allocate_to_pool: the pool receives no requests"));
        };
        let ended = routes.remove(position);
        gpu.has_routes.store(!routes.is_empty(), Ordering::Relaxed);
        drop(routes);
        drop(ended);
        gpus.all().iter().filter_map(|part| part.device(device)).for_each(DevicePool::end_capture);
        Ok(())
    }

    pub(super) fn release_pool(&self, device: i32, id: PoolId) {
        let Ok((gpus, gpu)) = self.checked(device) else { return };
        let mut users = lock(&gpu.users);
        let Some(count) = users.get_mut(&id) else { return };
        *count -= 1;
        if *count == 0 {
            users.remove(&id);
            if let Some(pool) = gpus.whole.device(device) {
                pool.release_pool(id);
            }
        }
    }
}

fn devices_of(gpus: &[Gpu]) -> Vec<Arc<dyn Device>> {
    gpus.iter().map(|gpu| Arc::clone(&gpu.device) as Arc<dyn Device>).collect()
}

/// Before a request of this part fails, all other parts release their caches.
fn release_others_for(part: &Arc<Part>) {
    for device in part.pool.devices() {
        let (part, id) = (Arc::downgrade(part), device.device_id());
        device.add_free_memory_callback(Arc::new(move || {
            if let Some(pool) = POOL.get() {
                pool.release_others(&part, id);
            }
        }));
    }
}

/// Raises the peaks of all parts together to the current bytes.
fn raise_peaks(gpus: &Gpus, gpu: &Gpu, device: i32) {
    let (mut allocated, mut reserved) = (0, 0);
    for part in gpus.all() {
        let Some(pool) = part.device(device) else { continue };
        allocated += pool.used_bytes();
        reserved += pool.total_bytes();
    }
    gpu.peaks.allocated.fetch_max(allocated, Ordering::Relaxed);
    gpu.peaks.reserved.fetch_max(reserved, Ordering::Relaxed);
}

/// The statistics of one or several parts on one GPU.
pub(super) struct Totals {
    pub(super) summary: MemorySummary,
    pub(super) num_device_alloc: u64,
    pub(super) num_device_free: u64,
    pub(super) max_split_size: Option<u64>,
}

impl Totals {
    pub(super) fn of(pool: &DevicePool) -> Self {
        let statistics = pool.statistics();
        Self {
            summary: pool.summary(),
            num_device_alloc: statistics.num_device_alloc,
            num_device_free: statistics.num_device_free,
            max_split_size: pool.policy().max_split_size,
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            summary: self.summary.plus(other.summary),
            num_device_alloc: self.num_device_alloc + other.num_device_alloc,
            num_device_free: self.num_device_free + other.num_device_free,
            ..self
        }
    }
}

#[cold]
fn failure(pool: &DevicePool, error: &AllocError) -> Failure {
    match error {
        AllocError::OutOfMemory(error) => {
            let allowed = error.limit.map(|limit| format!("{} allowed", size(limit)));
            Failure { kind: Kind::OutOfMemory, text: out_of_memory(pool, error.size, allowed.as_deref()) }
        }
        error => Failure::other(error),
    }
}

/// The text of PyTorch's error (`DeviceCachingAllocator::malloc`), as far as the pool knows the numbers.
fn out_of_memory(pool: &DevicePool, bytes: u64, allowed: Option<&str>) -> String {
    let want = pool.policy().segment_size(bytes);
    let mut text = format!("CUDA out of memory. Tried to allocate {}. GPU {}", size(want), pool.device_id());
    if let Ok(info) = pool.memory_info() {
        text +=
            &format!(" has a total capacity of {} of which {} is free.", size(info.total), size(info.free));
    }
    if let Some(allowed) = allowed {
        text += &format!(" {allowed};");
    }
    let allocated = pool.used_bytes();
    let cached = pool.total_bytes().saturating_sub(allocated);
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
