//! What is left of a run that was out of memory: one folder with the last events, the report and the environment.

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
use vramscope_report::write_json;
use vramscope_trace::formats;

pub use capture::{BundleContext, out_of_memory_words};

use crate::tracker::MemoryTracker;
use capture::Metadata;
use contents::{Bounded, Contents, too_large};
use folder::{Old, is_abandoned, read_manifest, remove_oldest, size, writer_of};
use vramscope_basics::lock;

/// Writes a bundle when a request of a pool fails for want of memory (gpumemprof's OOM flight recorder), when
/// something else [does](Self::capture_oom), or when it is [asked](Self::dump) to.
///
/// A bundle is a folder `oom-20261121T184211Z-PID-N`:
///
/// | file | what it is |
/// |---|---|
/// | `snapshot.pickle` | the pool and its last events: `vramscope report`, `vramscope view`, memory_viz |
/// | `report.txt` | what `vramscope report` says of it |
/// | `log.jsonl` | events and samples of the [tracker](FlightRecorderOptions::tracker) |
/// | `metadata.json` | why it was written, the error, and what the program said of what it was doing |
/// | `environment.json` | the process and the settings it ran under |
/// | `manifest.json` | what failed, what was written, and what was left out and why |
///
/// It is written before the request returns, under another name until it is whole, and what is wanted most comes first:
/// of a bundle that is too large the snapshot is left out, and the report is there.
///
/// Programs may share a folder. When all bundles are written there are no more than `max_bundles`, and the oldest have
/// gone first. Their bytes, and those of bundles being written, never exceed `max_total_bytes`, for old bundles make room
/// before a file is begun; only where two writers begin files at the same instant may it be more, until they are done.
/// What is left of writers that were killed goes with the next bundle. A bundle that cannot be created removes none,
/// and an old one that cannot be removed is named in [`last_error`](FlightRecorder::last_error), counts no longer, and is
/// no reason to go without the new one. Only folders that are bundles are ever removed. Dropping the recorder ends it.
pub struct FlightRecorder {
    shared: Arc<Shared>,
}

/// How much is written, and where from.
#[derive(Clone)]
pub struct FlightRecorderOptions {
    /// Begin to record the pool's history, of so many events, unless one is recorded: that is left as it is. What was
    /// begun goes on when the recorder is dropped. `None` leaves all that to the program, and without a history a
    /// bundle tells what was live and nothing of how it came about.
    pub max_entries: Option<usize>,
    /// Bundles that are kept.
    pub max_bundles: usize,
    /// Bytes of all bundles together, [`LEAST_TOTAL_BYTES`](Self::LEAST_TOTAL_BYTES) or more.
    pub max_total_bytes: u64,
    /// The least time between two bundles: programs that catch the error may fail often.
    pub min_interval: Duration,
    /// Its log goes into the bundle.
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
    /// No bundle may be kept.
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
    /// A bundle was wanted of a pool of which no handle is left.
    #[error("the pool is gone, so there is nothing to write a bundle of")]
    NoPool,
    /// The history could not be recorded.
    #[error(transparent)]
    History(#[from] HistoryError),
}

struct Shared {
    folder: PathBuf,
    /// A recorder keeps no pool.
    pool: WeakPool,
    options: FlightRecorderOptions,
    /// Held by the one that writes.
    writer: Mutex<()>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: Option<Instant>,
    /// Failures since the last bundle that had none of their own.
    skipped: u64,
    /// The last errors of the pool.
    told: VecDeque<String>,
    /// The last `max_bundles` that were written, by time: those before are gone.
    bundles: Vec<(i64, PathBuf)>,
    error: Option<String>,
}

/// What a bundle says of itself.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Manifest {
    /// The form of the bundle.
    version: u32,
    time_us: i64,
    #[serde(default)]
    reason: String,
    /// `None` of a bundle on demand.
    error: Option<String>,
    /// This and what follows up to `device_free_bytes` is known of errors of the pool.
    device: Option<i32>,
    requested_bytes: Option<u64>,
    rounded_bytes: Option<u64>,
    reserved_bytes: Option<u64>,
    limit_bytes: Option<u64>,
    device_free_bytes: Option<u64>,
    /// Failures since the bundle before that have none.
    skipped_failures: u64,
    files: Vec<String>,
    /// What could not be written, and why.
    left_out: BTreeMap<String, String>,
}

/// Errors of the pool that are known again when they reach a caller: more than there are threads that fail at once.
const MOST_TOLD: usize = 64;

const SNAPSHOT: &str = "snapshot.pickle";
const MANIFEST: &str = "manifest.json";

/// Bytes that a manifest takes at most: a larger file is none.
const MANIFEST_ROOM: u64 = 8 << 10;

/// As much of a text as has room in a manifest, however it is written.
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
        fs::create_dir_all(&folder)
            .map_err(|why| FlightRecorderError::Folder { folder: folder.clone(), why })?;
        if let Some(max_entries) = options.max_entries
            && !pool.is_recording_history()
        {
            pool.record_memory_history(&HistoryOptions { max_entries, ..HistoryOptions::default() })?;
        }
        let (writer, state) = (Mutex::default(), Mutex::default());
        let shared = Arc::new(Shared { folder, pool: pool.downgrade(), options, writer, state });
        let recorder = Arc::downgrade(&shared);
        pool.on_oom(Arc::new(move |pool, error| {
            if let Some(recorder) = recorder.upgrade() {
                recorder.failed(pool, error);
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

impl Shared {
    /// Of this recorder alone, as long as it lives.
    fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// A request failed.
    fn failed(&self, pool: &MemoryPool, error: &OutOfMemory) {
        let message = error.to_string();
        {
            let told = &mut lock(&self.state).told;
            told.push_back(message.clone());
            if told.len() > MOST_TOLD {
                told.pop_front();
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
        // What went wrong is kept.
        self.bundle(pool, manifest, "out of memory", Some(&message)).ok();
    }

    /// This is an error of the pool, or holds one, of which it has told.
    fn was_told(&self, message: &str) -> bool {
        lock(&self.state).told.iter().any(|told| message.contains(told))
    }

    /// Something else than the pool failed for want of memory.
    fn error_of_others(&self, message: &str, words: &str) -> Option<PathBuf> {
        let skipped_failures = self.is_time()?;
        let manifest = Manifest { skipped_failures, ..Manifest::default() };
        self.bundle(&self.pool.upgrade()?, manifest, words, Some(message)).ok()
    }

    /// Somebody wants a bundle.
    fn on_demand(&self, reason: &str) -> Result<PathBuf, FlightRecorderError> {
        let pool = self.pool.upgrade().ok_or(FlightRecorderError::NoPool)?;
        let skipped_failures = std::mem::take(&mut lock(&self.state).skipped);
        let manifest = Manifest { skipped_failures, ..Manifest::default() };
        self.bundle(&pool, manifest, reason, None)
            .map_err(|why| FlightRecorderError::Folder { folder: self.folder.clone(), why })
    }

    /// The failures since the last bundle, where there is to be another.
    fn is_time(&self) -> Option<u64> {
        let mut state = lock(&self.state);
        if state.last.is_some_and(|last| last.elapsed() < self.options.min_interval) {
            state.skipped += 1;
            return None;
        }
        state.last = Some(Instant::now());
        Some(std::mem::take(&mut state.skipped))
    }

    /// Writes a bundle.
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
        let mut left_behind = None;
        let written = {
            let _one_at_a_time = lock(&self.writer);
            self.write(now, &contents, manifest, &mut left_behind)
        };
        let mut state = lock(&self.state);
        match &written {
            Ok(bundle) => {
                state.bundles.push((time_us, bundle.clone()));
                state.bundles.sort();
                let gone = state.bundles.len().saturating_sub(self.options.max_bundles);
                state.bundles.drain(..gone);
                state.error = left_behind;
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
        left_behind: &mut Option<String>,
    ) -> io::Result<PathBuf> {
        /// Of all recorders of the process: they may share a folder.
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        // Another process may have taken a name: numbers of processes are unique in a container only.
        let next = || {
            let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
            format!("oom-{}-{}-{number}", now.strftime("%Y%m%dT%H%M%SZ"), std::process::id())
        };
        let beside = loop {
            let beside = self.folder.join(format!(".{}.part", next()));
            match fs::create_dir(&beside) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                made => break made.map(|()| beside)?,
            }
        };
        // Tells other processes that this is being written, where the file system can.
        let mark = File::open(&beside).ok();
        let _marked = mark.as_ref().map(File::try_lock);
        let whole = self.fill(&beside, contents, &mut manifest, left_behind).and_then(|()| {
            loop {
                let bundle = self.folder.join(next());
                match fs::rename(&beside, &bundle) {
                    Err(_) if bundle.exists() => {}
                    renamed => return renamed.map(|()| bundle),
                }
            }
        });
        match &whole {
            // Others may have been written meanwhile: whoever is last meets the bounds.
            Ok(_) => {
                let (bundles, _) = self.survey(None, left_behind);
                let most = (self.options.max_bundles, self.options.max_total_bytes);
                remove_oldest(bundles, most, left_behind);
            }
            Err(_) => {
                fs::remove_dir_all(&beside).ok();
            }
        }
        whole
    }

    /// Writes the files; what fails is left out and named.
    fn fill(
        &self,
        folder: &Path,
        contents: &Contents,
        manifest: &mut Manifest,
        left_behind: &mut Option<String>,
    ) -> io::Result<()> {
        // The manifest has its place from the beginning, and what it says comes last.
        let place = File::create(folder.join(MANIFEST))?;
        self.make_room(folder, MANIFEST_ROOM, left_behind)?;
        place.set_len(MANIFEST_ROOM)?;
        let mut add = |name: &str, bytes: u64, write: &dyn Fn(&mut dyn Write) -> io::Result<()>| {
            let path = folder.join(name);
            // Made before anything is removed for it, and of its full size, so that others see what it will take.
            let file = File::create(&path)?;
            let written = self.make_room(folder, bytes, left_behind).and_then(|()| {
                file.set_len(bytes)?;
                let mut out = BufWriter::new(&file);
                write(&mut out)?;
                out.flush()?;
                file.sync_all()
            });
            if written.is_err() {
                drop(file);
                fs::remove_file(&path)?;
            }
            io::Result::Ok(written)
        };
        for (name, text) in &contents.texts {
            let written = match text {
                Ok(text) => add(name, text.len() as u64, &|out| out.write_all(text))?,
                Err(e) => Err(io::Error::other(e.to_string())),
            };
            manifest.tell(name, written);
        }
        let written = match &contents.snapshot {
            Ok((recording, bytes)) => {
                add(SNAPSHOT, *bytes, &|out| formats::write_pickle(&recording.trace, out))?
            }
            Err(e) => Err(io::Error::other(e.to_string())),
        };
        manifest.tell(SNAPSHOT, written);
        manifest.files.push(MANIFEST.to_owned());
        let mut text = Bounded { out: Vec::new(), room: MANIFEST_ROOM };
        write_json(&mut text, manifest)?;
        let mut file = File::create(folder.join(MANIFEST))?;
        file.write_all(&text.out)?;
        file.sync_all()
    }

    /// Removes the oldest bundles until so many bytes more have room, or none where they never will.
    fn make_room(&self, own: &Path, bytes: u64, left_behind: &mut Option<String>) -> io::Result<()> {
        let (bundles, being_written) = self.survey(Some(own), left_behind);
        let room = self.options.max_total_bytes;
        if size(own) + bytes > room {
            return Err(too_large());
        }
        let Some(room) = room.checked_sub(being_written + bytes) else {
            let why =
                "other bundles are being written, and there is no room beside them within max_total_bytes";
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
        };
        remove_oldest(bundles, (usize::MAX, room), left_behind);
        Ok(())
    }

    /// The bundles in the folder and what was abandoned, in the order in which they go, and the bytes of those that are
    /// being written, of which `own` is one.
    fn survey(&self, own: Option<&Path>, trouble: &mut Option<String>) -> (Vec<Old>, u64) {
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
                    bundles.push(Old { time_us: None, path, bytes: 0 });
                } else {
                    being_written += size(&path);
                }
            } else if name.starts_with("oom-")
                && let Some(manifest) = read_manifest(&path)
            {
                bundles.push(Old { time_us: Some(manifest.time_us), bytes: size(&path), path });
            }
        }
        bundles.sort();
        (bundles, being_written)
    }
}

impl Manifest {
    fn tell(&mut self, name: &str, written: io::Result<()>) {
        match written {
            Ok(()) => self.files.push(name.to_owned()),
            Err(e) => {
                self.left_out.insert(name.to_owned(), e.to_string());
            }
        }
    }
}
