//! HTTP/1 connections, bounded in number and in time, and who may ask.
//!
//! The crate `hyper` reads requests and writes answers, but does not bound the number of connections. Here, a new connection
//! always finds a place: where all are taken, one of the others is closed, in the order that [`Places`] describes. So a client that
//! only connects, or sends its request a byte at a time, keeps nobody else waiting.

mod guard;
mod places;

use std::convert::Infallible;
use std::error::Error;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

pub use guard::Guard;
pub use places::{Place, Places};

/// The bounds on connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most connections at a time.
    pub connections: usize,
    /// How long the head of a request may take to arrive, and how long a connection may wait for its next request.
    pub head: Duration,
    /// The most bytes of a head; at least 8 KiB.
    pub longest_head: usize,
    /// How long a connection may last in all; `None` is as long as it is used.
    pub whole: Option<Duration>,
    /// Whether a connection may send more than one request.
    pub keep_alive: bool,
}

/// Accepts connections, and answers each with the service that `answering` makes for its place, until the future is dropped or its
/// runtime ends.
pub async fn serve<S, B>(listener: TcpListener, limits: Limits, answering: impl Fn(Place) -> S)
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Send + 'static,
    S::Future: Send,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    /// How long to wait after a connection could not be accepted, as when the process has too many open files.
    const PAUSE: Duration = Duration::from_millis(100);
    let places = Places::new(limits.connections);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.head);
    http.max_buf_size(limits.longest_head).keep_alive(limits.keep_alive);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        let place = places.take();
        let connection = http.serve_connection(TokioIo::new(stream), answering(place.clone()));
        let whole = limits.whole;
        let held = place.clone();
        let task = tokio::spawn(async move {
            // An error is ignored: the client may have closed the connection.
            match whole {
                Some(whole) => drop(timeout(whole, connection).await),
                None => drop(connection.await),
            }
            drop(held);
        });
        place.is_ended_by(task.abort_handle());
    }
}

/// The README's example, compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
