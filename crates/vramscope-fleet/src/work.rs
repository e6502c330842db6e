//! Makes summaries of files: several recordings in parallel, each in memory only while it is summarized.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use vramscope_trace::formats::{ReadOptions, Reader};

use crate::cache::{Cache, FileVersion, Home};
use crate::naming::Rank;
use crate::place::{RecordingPlace, Store, in_words, open, open_stored};
use crate::rows::RankRow;
use crate::summarize::summarize;
use crate::summary::RankSummary;

/// The recording of a rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankFile {
    /// The rank.
    pub rank: Rank,
    /// The location.
    pub place: RecordingPlace,
    /// Its size in bytes; the largest files are read first.
    pub length: u64,
}

/// Options for making summaries.
#[derive(Debug, Clone, Copy)]
pub struct WorkOptions {
    /// Number of recordings read in parallel; 0 is the number of cores.
    pub jobs: usize,
    /// Whether summaries are read from and written to the user's cache folder.
    pub cache: bool,
    /// Options for reading recordings.
    pub reading: ReadOptions,
    /// The reader of stores, if there is one.
    pub store: Option<&'static dyn Store>,
}

/// Interval at which summaries are saved. An abort loses at most this much work.
const SAVED_EVERY: Duration = Duration::from_secs(10);

/// Interval of progress reports.
const SHOWN_EVERY: Duration = Duration::from_millis(200);

/// The summary of a file, with its version for the cache.
type Made = Result<(RankSummary, Option<FileVersion>), String>;

/// Returns the summaries of all files in their order, one row each, and notes about summaries that could not be cached. `progress` is
/// called with the bytes read so far and the total bytes to read.
pub fn summaries(
    files: &[RankFile],
    options: &WorkOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> (Vec<RankRow>, Vec<String>) {
    let mut caches = options.cache.then(Caches::open);
    let mut found: Vec<Option<Made>> = Vec::with_capacity(files.len());
    for file in files {
        let known = caches.as_mut().and_then(|caches| caches.known(&file.place));
        found.push(known.map(|summary| Ok((summary, None))));
    }
    let mut left: Vec<usize> = (0..files.len()).filter(|&at| found[at].is_none()).collect();
    left.sort_by_key(|&at| (std::cmp::Reverse(files[at].length), at));
    let all = left.iter().map(|&at| files[at].length).sum();
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let jobs = if options.jobs == 0 { cores } else { options.jobs }.min(left.len());
    let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        let (to_us, made) = mpsc::channel::<(usize, Made)>();
        for _ in 0..jobs {
            let (next, done, left, to_us) = (&next, &done, &left, to_us.clone());
            scope.spawn(move || {
                while let Some(&at) = left.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if to_us.send((at, make(&files[at].place, options, done))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(to_us);
        let mut saved = Instant::now();
        loop {
            progress(done.load(Ordering::Relaxed), all);
            let (at, made) = match made.recv_timeout(SHOWN_EVERY) {
                Ok(made) => made,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if let Ok((summary, Some(version))) = &made
                && let Some((cache, name)) = caches.as_mut().and_then(|caches| caches.of(&files[at].place))
            {
                cache.keep(&name, *version, summary.clone());
            }
            found[at] = Some(made);
            if let Some(caches) = caches.as_mut().filter(|_| saved.elapsed() > SAVED_EVERY) {
                caches.save();
                saved = Instant::now();
            }
        }
    });
    let notes = caches.map(Caches::finish).unwrap_or_default();
    let rows = files.iter().zip(found).map(|(file, made)| RankRow {
        rank: file.rank.clone(),
        file: file.place.to_string(),
        summary: made.unwrap_or_else(|| Err("was not read".to_owned())).map(|(summary, _)| Box::new(summary)),
    });
    (rows.collect(), notes)
}

/// The caches of all folders and stores.
#[derive(Debug)]
struct Caches {
    /// The cache folder, or the reason why there is none.
    home: Result<Home, String>,
    /// Caches by folder, as the user gave it, or by URL up to the last `/`.
    open: BTreeMap<PathBuf, Cache>,
    /// The first reason why a cache file is not used.
    refused: Option<String>,
}

impl Caches {
    fn open() -> Self {
        Self { home: Home::open(), open: BTreeMap::new(), refused: None }
    }

    /// Returns the cache of a recording, and its name in the cache; `None` without a cache.
    fn of(&mut self, place: &RecordingPlace) -> Option<(&mut Cache, String)> {
        let home = self.home.as_ref().ok()?;
        let (folder, name) = match place {
            RecordingPlace::Here(path) => split(path),
            RecordingPlace::Stored(stored) => {
                let (folder, _) = stored.address.rsplit_once('/').unwrap_or_default();
                (folder.into(), stored.address.clone())
            }
        };
        if !self.open.contains_key(&folder) {
            let (cache, refused) = match place {
                RecordingPlace::Here(_) => Cache::of_folder(home, &folder).ok()?,
                RecordingPlace::Stored(stored) => Cache::of_store(home, &stored.address),
            };
            self.refused = self.refused.take().or(refused);
            self.open.insert(folder.clone(), cache);
        }
        Some((self.open.get_mut(&folder)?, name))
    }

    /// Returns the cached summary of a recording.
    fn known(&mut self, place: &RecordingPlace) -> Option<RankSummary> {
        let version = match place {
            RecordingPlace::Here(path) => FileVersion::of(&fs::metadata(path).ok()?),
            RecordingPlace::Stored(stored) => FileVersion::of_stored(stored),
        };
        let (cache, name) = self.of(place)?;
        cache.find(&name, version)
    }

    /// Writes all new entries. Returns whether there were any, and the first error.
    fn save(&mut self) -> (bool, Option<io::Error>) {
        let Ok(home) = &self.home else { return (false, None) };
        let (mut any, mut failed) = (false, None);
        for cache in self.open.values_mut() {
            match cache.save(home) {
                Ok(written) => any |= written,
                Err(e) => failed = failed.or(Some(e)),
            }
        }
        (any, failed)
    }

    /// Writes all new entries. Returns notes for the user.
    fn finish(mut self) -> Vec<String> {
        let (any, failed) = self.save();
        let home = match &self.home {
            Ok(home) => home,
            Err(why) => return vec![format!("summaries are not cached: {why}; {WITHOUT}")],
        };
        if any {
            home.forget_old();
        }
        let failed = failed
            .map(|e| format!("summaries cannot be cached in {}: {e}; {WITHOUT}", home.path().display()));
        self.refused.into_iter().chain(failed).collect()
    }
}

/// The consequence of a missing cache, for notes.
const WITHOUT: &str = "the next run reads the recordings again";

/// Returns the folder of a file, and its name in the folder.
fn split(path: &Path) -> (PathBuf, String) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    (folder.to_owned(), path.file_name().unwrap_or_default().to_string_lossy().into_owned())
}

/// Reads a recording and summarizes it; adds the bytes read to `done`.
fn make(place: &RecordingPlace, options: &WorkOptions, done: &AtomicU64) -> Made {
    let mut before = 0;
    let progress = |bytes: u64| {
        done.fetch_add(bytes.saturating_sub(before), Ordering::Relaxed);
        before = bytes;
    };
    let path = match place {
        RecordingPlace::Here(path) => path,
        RecordingPlace::Stored(stored) => {
            let stream = open_stored(stored, options.store)?;
            let recording =
                Reader::ahead(stream).options(options.reading).progress(progress).read().map_err(in_words)?;
            return Ok((summarize(&recording)?, Some(FileVersion::of_stored(stored))));
        }
    };
    let file = open(path)?;
    let version = FileVersion::of(&file.metadata().map_err(|e| e.to_string())?);
    let recording =
        Reader::new(&file).options(options.reading).progress(progress).read().map_err(in_words)?;
    // The file may have changed meanwhile.
    let is_same = file.metadata().is_ok_and(|metadata| FileVersion::of(&metadata) == version);
    Ok((summarize(&recording)?, is_same.then_some(version)))
}
