//! HTTP/1 server with limits on the number and the duration of connections, and a check of who sends requests.
//!
//! The crate `hyper` reads requests and writes responses, but does not limit the number of connections. This crate accepts every new
//! connection: at the limit, it closes another connection in the order that [`ConnectionPlaces`] describes. So a client that only connects, or
//! sends its request one byte at a time, does not block other clients.

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
pub use places::{ConnectionPlace, ConnectionPlaces};

/// Limits on connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of open connections.
    pub connections: usize,
    /// Maximum time until the head of a request has arrived, and maximum time that a connection may wait for its next request.
    pub head: Duration,
    /// Maximum size of a request's head in bytes; at least 8 KiB.
    pub longest_head: usize,
    /// Maximum duration of a connection; `None` is unlimited.
    pub whole: Option<Duration>,
    /// Whether a connection may send more than one request.
    pub keep_alive: bool,
}

/// Accepts connections and serves each with the service that `answering` creates for its place. Runs until the future is dropped or its
/// runtime ends.
pub async fn serve<S, B>(listener: TcpListener, limits: Limits, answering: impl Fn(ConnectionPlace) -> S)
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Send + 'static,
    S::Future: Send,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    /// Pause after a failed accept, for example when the process has too many open files.
    const PAUSE: Duration = Duration::from_millis(100);
    let places = ConnectionPlaces::new(limits.connections);
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
            // Ignore errors: the client may have closed the connection.
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
