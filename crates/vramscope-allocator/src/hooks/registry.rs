//! The hooks of an event: the thread's hooks and the pool's hooks.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use super::{
    AllocPostprocess, AllocPreprocess, BoxedError, Free, HookError, MallocPostprocess, MallocPreprocess,
    MemoryHook,
};
use crate::device::Process;
use crate::threads::{FlagSet, this_thread};
use vramscope_basics::lock;
use vramscope_engine::AllocCallbacks;

/// A registered hook.
pub(crate) struct Registration {
    name: String,
    hook: Arc<dyn MemoryHook>,
    /// The number of hooks registered before this one, by any thread or pool.
    epoch: u64,
    /// Cleared when the guard is dropped, on any thread.
    alive: AtomicBool,
}

impl Registration {
    fn new(hook: Arc<dyn MemoryHook>) -> Arc<Self> {
        static EPOCH: AtomicU64 = AtomicU64::new(0);
        let epoch = EPOCH.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self { name: hook.name().to_owned(), hook, epoch, alive: AtomicBool::new(true) })
    }

    /// Whether both registrations refer to the same hook.
    fn is_of(&self, other: &Self) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.hook), Arc::as_ptr(&other.hook))
    }

    fn is_alive(&self) -> bool {
        self.alive.load(Ordering::Acquire)
    }
}

/// Hooks in the order of registration. A list is replaced, never changed, so hooks may be registered and removed while it is in use.
type Registrations = Vec<Arc<Registration>>;

fn alive(registrations: &[Arc<Registration>]) -> Registrations {
    registrations.iter().filter(|r| r.is_alive()).cloned().collect()
}

/// Returns `registrations` plus `registration`, without unregistered hooks.
fn with(
    registrations: &[Arc<Registration>],
    registration: &Arc<Registration>,
) -> Result<Registrations, HookError> {
    let mut hooks = alive(registrations);
    if hooks.iter().any(|r| r.name == registration.name) {
        return Err(HookError::AlreadyExists { name: registration.name.clone() });
    }
    hooks.push(Arc::clone(registration));
    Ok(hooks)
}

// ---- a thread's hooks ----

/// The thread's hooks that saw an allocation, kept in the allocation to run the same hooks at its free. This is two numbers instead of a
/// list, because most allocations are freed on the same thread, which still has the list.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HooksAtMalloc {
    /// No hook was registered.
    #[default]
    Nobody,
    /// The allocation was made inside a callback, so neither it nor its free runs hooks.
    Silent,
    /// The hooks of a thread at the allocation.
    Thread(ThreadEpoch),
}

/// Identifies a thread's hooks at one time: the thread's hooks that are still registered and have an epoch of at most `epoch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ThreadEpoch {
    thread: NonZeroU64,
    /// The epoch of the newest hook.
    epoch: u64,
}

/// A thread's hooks; at least one.
struct ThreadHooks {
    at: ThreadEpoch,
    hooks: Registrations,
}

/// The registered hooks of every thread.
static THREADS: Mutex<BTreeMap<NonZeroU64, Registrations>> = Mutex::new(BTreeMap::new());

thread_local! {
    /// Whether this thread has hooks, and whether it runs a callback, whose allocations run no hooks: plain flags for the fast path.
    static HOOKED: Cell<bool> = const { Cell::new(false) };
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
    static THREAD_HOOKS: RefCell<Option<Rc<ThreadHooks>>> = const { RefCell::new(None) };
}

/// Registers `hook` for allocations of the current thread, from any pool, until the guard is dropped (`with hook:` in CuPy). The guard may
/// be dropped on another thread.
///
/// # Errors
/// [`HookError::AlreadyExists`] if this thread has a hook of that name, even the same hook.
pub fn register(hook: Arc<dyn MemoryHook>) -> Result<HookGuard, HookError> {
    let before = thread_hooks();
    let registration = Registration::new(hook);
    set_thread_hooks(with(before.as_ref().map_or(&[], |set| &set.hooks), &registration)?);
    Ok(HookGuard { registration, pool: Weak::new(), process: Process::this() })
}

fn set_thread_hooks(hooks: Registrations) {
    let thread = this_thread();
    let set = hooks.last().map(|newest| {
        let at = ThreadEpoch { thread, epoch: newest.epoch };
        lock(&THREADS).insert(thread, hooks.clone());
        Rc::new(ThreadHooks { at, hooks: hooks.clone() })
    });
    HOOKED.set(set.is_some());
    THREAD_HOOKS.try_with(|hooks| hooks.replace(set)).ok();
}

/// Returns the current thread's hooks, if any.
#[inline]
fn thread_hooks() -> Option<Rc<ThreadHooks>> {
    if !HOOKED.get() {
        return None;
    }
    let set = THREAD_HOOKS.try_with(|hooks| hooks.borrow().clone()).ok().flatten()?;
    if set.hooks.first().is_some_and(|r| r.is_alive()) || set.hooks.iter().any(|r| r.is_alive()) {
        return Some(set);
    }
    // The last guard was dropped on another thread.
    set_thread_hooks(Vec::new());
    None
}

/// Keeps a hook registered until it is dropped.
#[must_use = "the hook is removed when the guard is dropped"]
pub struct HookGuard {
    registration: Arc<Registration>,
    /// The pool for which the hook is registered; expired if it is registered for a thread.
    pool: Weak<PoolHooks>,
    /// The process in which it is registered. In a forked process, dropping the guard only marks the hook as removed. It does not touch the
    /// lists, because their locks may be held there forever.
    process: Process,
}

impl Drop for HookGuard {
    fn drop(&mut self) {
        self.registration.alive.store(false, Ordering::Release);
        if !self.process.is_this() {
            return;
        }
        if let Some(pool) = self.pool.upgrade() {
            return pool.remove_dead();
        }
        lock(&THREADS).retain(|_, hooks| {
            hooks.retain(|r| r.is_alive());
            !hooks.is_empty()
        });
        // On the thread that registered the hook, remove it from the list now. Another thread's list still contains it and skips it.
        let left = THREAD_HOOKS.try_with(|hooks| {
            let hooks = hooks.borrow();
            let here =
                hooks.as_ref().filter(|s| s.hooks.iter().any(|r| Arc::ptr_eq(r, &self.registration)))?;
            Some(alive(&here.hooks))
        });
        if let Ok(Some(left)) = left {
            set_thread_hooks(left);
        }
    }
}

// ---- a pool's hooks ----

/// Hooks for all threads of a pool.
#[derive(Default)]
pub(crate) struct PoolHooks {
    hooked: AtomicBool,
    hooks: Mutex<Arc<Registrations>>,
}

impl PoolHooks {
    pub(crate) fn register(self: &Arc<Self>, hook: Arc<dyn MemoryHook>) -> Result<HookGuard, HookError> {
        let registration = Registration::new(hook);
        let mut hooks = lock(&self.hooks);
        *hooks = Arc::new(with(&hooks, &registration)?);
        self.hooked.store(true, Ordering::Release);
        Ok(HookGuard { registration, pool: Arc::downgrade(self), process: Process::this() })
    }

    /// Removes unregistered hooks. They are dropped without a lock, because dropping runs their code.
    fn remove_dead(&self) {
        let mut hooks = lock(&self.hooks);
        let left = alive(&hooks);
        self.hooked.store(!left.is_empty(), Ordering::Release);
        let before = std::mem::replace(&mut *hooks, Arc::new(left));
        drop(hooks);
        drop(before);
    }

    #[inline]
    fn get(&self) -> Option<Arc<Registrations>> {
        self.hooked.load(Ordering::Acquire).then(|| Arc::clone(&lock(&self.hooks)))
    }
}

// ---- calling them ----

/// The hooks that run for one event.
pub(crate) struct AllocationHooks {
    thread: Option<Rc<ThreadHooks>>,
    pool: Option<Arc<Registrations>>,
    device_id: i32,
}

/// The hooks that run for this thread's next allocation.
pub(crate) enum Hooks {
    /// No hooks. The allocation keeps this value for its free.
    None(HooksAtMalloc),
    /// At least one hook.
    Some(AllocationHooks),
}

impl Hooks {
    #[inline]
    pub(crate) fn here(pool: &PoolHooks, device_id: i32) -> Self {
        if !HOOKED.get() && !pool.hooked.load(Ordering::Relaxed) {
            return Self::None(if IN_CALLBACK.get() { HooksAtMalloc::Silent } else { HooksAtMalloc::Nobody });
        }
        if IN_CALLBACK.get() {
            return Self::None(HooksAtMalloc::Silent);
        }
        let (thread, pool) = (thread_hooks(), pool.get());
        if thread.is_none() && pool.is_none() {
            return Self::None(HooksAtMalloc::Nobody);
        }
        Self::Some(AllocationHooks { thread, pool, device_id })
    }
}

impl AllocationHooks {
    /// Runs each registered hook, the thread's hooks before the pool's.
    #[inline]
    fn each(&self, mut call: impl FnMut(&dyn MemoryHook)) {
        self.each_registration(|registration| {
            call(registration.hook.as_ref());
            true
        });
    }

    #[inline]
    fn each_registration(&self, mut goes_on: impl FnMut(&Registration) -> bool) {
        let _in_callback = FlagSet::of(&IN_CALLBACK);
        if let Some(thread) = &self.thread {
            for registration in &thread.hooks {
                if registration.is_alive() && !goes_on(registration) {
                    return;
                }
            }
        }
        if let Some(pool) = &self.pool {
            for registration in pool.iter() {
                if registration.is_alive() && !self.thread_has(registration) && !goes_on(registration) {
                    return;
                }
            }
        }
    }

    /// Whether the same hook is also registered for the thread.
    fn thread_has(&self, registration: &Registration) -> bool {
        self.thread.iter().flat_map(|set| &set.hooks).any(|r| r.is_alive() && r.is_of(registration))
    }

    /// Like [`each`](Self::each), but stops at the first refusal.
    #[inline]
    fn try_each(
        &self,
        mut call: impl FnMut(&dyn MemoryHook) -> Result<(), BoxedError>,
    ) -> Result<(), HookError> {
        let mut refused = Ok(());
        self.each_registration(|registration| {
            refused = call(registration.hook.as_ref())
                .map_err(|why| HookError::Refused { name: registration.name.clone(), why });
            refused.is_ok()
        });
        refused
    }

    /// Returns the hooks that another thread had at the allocation, except those that this thread runs too.
    #[cold]
    fn elsewhere(&self, at: ThreadEpoch) -> Self {
        let threads = lock(&THREADS);
        let hooks = threads.get(&at.thread).map_or(&[][..], Vec::as_slice);
        let is_here = |r: &Registration| {
            self.thread_has(r)
                || self.pool.iter().flat_map(|pool| pool.iter()).any(|p| p.is_alive() && p.is_of(r))
        };
        let hooks = hooks.iter().filter(|r| r.epoch <= at.epoch && !is_here(r)).cloned().collect();
        Self { thread: Some(Rc::new(ThreadHooks { at, hooks })), pool: None, device_id: self.device_id }
    }

    /// Identifies the thread's hooks; the allocation stores this value until it is freed.
    #[inline]
    pub(crate) fn at_malloc(&self) -> HooksAtMalloc {
        self.thread.as_ref().map_or(HooksAtMalloc::Nobody, |set| HooksAtMalloc::Thread(set.at))
    }

    #[inline]
    pub(crate) fn malloc_preprocess(&self, size: u64, mem_size: u64) -> Result<(), HookError> {
        let event = MallocPreprocess { device_id: self.device_id, size, mem_size };
        self.try_each(|hook| hook.malloc_preprocess(&event))
    }
}

/// A request that hooks have seen. Dropping it runs their postprocess callbacks. They report failure unless [`succeeded`](Self::succeeded)
/// was called.
pub(crate) struct MallocGuard<'h> {
    hooks: &'h AllocationHooks,
    event: MallocPostprocess,
}

impl<'h> MallocGuard<'h> {
    /// Creates the guard of a request of `size` bytes, `mem_size` after rounding.
    #[inline]
    pub(crate) fn new(hooks: &'h AllocationHooks, size: u64, mem_size: u64) -> Self {
        let event = MallocPostprocess { device_id: hooks.device_id, size, mem_size, mem_ptr: 0, pmem_id: 0 };
        Self { hooks, event }
    }

    #[inline]
    pub(crate) fn succeeded(&mut self, mem_size: u64, mem_ptr: u64, pmem_id: u64) {
        self.event = MallocPostprocess { mem_size, mem_ptr, pmem_id, ..self.event };
    }
}

impl Drop for MallocGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        let call = || self.hooks.each(|hook| hook.malloc_postprocess(&self.event));
        if std::thread::panicking() {
            // A second panic would abort the process, and the first panic is the one to report.
            catch_unwind(AssertUnwindSafe(call)).ok();
        } else {
            call();
        }
    }
}

/// The hooks of a request, which see the device allocations made for it.
pub(crate) struct DeviceHooks<'h>(pub(crate) Option<&'h AllocationHooks>);

impl AllocCallbacks for DeviceHooks<'_> {
    type Refusal = HookError;

    fn alloc_preprocess(&self, mem_size: u64) -> Result<(), HookError> {
        let Some(hooks) = self.0 else { return Ok(()) };
        let event = AllocPreprocess { device_id: hooks.device_id, mem_size };
        hooks.try_each(|hook| hook.alloc_preprocess(&event))
    }

    fn alloc_postprocess(&self, mem_size: u64, mem_ptr: u64) {
        let Some(hooks) = self.0 else { return };
        let event = AllocPostprocess { device_id: hooks.device_id, mem_size, mem_ptr };
        hooks.each(|hook| hook.alloc_postprocess(&event));
    }
}

/// Whether no hook sees this free.
#[inline]
pub(crate) fn is_told_to_nobody(pool: &PoolHooks, at_malloc: HooksAtMalloc) -> bool {
    match at_malloc {
        HooksAtMalloc::Nobody => !HOOKED.get() && !pool.hooked.load(Ordering::Relaxed),
        HooksAtMalloc::Silent => true,
        HooksAtMalloc::Thread(_) => false,
    }
}

/// Runs the free callbacks, and calls `free` between them. Each hook runs even if another panics; the first panic is passed on at the end.
pub(crate) fn around_free(pool: &PoolHooks, at_malloc: HooksAtMalloc, event: &Free, free: impl FnOnce()) {
    let here = AllocationHooks { thread: thread_hooks(), pool: pool.get(), device_id: event.device_id };
    // The hooks of the allocating thread, if it is another thread.
    let elsewhere = match at_malloc {
        HooksAtMalloc::Thread(w) if here.thread.as_ref().is_none_or(|set| set.at.thread != w.thread) => {
            Some(here.elsewhere(w))
        }
        _ => None,
    };
    let mut panic = None;
    let mut tell = |callback: fn(&dyn MemoryHook, &Free)| {
        for hooks in [Some(&here), elsewhere.as_ref()].into_iter().flatten() {
            hooks.each(|hook| {
                if let Err(e) = catch_unwind(AssertUnwindSafe(|| callback(hook, event))) {
                    panic.get_or_insert(e);
                }
            });
        }
    };
    tell(|hook, event| hook.free_preprocess(event));
    free();
    tell(|hook, event| hook.free_postprocess(event));
    // A second panic would abort the process, and the first panic is the one to report.
    if let Some(panic) = panic.filter(|_| !std::thread::panicking()) {
        resume_unwind(panic);
    }
}
