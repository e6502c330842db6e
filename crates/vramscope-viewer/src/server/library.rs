//! The recordings a page can show.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::watch;
use vramscope_trace::formats::Recording;

use super::open_file::OpenFile;
use crate::ViewError;

/// The open recordings. Files that were named when the command started are complete before the first answer; others
/// may be dropped onto the page later.
#[derive(Debug)]
pub struct Library {
    /// The files by their positions, which never change; `None` where a file was closed.
    files: Mutex<Vec<Option<Arc<OpenFile>>>>,
    /// Whether all files are there that the command named.
    complete: watch::Sender<bool>,
    /// The page is of all ranks of a job.
    pub(crate) is_of_ranks: bool,
    ranks: OnceLock<JobFiles>,
}

/// The recordings of all ranks of a job: each is read when the page asks for it.
pub struct JobFiles {
    /// What the page is told of the ranks.
    pub answer: Vec<u8>,
    /// The name of the file of each rank.
    pub names: Vec<String>,
    /// Reads the file of the rank at a position, or says why it cannot, in words.
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
        }
    }
}

impl Library {
    /// A library of all ranks of a job, for a page that shows them.
    pub fn of_ranks() -> Self {
        Self { is_of_ranks: true, ..Self::default() }
    }

    /// Says what the ranks are; questions are answered from now on. Their files have the first positions.
    pub fn know_ranks(&self, ranks: JobFiles) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let places = ranks.names.len().max(files.len());
        files.resize(places, None);
        drop(files);
        // They are told once.
        self.ranks.set(ranks).ok();
        self.complete();
    }

    /// All ranks of the job; waits until they are known.
    pub(crate) async fn ranks(&self) -> Option<&JobFiles> {
        self.wait().await;
        self.ranks.get()
    }

    /// The recording of the rank at this position. It is read where it is not open.
    pub(crate) fn read_rank(&self, position: usize) -> Result<Arc<OpenFile>, ViewError> {
        let none = ViewError::NoFile(position);
        let ranks = self.ranks.get().ok_or(ViewError::NoFile(position))?;
        let name = ranks.names.get(position).ok_or(none)?;
        let recording = (ranks.read)(position).map_err(|why| ViewError::NotRead(format!("{name}: {why}")))?;
        let opened = Arc::new(OpenFile::open(name.clone(), recording)?);
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let place = files.get_mut(position).ok_or(ViewError::NoFile(position))?;
        // Another page may have had it read meanwhile.
        Ok(Arc::clone(place.get_or_insert(opened)))
    }

    /// Adds a recording and returns its position, by which the page asks for it.
    pub fn add(&self, file: OpenFile) -> usize {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.push(Some(Arc::new(file)));
        files.len() - 1
    }

    /// Says that all files are there that the command named; questions are answered from now on.
    pub fn complete(&self) {
        self.complete.send_replace(true);
    }

    /// Closes a recording, and returns whether it was open. Its memory is free once the questions under way are answered.
    pub(crate) fn close(&self, position: usize) -> bool {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.get_mut(position).is_some_and(|file| file.take().is_some())
    }

    /// All recordings by their positions; waits until those are there that the command named.
    pub(crate) async fn all(&self) -> Vec<Option<Arc<OpenFile>>> {
        self.wait().await;
        self.files.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn wait(&self) {
        // This fails only where the sender is gone, which is a field of `self`.
        self.complete.subscribe().wait_for(|&complete| complete).await.ok();
    }

    pub(crate) async fn file(&self, position: usize) -> Result<Arc<OpenFile>, ViewError> {
        self.all().await.get(position).cloned().flatten().ok_or(ViewError::NoFile(position))
    }
}
