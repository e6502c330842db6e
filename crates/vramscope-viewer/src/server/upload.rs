//! Files that are dropped onto the page. They are read while they arrive, and never held in memory as a whole.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body_util::BodyExt as _;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, timeout};
use vramscope_trace::ReadError;
use vramscope_trace::formats::{ReadOptions, Reader};

use crate::ViewError;

/// The maximum size of a dropped file, in bytes.
pub const LARGEST_UPLOAD: u64 = 1 << 30;

/// The maximum time that a file may keep the server waiting. Elapsed time reduces it, and arriving bytes add time at the rate
/// of [`SLOWEST`].
const PATIENCE: Duration = Duration::from_secs(30);

/// The minimum rate of an upload, in bytes per second. It is below the slowest tunnels to a remote machine, and high enough
/// that no upload occupies a slot for long.
const SLOWEST: f64 = 16.0 * 1024.0;

/// The maximum number of chunks that wait for the reader. A chunk is at most as long as the buffer of its connection.
const WAITING: usize = 4;

/// Decodes a request body of `length` bytes, as declared by the request. Holds a permit of `decoding` while
/// decoding, but not while waiting for bytes, so that a stalled upload delays no other.
pub(crate) async fn read<T: Send + 'static>(
    name: &str,
    length: Option<u64>,
    body: Body,
    decoding: Arc<Semaphore>,
    decode: impl FnOnce(Reader<'_>) -> Result<T, ReadError> + Send + 'static,
) -> Result<T, ViewError> {
    if length.is_some_and(|length| length > LARGEST_UPLOAD) {
        return Err(ViewError::TooLarge { limit: LARGEST_UPLOAD });
    }
    let (send, chunks) = mpsc::channel(WAITING);
    let reading = tokio::task::spawn_blocking(move || {
        let mut stream = Chunks::new(chunks, decoding, Handle::current());
        // The page that is saved has a log as a log.
        let options = ReadOptions { keeps_log: true, ..ReadOptions::default() };
        let recording = decode(Reader::new(&mut stream).options(options));
        // A recording may end before its file; the rest is read and discarded.
        recording.map(|r| io::copy(&mut stream, &mut io::sink()).map(|_| r))
    });
    let passed = pass_on(body, send, LARGEST_UPLOAD, PATIENCE).await;
    let read = reading.await.map_err(|_| ViewError::Failed)?;
    passed?;
    let unreadable = |why| ViewError::Unreadable { name: name.to_owned(), why };
    read.map_err(unreadable)?.map_err(|e| unreadable(e.into()))
}

/// Forwards the body to its end. A rejected body is still read to its end, because browsers read the response only after
/// sending all of it.
///
/// # Errors
/// Fails if the body is longer than `most` bytes, or slower than [`SLOWEST`] for a total of `patience`.
async fn pass_on(
    mut body: Body,
    send: mpsc::Sender<io::Result<Bytes>>,
    most: u64,
    patience: Duration,
) -> Result<(), ViewError> {
    let mut length = 0;
    let mut left = patience;
    loop {
        let began = Instant::now();
        let chunk = match timeout(left, body.frame()).await {
            Err(_) => {
                send.send(Err(io::ErrorKind::TimedOut.into())).await.ok();
                return Err(ViewError::Stalled);
            }
            Ok(None) => return Ok(()),
            Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
            Ok(Some(Err(e))) => {
                send.send(Err(io::Error::other(e))).await.ok();
                return Ok(());
            }
        };
        let given_back = Duration::from_secs_f64(chunk.len() as f64 / SLOWEST);
        left = (left.saturating_sub(began.elapsed()) + given_back).min(patience);
        length += chunk.len() as u64;
        if length > most {
            send.send(Err(io::ErrorKind::FileTooLarge.into())).await.ok();
            return Err(ViewError::TooLarge { limit: most });
        }
        // This fails if the reader stopped, which is not an error.
        send.send(Ok(chunk)).await.ok();
    }
}

/// The arrived chunks as a byte stream.
struct Chunks {
    chunks: mpsc::Receiver<io::Result<Bytes>>,
    rest: Bytes,
    decoding: Arc<Semaphore>,
    /// Held while arrived bytes are decoded.
    permit: Option<OwnedSemaphorePermit>,
    runtime: Handle,
}

impl Chunks {
    fn new(chunks: mpsc::Receiver<io::Result<Bytes>>, decoding: Arc<Semaphore>, runtime: Handle) -> Self {
        Self { chunks, rest: Bytes::new(), decoding, permit: None, runtime }
    }
}

impl Read for Chunks {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            self.permit = None;
            let chunk = self.chunks.blocking_recv();
            // Acquiring fails only if the semaphore is closed, which never happens.
            self.permit = self.runtime.block_on(Arc::clone(&self.decoding).acquire_owned()).ok();
            match chunk {
                Some(chunk) => self.rest = chunk?,
                None => return Ok(0),
            }
        }
        let n = self.rest.len().min(out.len());
        out[..n].copy_from_slice(&self.rest.split_to(n));
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use hyper::body::Frame;
    use tokio::time::{Interval, interval};

    use super::*;

    #[test]
    fn an_upload_beyond_the_limit_is_refused() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        for (length, fits) in [(0, true), (1000, true), (1001, false)] {
            let (send, chunks) = mpsc::channel(WAITING);
            let passed = runtime.block_on(pass_on(Body::from(vec![7; length]), send, 1000, PATIENCE));
            assert_eq!(passed.is_ok(), fits, "{length}");
            let mut read = Vec::new();
            let decoding = Arc::new(Semaphore::new(1));
            let mut stream = Chunks::new(chunks, decoding, runtime.handle().clone());
            let end = stream.read_to_end(&mut read);
            assert_eq!((end.is_ok(), read.len()), (fits, if fits { length } else { 0 }));
        }
    }

    /// A body of `left` bytes, one per tick. Then it stalls without ending.
    struct Dripping {
        left: usize,
        tick: Interval,
    }

    impl Dripping {
        fn every(pause: Duration, left: usize) -> Body {
            Body::new(Self { left, tick: interval(pause) })
        }
    }

    impl hyper::body::Body for Dripping {
        type Data = Bytes;
        type Error = io::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
            if self.left == 0 {
                return Poll::Pending;
            }
            self.tick.poll_tick(context).map(|_| {
                self.left -= 1;
                Some(Ok(Frame::data(Bytes::from_static(b"x"))))
            })
        }
    }

    /// The time until an endless body is rejected, on a simulated clock, and the number of bytes that arrived.
    fn waited_for(pause: Duration, bytes: usize) -> (Duration, usize) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (send, mut chunks) = mpsc::channel::<io::Result<Bytes>>(WAITING);
            let began = Instant::now();
            let count = async {
                let mut came = 0;
                while let Some(Ok(chunk)) = chunks.recv().await {
                    came += chunk.len();
                }
                came
            };
            let (passed, came) =
                tokio::join!(pass_on(Dripping::every(pause, bytes), send, 1 << 20, PATIENCE), count);
            assert!(matches!(passed, Err(ViewError::Stalled)));
            (began.elapsed(), came)
        })
    }

    #[test]
    fn an_upload_that_stops_arriving_is_aborted() {
        assert_eq!(waited_for(Duration::from_secs(1), 0), (PATIENCE, 0));
    }

    #[test]
    fn a_very_slow_upload_is_aborted() {
        let (waited, came) = waited_for(Duration::from_secs(29), 1000);
        assert_eq!((waited.as_secs(), came), (30, 2));
        let (waited, came) = waited_for(Duration::from_millis(100), 10_000);
        assert_eq!((waited.as_secs(), came), (30, 301));
    }

    /// One byte per 50 microseconds is slightly above the minimum rate.
    #[test]
    fn an_upload_just_above_the_minimum_rate_is_read() {
        let (waited, came) = waited_for(Duration::from_micros(50), 100_000);
        assert_eq!((waited.as_secs(), came), (5 + 30, 100_000));
    }

    #[test]
    fn an_upload_without_a_reader_is_received_too() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (send, chunks) = mpsc::channel(WAITING);
            drop(chunks);
            let body = Dripping::every(Duration::from_micros(10), 2000);
            // The test reaches the maximum length before the end of the body, so everything before it was read.
            assert!(matches!(
                pass_on(body, send, 1999, PATIENCE).await,
                Err(ViewError::TooLarge { limit: 1999 })
            ));
        });
    }
}
