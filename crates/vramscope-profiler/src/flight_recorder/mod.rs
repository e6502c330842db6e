//! Bundles for runs that are out of memory: folders with the last events, the report and the environment.

mod capture;
mod contents;
mod folder;

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use vramscope_allocator::{HistoryError, HistoryOptions, MemoryPool, OutOfMemory, WeakPool};
use vramscope_files::{Dir, make_folder};
use vramscope_report::write_json;
use vramscope_trace::formats;

pub use capture::{BundleContext, out_of_memory_words};

use crate::tracker::MemoryTracker;
use capture::Metadata;
use contents::{Bounded, Contents, too_large};
use folder::{RemovableBundle, is_abandoned, read_manifest, remove_oldest, size, writer_of};
use vramscope_basics::lock;

/// Writes a bundle when a request to a pool is out of memory (gpumemprof's OOM flight recorder), when another operation is [out of
/// memory](Self::capture_oom), or [on demand](Self::dump).
///
/// A bundle is a folder `oom-20261121T184211Z-PID-N`:
///
/// | file | contents |
/// |---|---|
/// | `snapshot.pickle` | the pool and its last events: `vramscope report`, `vramscope view`, memory_viz |
/// | `report.txt` | the output of `vramscope report` |
/// | `log.jsonl` | events and samples of the [tracker](FlightRecorderOptions::tracker) |
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
/// bundles are never removed. Dropping the recorder stops it.
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
    folder: PathBuf,
    /// Weak, so that a recorder does not keep its pool alive.
    pool: WeakPool,
    options: FlightRecorderOptions,
    /// Locked while a bundle is written, so that only one is written at a time.
    writer: Mutex<()>,
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

/// `manifest.json` of a bundle.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Manifest {
    /// The version of the bundle's format.
    version: u32,
    /// The time of the bundle, in microseconds since the Unix epoch.
    time_us: i64,
    #[serde(default)]
    reason: String,
    /// The error message; `None` for a bundle on demand.
    error: Option<String>,
    /// Known only for errors of the pool, like the following fields up to `device_free_bytes`.
    device: Option<i32>,
    requested_bytes: Option<u64>,
    rounded_bytes: Option<u64>,
    reserved_bytes: Option<u64>,
    limit_bytes: Option<u64>,
    device_free_bytes: Option<u64>,
    /// Errors without a bundle since the previous bundle.
    skipped_failures: u64,
    files: Vec<String>,
    /// The files that were left out, each with its reason.
    left_out: BTreeMap<String, String>,
}

/// Number of kept messages of the pool's errors, which identify an error that reaches a caller as the pool's. It exceeds the number of
/// threads that fail at the same time.
const MOST_POOL_ERRORS: usize = 64;

const SNAPSHOT: &str = "snapshot.pickle";
const MANIFEST: &str = "manifest.json";

/// Maximum size of a manifest in bytes. A larger file is not read as a manifest.
const MANIFEST_ROOM: u64 = 8 << 10;

/// Returns the first 500 bytes of a text, which fit into a manifest even if JSON escapes every byte.
fn shortened(text: &str) -> String {
    const MOST_BYTES: usize = 500;
    match text.char_indices().find(|(at, c)| at + c.len_utf8() > MOST_BYTES) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

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
        let (writer, state) = (Mutex::default(), Mutex::default());
        let shared = Arc::new(RecorderShared { folder, pool: pool.downgrade(), options, writer, state });
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
            .map_err(|why| FlightRecorderError::Folder { folder: self.folder.clone(), why })
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
        let time_us = now.as_microsecond();
        let skipped_failures = manifest.skipped_failures;
        let manifest = Manifest {
            version: 1,
            time_us,
            reason: shortened(reason),
            error: error.map(shortened),
            ..manifest
        };
        let (context, custom_metadata) = capture::context_here(self.id());
        let exception_message = error.map(str::to_owned);
        let metadata = Metadata { reason: reason.to_owned(), exception_message, context, custom_metadata };
        let contents = Contents::of(pool, &self.options, &metadata);
        let mut removal_error = None;
        let written = {
            let _one_at_a_time = lock(&self.writer);
            self.write(now, &contents, manifest, &mut removal_error)
        };
        let mut state = lock(&self.state);
        match &written {
            Ok(bundle) => {
                state.bundles.push((time_us, bundle.clone()));
                state.bundles.sort();
                let gone = state.bundles.len().saturating_sub(self.options.max_bundles);
                state.bundles.drain(..gone);
                state.error = removal_error;
            }
            Err(e) => {
                state.skipped += skipped_failures + u64::from(error.is_some());
                state.error = Some(format!("{}: {e}", self.folder.display()));
            }
        }
        written
    }

    /// Writes a bundle and removes the bundles that it replaces. `removal_error` receives the error of a removal.
    fn write(
        &self,
        now: Timestamp,
        contents: &Contents,
        mut manifest: Manifest,
        removal_error: &mut Option<String>,
    ) -> io::Result<PathBuf> {
        /// Shared by all recorders of the process, because they may use the same folder.
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        // Another process may have taken the name: processes in containers that share the folder may have the same id.
        let next = || {
            let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
            format!("oom-{}-{}-{number}", now.strftime("%Y%m%dT%H%M%SZ"), std::process::id())
        };
        let root = Dir::open(&self.folder)?;
        let (dir, name) = loop {
            let name = format!(".{}.part", next());
            match root.new_subdir(name.as_ref(), 0o755) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                made => break (made?, name),
            }
        };
        let beside = self.folder.join(&name);
        // On file systems with locks, the lock tells other processes that the bundle is being written.
        let mark = File::open(&beside).ok();
        let _marked = mark.as_ref().map(File::try_lock);
        let whole = self.fill(&dir, &beside, contents, &mut manifest, removal_error).and_then(|()| {
            loop {
                let becomes = next();
                let bundle = self.folder.join(&becomes);
                match root.rename(name.as_ref(), becomes.as_ref()) {
                    Err(_) if bundle.exists() => {}
                    renamed => return renamed.map(|()| bundle),
                }
            }
        });
        match &whole {
            // Other processes may have written bundles in the meantime; the last one to finish restores the limits.
            Ok(_) => {
                let (bundles, _) = self.survey(None, removal_error);
                let most = (self.options.max_bundles, self.options.max_total_bytes);
                remove_oldest(bundles, most, removal_error);
            }
            Err(_) => {
                fs::remove_dir_all(&beside).ok();
            }
        }
        whole
    }

    /// Writes the files of a bundle into `dir`, whose path is `folder`. A file that fails is left out and named in the manifest.
    fn fill(
        &self,
        dir: &Dir,
        folder: &Path,
        contents: &Contents,
        manifest: &mut Manifest,
        removal_error: &mut Option<String>,
    ) -> io::Result<()> {
        // Room for the manifest is reserved at the start; its contents are written last.
        let mut place = dir.create_new(MANIFEST.as_ref(), 0o644)?;
        self.make_room(folder, MANIFEST_ROOM, removal_error)?;
        place.set_len(MANIFEST_ROOM)?;
        let mut add = |name: &str, bytes: u64, write: &dyn Fn(&mut dyn Write) -> io::Result<()>| {
            // The file is created at its full size, before older bundles are removed for it, so that other processes see how much space it
            // will take.
            let file = dir.create_new(name.as_ref(), 0o644)?;
            let written = self.make_room(folder, bytes, removal_error).and_then(|()| {
                file.set_len(bytes)?;
                let mut out = BufWriter::new(&file);
                write(&mut out)?;
                out.flush()?;
                file.sync_all()
            });
            if written.is_err() {
                drop(file);
                dir.remove_file(name.as_ref())?;
            }
            io::Result::Ok(written)
        };
        for (name, text) in &contents.texts {
            let written = match text {
                Ok(text) => add(name, text.len() as u64, &|out| out.write_all(text))?,
                Err(e) => Err(io::Error::other(e.to_string())),
            };
            manifest.note_file(name, written);
        }
        let written = match &contents.snapshot {
            Ok((recording, bytes)) => {
                add(SNAPSHOT, *bytes, &|out| formats::write_pickle(&recording.trace, out))?
            }
            Err(e) => Err(io::Error::other(e.to_string())),
        };
        manifest.note_file(SNAPSHOT, written);
        manifest.files.push(MANIFEST.to_owned());
        let mut text = Bounded { out: Vec::new(), room: MANIFEST_ROOM };
        write_json(&mut text, manifest)?;
        place.set_len(0)?;
        place.write_all(&text.out)?;
        place.sync_all()
    }

    /// Removes the oldest bundles until `bytes` more fit. Removes none if even that is not enough.
    fn make_room(&self, own: &Path, bytes: u64, removal_error: &mut Option<String>) -> io::Result<()> {
        let (bundles, being_written) = self.survey(Some(own), removal_error);
        let room = self.options.max_total_bytes;
        if size(own) + bytes > room {
            return Err(too_large());
        }
        let Some(room) = room.checked_sub(being_written + bytes) else {
            let why = "other bundles are being written, and max_total_bytes leaves no room for this one";
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
        };
        remove_oldest(bundles, (usize::MAX, room), removal_error);
        Ok(())
    }

    /// Returns the finished and abandoned bundles in the folder, in the order of removal, and the bytes of bundles that are being written,
    /// including `own`.
    fn survey(&self, own: Option<&Path>, trouble: &mut Option<String>) -> (Vec<RemovableBundle>, u64) {
        let (mut bundles, mut being_written) = (Vec::new(), 0);
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(e) => {
                *trouble = Some(format!("{}: {e}", self.folder.display()));
                return (bundles, being_written);
            }
        };
        for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            let (name, path) = (entry.file_name(), entry.path());
            let name = name.to_string_lossy();
            if let Some(pid) = writer_of(&name) {
                let is_own = own == Some(&path);
                if !is_own && is_abandoned(&path, pid) {
                    bundles.push(RemovableBundle { time_us: None, path, bytes: 0 });
                } else {
                    being_written += size(&path);
                }
            } else if name.starts_with("oom-")
                && let Some(manifest) = read_manifest(&path)
            {
                bundles.push(RemovableBundle { time_us: Some(manifest.time_us), bytes: size(&path), path });
            }
        }
        bundles.sort();
        (bundles, being_written)
    }
}

impl Manifest {
    fn note_file(&mut self, name: &str, written: io::Result<()>) {
        match written {
            Ok(()) => self.files.push(name.to_owned()),
            Err(e) => {
                self.left_out.insert(name.to_owned(), e.to_string());
            }
        }
    }
}
