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
mod tests {
    use super::*;
    use crate::formats::window::Window;

    /// Returns `length` increasing bytes in reads of odd sizes, and then the result of `then`.
    struct Counting<F> {
        at: usize,
        length: usize,
        then: F,
    }

    impl<F: FnMut() -> io::Result<usize>> Read for Counting<F> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let n = out.len().min(self.length - self.at).min(1 + self.at % 70_001);
            for byte in &mut out[..n] {
                *byte = byte_at(self.at);
                self.at += 1;
            }
            if n > 0 { Ok(n) } else { (self.then)() }
        }
    }

    fn byte_at(i: usize) -> u8 {
        (i ^ (i >> 8) ^ (i >> 16)) as u8
    }

    /// Reads ahead while `decode` runs.
    fn ahead<T>(stream: impl Read + Send, decode: impl FnOnce(Window<'_>) -> T) -> T {
        let mut stream = stream;
        thread::scope(|scope| {
            decode(Window::new(Ahead::start(scope, &mut stream, &mut || ()).unwrap(), None))
        })
    }

    #[test]
    fn reading_ahead_returns_the_bytes_of_the_stream_for_any_request_size() {
        for length in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 5 * CHUNK + 17] {
            // Less and more than the space in front of a chunk, and more than a chunk.
            for step in [10, FRONT - 1, FRONT + 1, CHUNK + 7, 3 * CHUNK] {
                let stream = Counting { at: 0, length, then: || Ok(0) };
                ahead(stream, |mut window| {
                    let mut at = 0;
                    while at < length {
                        assert_eq!(window.offset(), at as u64);
                        window.fill(step).unwrap();
                        let here = window.here();
                        assert!(here.len() >= step.min(length - at), "{length} {step} {at}");
                        // Leave some bytes each time.
                        let used = if here.len() < step { here.len() } else { step - step / 3 };
                        assert!(here[..used].iter().enumerate().all(|(i, &byte)| byte == byte_at(at + i)));
                        window.advance(used);
                        at += used;
                    }
                    window.fill(1).unwrap();
                    assert!(window.here().is_empty());
                });
            }
        }
    }

    #[test]
    fn an_error_comes_behind_the_bytes_before_it() {
        let stream = Counting { at: 0, length: CHUNK + 9, then: || Err(io::Error::other("gone")) };
        ahead(stream, |mut window| {
            window.fill(CHUNK + 9).unwrap();
            assert_eq!(window.here().len(), CHUNK + 9);
            assert_eq!(window.fill(CHUNK + 10).unwrap_err().to_string(), "gone");
        });
    }

    #[test]
    fn an_interrupted_read_is_repeated() {
        let mut interrupted = false;
        let then = move || {
            let again = std::mem::replace(&mut interrupted, true);
            if again { Ok(0) } else { Err(io::ErrorKind::Interrupted.into()) }
        };
        ahead(Counting { at: 0, length: 7, then }, |mut window| {
            window.fill(8).unwrap();
            assert_eq!(window.here().len(), 7);
        });
    }

    #[test]
    fn a_decoder_that_stops_ends_the_thread() {
        // If the thread did not end, neither the scope nor this test would end.
        ahead(io::repeat(7), |mut window| window.fill(1).unwrap());
        let panicked = std::panic::catch_unwind(|| {
            ahead(io::repeat(7), |_| std::panic::panic_any("the decoder"));
        });
        assert!(panicked.is_err());
    }

    #[test]
    fn a_panic_of_a_stream_is_not_its_end() {
        let panicked = std::panic::catch_unwind(|| {
            let then = || std::panic::panic_any("the stream");
            ahead(Counting { at: 0, length: 9, then }, |mut window| window.fill(10).unwrap());
        });
        assert!(panicked.is_err());
    }
}
