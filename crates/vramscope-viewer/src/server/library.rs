//! The recordings a page can show.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

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
}

impl Default for Library {
    fn default() -> Self {
        Self { files: Mutex::default(), complete: watch::Sender::new(false) }
    }
}

impl Library {
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
        // This fails only where the sender is gone, which is a field of `self`.
        self.complete.subscribe().wait_for(|&complete| complete).await.ok();
        self.files.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) async fn file(&self, position: usize) -> Result<Arc<OpenFile>, ViewError> {
        self.all().await.get(position).cloned().flatten().ok_or(ViewError::NoFile(position))
    }
}
