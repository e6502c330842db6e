//! What the attribute `#[profile]` calls. Its names may change with any release: nobody else should use them.

use std::fmt::Display;
use std::future::Future;

use super::GpuMemoryProfiler;

/// Calls `call`, measured where there is a profiler.
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

/// The same with a future.
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

/// What a function returned, whatever that is. Which of the traits below answers for it is found where the attribute stands,
/// by the number of references that are taken off: an error that can be written, an error that cannot, and no error.
pub struct Returned<'r, R>(pub &'r R);

/// An error that can be written.
pub trait ErrorInWords {
    /// It in words.
    fn error(&self) -> Option<String>;
}

impl<T, E: Display> ErrorInWords for &&Returned<'_, Result<T, E>> {
    fn error(&self) -> Option<String> {
        self.0.as_ref().err().map(E::to_string)
    }
}

/// An error that cannot be written.
pub trait ErrorWithoutWords {
    /// That there is one.
    fn error(&self) -> Option<String>;
}

impl<T, E> ErrorWithoutWords for &Returned<'_, Result<T, E>> {
    fn error(&self) -> Option<String> {
        self.0.is_err().then(|| format!("an error without words ({})", std::any::type_name::<E>()))
    }
}

/// Not an error.
pub trait NoError {
    /// Nothing.
    fn error(&self) -> Option<String> {
        None
    }
}

impl<R> NoError for Returned<'_, R> {}
