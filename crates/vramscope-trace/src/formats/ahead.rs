//! Reading ahead: one thread reads and decompresses the file while another thread decodes earlier bytes.
//!
//! ```text
//!   reading thread                           decoding thread
//!   file -> decompressor -> full chunks ---> Window -> pickle, JSON, log
//!                 ^                             |
//!                 +------ empty buffers <-------+
//! ```
//!
//! The number of buffers is fixed, so the reader waits if the decoder is slower. Each buffer has free space in front. The decoder
//! copies the unused bytes of the previous chunk there, and continues with contiguous bytes.
//!
//! A read in progress cannot be canceled, so this is only for files on disk. Streams that may block forever, such as pipes, are [read
//! on demand](super::window::WhenNeeded).

use std::io::{self, Read};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, Scope};

use super::window::{AtHand, CHUNK, Source, read};

/// Space in front of a chunk in bytes. The pickle machine looks ahead for a batch of references, at most 10 KiB.
const FRONT: usize = 1 << 14;

/// Number of buffers: one being decoded, one being filled, and the others waiting.
const BUFFERS: usize = 4;

/// `buffer[FRONT..end]` are the next bytes of the stream.
struct Chunk {
    buffer: Vec<u8>,
    end: usize,
}

/// The decoding thread's end of the channel from the reading thread.
pub(super) struct Ahead<'p> {
    full: Receiver<io::Result<Chunk>>,
    empty: Sender<Vec<u8>>,
    /// Called after each chunk.
    progress: &'p mut dyn FnMut(),
}

impl<'p> Ahead<'p> {
    /// Starts to read. The thread ends with the stream, with its first error, or soon after the `Ahead` is dropped. Fails if the system
    /// cannot start a thread.
    pub(super) fn start<'s, R: Read + Send + 's>(
        scope: &'s Scope<'s, '_>,
        stream: R,
        progress: &'p mut dyn FnMut(),
    ) -> io::Result<Self> {
        let (send_full, full) = mpsc::channel();
        let (empty, take_empty) = mpsc::channel();
        thread::Builder::new()
            .name("vramscope-read".to_owned())
            .spawn_scoped(scope, move || read_all(stream, &take_empty, &send_full))?;
        // The decoder's buffer is the last one.
        for _ in 1..BUFFERS {
            empty.send(vec![0; FRONT + CHUNK]).ok();
        }
        Ok(Self { full, empty, progress })
    }
}

impl Source for Ahead<'_> {
    fn more(&mut self, at_hand: &mut AtHand) -> io::Result<()> {
        // If the thread has ended, so has the stream. If it panicked, the scope panics too.
        let Ok(chunk) = self.full.recv() else { return Ok(()) };
        let Chunk { buffer, end } = chunk?;
        let mut used = at_hand.take(buffer, FRONT, end);
        // A buffer that had to grow returns to the usual size.
        used.resize(FRONT + CHUNK, 0);
        used.shrink_to_fit();
        // At the end of the stream nothing receives it any more.
        self.empty.send(used).ok();
        (self.progress)();
        Ok(())
    }
}

/// Sends the whole `stream` in full chunks, followed by its error, if any. Ends early if the receiver is gone.
fn read_all(mut stream: impl Read, empty: &Receiver<Vec<u8>>, full: &Sender<io::Result<Chunk>>) {
    for mut buffer in empty {
        let mut end = FRONT;
        let ended = loop {
            if end == buffer.len() {
                break None;
            }
            match read(&mut stream, &mut buffer[end..]) {
                Ok(0) => break Some(Ok(())),
                Ok(n) => end += n,
                Err(e) => break Some(Err(e)),
            }
        };
        if end > FRONT && full.send(Ok(Chunk { buffer, end })).is_err() {
            return;
        }
        match ended {
            None => {}
            Some(Ok(())) => return,
            Some(Err(e)) => {
                full.send(Err(e)).ok();
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
