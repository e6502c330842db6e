//! HTTP/1 server with limits on the number and the duration of connections, and a check of who sends requests.
//!
//! The crate `hyper` reads requests and writes responses, but does not limit the number of connections. At the limit of this crate, a new
//! connection waits for a short time, and may replace another one in the order that [`ConnectionPlaces`] describes. So a client that only
//! connects, or sends its request one byte at a time, does not block other clients. If all connections have a request in progress, the
//! answer is 503 with `Retry-After`.

mod guard;
mod host;
mod places;

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout, timeout_at};

pub use guard::Guard;
pub use places::{ConnectionPlace, ConnectionPlaces};

/// Limits on connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of open connections. [`REFUSED`] more may be open for a second, until they have read that the server is busy.
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

/// Maximum number of open connections that are refused.
pub const REFUSED: usize = 64;

/// Time without a free place after which new connections are refused, and maximum duration of a refused connection.
const PATIENCE: Duration = Duration::from_secs(1);

/// Accepts connections and serves each with the service that `answering` creates for its place. Runs until the future is dropped or its
/// runtime ends.
///
/// The service gets requests with exactly one valid `Host`, or none in HTTP/1.0. Other requests are answered with the status 400.
pub async fn serve<S, B>(listener: TcpListener, limits: Limits, answering: impl Fn(ConnectionPlace) -> S)
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Send + 'static,
    S::Future: Send,
    B: Body + From<&'static str> + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    /// Pause after a failed accept, for example when the process has too many open files.
    const PAUSE: Duration = Duration::from_millis(100);
    let places = ConnectionPlaces::new(limits.connections);
    let refusals = Arc::new(Semaphore::new(REFUSED));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.head);
    http.max_buf_size(limits.longest_head).keep_alive(limits.keep_alive);
    let mut last_taken = Instant::now();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        let stream = TokioIo::new(stream);
        // A place that is free is taken after any time.
        let Ok(place) = timeout_at(last_taken + PATIENCE, places.take()).await else {
            let permit = Arc::clone(&refusals).acquire_owned().await;
            let refused = http.serve_connection(stream, service_fn(refuse));
            tokio::spawn(async move {
                drop(timeout(PATIENCE, refused).await);
                drop(permit);
            });
            continue;
        };
        last_taken = Instant::now();
        let service = answering(place.clone());
        let checked = service_fn(move |request| {
            let answer = host::with_one_host(request).map(|request| service.call(request));
            async move {
                match answer {
                    Ok(answer) => answer.await,
                    Err(reason) => Ok(closing(StatusCode::BAD_REQUEST, reason)),
                }
            }
        });
        let connection = http.serve_connection(stream, checked);
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

/// Answers that all connections are in use. The request is read first: a connection that is closed with unread bytes is reset, and the
/// client may lose the answer.
async fn refuse(_: Request<Incoming>) -> Result<Response<String>, Infallible> {
    let mut busy =
        closing(StatusCode::SERVICE_UNAVAILABLE, "all connections are in use; try again in a second");
    busy.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    Ok(busy)
}

/// Returns an answer after which the connection ends.
fn closing<B: From<&'static str>>(status: StatusCode, text: &'static str) -> Response<B> {
    let mut response = Response::new(B::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// The README's example, compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
