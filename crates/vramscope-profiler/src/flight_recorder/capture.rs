//! Bundles that the pool did not ask for: of errors of others, and on demand.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;

use serde::Serialize;

use super::{FlightRecorder, FlightRecorderError};

/// What the program says of what it was doing, for `metadata.json` of a bundle.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BundleContext {
    /// In a word: `validation`.
    pub context: String,
    /// Whatever else may help: the number of a batch, a name of a model.
    pub metadata: BTreeMap<String, String>,
}

impl BundleContext {
    /// A context without anything else.
    pub fn new(context: impl Into<String>) -> Self {
        Self { context: context.into(), metadata: BTreeMap::new() }
    }

    /// Adds a fact.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl ToString) -> Self {
        self.metadata.insert(name.into(), value.to_string());
        self
    }
}

/// `metadata.json`: gpumemprof's keys, where they mean something here.
#[derive(Debug, Serialize)]
pub(super) struct Metadata {
    /// The words of the error by which it was taken for an out of memory; of a bundle on demand, the caller's.
    pub(super) reason: String,
    pub(super) exception_message: Option<String>,
    /// The innermost context.
    pub(super) context: Option<String>,
    /// Of all contexts, the innermost last, so that its values hold.
    pub(super) custom_metadata: BTreeMap<String, String>,
}

/// What an error says when memory was wanting: those of gpumemprof, and of CUDA's libraries and Rust's own.
const WORDS: [&str; 9] = [
    "out of memory",
    "out_of_memory",
    "resource exhausted",
    "failed to allocate",
    "allocation failed",
    "alloc_failed",
    "cudaerrormemoryallocation",
    "memory allocation of",
    "bad_alloc",
];

/// The words by which the message of an error tells that memory was wanting, in small letters; `None` where it is about
/// something else. It is a guess: messages have no form.
///
/// ```
/// use vramscope_profiler::out_of_memory_words;
///
/// assert_eq!(out_of_memory_words("CUDA error: out of memory"), Some("out of memory"));
/// assert_eq!(out_of_memory_words("CUBLAS_STATUS_ALLOC_FAILED"), Some("alloc_failed"));
/// assert_eq!(out_of_memory_words("no such layer"), None);
/// ```
pub fn out_of_memory_words(message: &str) -> Option<&'static str> {
    let message = message.to_lowercase();
    WORDS.into_iter().find(|words| message.contains(words))
}

/// A capture that is open on this thread.
struct Open {
    recorder: usize,
    context: BundleContext,
}

thread_local! {
    static OPEN: RefCell<Vec<Open>> = const { RefCell::new(Vec::new()) };
}

/// Closes the innermost capture of this thread.
struct Capture;

impl Drop for Capture {
    fn drop(&mut self) {
        OPEN.try_with(|open| open.borrow_mut().pop()).ok();
    }
}

/// What the captures of a recorder that are open on this thread say, with the context of the innermost one.
pub(super) fn context_here(recorder: usize) -> (Option<String>, BTreeMap<String, String>) {
    let (mut context, mut metadata) = (None, BTreeMap::new());
    OPEN.try_with(|open| {
        for capture in open.borrow().iter().filter(|capture| capture.recorder == recorder) {
            context = Some(capture.context.context.clone());
            metadata.extend(capture.context.metadata.clone());
        }
    })
    .ok();
    (context, metadata)
}

impl FlightRecorder {
    /// Calls `f`, and writes a bundle where it returns an error or panics for want of memory, as far as the
    /// [words](out_of_memory_words) of the error tell: an error of a library, which no pool has raised. Of an error of
    /// the pool there is one bundle, the pool's, with this context. The error and the panic go on to the caller
    /// (gpumemprof's `capture_oom`).
    ///
    /// ```
    /// use vramscope_allocator::{MemoryPool, Policy};
    /// use vramscope_profiler::{BundleContext, FlightRecorder, FlightRecorderOptions};
    ///
    /// let pool = MemoryPool::on_host(Policy::cupy(), 1 << 20)?;
    /// # let folder = tempfile::tempdir()?;
    /// # let folder = folder.path();
    /// let recorder = FlightRecorder::attach(&pool, folder, FlightRecorderOptions::default())?;
    /// let context = BundleContext::new("matmul").with("batch", 17);
    /// let product: Result<(), _> = recorder.capture_oom(context, || Err("CUBLAS_STATUS_ALLOC_FAILED"));
    /// assert_eq!((product.is_err(), recorder.bundles().len()), (true, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of `f`. Where a bundle could not be written, [`last_error`](Self::last_error) tells.
    pub fn capture_oom<T, E: Display>(
        &self,
        context: BundleContext,
        f: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let open = Open { recorder: self.shared.id(), context };
        OPEN.try_with(|all| all.borrow_mut().push(open)).ok();
        let _capture = Capture;
        match catch_unwind(AssertUnwindSafe(f)) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => {
                self.handle_error(&error);
                Err(error)
            }
            Err(panic) => {
                self.handle_error(&crate::profiler::message(panic.as_ref()));
                resume_unwind(panic)
            }
        }
    }

    /// Writes a bundle of an error that was caught elsewhere, where its [words](out_of_memory_words) tell that memory was
    /// wanting, with the context of the captures that are open on this thread (gpumemprof's `handle_exception`). `None`
    /// where they do not, where the pool has told of this error, where it comes too soon after the last, or where
    /// the bundle could not be written.
    pub fn handle_error(&self, error: &impl Display) -> Option<PathBuf> {
        let message = error.to_string();
        let words = out_of_memory_words(&message)?;
        if self.shared.was_told(&message) {
            return None;
        }
        self.shared.error_of_others(&message, words)
    }

    /// Writes a bundle now, whatever the time since the last one.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn dump(&self, reason: &str, context: BundleContext) -> Result<PathBuf, FlightRecorderError> {
        let open = Open { recorder: self.shared.id(), context };
        OPEN.try_with(|all| all.borrow_mut().push(open)).ok();
        let _capture = Capture;
        self.shared.on_demand(reason)
    }
}
