//! Bundles for runs that are out of memory: folders with the last events, the report and the environment.

mod capture;
mod contents;
mod folder;
mod writer;

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use thiserror::Error;
use vramscope_allocator::{HistoryError, HistoryOptions, MemoryPool, OutOfMemory, WeakPool};
use vramscope_basics::lock;
use vramscope_files::make_folder;

pub use capture::{BundleContext, out_of_memory_words};
pub use contents::{Bundle, BundleEvent, BundleMetadata, ProgramFacts};
pub use writer::{BundleFolder, WrittenBundle};

use crate::tracker::MemoryTracker;
use contents::Contents;
use folder::Manifest;

/// Writes a bundle when a request to a pool is out of memory (gpumemprof's OOM flight recorder), when another operation is [out of
/// memory](Self::capture_oom), or [on demand](Self::dump).
///
/// A bundle is a folder `oom_dump_20261121T184211Z_PID_N`:
///
/// | file | contents |
/// |---|---|
/// | `snapshot.pickle` | the pool and its last events: `vramscope report`, `vramscope view`, memory_viz |
/// | `report.txt` | the output of `vramscope report` |
/// | `events.json` | events and samples of the [tracker](FlightRecorderOptions::tracker), as in its log |
/// | `metadata.json` | the reason, the error, and the program's description of its activity |
/// | `environment.json` | the process and its settings |
/// | `manifest.json` | the failed request, the written files, and the files left out with their reasons |
///
/// The bundle is written before the request returns, under a temporary name until it is complete. The most important files are written
/// first: if a bundle would be too large, the snapshot is left out and the report is still written.
///
/// Several programs may use the same folder. After a bundle is written, the oldest bundles are removed until at most `max_bundles` are
/// left. Room is made before each file is created, so the total size of finished and unfinished bundles stays within `max_total_bytes`.
/// Only two writers that create files at the same instant may exceed it. Unfinished bundles of killed programs are removed together with
/// the next bundle. If a bundle cannot be created, no old bundle is removed. If an old bundle cannot be removed,
/// [`last_error`](FlightRecorder::last_error) names it, it no longer counts, and the new bundle is written anyway. Folders that are not
/// bundles, and bundles of other users, are neither counted nor removed. Dropping the recorder stops it.
pub struct FlightRecorder {
    shared: Arc<RecorderShared>,
}

/// The number and size of kept bundles, and the recording for them.
#[derive(Clone)]
pub struct FlightRecorderOptions {
    /// Starts recording the pool's history, with at most this many events. A running recording is not changed. Recording continues after
    /// the recorder is dropped. With `None` the program starts recording itself: without a history, a bundle has the live blocks, but no
    /// events.
    pub max_entries: Option<usize>,
    /// Number of bundles to keep, at least 1.
    pub max_bundles: usize,
    /// Maximum size of all bundles together, in bytes, at least [`LEAST_TOTAL_BYTES`](Self::LEAST_TOTAL_BYTES).
    pub max_total_bytes: u64,
    /// Minimum time between two bundles, for programs that catch the error and fail often.
    pub min_interval: Duration,
    /// A tracker whose events and samples are included in the bundle.
    pub tracker: Option<Arc<MemoryTracker>>,
}

impl FlightRecorderOptions {
    /// The minimum of [`max_total_bytes`](Self::max_total_bytes): a bundle without its snapshot.
    pub const LEAST_TOTAL_BYTES: u64 = 32 << 10;
}

impl Default for FlightRecorderOptions {
    /// The last 100,000 events; 5 bundles of 256 MiB together, ten seconds apart.
    fn default() -> Self {
        Self {
            max_entries: Some(100_000),
            max_bundles: 5,
            max_total_bytes: 256 << 20,
            min_interval: Duration::from_secs(10),
            tracker: None,
        }
    }
}

/// The reason why a recorder or a bundle was not created.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FlightRecorderError {
    /// The options leave no room for a single bundle.
    #[error(
        "no bundle has room: max_bundles must be 1 or more, and max_total_bytes {least} or more",
        least = FlightRecorderOptions::LEAST_TOTAL_BYTES
    )]
    NoRoom,
    /// The folder or a bundle cannot be created.
    #[error("{folder}: {why}", folder = folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The system's error.
        why: io::Error,
    },
    /// The pool was dropped.
    #[error("the pool was dropped, so no bundle can be written")]
    NoPool,
    /// The history cannot be recorded.
    #[error(transparent)]
    History(#[from] HistoryError),
}

struct RecorderShared {
    folder: BundleFolder,
    /// Weak, so that a recorder does not keep its pool alive.
    pool: WeakPool,
    options: FlightRecorderOptions,
    state: Mutex<RecorderState>,
}

#[derive(Default)]
struct RecorderState {
    /// When the last bundle was started.
    last: Option<Instant>,
    /// Errors without a bundle since the last bundle.
    skipped: u64,
    /// The messages of the pool's last errors, oldest first.
    pool_errors: VecDeque<String>,
    /// The last `max_bundles` written bundles, each with its time in microseconds since the Unix epoch. Older bundles were removed.
    bundles: Vec<(i64, PathBuf)>,
    /// The error of the last bundle.
    error: Option<String>,
}

/// Number of kept messages of the pool's errors, which identify an error that reaches a caller as the pool's. It exceeds the number of
/// threads that fail at the same time.
const MOST_POOL_ERRORS: usize = 64;

impl FlightRecorder {
    /// Writes bundles of `pool` into `folder` from now on.
    ///
    /// # Errors
    /// The options leave no room for a bundle, the folder cannot be created, or the history cannot be recorded.
    pub fn attach(
        pool: &MemoryPool,
        folder: impl Into<PathBuf>,
        options: FlightRecorderOptions,
    ) -> Result<Self, FlightRecorderError> {
        let folder = folder.into();
        if options.max_bundles == 0 || options.max_total_bytes < FlightRecorderOptions::LEAST_TOTAL_BYTES {
            return Err(FlightRecorderError::NoRoom);
        }
        make_folder(&folder).map_err(|why| FlightRecorderError::Folder { folder: folder.clone(), why })?;
        if let Some(max_entries) = options.max_entries
            && !pool.is_recording_history()
        {
            pool.record_memory_history(&HistoryOptions { max_entries, ..HistoryOptions::default() })?;
        }
        let folder = BundleFolder::new(folder, options.max_bundles, options.max_total_bytes);
        let state = Mutex::default();
        let shared = Arc::new(RecorderShared { folder, pool: pool.downgrade(), options, state });
        let recorder = Arc::downgrade(&shared);
        pool.on_oom(Arc::new(move |pool, error| {
            if let Some(recorder) = recorder.upgrade() {
                recorder.request_failed(pool, error);
            }
        }));
        Ok(Self { shared })
    }

    /// Returns the bundles of this recorder that still exist, oldest first.
    pub fn bundles(&self) -> Vec<PathBuf> {
        let bundles = lock(&self.shared.state).bundles.clone();
        bundles.into_iter().map(|(_, bundle)| bundle).filter(|bundle| bundle.is_dir()).collect()
    }

    /// Returns the error of the last bundle, or of removing older bundles for it.
    pub fn last_error(&self) -> Option<String> {
        lock(&self.shared.state).error.clone()
    }
}

impl RecorderShared {
    /// Identifies this recorder among the captures of a thread. The value is unique while the recorder is alive.
    fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Stores an error of the pool, and writes a bundle if one is due.
    fn request_failed(&self, pool: &MemoryPool, error: &OutOfMemory) {
        let message = error.to_string();
        {
            let pool_errors = &mut lock(&self.state).pool_errors;
            pool_errors.push_back(message.clone());
            if pool_errors.len() > MOST_POOL_ERRORS {
                pool_errors.pop_front();
            }
        }
        let Some(skipped_failures) = self.is_time() else { return };
        let manifest = Manifest {
            device: Some(error.device_id),
            requested_bytes: Some(error.requested),
            rounded_bytes: Some(error.size),
            reserved_bytes: Some(error.total),
            limit_bytes: error.limit,
            device_free_bytes: error.device_free,
            skipped_failures,
            ..Manifest::default()
        };
        // `last_error` keeps an error.
        self.bundle(pool, manifest, "out of memory", Some(&message)).ok();
    }

    /// Whether the message contains the message of a recent error of the pool.
    fn is_pool_error(&self, message: &str) -> bool {
        lock(&self.state).pool_errors.iter().any(|pool_errors| message.contains(pool_errors))
    }

    /// Writes a bundle for an error that does not come from the pool.
    fn external_error(&self, message: &str, words: &str) -> Option<PathBuf> {
        let skipped_failures = self.is_time()?;
        let manifest = Manifest { skipped_failures, ..Manifest::default() };
        self.bundle(&self.pool.upgrade()?, manifest, words, Some(message)).ok()
    }

    /// Writes a bundle on demand.
    fn on_demand(&self, reason: &str) -> Result<PathBuf, FlightRecorderError> {
        let pool = self.pool.upgrade().ok_or(FlightRecorderError::NoPool)?;
        let skipped_failures = std::mem::take(&mut lock(&self.state).skipped);
        let manifest = Manifest { skipped_failures, ..Manifest::default() };
        self.bundle(&pool, manifest, reason, None)
            .map_err(|why| FlightRecorderError::Folder { folder: self.folder.path().to_owned(), why })
    }

    /// If a bundle is due, returns the number of errors without a bundle since the last one. Otherwise counts this error among them and
    /// returns `None`.
    fn is_time(&self) -> Option<u64> {
        let mut state = lock(&self.state);
        if state.last.is_some_and(|last| last.elapsed() < self.options.min_interval) {
            state.skipped += 1;
            return None;
        }
        state.last = Some(Instant::now());
        Some(std::mem::take(&mut state.skipped))
    }

    /// Generates and writes a bundle, and stores the result.
    fn bundle(
        &self,
        pool: &MemoryPool,
        manifest: Manifest,
        reason: &str,
        error: Option<&str>,
    ) -> io::Result<PathBuf> {
        let now = Timestamp::now();
        let skipped_failures = manifest.skipped_failures;
        let (context, custom_metadata) = capture::context_here(self.id());
        let metadata = BundleMetadata {
            reason: reason.to_owned(),
            exception_message: error.map(str::to_owned),
            context,
            custom_metadata: custom_metadata.into_iter().map(|(name, fact)| (name, fact.into())).collect(),
            ..BundleMetadata::default()
        };
        let contents = Contents::of_pool(pool, &self.options, &metadata);
        let written = self.folder.write_contents(now, manifest, &metadata, &contents);
        let mut state = lock(&self.state);
        match written {
            Ok(WrittenBundle { time_us, path, removal_error }) => {
                state.bundles.push((time_us, path.clone()));
                state.bundles.sort();
                let gone = state.bundles.len().saturating_sub(self.options.max_bundles);
                state.bundles.drain(..gone);
                state.error = removal_error;
                Ok(path)
            }
            Err(e) => {
                state.skipped += skipped_failures + u64::from(error.is_some());
                state.error = Some(format!("{}: {e}", self.folder.path().display()));
                Err(e)
            }
        }
    }
}
