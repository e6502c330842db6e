//! A file dropped onto the page: read as it arrives, never kept whole.

use std::io::{self, Read};

use axum::body::{Body, Bytes};
use http_body_util::BodyExt as _;
use tokio::sync::mpsc;
use vramscope_trace::formats::{self, Recording};

use crate::ViewError;

/// The largest file that can be dropped onto the page, in bytes.
pub const LARGEST_UPLOAD: u64 = 1 << 30;

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
    let fits = pass_on(body, send, LARGEST_UPLOAD).await;
    let read = reading.await?;
    if !fits {
        return Err(ViewError::TooLarge);
    }
    let unreadable = |why| ViewError::Unreadable { name: name.to_owned(), why };
    read.map_err(unreadable)?.map_err(|e| unreadable(e.into()))
}

/// Sends the body on until it ends, nobody wants more, or it is longer than `most`: then false.
async fn pass_on(mut body: Body, send: mpsc::Sender<io::Result<Bytes>>, most: u64) -> bool {
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let chunk = match frame {
            Ok(frame) => frame.into_data().unwrap_or_default(),
            Err(e) => {
                send.send(Err(io::Error::other(e))).await.ok();
                return true;
            }
        };
        length += chunk.len() as u64;
        if length > most {
            send.send(Err(io::ErrorKind::FileTooLarge.into())).await.ok();
            return false;
        }
        if send.send(Ok(chunk)).await.is_err() {
            return true;
        }
    }
    true
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
    use super::*;

    #[test]
    fn a_body_is_cut_where_it_grows_too_long() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for (length, fits) in [(0, true), (1000, true), (1001, false)] {
            let (send, chunks) = mpsc::channel(WAITING);
            let passed = runtime.block_on(pass_on(Body::from(vec![7; length]), send, 1000));
            assert_eq!(passed, fits, "{length}");
            let mut read = Vec::new();
            let end = Chunks { chunks, rest: Bytes::new() }.read_to_end(&mut read);
            assert_eq!((end.is_ok(), read.len()), (fits, if fits { length } else { 0 }));
        }
    }
}
