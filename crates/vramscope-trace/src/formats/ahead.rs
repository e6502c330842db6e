//! Reading ahead: the file is read and decompressed on one thread while another decodes what came before.
//!
//! ```text
//!   thread that reads                        thread that decodes
//!   file -> decompressor -> full chunks ---> Window -> pickle, JSON, log
//!                 ^                             |
//!                 +------ empty buffers <-------+
//! ```
//!
//! There are a few buffers and no more, so the reader waits where the decoder is slower. Each buffer has free
//! space in front: the few bytes that the decoder had not used of the chunk before are copied there, and it
//! goes on with bytes that lie together.
//!
//! A read that is under way cannot be called off, so this is for files on disk, whose reads end. What may wait
//! for ever, such as a pipe, is [read when it is needed](super::window::WhenNeeded).

use std::io::{self, Read};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, Scope};

use super::window::{AtHand, CHUNK, Source, read};

/// Space in front of a chunk. The pickle machine looks ahead for a batch of references, at most 10 KiB.
const FRONT: usize = 1 << 14;

/// Buffers in all: one that is decoded, one that is filled, and the others wait.
const BUFFERS: usize = 4;

/// `buffer[FRONT..end]` are the next bytes of the stream.
struct Chunk {
    buffer: Vec<u8>,
    end: usize,
}

/// What the reading thread sends, for the thread that decodes.
pub(super) struct Ahead<'p> {
    full: Receiver<io::Result<Chunk>>,
    empty: Sender<Vec<u8>>,
    /// Told after each chunk.
    progress: &'p mut dyn FnMut(),
}

impl<'p> Ahead<'p> {
    /// Begins to read. The thread ends with the stream, with its first error, or soon after the `Ahead` is
    /// dropped; it fails to start where the system has no thread to give.
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
        // The decoder's own is the last of them.
        for _ in 1..BUFFERS {
            empty.send(vec![0; FRONT + CHUNK]).ok();
        }
        Ok(Self { full, empty, progress })
    }
}

impl Source for Ahead<'_> {
    fn more(&mut self, at_hand: &mut AtHand) -> io::Result<()> {
        // Where the thread has ended, so has the stream. If it panicked, so does the scope.
        let Ok(chunk) = self.full.recv() else { return Ok(()) };
        let Chunk { buffer, end } = chunk?;
        let mut used = at_hand.take(buffer, FRONT, end);
        // One that had to grow goes back as all the others are.
        used.resize(FRONT + CHUNK, 0);
        used.shrink_to_fit();
        // At the end of the stream nobody takes it any more.
        self.empty.send(used).ok();
        (self.progress)();
        Ok(())
    }
}

/// Sends all of `stream` in full chunks, and last its error if there is one. Ends early where nobody wants more.
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

    /// Gives `length` bytes that count up, in reads of odd sizes, and then what `then` says.
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
    fn the_bytes_are_those_of_the_stream_however_many_are_asked_for() {
        for length in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 5 * CHUNK + 17] {
            // Less and more than fits in front of a chunk, and more than a chunk.
            for step in [10, FRONT - 1, FRONT + 1, CHUNK + 7, 3 * CHUNK] {
                let stream = Counting { at: 0, length, then: || Ok(0) };
                ahead(stream, |mut window| {
                    let mut at = 0;
                    while at < length {
                        assert_eq!(window.offset(), at as u64);
                        window.fill(step).unwrap();
                        let here = window.here();
                        assert!(here.len() >= step.min(length - at), "{length} {step} {at}");
                        // Some are left over each time.
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
    fn a_read_that_a_signal_interrupted_goes_on() {
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
        // If it did not end, neither would the scope nor this test.
        ahead(io::repeat(7), |mut window| window.fill(1).unwrap());
        let panicked = std::panic::catch_unwind(|| {
            ahead(io::repeat(7), |_| std::panic::panic_any("the decoder"));
        });
        assert!(panicked.is_err());
    }

    #[test]
    fn a_stream_that_panics_does_not_pass_for_one_that_ends() {
        let panicked = std::panic::catch_unwind(|| {
            let then = || std::panic::panic_any("the stream");
            ahead(Counting { at: 0, length: 9, then }, |mut window| window.fill(10).unwrap());
        });
        assert!(panicked.is_err());
    }
}
