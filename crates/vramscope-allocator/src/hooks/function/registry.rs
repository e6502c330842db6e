//! The hooks of a call: the thread's hooks and the function's hooks.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{FunctionHook, FunctionHookError};
use crate::threads::FlagSet;

/// A hook that is registered for a thread or added to a function.
pub(super) struct Registration {
    pub(super) name: String,
    pub(super) hook: Arc<dyn FunctionHook>,
    /// Cleared when the guard is dropped, on any thread.
    alive: AtomicBool,
}

/// Hooks in call order.
pub(super) type Hooks = Vec<Arc<Registration>>;

impl Registration {
    pub(super) fn new(name: String, hook: Arc<dyn FunctionHook>) -> Arc<Self> {
        Arc::new(Self { name, hook, alive: AtomicBool::new(true) })
    }

    fn is_alive(&self) -> bool {
        self.alive.load(Ordering::Acquire)
    }

    /// Removes the hook from the current thread's hooks. Other threads skip it in their calls.
    fn remove(&self) {
        self.alive.store(false, Ordering::Release);
        drop(take_removed());
    }
}

thread_local! {
    static THREAD_HOOKS: RefCell<Hooks> = const { RefCell::new(Vec::new()) };
    /// Whether this thread runs a callback: functions that it calls run no hooks.
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// Removes unregistered hooks from the thread's hooks and returns them. The caller drops them after every borrow has ended, because
/// dropping runs the hooks' code.
fn take_removed() -> Hooks {
    let taken = THREAD_HOOKS.try_with(|hooks| hooks.borrow_mut().extract_if(.., |r| !r.is_alive()).collect());
    taken.unwrap_or_default()
}

/// Registers `hook` for all calls on the current thread until the guard is dropped (`with hook:` in Chainer). The guard may be dropped on
/// another thread.
///
/// # Errors
/// [`FunctionHookError::AlreadyRegistered`] if this thread has a hook of that name, even the same hook.
pub fn register(hook: Arc<dyn FunctionHook>) -> Result<FunctionHookGuard, FunctionHookError> {
    drop(take_removed());
    let registration = Registration::new(hook.name().to_owned(), hook);
    let registered = THREAD_HOOKS.try_with(|hooks| {
        let mut hooks = hooks.borrow_mut();
        let is_new = hooks.iter().all(|r| r.name != registration.name);
        if is_new {
            hooks.push(Arc::clone(&registration));
        }
        is_new
    });
    // A thread that is ending and has no thread-local values left runs no hooks.
    if !registered.unwrap_or(true) {
        return Err(FunctionHookError::AlreadyRegistered { name: registration.name.clone() });
    }
    tell_added(&registration, |hook| hook.added(None), || registration.remove());
    Ok(FunctionHookGuard { registration })
}

/// Keeps a hook registered until it is dropped.
#[must_use = "the hook is removed when the guard is dropped"]
pub struct FunctionHookGuard {
    registration: Arc<Registration>,
}

impl Drop for FunctionHookGuard {
    fn drop(&mut self) {
        self.registration.remove();
        tell_all([&self.registration], |hook| hook.deleted(None));
    }
}

/// Returns the hooks of a call to a function with the hooks `own`: the thread's hooks, where a function's hook replaces a thread's hook of
/// the same name (`dict.update` in Chainer).
pub(super) fn hooks_for_call(own: &[Arc<Registration>]) -> Hooks {
    if IN_CALLBACK.get() {
        return Vec::new();
    }
    let mut hooks: Hooks = THREAD_HOOKS
        .try_with(|hooks| hooks.borrow().iter().filter(|r| r.is_alive()).cloned().collect())
        .unwrap_or_default();
    for hook in own {
        match hooks.iter_mut().find(|r| r.name == hook.name) {
            Some(same_name) => *same_name = Arc::clone(hook),
            None => hooks.push(Arc::clone(hook)),
        }
    }
    hooks
}

// ---- calling them ----

/// Runs a callback of one hook; a panic reaches the caller.
pub(super) fn tell(registration: &Registration, callback: impl FnOnce(&dyn FunctionHook)) {
    let _in_callback = FlagSet::of(&IN_CALLBACK);
    callback(&*registration.hook);
}

/// Runs a callback of every hook, even if one panics. Afterwards the first panic reaches the caller, unless the thread is already
/// panicking: a second panic would abort the process.
pub(super) fn tell_all<'r>(
    registrations: impl IntoIterator<Item = &'r Arc<Registration>>,
    callback: impl Fn(&dyn FunctionHook),
) {
    let mut first = None;
    for registration in registrations {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| tell(registration, &callback))) {
            first.get_or_insert(panic);
        }
    }
    if let Some(panic) = first.filter(|_| !std::thread::panicking()) {
        resume_unwind(panic);
    }
}

/// Runs a hook's `added` callback. If it panics, runs `undo` before the panic reaches the caller.
pub(super) fn tell_added(
    registration: &Registration,
    added: impl FnOnce(&dyn FunctionHook),
    undo: impl FnOnce(),
) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| tell(registration, added))) {
        undo();
        resume_unwind(panic);
    }
}
