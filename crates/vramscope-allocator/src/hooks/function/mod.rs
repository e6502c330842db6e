//! Functions whose calls are measured, and hooks around the calls.
//!
//! [`FunctionHook`] is the contract of Chainer's `FunctionHook` (`chainer/function_hook.py`);
//! [`CupyMemoryProfileHook`] is the one of its hooks that measures memory.
//!
//! ```
//! use std::sync::Arc;
//! use vramscope_allocator::hooks::function::{self, CupyMemoryProfileHook, Function, Unit};
//! use vramscope_allocator::{MemoryPool, Policy};
//!
//! let pool = MemoryPool::on_host(Policy::cupy(), 1 << 20)?;
//! let linear = Function::new("LinearFunction");
//! let hook = Arc::new(CupyMemoryProfileHook::new());
//!
//! let guard = function::register(hook.clone())?;
//! let output = linear.forward(|| pool.malloc(2048))?;
//! drop(guard);
//!
//! let mut report = Vec::new();
//! hook.print_report(Unit::Auto, &mut report)?;
//! assert_eq!(
//!     String::from_utf8(report)?,
//!     "  FunctionName  UsedBytes  AcquiredBytes  Occurrence\n\
//!      LinearFunction     2.00KB         2.00KB           1\n"
//! );
//! # drop(output);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod calls;
mod memory_profile;
mod registry;
mod report;
mod scopes;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use thiserror::Error;

pub use calls::{CallRecord, FunctionSummary};
pub use memory_profile::CupyMemoryProfileHook;
pub use registry::{FunctionHookGuard, register};
pub use report::{Unit, UnknownUnit};
pub use scopes::{Function, Scope, backward, forward, scope};

/// Callbacks around the calls of functions. By default they do nothing.
///
/// A hook is registered for all calls on the current thread ([`register`], `with hook:` in Chainer), or
/// added to one function ([`Function::add_hook`]), whichever thread calls it. A call is told to the thread's
/// hooks in the order of registration, then to the function's own; one of the function's own replaces the
/// thread's of the same name, in its place. Preprocess and postprocess callbacks have the same order.
///
/// # What a panic does
/// A postprocess callback is called however the call ends, by a panic too, unless the same hook's preprocess
/// callback panicked. A callback that panics does not keep the other hooks from being called after the call;
/// its panic then reaches the caller, except where one is on its way already.
///
/// # What differs from Chainer
/// - Postprocess callbacks also follow a call that failed. Chainer leaves them out.
/// - Phases other than forward and backward have callbacks too.
/// - A hook may be registered, removed, added and deleted inside a callback; it holds from the next call on.
///   Functions called inside a callback are not told to hooks, so that a hook may call functions.
/// - Where [`added`](Self::added) panics, the hook is taken out again. Chainer keeps it.
/// - A function that is dropped deletes its hooks.
pub trait FunctionHook: Send + Sync {
    /// The name under which it is registered: one of each name at a time.
    fn name(&self) -> &str {
        "FunctionHook"
    }

    /// Called after the hook was registered for a thread (`None`) or added to a function.
    fn added(&self, function: Option<&Function>) {
        let _ = function;
    }

    /// Called after the hook was removed from a thread (`None`) or deleted from a function.
    fn deleted(&self, function: Option<&Function>) {
        let _ = function;
    }

    /// Called before a forward call.
    fn forward_preprocess(&self, call: &FunctionCall) {
        let _ = call;
    }

    /// Called after a forward call.
    fn forward_postprocess(&self, call: &FunctionCall, ended: Ended) {
        let _ = (call, ended);
    }

    /// Called before a backward call.
    fn backward_preprocess(&self, call: &FunctionCall) {
        let _ = call;
    }

    /// Called after a backward call.
    fn backward_postprocess(&self, call: &FunctionCall, ended: Ended) {
        let _ = (call, ended);
    }

    /// Called before a call in a phase of the program's own.
    fn phase_preprocess(&self, call: &FunctionCall) {
        let _ = call;
    }

    /// Called after a call in a phase of the program's own.
    fn phase_postprocess(&self, call: &FunctionCall, ended: Ended) {
        let _ = (call, ended);
    }
}

/// One call of a function, as hooks see it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FunctionCall {
    /// The call's id: no other in this process has it, and a later call has a larger one.
    pub id: u64,
    /// The function's name.
    pub function: Arc<str>,
    /// What the function was called for.
    pub phase: Phase,
    /// A number for the thread, which no other thread has, now or later.
    pub thread: u64,
    /// Calls that this one is inside of, on its thread, whether hooks were told of them or not.
    pub depth: usize,
}

/// What a function is called for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Forward propagation.
    Forward,
    /// Backward propagation.
    Backward,
    /// The program's own, by name. [`Phase::from`] knows the names of the other two.
    Other(Cow<'static, str>),
}

impl Phase {
    /// Its name: `forward`, `backward`, or the program's own.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Other(name) => name,
        }
    }
}

impl From<Cow<'static, str>> for Phase {
    /// `forward` and `backward` are those phases; any other name is the program's own.
    fn from(name: Cow<'static, str>) -> Self {
        match &*name {
            "forward" => Self::Forward,
            "backward" => Self::Backward,
            _ => Self::Other(name),
        }
    }
}

impl From<&'static str> for Phase {
    fn from(name: &'static str) -> Self {
        Cow::Borrowed(name).into()
    }
}

impl From<String> for Phase {
    fn from(name: String) -> Self {
        Cow::<str>::Owned(name).into()
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for Phase {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The function returned, with an error or without, or the guard of its scope was dropped.
    Returned,
    /// A panic passed through the function.
    Panicked,
}

/// What is wrong with a hook. The messages are Chainer's.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FunctionHookError {
    /// The thread has one of that name already.
    #[error("hook {name} already exists")]
    AlreadyRegistered {
        /// The name of the hook.
        name: String,
    },
    /// The function has one of that name already.
    #[error("Hook {name} already exists")]
    AlreadyAdded {
        /// The name of the hook.
        name: String,
    },
    /// The function has none of that name.
    #[error("Hook {name} does not exist")]
    NotAdded {
        /// The name of the hook.
        name: String,
    },
}
