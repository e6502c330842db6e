//! A file dropped onto the page: read as it arrives, never kept whole.

use std::io::{self, Read};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body_util::BodyExt as _;
use tokio::sync::mpsc;
use tokio::time::timeout;
use vramscope_trace::formats::{self, Recording};

use crate::ViewError;

/// The largest file that can be dropped onto the page, in bytes.
pub const LARGEST_UPLOAD: u64 = 1 << 30;

/// How long the next part of a file may be on its way.
const PATIENCE: Duration = Duration::from_secs(30);

/// Chunks that wait for the reader.
const WAITING: usize = 16;

/// Reads a recording from the body of a request that says to be `length` bytes long.
pub(crate) async fn read(name: &str, length: Option<u64>, body: Body) -> Result<Recording, ViewError> {
    if length.is_some_and(|length| length > LARGEST_UPLOAD) {
        return Err(ViewError::TooLarge);
    }
    let (send, chunks) = mpsc::channel(WAITING);
    let reading = tokio::task::spawn_blocking(move || {
        let mut stream = Chunks { chunks, rest: Bytes::new() };
        let recording = formats::read(&mut stream, &mut |_| {});
        // A recording may end before its file does.
        recording.map(|r| io::copy(&mut stream, &mut io::sink()).map(|_| r))
    });
    let passed = pass_on(body, send, LARGEST_UPLOAD, PATIENCE).await;
    let read = reading.await?;
    passed?;
    let unreadable = |why| ViewError::Unreadable { name: name.to_owned(), why };
    read.map_err(unreadable)?.map_err(|e| unreadable(e.into()))
}

/// Sends the body on until it ends or nobody wants more.
///
/// # Errors
/// Where it is longer than `most` bytes, or nothing of it comes for so long as `patience`.
async fn pass_on(
    mut body: Body,
    send: mpsc::Sender<io::Result<Bytes>>,
    most: u64,
    patience: Duration,
) -> Result<(), ViewError> {
    let mut length = 0;
    loop {
        let chunk = match timeout(patience, body.frame()).await {
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
        length += chunk.len() as u64;
        if length > most {
            send.send(Err(io::ErrorKind::FileTooLarge.into())).await.ok();
            return Err(ViewError::TooLarge);
        }
        if send.send(Ok(chunk)).await.is_err() {
            return Ok(());
        }
    }
}

/// What has arrived, as a stream of bytes.
struct Chunks {
    chunks: mpsc::Receiver<io::Result<Bytes>>,
    rest: Bytes,
}

impl Read for Chunks {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            match self.chunks.blocking_recv() {
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

    use super::*;

    #[test]
    fn a_body_is_cut_where_it_grows_too_long() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        for (length, fits) in [(0, true), (1000, true), (1001, false)] {
            let (send, chunks) = mpsc::channel(WAITING);
            let passed = runtime.block_on(pass_on(Body::from(vec![7; length]), send, 1000, PATIENCE));
            assert_eq!(passed.is_ok(), fits, "{length}");
            let mut read = Vec::new();
            let end = Chunks { chunks, rest: Bytes::new() }.read_to_end(&mut read);
            assert_eq!((end.is_ok(), read.len()), (fits, if fits { length } else { 0 }));
        }
    }

    /// A body of which nothing comes.
    struct Never;

    impl hyper::body::Body for Never {
        type Data = Bytes;
        type Error = io::Error;

        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
            Poll::Pending
        }
    }

    #[test]
    fn a_body_that_stops_arriving_is_given_up() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (send, chunks) = mpsc::channel(WAITING);
        let passed = runtime.block_on(pass_on(Body::new(Never), send, 1000, Duration::from_millis(10)));
        assert!(matches!(passed, Err(ViewError::Stalled)));
        assert!(Chunks { chunks, rest: Bytes::new() }.read_to_end(&mut Vec::new()).is_err());
    }
}
