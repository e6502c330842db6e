//! The recordings a page can show.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::ViewError;
use crate::open_file::OpenFile;

/// The open recordings. Files that were named when the command started are complete before the first answer; others
/// may be dropped onto the page later.
#[derive(Debug)]
pub struct Library {
    /// By their positions, which stay theirs; `None` where one was closed.
    files: Mutex<Vec<Option<Arc<OpenFile>>>>,
    complete: watch::Sender<bool>,
}

impl Default for Library {
    fn default() -> Self {
        Self { files: Mutex::default(), complete: watch::Sender::new(false) }
    }
}

impl Library {
    /// Adds a recording and tells its position.
    pub fn add(&self, file: OpenFile) -> usize {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.push(Some(Arc::new(file)));
        files.len() - 1
    }

    /// Every file that was named is there.
    pub fn complete(&self) {
        self.complete.send_replace(true);
    }

    /// Closes a recording: its memory is free once the questions that are under way are answered. Whether it was open.
    pub(crate) fn close(&self, position: usize) -> bool {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.get_mut(position).is_some_and(|file| file.take().is_some())
    }

    /// All recordings by their positions, once the named ones are there.
    pub(crate) async fn all(&self) -> Vec<Option<Arc<OpenFile>>> {
        // The sender lives as long as we do.
        self.complete.subscribe().wait_for(|&complete| complete).await.ok();
        self.files.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) async fn file(&self, position: usize) -> Result<Arc<OpenFile>, ViewError> {
        self.all().await.get(position).cloned().flatten().ok_or(ViewError::NoFile(position))
    }
}
