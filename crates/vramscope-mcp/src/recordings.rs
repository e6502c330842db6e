//! The open recordings: bounded in number and memory. The least recently used recording is closed first.

use std::fs::{File, Metadata};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::SystemTime;

use anyhow::{Context as _, anyhow, bail};
use vramscope_analysis::RecordedAllocation;
use vramscope_report::bytes as in_units;
use vramscope_session::{OpenRecording, Session, SessionError};
use vramscope_trace::formats::{ReadOptions, Reader};
use vramscope_trace::{Block, Events, ReadError, Segment, Trace};

use super::advice::ADVICE;
use super::work::Work;

/// Limit on the number of open recordings.
pub(super) const MOST_OPEN: usize = 8;

/// An open recording.
#[derive(Debug)]
pub(super) struct Shelved {
    /// The handle that tools use.
    pub(super) handle: String,
    /// The recording, with its file name as it was requested.
    pub(super) session: Arc<Session>,
    /// What the page's questions need, once one was asked.
    prepared: OnceLock<OpenRecording>,
    /// The file that was read, and its version at that time.
    file: (PathBuf, Version),
    /// Approximate memory of the recording and its histories in bytes.
    bytes: u64,
}

impl Shelved {
    /// The recording, prepared for the page's questions.
    pub(super) fn prepared(&self, work: &Work) -> Result<&OpenRecording, SessionError> {
        OpenRecording::prepared(&self.prepared, &self.session, work.cancel())
    }

    /// An error with the handle where it is about the recording.
    pub(super) fn about(&self) -> impl Fn(SessionError) -> anyhow::Error + '_ {
        |error| anyhow!(error.about(&self.handle))
    }
}

/// Size in bytes and modification time; they change when a file changes.
type Version = (u64, Option<SystemTime>);

fn version(metadata: &Metadata) -> Version {
    (metadata.len(), metadata.modified().ok())
}

/// The open recordings.
#[derive(Debug)]
pub(super) struct Recordings {
    /// Limit on the memory of all open recordings together, in bytes.
    most_bytes: u64,
    shelf: Mutex<Shelf>,
    /// Held while a recording is read: one at a time, because each may need `most_bytes` meanwhile.
    reading: Mutex<()>,
}

#[derive(Debug, Default)]
struct Shelf {
    /// Least recently used first.
    open: Vec<Arc<Shelved>>,
    /// The number of recordings opened so far.
    opened: u64,
}

impl Recordings {
    pub(super) fn new(most_bytes: u64) -> Self {
        Self { most_bytes, shelf: Mutex::default(), reading: Mutex::default() }
    }

    /// Reads a file and closes other recordings if memory is short. A file that is already open is not read again. `name` is its name
    /// in answers.
    pub(super) fn open(
        &self,
        name: &str,
        (path, file): (PathBuf, File),
        options: ReadOptions,
        work: &Work,
    ) -> anyhow::Result<Arc<Shelved>> {
        let shown = || super::shown(name).to_string();
        let metadata = file.metadata().with_context(shown)?;
        let version = version(&metadata);
        let _reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = self.find(|open| open.file.0 == path && open.file.1 == version) {
            return Ok(open);
        }
        work.expect(metadata.len());
        let options = ReadOptions { memory_bytes: Some(self.most_bytes), ..options };
        let read = Reader::file(&file)
            .options(options)
            .progress(|bytes| work.done(bytes))
            .cancel(|| work.cancel().is_cancelled())
            .read();
        let recording = match read {
            Err(ReadError::Memory { .. }) => bail!(self.too_large(name, "more than that")),
            Err(e @ ReadError::Expands { .. }) => bail!("{}: {e}, or raise --max-expanded", shown()),
            read => read.with_context(shown)?,
        };
        let bytes = memory(&recording.trace);
        if bytes > self.most_bytes {
            bail!(self.too_large(name, &format!("about {}", in_units(bytes))));
        }
        Ok(self.add(|handle| Shelved {
            handle,
            session: Arc::new(Session::new(name.to_owned(), recording, ADVICE)),
            prepared: OnceLock::new(),
            file: (path, version),
            bytes,
        }))
    }

    /// The error for a recording that needs more memory than the limit.
    fn too_large(&self, name: &str, takes: &str) -> String {
        format!(
            "{}: the limit for open recordings is {}, and this one needs {takes}; let the user raise it (vramscope mcp --max-memory SIZE)",
            super::shown(name),
            in_units(self.most_bytes)
        )
    }

    /// The open recording with this handle.
    pub(super) fn get(&self, handle: &str) -> anyhow::Result<Arc<Shelved>> {
        self.find(|open| open.handle == handle).ok_or_else(|| {
            let open: Vec<String> = self.shelf().open.iter().map(|open| open.handle.clone()).collect();
            let open = if open.is_empty() { "none is open".to_owned() } else { format!("open: {}", open.join(", ")) };
            anyhow!(
                "{}: is not an open recording ({open}); open the file with `open`, even if it was open before: at most {MOST_OPEN} stay open",
                super::shown(handle)
            )
        })
    }

    /// The open recording that satisfies `is_it`; marks it as most recently used.
    fn find(&self, is_it: impl Fn(&Shelved) -> bool) -> Option<Arc<Shelved>> {
        let mut shelf = self.shelf();
        let at = shelf.open.iter().position(|open| is_it(open))?;
        let found = shelf.open.remove(at);
        shelf.open.push(Arc::clone(&found));
        Some(found)
    }

    fn add(&self, make: impl FnOnce(String) -> Shelved) -> Arc<Shelved> {
        let mut shelf = self.shelf();
        shelf.opened += 1;
        let added = Arc::new(make(format!("r{}", shelf.opened)));
        shelf.open.push(Arc::clone(&added));
        let too_many = |open: &[Arc<Shelved>]| {
            open.len() > MOST_OPEN || open.iter().map(|open| open.bytes).sum::<u64>() > self.most_bytes
        };
        while shelf.open.len() > 1 && too_many(&shelf.open) {
            shelf.open.remove(0);
        }
        added
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Approximate memory of a trace, and of the histories of its devices and what the page's questions need, in bytes. Both are computed on
/// demand, but count in full.
fn memory(trace: &Trace) -> u64 {
    let of = |count: usize, each: usize| (count as u64).saturating_mul(each as u64);
    let devices = trace.devices.iter().map(|device| {
        of(device.events.len(), Events::BYTES_PER_EVENT + EVENT_IN_HISTORY + EVENT_IN_QUESTIONS)
            + of(device.blocks.len(), size_of::<Block>() + size_of::<RecordedAllocation>())
            + of(device.segments.len(), size_of::<Segment>())
    });
    devices.sum::<u64>() + trace.memory() as u64
}

/// Bytes per event in a history: half of an allocation, and an index.
const EVENT_IN_HISTORY: usize = size_of::<RecordedAllocation>() / 2 + size_of::<u64>();

/// Bytes per event of what the page's questions need: timelines, tags, categories. Measured: 56 in a recording of 700,000 events.
const EVENT_IN_QUESTIONS: usize = 64;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn write(folder: &Path, name: &str, device: i64) -> PathBuf {
        let path = folder.join(name);
        let segment = serde_json::json!({"device": device, "address": 0, "total_size": 512, "stream": 0,
            "segment_type": "large", "blocks": []});
        let snapshot = serde_json::json!({"segments": [segment], "device_traces": [[]]});
        std::fs::write(&path, snapshot.to_string()).unwrap();
        path
    }

    fn open(recordings: &Recordings, path: &Path) -> anyhow::Result<Arc<Shelved>> {
        let file = File::open(path).unwrap();
        recordings.open("f", (path.to_owned(), file), ReadOptions::default(), &Work::default())
    }

    #[test]
    fn the_least_recently_used_goes() {
        let folder = tempfile::tempdir().unwrap();
        let recordings = Recordings::new(1 << 30);
        let files: Vec<PathBuf> = (0..=MOST_OPEN).map(|n| write(folder.path(), &n.to_string(), 0)).collect();
        for (n, file) in files[..MOST_OPEN].iter().enumerate() {
            assert_eq!(open(&recordings, file).unwrap().handle, format!("r{}", n + 1));
        }
        // An open file is not read again, and becomes the most recently used.
        assert_eq!(open(&recordings, &files[0]).unwrap().handle, "r1");
        open(&recordings, &files[MOST_OPEN]).unwrap();
        assert!(recordings.get("r1").is_ok() && recordings.get("r3").is_ok());
        let error = recordings.get("r2").unwrap_err().to_string();
        assert!(error.starts_with("r2: is not an open recording (open: r4, "), "{error}");
    }

    #[test]
    fn a_file_that_changed_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let recordings = Recordings::new(1 << 30);
        let path = write(folder.path(), "a", 0);
        assert_eq!(open(&recordings, &path).unwrap().session.trace().devices[0].device, 0);
        write(folder.path(), "a", 11);
        let again = open(&recordings, &path).unwrap();
        assert_eq!((again.handle.as_str(), again.session.trace().devices.last().unwrap().device), ("r2", 11));
    }

    #[test]
    fn memory_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| write(folder.path(), name, 0));
        let one = open(&Recordings::new(1 << 30), &a).unwrap().bytes;
        assert!(one > 0);
        let recordings = Recordings::new(one + one / 2);
        open(&recordings, &a).unwrap();
        open(&recordings, &b).unwrap();
        assert!(recordings.get("r1").is_err() && recordings.get("r2").is_ok());
        let error = open(&Recordings::new(one - 1), &a).unwrap_err().to_string();
        assert!(error.contains("--max-memory"), "{error}");
    }

    #[test]
    fn reading_ends_when_it_is_cancelled() {
        let folder = tempfile::tempdir().unwrap();
        let path = write(folder.path(), "a", 0);
        let work = Work::default();
        work.cancel().cancel();
        let file = File::open(&path).unwrap();
        let recordings = Recordings::new(1 << 30);
        let read = recordings.open("f", (path, file), ReadOptions::default(), &work);
        assert!(format!("{:#}", read.unwrap_err()).contains("cancelled"));
    }
}
