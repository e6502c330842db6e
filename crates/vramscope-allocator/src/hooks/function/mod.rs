//! Named functions with measured calls, and hooks around these calls.
//!
//! [`FunctionHook`] is the contract of Chainer's `FunctionHook` (`chainer/function_hook.py`). [`CupyMemoryProfileHook`] is Chainer's hook
//! that measures memory.
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
pub use report::{Unit, UnknownUnit, write_table};
pub use scopes::{Function, Scope, backward, forward, scope};

/// Callbacks around function calls. The default implementations do nothing.
///
/// A hook is registered for all calls on the current thread ([`register`], `with hook:` in Chainer), or added to one function
/// ([`Function::add_hook`]) for calls on every thread. Each call runs the thread's hooks in the order of registration, then the function's
/// hooks. A function's hook takes the position of a thread's hook with the same name. Preprocess and postprocess callbacks run in the same
/// order.
///
/// # Panics in callbacks
/// A postprocess callback runs after every call, even if the call panics. The exception is a hook whose preprocess callback panicked. If a
/// postprocess callback panics, the other hooks still run. The panic then reaches the caller, unless the thread is already panicking.
///
/// # Differences from Chainer
/// - Postprocess callbacks also run after a failed call. Chainer skips them.
/// - Phases other than forward and backward have callbacks too.
/// - A callback may register, remove, add and delete hooks; the change takes effect with the next call. Functions called inside a callback
///   run no hooks, so a hook may call functions.
/// - If [`added`](Self::added) panics, the hook is removed again. Chainer keeps it.
/// - Dropping a function deletes its hooks.
#[allow(unused_variables, reason = "the default callbacks do nothing")]
pub trait FunctionHook: Send + Sync {
    /// Returns the hook's name, unique per thread or function.
    fn name(&self) -> &str {
        "FunctionHook"
    }

    /// Called after the hook was registered for a thread (`None`) or added to a function.
    fn added(&self, function: Option<&Function>) {}

    /// Called after the hook was removed from a thread (`None`) or deleted from a function.
    fn deleted(&self, function: Option<&Function>) {}

    /// Called before a forward call.
    fn forward_preprocess(&self, call: &FunctionCall) {}

    /// Called after a forward call.
    fn forward_postprocess(&self, call: &FunctionCall, ended: Ended) {}

    /// Called before a backward call.
    fn backward_preprocess(&self, call: &FunctionCall) {}

    /// Called after a backward call.
    fn backward_postprocess(&self, call: &FunctionCall, ended: Ended) {}

    /// Called before a call in a custom phase.
    fn phase_preprocess(&self, call: &FunctionCall) {}

    /// Called after a call in a custom phase.
    fn phase_postprocess(&self, call: &FunctionCall, ended: Ended) {}
}

/// One call of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FunctionCall {
    /// The call's id: unique in this process, and larger than the ids of earlier calls.
    pub id: u64,
    /// The function's name.
    pub function: Arc<str>,
    /// The phase of the call.
    pub phase: CallPhase,
    /// The thread's number, unique in this process and never reused.
    pub thread: u64,
    /// The number of calls around this one on its thread, measured or not.
    pub depth: usize,
}

/// The phase of a call.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallPhase {
    /// Forward propagation.
    Forward,
    /// Backward propagation.
    Backward,
    /// A custom phase, by name. [`CallPhase::from`] maps the names of the other two phases to them.
    Other(Cow<'static, str>),
}

impl CallPhase {
    /// Returns the phase's name: `forward`, `backward`, or the custom name.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Other(name) => name,
        }
    }
}

impl From<Cow<'static, str>> for CallPhase {
    /// Maps `forward` and `backward` to the phases of that name, and any other name to a custom phase.
    fn from(name: Cow<'static, str>) -> Self {
        match &*name {
            "forward" => Self::Forward,
            "backward" => Self::Backward,
            _ => Self::Other(name),
        }
    }
}

impl From<&'static str> for CallPhase {
    fn from(name: &'static str) -> Self {
        Cow::Borrowed(name).into()
    }
}

impl From<String> for CallPhase {
    fn from(name: String) -> Self {
        Cow::<str>::Owned(name).into()
    }
}

impl fmt::Display for CallPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for CallPhase {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The function returned, with or without an error, or the guard of its scope was dropped.
    Returned,
    /// A panic passed through the function.
    Panicked,
}

/// An error of registering, adding or deleting a hook. The messages are Chainer's.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FunctionHookError {
    /// The thread already has a hook of this name.
    #[error("hook {name} already exists")]
    AlreadyRegistered {
        /// The name of the hook.
        name: String,
    },
    /// The function already has a hook of this name.
    #[error("Hook {name} already exists")]
    AlreadyAdded {
        /// The name of the hook.
        name: String,
    },
    /// The function has no hook of this name.
    #[error("Hook {name} does not exist")]
    NotAdded {
        /// The name of the hook.
        name: String,
    },
}
