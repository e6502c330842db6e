//! Memory by function: Chainer's `CupyMemoryProfileHook`.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use super::calls::{CallRecord, Calls, FunctionSummary};
use super::report::{Profile, Unit, write_report};
use super::scopes::this_thread_token;
use super::{Ended, Function, FunctionCall, FunctionHook};
use crate::hooks::{AllocPostprocess, Free, HookGuard, MallocPostprocess, MemoryHook, register};
use vramscope_basics::lock;

/// Which function used how much memory of the pool: Chainer's `CupyMemoryProfileHook`.
///
/// It is registered for a thread ([`register`](super::register)), added to functions
/// ([`Function::add_hook`]), or both; there is an example at the [module](super). A call counts what its own
/// thread allocates until it ends, from any pool, and all frees of that, on any thread.
///
/// Each call is recorded when it ends ([`call_history`](Self::call_history)) and added to its function's row
/// ([`summary`](Self::summary)). What a running call has used so far is in neither.
///
/// Frees are seen while the hook is registered or added anywhere, and after that as long as something it
/// counted is live, so the live bytes of a summary are those of now. Until then, threads that made calls pay
/// for a hook with every allocation; dropping the profile ends that too.
///
/// # What differs from Chainer
/// - A request that failed is not counted, and one that was repeated is counted once.
/// - Rows of the summary are each function's own bytes, without those of functions it called, so they add up
///   to the totals. Chainer counts calls inside calls twice. In the history, as in Chainer, numbers include
///   calls inside.
/// - Calls that end by a panic are recorded, and the depth of later calls is right.
/// - Records also have phase, thread, peak, live and freed bytes, and say how the call ended.
/// - It can be added to several functions, and several may be active at once.
/// - A report of no calls is the header alone, in every unit.
pub struct CupyMemoryProfileHook {
    name: String,
    device_id: Option<i32>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    calls: Calls,
    /// Threads for which it is registered and functions to which it is added.
    num_added: usize,
    /// Threads whose allocations are seen, by number.
    listening: BTreeMap<u64, Listening>,
}

struct Listening {
    thread: Weak<()>,
    _guard: HookGuard,
}

impl State {
    /// Where nothing more is to be counted, takes out the hooks that listen. The caller drops them once the state is
    /// unlocked, because code of other hooks may run then.
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
    /// A profile of the name `CupyMemoryProfileHook`, of all devices.
    pub fn new() -> Self {
        Self { name: "CupyMemoryProfileHook".to_owned(), device_id: None, shared: Arc::default() }
    }

    /// The same under another name, so that several can be registered at once.
    #[must_use]
    pub fn with_name(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// Counts memory of one device only.
    #[must_use]
    pub fn for_device(self, device_id: i32) -> Self {
        Self { device_id: Some(device_id), ..self }
    }

    /// Keeps only the newest `max_history` calls in the history. As in Chainer, all are kept by default, at
    /// about 100 bytes each. The summary and the totals are of all calls in any case.
    #[must_use]
    pub fn max_history(self, max_history: usize) -> Self {
        lock(&self.shared.state).calls.set_max_history(max_history);
        self
    }

    /// The calls, in the order they ended: what was called inside a call precedes it.
    pub fn call_history(&self) -> Vec<CallRecord> {
        lock(&self.shared.state).calls.history().cloned().collect()
    }

    /// A row for each function, in the order of the history.
    pub fn summary(&self) -> Vec<FunctionSummary> {
        lock(&self.shared.state).calls.summary()
    }

    /// A row for each function and phase, in the order of the history.
    pub fn summary_by_phase(&self) -> Vec<FunctionSummary> {
        lock(&self.shared.state).calls.summary_by_phase().collect()
    }

    /// Bytes that functions took from the pool, in calls that ended: the sum of the summary, and of the
    /// history's outermost calls once none is running.
    pub fn total_used_bytes(&self) -> u64 {
        lock(&self.shared.state).calls.total_used()
    }

    /// Bytes that the pool took from the device for them; summed in the same way.
    pub fn total_acquired_bytes(&self) -> u64 {
        lock(&self.shared.state).calls.total_acquired()
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
    /// Where `file` fails.
    pub fn print_report(&self, unit: Unit, file: &mut dyn Write) -> io::Result<()> {
        write_report(&self.summary(), false, unit, file)
    }

    /// Prints the summary with phases apart and all its numbers, in the same form.
    ///
    /// # Errors
    /// Where `file` fails.
    pub fn print_full_report(&self, unit: Unit, file: &mut dyn Write) -> io::Result<()> {
        write_report(&self.summary_by_phase(), true, unit, file)
    }

    /// Writes everything as JSON: `total_used_bytes`, `total_acquired_bytes`, `summary`, `summary_by_phase`,
    /// `call_history`, and in `num_forgotten` how many calls the history no longer has. Names are those of
    /// [`FunctionSummary`]'s and [`CallRecord`]'s fields.
    ///
    /// # Errors
    /// Where `file` fails.
    pub fn write_json(&self, file: &mut dyn Write) -> io::Result<()> {
        // A copy is written, so that threads do not wait for a slow file.
        let profile = Profile::of(&lock(&self.shared.state).calls);
        profile.write_json(file)
    }

    fn begin(&self, call: &FunctionCall) {
        let is_listening = {
            let mut state = lock(&self.shared.state);
            // Before anything else: a running call keeps other threads from removing the hooks that listen.
            state.calls.begin(call);
            state.listening.contains_key(&call.thread)
        };
        if !is_listening {
            self.listen(call.thread);
        }
    }

    /// Counts what the current thread allocates from now on.
    fn listen(&self, thread: u64) {
        // With nothing locked, because other hooks are asked for their names, which runs their code.
        let guard = loop {
            if let Ok(guard) = register(Arc::new(Listener::new(self, thread))) {
                break guard;
            }
        };
        let mut state = lock(&self.shared.state);
        let State { calls, listening, .. } = &mut *state;
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
            let mut state = lock(&self.shared.state);
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
        lock(&self.shared.state).num_added += 1;
    }

    fn deleted(&self, _: Option<&Function>) {
        let over = {
            let mut state = lock(&self.shared.state);
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

/// The memory hook of one profile on one thread. Chainer calls it `CupyMemoryCumulativeHook`, of which there
/// can be only one.
struct Listener {
    name: String,
    thread: u64,
    device_id: Option<i32>,
    shared: Weak<Shared>,
}

impl Listener {
    /// A listener of `hook` for the thread of this number, under a name that no other has.
    fn new(hook: &CupyMemoryProfileHook, thread: u64) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let name = format!("CupyMemoryCumulativeHook {}", NEXT.fetch_add(1, Ordering::Relaxed));
        Self { name, thread, device_id: hook.device_id, shared: Arc::downgrade(&hook.shared) }
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
            && let Some(shared) = self.shared.upgrade()
        {
            lock(&shared.state).calls.acquired(self.thread, event.mem_size);
        }
    }

    fn malloc_postprocess(&self, event: &MallocPostprocess) {
        if event.mem_ptr != 0
            && self.wants(event.device_id)
            && let Some(shared) = self.shared.upgrade()
        {
            lock(&shared.state).calls.allocated(self.thread, event.pmem_id, event.mem_size);
        }
    }

    fn free_postprocess(&self, event: &Free) {
        let Some(shared) = self.shared.upgrade() else { return };
        let over = {
            let mut state = lock(&shared.state);
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
        lock(&hook.shared.state).listening.len()
    }

    #[test]
    fn it_listens_until_it_is_deleted_and_all_it_counted_is_freed() {
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
    fn threads_that_ended_are_forgotten() {
        let pool = MemoryPool::on_host(Policy::cupy(), 1 << 20).unwrap();
        let hook = Arc::new(CupyMemoryProfileHook::new());
        let f = Function::new("f");
        f.add_hook(hook.clone(), None).unwrap();
        let call = || std::thread::scope(|s| s.spawn(|| f.forward(|| pool.malloc(512))).join().unwrap());
        let held = call().unwrap();
        for _ in 0..10 {
            drop(call());
        }
        // The first, of which a block is live, and the last.
        assert_eq!(num_listening(&hook), 2);
        drop(held);
        f.delete_hook("CupyMemoryProfileHook").unwrap();
        assert_eq!((num_listening(&hook), hook.call_history().len()), (0, 11));
    }
}
