//! Writes a log to the disk at an interval, in a thread: a slow disk does not delay the recorded process.

use std::io;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use vramscope_allocator::ExclusiveFile;

/// When a log was written to the disk.
#[derive(Debug)]
pub(super) struct Sync {
    interval: Duration,
    last: Instant,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Sync {
    pub(super) fn every(interval: Duration) -> Self {
        Self { interval, last: Instant::now(), thread: None }
    }

    /// Begins to write what was flushed to the disk, if the interval is over and the last write is done. At the end, waits until all is
    /// written.
    ///
    /// # Errors
    /// The disk's error of the last write.
    pub(super) fn flushed(&mut self, log: &ExclusiveFile, is_end: bool) -> io::Result<()> {
        let is_done = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        if !log.is_regular() || !is_end && (self.last.elapsed() < self.interval || !is_done) {
            return Ok(());
        }
        if let Some(thread) = self.thread.take() {
            thread
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("the thread that writes to the disk failed")))?;
        }
        self.last = Instant::now();
        let file = log.to_sync()?;
        if is_end {
            return file.sync_all();
        }
        let thread = std::thread::Builder::new().name("vramscope-sync".to_owned());
        self.thread = Some(thread.spawn(move || file.sync_data())?);
        Ok(())
    }
}
