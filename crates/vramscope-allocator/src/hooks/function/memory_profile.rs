//! Memory by function: Chainer's `CupyMemoryProfileHook`.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use super::calls::{CallRecord, Calls, FunctionSummary};
use super::report::{Profile, Unit, write_report, write_table};
use super::scopes::this_thread_token;
use super::{Ended, Function, FunctionCall, FunctionHook};
use crate::hooks::{AllocPostprocess, Free, HookGuard, MallocPostprocess, MemoryHook, register};
use vramscope_basics::lock;

/// The pool memory that each function used: Chainer's `CupyMemoryProfileHook`.
///
/// Register it for a thread ([`register`](super::register)), add it to functions ([`Function::add_hook`]), or both; the [module](super) has
/// an example. A call counts the allocations of its own thread until it ends, from any pool, and all frees of those allocations, on any
/// thread.
///
/// Each call is recorded when it ends ([`call_history`](Self::call_history)) and added to its function's row ([`summary`](Self::summary)).
/// Neither contains running calls.
///
/// The hook sees frees while it is registered or added anywhere, and afterwards while a counted block is live. So the live bytes of a
/// summary are always current. In the meantime, each allocation on threads that made calls costs a hook call. Dropping the profile ends
/// that cost.
///
/// # Differences from Chainer
/// - A failed request is not counted, and a repeated request is counted once.
/// - Rows of the summary exclude nested calls, so they add up to the totals. Chainer counts nested calls twice. In the history, numbers
///   include nested calls, as in Chainer.
/// - Calls that end by a panic are recorded, and later calls have the right depth.
/// - Records also have the phase, the thread, peak, live and freed bytes, and how the call ended.
/// - It can be added to several functions, and several profiles may be active at once.
/// - A report without calls contains only the header, in every unit.
pub struct CupyMemoryProfileHook {
    name: String,
    device_id: Option<i32>,
    state: Arc<Mutex<ProfileState>>,
}

/// The counts of a profile, and the hooks that feed them.
#[derive(Default)]
struct ProfileState {
    calls: Calls,
    /// Number of threads for which it is registered plus functions to which it is added.
    num_added: usize,
    /// The threads with a listener, by number.
    listening: BTreeMap<u64, Listening>,
}

struct Listening {
    thread: Weak<()>,
    _guard: HookGuard,
}

impl ProfileState {
    /// Removes and returns the listeners if nothing is left to count. The caller drops them after unlocking the state, because dropping may
    /// run code of other hooks.
    fn stop_if_done(&mut self) -> BTreeMap<u64, Listening> {
        if self.num_added == 0 && self.calls.is_idle() {
            std::mem::take(&mut self.listening)
        } else {
            BTreeMap::new()
        }
    }
}

impl Default for CupyMemoryProfileHook {
    fn default() -> Self {
        Self::new()
    }
}

impl CupyMemoryProfileHook {
    /// Creates a profile of all devices, named `CupyMemoryProfileHook`.
    pub fn new() -> Self {
        Self { name: "CupyMemoryProfileHook".to_owned(), device_id: None, state: Arc::default() }
    }

    /// Sets the name, so that several profiles can be registered at once.
    #[must_use]
    pub fn with_name(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// Counts the memory of one device only.
    #[must_use]
    pub fn for_device(self, device_id: i32) -> Self {
        Self { device_id: Some(device_id), ..self }
    }

    /// Keeps only the newest `max_history` calls in the history. By default all calls are kept, as in Chainer, at about 100 bytes each. The
    /// summary and the totals always cover all calls.
    #[must_use]
    pub fn max_history(self, max_history: usize) -> Self {
        lock(&self.state).calls.set_max_history(max_history);
        self
    }

    /// Returns the ended calls in the order they ended: nested calls precede the call around them.
    pub fn call_history(&self) -> Vec<CallRecord> {
        lock(&self.state).calls.history().cloned().collect()
    }

    /// Returns a row per function, in the order of the history.
    pub fn summary(&self) -> Vec<FunctionSummary> {
        lock(&self.state).calls.summary()
    }

    /// Returns a row per function and phase, in the order of the history.
    pub fn summary_by_phase(&self) -> Vec<FunctionSummary> {
        lock(&self.state).calls.summary_by_phase().collect()
    }

    /// Returns the bytes that ended calls allocated from the pool. This is the sum of the summary's rows and, once no call is running, of
    /// the history's outermost calls.
    pub fn total_used_bytes(&self) -> u64 {
        lock(&self.state).calls.total_used()
    }

    /// Returns the bytes that the pool allocated from the device for these calls, summed in the same way.
    pub fn total_acquired_bytes(&self) -> u64 {
        lock(&self.state).calls.total_acquired()
    }

    /// Prints Chainer's report of the summary:
    ///
    /// ```text
    ///   FunctionName  UsedBytes  AcquiredBytes  Occurrence
    /// LinearFunction     5.16GB       179.98MB           2
    ///            Add     0.00GB         0.00MB           1
    /// ```
    ///
    /// # Errors
    /// Writing to `file` fails.
    pub fn print_report(&self, unit: Unit, file: &mut dyn Write) -> io::Result<()> {
        write_table(&self.summary(), unit, file)
    }

    /// Prints the summary by phase with all its numbers, in the same format.
    ///
    /// # Errors
    /// Writing to `file` fails.
    pub fn print_full_report(&self, unit: Unit, file: &mut dyn Write) -> io::Result<()> {
        write_report(&self.summary_by_phase(), true, unit, file)
    }

    /// Writes everything as JSON: `total_used_bytes`, `total_acquired_bytes`, `summary`, `summary_by_phase`, `call_history`, and
    /// `num_forgotten`, the number of calls that the history dropped. Keys are the field names of [`FunctionSummary`] and [`CallRecord`].
    ///
    /// # Errors
    /// Writing to `file` fails.
    pub fn write_json(&self, file: &mut dyn Write) -> io::Result<()> {
        // Write a copy, so that threads do not wait for a slow file.
        let profile = Profile::of(&lock(&self.state).calls);
        profile.write_json(file)
    }

    fn begin(&self, call: &FunctionCall) {
        let is_listening = {
            let mut state = lock(&self.state);
            // First of all: a running call keeps other threads from removing the listeners.
            state.calls.begin(call);
            state.listening.contains_key(&call.thread)
        };
        if !is_listening {
            self.listen(call.thread);
        }
    }

    /// Counts the current thread's allocations from now on.
    fn listen(&self, thread: u64) {
        // Without a lock: registering calls `name` of other hooks, which runs their code.
        let guard = loop {
            if let Ok(guard) = register(Arc::new(Listener::new(self, thread))) {
                break guard;
            }
        };
        let mut state = lock(&self.state);
        let ProfileState { calls, listening, .. } = &mut *state;
        let over: Vec<(u64, Listening)> = listening
            .extract_if(.., |number, other| {
                other.thread.strong_count() == 0 && calls.forget_idle_thread(*number)
            })
            .collect();
        listening.insert(thread, Listening { thread: this_thread_token(), _guard: guard });
        drop(state);
        drop(over);
    }

    fn end(&self, call: &FunctionCall, ended: Ended) {
        let over = {
            let mut state = lock(&self.state);
            state.calls.end(call, ended);
            state.stop_if_done()
        };
        drop(over);
    }
}

impl FunctionHook for CupyMemoryProfileHook {
    fn name(&self) -> &str {
        &self.name
    }

    fn added(&self, _: Option<&Function>) {
        lock(&self.state).num_added += 1;
    }

    fn deleted(&self, _: Option<&Function>) {
        let over = {
            let mut state = lock(&self.state);
            state.num_added = state.num_added.saturating_sub(1);
            state.stop_if_done()
        };
        drop(over);
    }

    fn forward_preprocess(&self, call: &FunctionCall) {
        self.begin(call);
    }

    fn forward_postprocess(&self, call: &FunctionCall, ended: Ended) {
        self.end(call, ended);
    }

    fn backward_preprocess(&self, call: &FunctionCall) {
        self.begin(call);
    }

    fn backward_postprocess(&self, call: &FunctionCall, ended: Ended) {
        self.end(call, ended);
    }

    fn phase_preprocess(&self, call: &FunctionCall) {
        self.begin(call);
    }

    fn phase_postprocess(&self, call: &FunctionCall, ended: Ended) {
        self.end(call, ended);
    }
}

/// The memory hook of one profile on one thread. Chainer calls it `CupyMemoryCumulativeHook` and allows only one.
struct Listener {
    name: String,
    thread: u64,
    device_id: Option<i32>,
    state: Weak<Mutex<ProfileState>>,
}

impl Listener {
    /// Creates a listener of `hook` for thread number `thread`, under a unique name.
    fn new(hook: &CupyMemoryProfileHook, thread: u64) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let name = format!("CupyMemoryCumulativeHook {}", NEXT.fetch_add(1, Ordering::Relaxed));
        Self { name, thread, device_id: hook.device_id, state: Arc::downgrade(&hook.state) }
    }

    fn wants(&self, device_id: i32) -> bool {
        self.device_id.is_none_or(|wanted| wanted == device_id)
    }
}

impl MemoryHook for Listener {
    fn name(&self) -> &str {
        &self.name
    }

    fn alloc_postprocess(&self, event: &AllocPostprocess) {
        if event.mem_ptr != 0
            && self.wants(event.device_id)
            && let Some(state) = self.state.upgrade()
        {
            lock(&state).calls.acquired(self.thread, event.mem_size);
        }
    }

    fn malloc_postprocess(&self, event: &MallocPostprocess) {
        if event.mem_ptr != 0
            && self.wants(event.device_id)
            && let Some(state) = self.state.upgrade()
        {
            lock(&state).calls.allocated(self.thread, event.pmem_id, event.mem_size);
        }
    }

    fn free_postprocess(&self, event: &Free) {
        let Some(state) = self.state.upgrade() else { return };
        let over = {
            let mut state = lock(&state);
            state.calls.freed(event.pmem_id);
            state.stop_if_done()
        };
        drop(over);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hooks::function;
    use crate::{MemoryPool, Policy};

    fn num_listening(hook: &CupyMemoryProfileHook) -> usize {
        lock(&hook.state).listening.len()
    }

    #[test]
    fn a_hook_counts_until_it_is_deleted_and_its_blocks_are_freed() {
        let pool = MemoryPool::on_host(Policy::cupy(), 1 << 20).unwrap();
        let hook = Arc::new(CupyMemoryProfileHook::new());
        let guard = function::register(hook.clone()).unwrap();
        assert_eq!(num_listening(&hook), 0);
        let a = function::forward("f", || pool.malloc(512)).unwrap();
        assert_eq!(num_listening(&hook), 1);
        drop(guard);
        assert_eq!(num_listening(&hook), 1);
        drop(a);
        assert_eq!(num_listening(&hook), 0);
        assert_eq!(hook.summary()[0].live_bytes, 0);
    }

    #[test]
    fn a_hook_keeps_no_state_of_ended_threads() {
        let pool = MemoryPool::on_host(Policy::cupy(), 1 << 20).unwrap();
        let hook = Arc::new(CupyMemoryProfileHook::new());
        let f = Function::new("f");
        f.add_hook(hook.clone(), None).unwrap();
        let call = || std::thread::scope(|s| s.spawn(|| f.forward(|| pool.malloc(512))).join().unwrap());
        let held = call().unwrap();
        for _ in 0..10 {
            drop(call());
        }
        // The first thread, which has a live block, and the last thread.
        assert_eq!(num_listening(&hook), 2);
        drop(held);
        f.delete_hook("CupyMemoryProfileHook").unwrap();
        assert_eq!((num_listening(&hook), hook.call_history().len()), (0, 11));
    }
}
