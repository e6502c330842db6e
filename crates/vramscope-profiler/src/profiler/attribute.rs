//! Functions for the expansion of `#[profile]`. Do not use them directly: their names may change in any release.

use std::fmt::Display;
use std::future::Future;

use super::GpuMemoryProfiler;

/// Calls `call`, and profiles it if there is a profiler.
pub fn call<R>(
    profiler: Option<&GpuMemoryProfiler>,
    name: &str,
    call: impl FnOnce() -> R,
    error: impl FnOnce(&R) -> Option<String>,
) -> R {
    match profiler {
        Some(profiler) => profiler.profile_judged(name.into(), call, error).0,
        None => call(),
    }
}

/// Like [`call`], for a future.
pub async fn future<F: Future>(
    profiler: Option<&GpuMemoryProfiler>,
    name: &str,
    future: F,
    error: impl FnOnce(&F::Output) -> Option<String>,
) -> F::Output {
    match profiler {
        Some(profiler) => profiler.future_judged(name.into(), future, error).await.0,
        None => future.await,
    }
}

/// A return value of any type. The attribute calls `error` on it, and the compiler selects one of the traits below by the number of
/// dereferences: first for an error that implements `Display`, then for any other error, then for a type that is not a `Result`.
pub struct Returned<'r, R>(pub &'r R);

/// For a `Result` whose error implements `Display`.
pub trait ErrorInWords {
    /// Returns the error's message; `None` if there is no error.
    fn error(&self) -> Option<String>;
}

impl<T, E: Display> ErrorInWords for &&Returned<'_, Result<T, E>> {
    fn error(&self) -> Option<String> {
        self.0.as_ref().err().map(E::to_string)
    }
}

/// For a `Result` whose error does not implement `Display`.
pub trait ErrorWithoutWords {
    /// Returns a message with the error's type; `None` if there is no error.
    fn error(&self) -> Option<String>;
}

impl<T, E> ErrorWithoutWords for &Returned<'_, Result<T, E>> {
    fn error(&self) -> Option<String> {
        self.0.is_err().then(|| format!("an error without a message ({})", std::any::type_name::<E>()))
    }
}

/// For a type that is not a `Result`.
pub trait NoError {
    /// Returns `None`.
    fn error(&self) -> Option<String> {
        None
    }
}

impl<R> NoError for Returned<'_, R> {}
