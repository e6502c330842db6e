//! Functions, and the scopes of their calls.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use super::registry::{Hooks, Registration, hooks_for_call, tell, tell_added, tell_all};
use super::{CallPhase, Ended, FunctionCall, FunctionHook, FunctionHookError};
use crate::threads::this_thread;
use vramscope_basics::lock;

/// A named function whose calls run hooks. Chainer's hooks use `FunctionNode` for this.
///
/// ```
/// use vramscope_allocator::hooks::function::{CallPhase, Function};
///
/// let relu = Function::new("ReLU");
/// let output = relu.forward(|| 2 + 2);
/// assert_eq!(output, 4);
/// relu.phase("eval", || ());
/// {
///     let _scope = relu.scope(CallPhase::Backward);
///     // The call lasts until the scope is dropped.
/// }
/// ```
///
/// Any thread may call it, also recursively. The profile merges functions of the same name, as Chainer merges functions of one class.
pub struct Function {
    name: Arc<str>,
    hooks: Mutex<Hooks>,
}

impl Function {
    /// Creates a function of that name without hooks.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), hooks: Mutex::default() }
    }

    /// Returns the function's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Calls `call` in the forward phase.
    pub fn forward<R>(&self, call: impl FnOnce() -> R) -> R {
        self.phase(CallPhase::Forward, call)
    }

    /// Calls `call` in the backward phase.
    pub fn backward<R>(&self, call: impl FnOnce() -> R) -> R {
        self.phase(CallPhase::Backward, call)
    }

    /// Calls `call` in the given phase.
    pub fn phase<R>(&self, phase: impl Into<CallPhase>, call: impl FnOnce() -> R) -> R {
        let _scope = self.scope(phase);
        call()
    }

    /// Starts a call that ends when the guard is dropped.
    pub fn scope(&self, phase: impl Into<CallPhase>) -> Scope {
        let hooks = hooks_for_call(&lock(&self.hooks));
        Scope::enter(|| Arc::clone(&self.name), phase.into(), hooks)
    }

    /// Adds a hook to this function only, under `name`, or else under the hook's name.
    ///
    /// # Errors
    /// [`FunctionHookError::AlreadyAdded`] if the function has a hook of that name.
    pub fn add_hook(&self, hook: Arc<dyn FunctionHook>, name: Option<&str>) -> Result<(), FunctionHookError> {
        let name = name.unwrap_or_else(|| hook.name()).to_owned();
        let registration = Registration::new(name, hook);
        {
            let mut hooks = lock(&self.hooks);
            if hooks.iter().any(|r| r.name == registration.name) {
                return Err(FunctionHookError::AlreadyAdded { name: registration.name.clone() });
            }
            hooks.push(Arc::clone(&registration));
        }
        let take_out = || lock(&self.hooks).retain(|r| !Arc::ptr_eq(r, &registration));
        tell_added(&registration, |hook| hook.added(Some(self)), take_out);
        Ok(())
    }

    /// Deletes the hook that was added under `name`.
    ///
    /// # Errors
    /// [`FunctionHookError::NotAdded`] if the function has no hook of that name.
    pub fn delete_hook(&self, name: &str) -> Result<(), FunctionHookError> {
        let deleted = {
            let mut hooks = lock(&self.hooks);
            let position = hooks.iter().position(|r| r.name == name);
            hooks.remove(position.ok_or_else(|| FunctionHookError::NotAdded { name: name.to_owned() })?)
        };
        tell(&deleted, |hook| hook.deleted(Some(self)));
        Ok(())
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        let hooks = std::mem::take(&mut *lock(&self.hooks));
        tell_all(&hooks, |hook| hook.deleted(Some(self)));
    }
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Function").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Starts a call of the function with this name, which ends when the guard is dropped. Like [`Function::scope`], for a function without
/// hooks.
pub fn scope(function: &str, phase: impl Into<CallPhase>) -> Scope {
    Scope::enter(|| function.into(), phase.into(), hooks_for_call(&[]))
}

/// Like [`Function::forward`], for a function without hooks.
pub fn forward<R>(function: &str, call: impl FnOnce() -> R) -> R {
    let _scope = scope(function, CallPhase::Forward);
    call()
}

/// Like [`Function::backward`], for a function without hooks.
pub fn backward<R>(function: &str, call: impl FnOnce() -> R) -> R {
    let _scope = scope(function, CallPhase::Backward);
    call()
}

/// A running call of a function. The call ends when the scope is dropped, on the same thread.
#[must_use = "the call ends when the scope is dropped"]
pub struct Scope {
    /// `None` if there are no hooks.
    call: Option<FunctionCall>,
    /// Hooks whose preprocess callback returned. Their postprocess callbacks run at the end.
    hooks: Hooks,
    /// Whether the thread was already panicking when the call began, in a destructor that the panic runs.
    panicking: bool,
    of_its_thread: PhantomData<*const ()>,
}

thread_local! {
    /// The number of open scopes on this thread.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    static TOKEN: Arc<()> = Arc::new(());
}

/// Returns a reference that expires when the current thread ends.
pub(super) fn this_thread_token() -> Weak<()> {
    TOKEN.try_with(Arc::downgrade).unwrap_or_default()
}

impl Scope {
    fn enter(function: impl FnOnce() -> Arc<str>, phase: CallPhase, hooks: Hooks) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let depth = DEPTH.get();
        DEPTH.set(depth + 1);
        let panicking = std::thread::panicking();
        let mut scope = Self { call: None, hooks: Vec::new(), panicking, of_its_thread: PhantomData };
        if !hooks.is_empty() {
            let id = NEXT.fetch_add(1, Ordering::Relaxed);
            let thread = this_thread().get();
            let call: &_ = scope.call.insert(FunctionCall { id, function: function(), phase, thread, depth });
            scope.hooks.reserve_exact(hooks.len());
            for registration in hooks {
                tell(&registration, |hook| match call.phase {
                    CallPhase::Forward => hook.forward_preprocess(call),
                    CallPhase::Backward => hook.backward_preprocess(call),
                    CallPhase::Other(_) => hook.phase_preprocess(call),
                });
                scope.hooks.push(registration);
            }
        }
        scope
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get().saturating_sub(1));
        let Some(call) = &self.call else { return };
        let ended =
            if std::thread::panicking() && !self.panicking { Ended::Panicked } else { Ended::Returned };
        tell_all(&self.hooks, |hook| match call.phase {
            CallPhase::Forward => hook.forward_postprocess(call, ended),
            CallPhase::Backward => hook.backward_postprocess(call, ended),
            CallPhase::Other(_) => hook.phase_postprocess(call, ended),
        });
    }
}
