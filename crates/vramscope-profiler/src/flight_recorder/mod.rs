//! Bundles for a run that was out of memory: a folder each, with the last events, the report and the environment.

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

/// Writes a bundle when a request to a pool fails because it is out of memory (gpumemprof's OOM flight recorder), when
/// something else is [out of memory](Self::capture_oom), or [on demand](Self::dump).
///
/// A bundle is a folder `oom-20261121T184211Z-PID-N`:
///
/// | file | what it is |
/// |---|---|
/// | `snapshot.pickle` | the pool and its last events: `vramscope report`, `vramscope view`, memory_viz |
/// | `report.txt` | what `vramscope report` says of it |
/// | `log.jsonl` | events and samples of the [tracker](FlightRecorderOptions::tracker) |
/// | `metadata.json` | why it was written, the error, and what the program was doing, in its own words |
/// | `environment.json` | the process and the settings it ran under |
/// | `manifest.json` | what failed, what was written, and what was left out and why |
///
/// It is written before the request returns, under a temporary name until it is complete. The most important files are written
/// first: where a bundle would be too large, the snapshot is left out and the report is still there.
///
/// Several programs may use the same folder. Once a bundle is written, the oldest are removed until no more than `max_bundles`
/// are left. Room is made before a file is begun, so that all bundles together, and those being written, never exceed
/// `max_total_bytes`; only while two writers begin files at the same instant they may. Unfinished bundles of killed programs are
/// removed together with the next bundle. Where a bundle cannot be created, no old one is removed. An old bundle that cannot
/// be removed is named in [`last_error`](FlightRecorder::last_error) and no longer counts; the new one is written all the same.
/// Only folders that are bundles are ever removed. Dropping the recorder ends it.
pub struct FlightRecorder {
    shared: Arc<RecorderShared>,
}

/// How many bundles are kept, how large they may be, and what is recorded for them.
#[derive(Clone)]
pub struct FlightRecorderOptions {
    /// Begins to record the pool's history, with at most this many events. A history that is already being recorded is left as it
    /// is. Recording goes on when the recorder is dropped. `None` leaves recording to the program: without a history, a bundle
    /// has the live blocks, and no events.
    pub max_entries: Option<usize>,
    /// How many bundles are kept, at least one.
    pub max_bundles: usize,
    /// The most bytes of all bundles together, at least [`LEAST_TOTAL_BYTES`](Self::LEAST_TOTAL_BYTES).
    pub max_total_bytes: u64,
    /// The least time between two bundles, for programs that catch the error and fail often.
    pub min_interval: Duration,
    /// A tracker whose events and samples go into the bundle.
    pub tracker: Option<Arc<MemoryTracker>>,
}

impl FlightRecorderOptions {
    /// The least of [`max_total_bytes`](Self::max_total_bytes): a bundle without its snapshot.
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

/// Why there is no recorder.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FlightRecorderError {
    /// The options leave no room for a single bundle.
    #[error(
        "no bundle has room: max_bundles must be 1 or more, and max_total_bytes {least} or more",
        least = FlightRecorderOptions::LEAST_TOTAL_BYTES
    )]
    NoRoom,
    /// The folder could not be made.
    #[error("{folder}: {why}", folder = folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What the system said.
        why: io::Error,
    },
    /// The pool is gone, because no handle of it is left.
    #[error("the pool is gone, so there is nothing to write a bundle of")]
    NoPool,
    /// The history could not be recorded.
    #[error(transparent)]
    History(#[from] HistoryError),
}

struct RecorderShared {
    folder: PathBuf,
    /// Weak, so that a recorder does not keep its pool alive.
    pool: WeakPool,
    options: FlightRecorderOptions,
    /// Locked while a bundle is written: one at a time.
    writer: Mutex<()>,
    state: Mutex<RecorderState>,
}

#[derive(Default)]
struct RecorderState {
    /// When the last bundle was begun.
    last: Option<Instant>,
    /// Errors since the last bundle for which none was written.
    skipped: u64,
    /// The messages of the pool's last errors, the oldest first.
    pool_errors: VecDeque<String>,
    /// The last `max_bundles` bundles that were written, each with its time in microseconds since the Unix epoch. Older ones
    /// were removed.
    bundles: Vec<(i64, PathBuf)>,
    /// What went wrong with the last bundle.
    error: Option<String>,
}

/// `manifest.json` of a bundle.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Manifest {
    /// The version of the bundle's format.
    version: u32,
    /// When it was written, in microseconds since the Unix epoch.
    time_us: i64,
    #[serde(default)]
    reason: String,
    /// The message of the error; `None` for a bundle on demand.
    error: Option<String>,
    /// This field and those up to `device_free_bytes` are known only for errors of the pool.
    device: Option<i32>,
    requested_bytes: Option<u64>,
    rounded_bytes: Option<u64>,
    reserved_bytes: Option<u64>,
    limit_bytes: Option<u64>,
    device_free_bytes: Option<u64>,
    /// Errors since the bundle before for which none was written.
    skipped_failures: u64,
    files: Vec<String>,
    /// What could not be written, and why.
    left_out: BTreeMap<String, String>,
}

/// How many messages of the pool's errors are kept, by which an error that reaches a caller is recognised as the pool's. It is
/// more than there are threads that fail at once.
const MOST_POOL_ERRORS: usize = 64;

const SNAPSHOT: &str = "snapshot.pickle";
const MANIFEST: &str = "manifest.json";

/// The most bytes of a manifest. A larger file is not read as one.
const MANIFEST_ROOM: u64 = 8 << 10;

/// The first 500 bytes of a text: they fit into a manifest even if JSON escapes every one of them.
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
    /// Where no bundle has room, the folder cannot be made, or the history cannot be recorded.
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

    /// Bundles written by this recorder that are still kept, oldest first.
    pub fn bundles(&self) -> Vec<PathBuf> {
        let bundles = lock(&self.shared.state).bundles.clone();
        bundles.into_iter().map(|(_, bundle)| bundle).filter(|bundle| bundle.is_dir()).collect()
    }

    /// What went wrong with the last bundle, or with the removal of older ones for it.
    pub fn last_error(&self) -> Option<String> {
        lock(&self.shared.state).error.clone()
    }
}

impl RecorderShared {
    /// Names this recorder among the captures of a thread. No other has the number while this one lives.
    fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Notes an error of the pool, and writes a bundle for it where it is time for one.
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
        // An error is kept for `last_error`.
        self.bundle(pool, manifest, "out of memory", Some(&message)).ok();
    }

    /// Whether the message contains that of an error which the pool has raised.
    fn is_pool_error(&self, message: &str) -> bool {
        lock(&self.state).pool_errors.iter().any(|pool_errors| message.contains(pool_errors))
    }

    /// Writes a bundle for an error that is not the pool's.
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

    /// Where it is time for another bundle, the number of errors since the last one for which none was written. `None` where it
    /// is not, and this error is counted among them.
    fn is_time(&self) -> Option<u64> {
        let mut state = lock(&self.state);
        if state.last.is_some_and(|last| last.elapsed() < self.options.min_interval) {
            state.skipped += 1;
            return None;
        }
        state.last = Some(Instant::now());
        Some(std::mem::take(&mut state.skipped))
    }

    /// Makes the contents of a bundle, writes it, and notes how that went.
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

    /// Writes a bundle and removes those it takes the place of. `left_behind` is what could not be removed.
    fn write(
        &self,
        now: Timestamp,
        contents: &Contents,
        mut manifest: Manifest,
        removal_error: &mut Option<String>,
    ) -> io::Result<PathBuf> {
        /// Of all recorders of the process: they may share a folder.
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        // Another process may have taken the name, because containers that share the folder may have processes of the same
        // number.
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
        // The lock tells other processes that this is being written, on file systems that have locks.
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
            // Other processes may have written bundles meanwhile; the last one to finish restores the bounds.
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

    /// Writes the files of a bundle, whose folder `dir` is found at `folder`. A file that fails is left out and named in the manifest.
    fn fill(
        &self,
        dir: &Dir,
        folder: &Path,
        contents: &Contents,
        manifest: &mut Manifest,
        removal_error: &mut Option<String>,
    ) -> io::Result<()> {
        // Room is reserved for the manifest from the beginning; its contents are written last.
        let mut place = dir.create_new(MANIFEST.as_ref(), 0o644)?;
        self.make_room(folder, MANIFEST_ROOM, removal_error)?;
        place.set_len(MANIFEST_ROOM)?;
        let mut add = |name: &str, bytes: u64, write: &dyn Fn(&mut dyn Write) -> io::Result<()>| {
            // The file is made before older bundles are removed for it, and at its full size, so that other processes see how
            // much it will take.
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

    /// Removes the oldest bundles until `bytes` more have room. Removes none where even that would not suffice.
    fn make_room(&self, own: &Path, bytes: u64, removal_error: &mut Option<String>) -> io::Result<()> {
        let (bundles, being_written) = self.survey(Some(own), removal_error);
        let room = self.options.max_total_bytes;
        if size(own) + bytes > room {
            return Err(too_large());
        }
        let Some(room) = room.checked_sub(being_written + bytes) else {
            let why =
                "other bundles are being written, and there is no room beside them within max_total_bytes";
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
        };
        remove_oldest(bundles, (usize::MAX, room), removal_error);
        Ok(())
    }

    /// The bundles in the folder and those that were abandoned unfinished, in the order in which they are removed, and the bytes
    /// of bundles that are being written, among them `own`.
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
