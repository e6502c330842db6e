//! The recordings a page can show.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::ViewError;
use crate::recording::OpenRecording;

/// The open recordings. Files that were named when the command started are complete before the first answer; others
/// may be dropped onto the page later.
#[derive(Debug)]
pub struct Library {
    files: Mutex<Vec<Arc<OpenRecording>>>,
    complete: watch::Sender<bool>,
}

impl Default for Library {
    fn default() -> Self {
        Self { files: Mutex::default(), complete: watch::Sender::new(false) }
    }
}

impl Library {
    /// Adds a recording and tells its position.
    pub fn add(&self, recording: OpenRecording) -> usize {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.push(Arc::new(recording));
        files.len() - 1
    }

    /// Every file that was named is there.
    pub fn complete(&self) {
        self.complete.send_replace(true);
    }

    /// All recordings, once the named ones are there.
    pub(crate) async fn all(&self) -> Vec<Arc<OpenRecording>> {
        // The sender lives as long as we do.
        self.complete.subscribe().wait_for(|&complete| complete).await.ok();
        self.files.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) async fn file(&self, position: usize) -> Result<Arc<OpenRecording>, ViewError> {
        self.all().await.get(position).cloned().ok_or(ViewError::NoFile(position))
    }
}
