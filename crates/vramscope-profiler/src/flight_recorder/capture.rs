//! Bundles for other errors than the pool's out of memory, and bundles on demand.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;

use super::{FlightRecorder, FlightRecorderError};

/// The program's description of its activity, for a bundle's `metadata.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BundleContext {
    /// A short name, such as `validation`.
    pub context: String,
    /// Facts by name, such as the batch number or the model's name.
    pub metadata: BTreeMap<String, String>,
}

impl BundleContext {
    /// Creates a context without metadata.
    pub fn new(context: impl Into<String>) -> Self {
        Self { context: context.into(), metadata: BTreeMap::new() }
    }

    /// Adds a fact, such as `("batch", 17)`.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl ToString) -> Self {
        self.metadata.insert(name.into(), value.to_string());
        self
    }
}

/// Texts in lower case that indicate an out of memory in an error message: gpumemprof's, those of CUDA's libraries, and those of Rust and
/// C++.
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

/// Returns the text, in lower case, by which an error message indicates an out of memory; `None` if there is none. This is a heuristic,
/// because messages have no common format.
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
struct OpenCapture {
    recorder: usize,
    context: BundleContext,
}

thread_local! {
    static OPEN: RefCell<Vec<OpenCapture>> = const { RefCell::new(Vec::new()) };
}

/// Closes the innermost capture of this thread when it is dropped.
struct CaptureGuard;

impl Drop for CaptureGuard {
    fn drop(&mut self) {
        OPEN.try_with(|open| open.borrow_mut().pop()).ok();
    }
}

/// Returns the name of the recorder's innermost context on this thread, and the metadata of all its contexts on this thread.
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
    /// Calls `f`, and writes a bundle if it returns an error or panics with a message that indicates an out of memory
    /// ([`out_of_memory_words`]), such as an error of a library. For an error of the pool, only the pool's bundle is written, with this
    /// context. The error or the panic is passed on to the caller (gpumemprof's `capture_oom`).
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
    /// The error of `f`. If the bundle was not written, [`last_error`](Self::last_error) returns the reason.
    pub fn capture_oom<T, E: Display>(
        &self,
        context: BundleContext,
        f: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let open = OpenCapture { recorder: self.shared.id(), context };
        OPEN.try_with(|all| all.borrow_mut().push(open)).ok();
        let _capture = CaptureGuard;
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

    /// Writes a bundle for an error that the program caught, if its message indicates an out of memory ([`out_of_memory_words`]), with the
    /// contexts that are open on this thread (gpumemprof's `handle_exception`). Returns the bundle's folder. Returns `None` if the message
    /// does not indicate it, if it is the pool's error, which already has a bundle, if `min_interval` has not passed since the last bundle,
    /// or if the bundle was not written.
    pub fn handle_error(&self, error: &impl Display) -> Option<PathBuf> {
        let message = error.to_string();
        let words = out_of_memory_words(&message)?;
        if self.shared.is_pool_error(&message) {
            return None;
        }
        self.shared.external_error(&message, words)
    }

    /// Writes a bundle now, even if `min_interval` has not passed since the last bundle. Returns its folder.
    ///
    /// # Errors
    /// The bundle cannot be written, or the pool was dropped.
    pub fn dump(&self, reason: &str, context: BundleContext) -> Result<PathBuf, FlightRecorderError> {
        let open = OpenCapture { recorder: self.shared.id(), context };
        OPEN.try_with(|all| all.borrow_mut().push(open)).ok();
        let _capture = CaptureGuard;
        self.shared.on_demand(reason)
    }
}
