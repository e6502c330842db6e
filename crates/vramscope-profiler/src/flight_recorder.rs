//! What is left of a run that was out of memory: one folder with the last events, the report and the environment.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use vramscope_allocator::{HistoryError, HistoryOptions, MemoryPool, OutOfMemory};
use vramscope_analysis::{Frames, Options, Summary};
use vramscope_report::{Answers, TextOptions, report};
use vramscope_trace::formats;

use crate::source::ProcessMemory;
use crate::sync::lock;
use crate::tracker::{LogFormat, MemoryTracker};

/// Writes a bundle when a request of a pool fails for want of memory (gpumemprof's OOM flight recorder).
///
/// A bundle is a folder `oom-20261121T184211Z-PID-N`:
///
/// | file | what it is |
/// |---|---|
/// | `snapshot.pickle` | the pool and its last events: `vramscope report`, `vramscope view`, memory_viz |
/// | `report.txt` | what `vramscope report` says of it |
/// | `log.jsonl` | events and samples of the [tracker](FlightRecorderOptions::tracker) |
/// | `environment.json` | the process and the settings it ran under |
/// | `manifest.json` | what failed, what was written, and what was left out and why |
///
/// It is written before the request returns, under another name until it is whole. The folder never holds more bundles
/// or bytes than it may: the oldest bundles go first, and of a bundle that is too large alone, the snapshot is left
/// out. Only folders that are bundles are ever removed. Dropping the recorder ends it.
pub struct FlightRecorder {
    shared: Arc<Shared>,
}

/// How much is written, and where from.
#[derive(Clone)]
pub struct FlightRecorderOptions {
    /// Begin to record the pool's history, of so many events; `None` leaves that to the program, and without a
    /// history a bundle tells what was live and nothing of how it came about.
    pub max_entries: Option<usize>,
    /// Bundles that are kept.
    pub max_bundles: usize,
    /// Bytes of all bundles together.
    pub max_total_bytes: u64,
    /// The least time between two bundles: programs that catch the error may fail often.
    pub min_interval: Duration,
    /// Its log goes into the bundle.
    pub tracker: Option<Arc<MemoryTracker>>,
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
    /// Bundles can be of no use.
    #[error("there is nothing to keep with max_bundles or max_total_bytes of 0")]
    NoRoom,
    /// The folder could not be made.
    #[error("{folder}: {why}", folder = folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What the system said.
        why: io::Error,
    },
    /// The history could not be recorded.
    #[error(transparent)]
    History(#[from] HistoryError),
}

struct Shared {
    folder: PathBuf,
    options: FlightRecorderOptions,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: Option<Instant>,
    written: u64,
    /// Failures since the last bundle that had none of their own.
    skipped: u64,
    bundles: Vec<PathBuf>,
    error: Option<String>,
}

/// What a bundle says of itself.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Manifest {
    /// The form of the bundle.
    version: u32,
    time_us: i64,
    error: String,
    device: i32,
    requested_bytes: u64,
    rounded_bytes: u64,
    reserved_bytes: u64,
    limit_bytes: Option<u64>,
    device_free_bytes: Option<u64>,
    /// Failures since the bundle before that have none.
    skipped_failures: u64,
    files: Vec<String>,
    /// What could not be written, and why.
    left_out: BTreeMap<String, String>,
}

#[derive(Serialize)]
struct Environment {
    vramscope: &'static str,
    pid: u32,
    program: Option<String>,
    system: &'static str,
    architecture: &'static str,
    cpu_bytes: Option<u64>,
    devices: Vec<DeviceFacts>,
    /// Those that bear on memory or say which part of a job this is.
    variables: BTreeMap<&'static str, String>,
}

#[derive(Serialize)]
struct DeviceFacts {
    device: i32,
    used_bytes: Option<u64>,
    total_bytes: Option<u64>,
}

/// Variables that bear on memory, and those by which launchers name a part of a job.
const VARIABLES: [&str; 14] = [
    "CUDA_VISIBLE_DEVICES",
    "CUPY_GPU_MEMORY_LIMIT",
    "LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "RANK",
    "SLURM_JOB_ID",
    "SLURM_PROCID",
    "TORCHELASTIC_RUN_ID",
    "WORLD_SIZE",
];

const SNAPSHOT: &str = "snapshot.pickle";
const MANIFEST: &str = "manifest.json";

impl FlightRecorder {
    /// Writes bundles of `pool` into `folder` from now on.
    ///
    /// # Errors
    /// Where the folder cannot be made, or the history cannot be recorded.
    pub fn attach(
        pool: &MemoryPool,
        folder: impl Into<PathBuf>,
        options: FlightRecorderOptions,
    ) -> Result<Self, FlightRecorderError> {
        let folder = folder.into();
        if options.max_bundles == 0 || options.max_total_bytes == 0 {
            return Err(FlightRecorderError::NoRoom);
        }
        fs::create_dir_all(&folder)
            .map_err(|why| FlightRecorderError::Folder { folder: folder.clone(), why })?;
        if let Some(max_entries) = options.max_entries {
            pool.record_memory_history(&HistoryOptions { max_entries, ..HistoryOptions::default() })?;
        }
        let shared = Arc::new(Shared { folder, options, state: Mutex::default() });
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
        lock(&self.shared.state).bundles.iter().filter(|bundle| bundle.is_dir()).cloned().collect()
    }

    /// What went wrong with the last bundle.
    pub fn last_error(&self) -> Option<String> {
        lock(&self.shared.state).error.clone()
    }
}

impl Shared {
    /// A request failed.
    fn failed(&self, pool: &MemoryPool, error: &OutOfMemory) {
        let (number, skipped_failures) = {
            let mut state = lock(&self.state);
            if state.last.is_some_and(|last| last.elapsed() < self.options.min_interval) {
                state.skipped += 1;
                return;
            }
            state.last = Some(Instant::now());
            state.written += 1;
            (state.written, std::mem::take(&mut state.skipped))
        };
        let now = Timestamp::now();
        let manifest = Manifest {
            version: 1,
            time_us: now.as_microsecond(),
            error: error.to_string(),
            device: error.device_id,
            requested_bytes: error.requested,
            rounded_bytes: error.size,
            reserved_bytes: error.total,
            limit_bytes: error.limit,
            device_free_bytes: error.device_free,
            skipped_failures,
            ..Manifest::default()
        };
        let name = format!("oom-{}-{}-{number}", now.strftime("%Y%m%dT%H%M%SZ"), std::process::id());
        let written = self.write(pool, &name, manifest);
        let mut state = lock(&self.state);
        match written {
            Ok(bundle) => {
                state.bundles.push(bundle);
                state.error = None;
            }
            Err(e) => state.error = Some(format!("{}: {e}", self.folder.display())),
        }
    }

    fn write(&self, pool: &MemoryPool, name: &str, mut manifest: Manifest) -> io::Result<PathBuf> {
        let (beside, bundle) = (self.folder.join(format!(".{name}.part")), self.folder.join(name));
        // Room for the new one, which takes at most all of it.
        self.remove_oldest(self.options.max_bundles - 1, u64::MAX)?;
        fs::create_dir(&beside)?;
        let whole = self.fill(pool, &beside, &mut manifest).and_then(|()| fs::rename(&beside, &bundle));
        if let Err(e) = whole {
            fs::remove_dir_all(&beside).ok();
            return Err(e);
        }
        Ok(bundle)
    }

    /// Writes the files; what fails is left out and named.
    fn fill(&self, pool: &MemoryPool, folder: &Path, manifest: &mut Manifest) -> io::Result<()> {
        // A little is kept for the files that are always small.
        let mut room = self.options.max_total_bytes.saturating_sub(SMALL_FILES);
        let mut add = |name: &str, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>| {
            let path = folder.join(name);
            let file = BufWriter::new(File::create(&path)?);
            let mut out = Bounded { out: file, room };
            match write(&mut out).and_then(|()| out.flush()) {
                Ok(()) => {
                    room = out.room;
                    manifest.files.push(name.to_owned());
                }
                Err(e) => {
                    drop(out);
                    fs::remove_file(&path)?;
                    manifest.left_out.insert(name.to_owned(), e.to_string());
                }
            }
            io::Result::Ok(())
        };
        add("environment.json", &mut |out| write_json(out, &Environment::of(pool)))?;
        if let Some(tracker) = &self.options.tracker {
            add("log.jsonl", &mut |out| tracker.export_events(LogFormat::JsonLines, out))?;
        }
        add(SNAPSHOT, &mut |out| {
            let trace = pool.snapshot().map_err(io::Error::other)?;
            formats::write_pickle(&trace, out)
        })?;
        add("report.txt", &mut |out| write_report(&folder.join(SNAPSHOT), out))?;
        let taken = self.options.max_total_bytes.saturating_sub(SMALL_FILES) - room;
        self.remove_oldest(
            self.options.max_bundles - 1,
            self.options.max_total_bytes.saturating_sub(taken + SMALL_FILES),
        )?;
        manifest.files.push(MANIFEST.to_owned());
        let mut out = BufWriter::new(File::create(folder.join(MANIFEST))?);
        write_json(&mut out, manifest)?;
        out.flush()
    }

    /// Removes the oldest bundles until there are no more than so many, of so many bytes.
    fn remove_oldest(&self, most: usize, most_bytes: u64) -> io::Result<()> {
        let mut bundles: Vec<(i64, u64, PathBuf)> = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            // A folder is a bundle where its name and its manifest say so.
            let named = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("oom-"));
            let manifest = named.then(|| fs::read(path.join(MANIFEST)).ok()).flatten();
            let manifest = manifest.and_then(|bytes| serde_json::from_slice::<Manifest>(&bytes).ok());
            if let Some(manifest) = manifest {
                bundles.push((manifest.time_us, size(&path), path));
            }
        }
        bundles.sort();
        let mut total: u64 = bundles.iter().map(|(_, bytes, _)| bytes).sum();
        let mut left = bundles.len();
        for (_, bytes, path) in bundles {
            if left <= most && total <= most_bytes {
                break;
            }
            fs::remove_dir_all(path)?;
            left -= 1;
            total -= bytes;
        }
        Ok(())
    }
}

/// What the environment and the manifest take at most, in bytes, with room to spare.
const SMALL_FILES: u64 = 16 << 10;

/// Bytes of a folder's files.
fn size(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    entries.filter_map(|entry| Some(entry.ok()?.metadata().ok()?.len())).sum()
}

fn write_json(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)
}

/// Writes what `vramscope report` says of a snapshot.
fn write_report(snapshot: &Path, out: &mut dyn Write) -> io::Result<()> {
    let recording = formats::read(File::open(snapshot)?, &mut |_| {}).map_err(io::Error::other)?;
    let trace = &recording.trace;
    let frames = Frames::of(trace);
    let devices = trace.devices.iter().map(|d| Summary::of(trace, d, &frames, &Options::default()));
    let answers = Answers {
        file: SNAPSHOT,
        recording: &recording,
        frames: &frames,
        devices: devices.collect(),
        by: None,
        at: None,
    };
    let text = report(&answers, TextOptions { width: 120, top: 10, full_stacks: false });
    // Colours are for terminals.
    write!(out, "{}", anstream::adapter::strip_str(&text))
}

impl Environment {
    fn of(pool: &MemoryPool) -> Self {
        let program = std::env::current_exe().ok().map(|path| path.display().to_string());
        let devices = pool.devices().iter().map(|device| {
            let info = device.memory_info().ok();
            DeviceFacts {
                device: device.device_id(),
                used_bytes: info.map(|info| info.used()),
                total_bytes: info.map(|info| info.total),
            }
        });
        let value = |name| Some((name, std::env::var_os(name)?.to_string_lossy().into_owned()));
        Self {
            vramscope: env!("CARGO_PKG_VERSION"),
            pid: std::process::id(),
            program,
            system: std::env::consts::OS,
            architecture: std::env::consts::ARCH,
            cpu_bytes: ProcessMemory::of_this().and_then(|process| process.resident()).ok(),
            devices: devices.collect(),
            variables: VARIABLES.into_iter().filter_map(value).collect(),
        }
    }
}

/// Takes so many bytes and no more.
struct Bounded<W> {
    out: W,
    room: u64,
}

impl<W: Write> Write for Bounded<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() as u64 > self.room {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                "the bundle would be larger than max_total_bytes",
            ));
        }
        let written = self.out.write(bytes)?;
        self.room -= written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
