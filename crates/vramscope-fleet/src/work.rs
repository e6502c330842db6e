//! From files to summaries: several recordings at once, none longer in memory than it takes to summarize it.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use vramscope_report::Advice;
use vramscope_trace::formats::{ReadOptions, read_ahead, read_with};

use crate::cache::{Cache, FileVersion, Hashed, Keeps};
use crate::naming::Rank;
use crate::place::{Place, Store, in_words, open, open_stored, told};
use crate::rows::RankRow;
use crate::summarize::summarize;
use crate::summary::RankSummary;

/// The recording of a rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankFile {
    /// Whose it is.
    pub rank: Rank,
    /// Where it lies.
    pub place: Place,
    /// How large it is, in bytes: the largest are read first.
    pub length: u64,
}

/// How summaries are made.
#[derive(Debug, Clone, Copy)]
pub struct WorkOptions {
    /// How many recordings are read at a time; 0 is one for each core.
    pub jobs: usize,
    /// Whether summaries are kept beside the recordings, and taken from there.
    pub cache: bool,
    /// How recordings are read.
    pub reading: ReadOptions,
    /// How the reader does what summaries advise.
    pub advice: Advice,
    /// Who reads what lies in stores.
    pub store: Option<&'static dyn Store>,
}

/// How long a summary may be in memory alone: whoever ends the work loses so much of it.
const SAVED_EVERY: Duration = Duration::from_secs(10);

/// How often progress is told.
const SHOWN_EVERY: Duration = Duration::from_millis(200);

/// A summary that was made of a file, with what it is kept under.
type Made = Result<(RankSummary, Option<(FileVersion, String)>), String>;

/// The summaries of all files, a row each, in their order, and notes on what could not be kept. `progress` is told how many bytes of
/// how many are done.
pub fn summaries(
    files: &[RankFile],
    options: &WorkOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> (Vec<RankRow>, Vec<String>) {
    let mut caches: Caches = BTreeMap::new();
    let mut found: Vec<Option<Made>> = Vec::with_capacity(files.len());
    for file in files {
        let known = options.cache.then(|| known(&mut caches, &file.place)).flatten();
        found.push(known.map(|summary| Ok((summary, None))));
    }
    let mut left: Vec<usize> = (0..files.len()).filter(|&at| found[at].is_none()).collect();
    left.sort_by_key(|&at| (std::cmp::Reverse(files[at].length), at));
    let all = left.iter().map(|&at| files[at].length).sum();
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let jobs = if options.jobs == 0 { cores } else { options.jobs }.min(left.len());
    let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
    let mut notes: Vec<String> = Vec::new();
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
            if let Ok((summary, Some((version, sha256)))) = &made
                && let Some((cache, name)) = cache_of(&mut caches, &files[at].place)
            {
                cache.keep(&name, *version, sha256.clone(), summary.clone());
            }
            found[at] = Some(made);
            if saved.elapsed() > SAVED_EVERY {
                save(&mut caches);
                saved = Instant::now();
            }
        }
    });
    notes.extend(save(&mut caches));
    let rows = files.iter().zip(found).map(|(file, made)| RankRow {
        rank: file.rank.clone(),
        file: file.place.to_string(),
        summary: made.unwrap_or_else(|| Err("was not read".to_owned())).map(|(summary, _)| Box::new(summary)),
    });
    (rows.collect(), notes)
}

/// What is kept, by where it is kept.
type Caches = BTreeMap<Keeps, Cache>;

/// Where the summary of a recording is kept, and under which name; `None` where there is no such place.
fn cache_of<'c>(caches: &'c mut Caches, place: &Place) -> Option<(&'c mut Cache, String)> {
    let (keeps, name) = match place {
        Place::Here(path) => {
            let (folder, name) = split(path);
            (Keeps::Beside(folder), name)
        }
        Place::Stored(stored) => (Keeps::of_store(&stored.address)?, stored.address.clone()),
    };
    Some((caches.entry(keeps.clone()).or_insert_with(|| Cache::open(keeps)), name))
}

/// What is kept of a recording.
fn known(caches: &mut Caches, place: &Place) -> Option<RankSummary> {
    let version = match place {
        Place::Here(path) => FileVersion::of(&fs::metadata(path).ok()?),
        Place::Stored(stored) => FileVersion::of_stored(stored),
    };
    let (cache, name) = cache_of(caches, place)?;
    cache.find(&name, version)
}

/// Writes all that is new; a line about what could not be written.
fn save(caches: &mut Caches) -> Option<String> {
    let failed = caches.iter_mut().filter_map(|(keeps, cache)| Some((keeps, cache.save().err()?)));
    let failed: Vec<_> = failed.collect();
    let (keeps, why) = failed.first()?;
    let folder = keeps.folder().display();
    let folders = match failed.len() {
        1 => String::new(),
        n => format!(" and {} folders more", n - 1),
    };
    Some(format!(
        "summaries cannot be kept in {folder}{folders}: {why}; asking again reads the recordings again"
    ))
}

/// The folder of a file, and its name in it.
fn split(path: &Path) -> (PathBuf, String) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    (folder.to_owned(), path.file_name().unwrap_or_default().to_string_lossy().into_owned())
}

/// Reads a recording and summarizes it; `done` counts the bytes that were read.
fn make(place: &Place, options: &WorkOptions, done: &AtomicU64) -> Made {
    let mut before = 0;
    let mut progress = |bytes: u64| {
        done.fetch_add(bytes.saturating_sub(before), Ordering::Relaxed);
        before = bytes;
    };
    let path = match place {
        Place::Here(path) => path,
        Place::Stored(stored) => {
            let stream = open_stored(stored, options.store)?;
            let recording = read_ahead(options.reading, stream, &mut progress).map_err(in_words)?;
            // A store tells versions itself; no hash does.
            let kept_under = options.cache.then(|| (FileVersion::of_stored(stored), String::new()));
            return Ok((summarize(&recording, &options.advice)?, kept_under));
        }
    };
    let file = open(path).map_err(told)?;
    let version = FileVersion::of(&file.metadata().map_err(told)?);
    let mut plain = &file;
    // A hash costs a tenth of the whole.
    let mut hashed = options.cache.then(|| Hashed::new(&file));
    let stream: &mut dyn Read = match &mut hashed {
        Some(hashed) => hashed,
        None => &mut plain,
    };
    let recording = read_with(options.reading, stream, &mut progress).map_err(in_words)?;
    let sha256 = hashed.map(|mut hashed| hashed.hash()).transpose().map_err(told)?;
    // Somebody may have written to it meanwhile.
    let is_same = file.metadata().is_ok_and(|metadata| FileVersion::of(&metadata) == version);
    let summary = summarize(&recording, &options.advice)?;
    Ok((summary, sha256.filter(|_| is_same).map(|sha256| (version, sha256))))
}
