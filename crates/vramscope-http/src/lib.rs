//! HTTP/1 connections, bounded in number and in time, and who may ask.
//!
//! hyper answers, and bounds neither how many connect nor whom they keep out. Here a new connection always finds a place:
//! where all are taken, the one that deserves it least is ended, see [`Places`]. So nobody who only connects, or
//! sends a question a byte at a time, keeps others waiting.

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

/// What a connection may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time.
    pub connections: usize,
    /// How long the head of a question may take to come, and how long a connection may wait for its next question.
    pub head: Duration,
    /// The longest head, in bytes; at least 8 KiB.
    pub longest_head: usize,
    /// How long a connection may last; `None`: as long as it is used.
    pub whole: Option<Duration>,
    /// Whether one connection may ask more than once.
    pub keep_alive: bool,
}

/// Answers with the service that `answering` makes of each connection's place, until the future is dropped or its runtime
/// ends.
pub async fn serve<S, B>(listener: TcpListener, limits: Limits, answering: impl Fn(Place) -> S)
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Send + 'static,
    S::Future: Send,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    /// The process may have no file to spare at the moment.
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
            // Whoever asked may have left.
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
