//! The recordings that a page can show.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde::Serialize;
use tokio::sync::watch;
use vramscope_trace::formats::Recording;

use super::open_file::OpenFile;
use super::source::SourceFolders;
use super::sql::SqlEngine;
use crate::ViewError;

/// The open recordings. Files from the command line are complete before the first answer; others may be dropped onto the page
/// later.
#[derive(Debug)]
pub struct Library {
    /// The files by their positions, which never change; `None` for a closed file.
    files: Mutex<Vec<Option<Arc<OpenFile>>>>,
    /// Whether all files from the command line are loaded.
    complete: watch::Sender<bool>,
    /// Whether the page shows all ranks of a job.
    pub(crate) is_of_ranks: bool,
    ranks: OnceLock<JobFiles>,
    /// The folders with the sources of the recorded programs.
    pub(crate) sources: SourceFolders,
    /// Answers the queries of the SQL console, or the reason why there is none.
    pub(super) sql: Result<Arc<dyn SqlEngine>, String>,
    reading: Mutex<Option<ReadProgress>>,
}

/// How far a file from the command line is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ReadProgress {
    name: String,
    /// Bytes read so far.
    bytes: u64,
    /// Bytes of the file, if they are known.
    total: Option<u64>,
}

/// The recordings of all ranks of a job. Each is read on request.
pub struct JobFiles {
    /// The page's data about the ranks.
    pub answer: Vec<u8>,
    /// The file name of each rank.
    pub names: Vec<String>,
    /// Reads the file of the rank at a position. Returns the reason if that fails.
    pub read: Box<dyn Fn(usize) -> Result<Recording, String> + Send + Sync>,
}

impl fmt::Debug for JobFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobFiles").field("names", &self.names).finish_non_exhaustive()
    }
}

impl Default for Library {
    fn default() -> Self {
        Self {
            files: Mutex::default(),
            complete: watch::Sender::new(false),
            is_of_ranks: false,
            ranks: OnceLock::new(),
            reading: Mutex::default(),
            sources: SourceFolders::default(),
            sql: Err("the program that serves this page has no SQL engine".to_owned()),
        }
    }
}

impl Library {
    /// A library for the page of a job.
    pub fn of_ranks() -> Self {
        Self { is_of_ranks: true, ..Self::default() }
    }

    /// Shows source files from these folders.
    #[must_use]
    pub fn with_sources(self, sources: SourceFolders) -> Self {
        Self { sources, ..self }
    }

    /// Answers the queries of the SQL console with this engine, or gives the reason why there is none.
    #[must_use]
    pub fn with_sql(self, engine: Result<Arc<dyn SqlEngine>, String>) -> Self {
        Self { sql: engine, ..self }
    }

    /// Sets the ranks, and starts answering queries. The ranks' files have the first positions.
    pub fn know_ranks(&self, ranks: JobFiles) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let places = ranks.names.len().max(files.len());
        files.resize(places, None);
        drop(files);
        // The ranks are set only once.
        self.ranks.set(ranks).ok();
        self.complete();
    }

    /// All ranks of the job. Waits until they are known.
    pub(crate) async fn ranks(&self) -> Option<&JobFiles> {
        self.wait().await;
        self.ranks.get()
    }

    /// The recording of the rank at this position. Reads it if it is not open.
    pub(crate) fn read_rank(&self, position: usize) -> Result<Arc<OpenFile>, ViewError> {
        let none = ViewError::NoFile(position);
        let ranks = self.ranks.get().ok_or(ViewError::NoFile(position))?;
        let name = ranks.names.get(position).ok_or(none)?;
        let recording = (ranks.read)(position).map_err(|why| ViewError::NotRead(format!("{name}: {why}")))?;
        let opened = Arc::new(OpenFile::open(name.clone(), recording)?);
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let place = files.get_mut(position).ok_or(ViewError::NoFile(position))?;
        // Another page may have requested it in the meantime.
        Ok(Arc::clone(place.get_or_insert(opened)))
    }

    /// Adds a recording and returns its position, by which the page refers to it.
    pub fn add(&self, file: OpenFile) -> usize {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.push(Some(Arc::new(file)));
        files.len() - 1
    }

    /// Sets the progress of reading a file, in bytes, for pages that wait for it.
    pub fn reads(&self, name: &str, bytes: u64, total: Option<u64>) {
        let progress = ReadProgress { name: name.to_owned(), bytes, total };
        *self.reading.lock().unwrap_or_else(PoisonError::into_inner) = Some(progress);
    }

    /// The file that is being read; `None` if none is.
    pub(crate) fn progress(&self) -> Option<ReadProgress> {
        let reading = || self.reading.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if *self.complete.borrow() { None } else { reading() }
    }

    /// Marks all files from the command line as loaded, and starts answering queries.
    pub fn complete(&self) {
        self.complete.send_replace(true);
    }

    /// Closes a recording. Returns whether it was open. Its memory is freed after the running queries.
    pub(crate) fn close(&self, position: usize) -> bool {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.get_mut(position).is_some_and(|file| file.take().is_some())
    }

    /// All recordings by position. Waits until the files from the command line are loaded.
    pub(crate) async fn all(&self) -> Vec<Option<Arc<OpenFile>>> {
        self.wait().await;
        self.files.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn wait(&self) {
        // This fails only if the sender is dropped, which is a field of `self`.
        self.complete.subscribe().wait_for(|&complete| complete).await.ok();
    }

    pub(crate) async fn file(&self, position: usize) -> Result<Arc<OpenFile>, ViewError> {
        self.all().await.get(position).cloned().flatten().ok_or(ViewError::NoFile(position))
    }
}
