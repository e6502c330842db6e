//! Serves the path `/metrics` over HTTP, with limits on connections, sizes and times.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;
use vramscope_http::{Guard, Limits};

use super::metrics::{self, Labels};
use super::scraped_source::{Scraped, ScrapedSource};
use crate::source::MemorySource;

/// Prometheus waits ten seconds for a response. Connections without a request make room for a scrape.
const LIMITS: Limits = Limits {
    connections: 256,
    head: Duration::from_secs(10),
    longest_head: 16 << 10,
    whole: Some(Duration::from_secs(10)),
    keep_alive: false,
};

/// Timeout for reading a source.
const LONGEST_SCRAPE: Duration = Duration::from_secs(5);

pub(super) struct Server {
    sources: Vec<(Labels, Arc<Mutex<ScrapedSource>>)>,
    /// Whether it listens on a loopback address, which only this machine reaches.
    local: bool,
}

impl Server {
    pub(super) fn new(sources: Vec<Arc<dyn MemorySource>>, local: bool) -> Self {
        let labels = metrics::labels(&sources);
        let scraped_source =
            sources.into_iter().map(|source| Arc::new(Mutex::new(ScrapedSource::new(source))));
        Self { sources: labels.into_iter().zip(scraped_source).collect(), local }
    }

    /// Responds until it is dropped.
    pub(super) async fn serve(self: Arc<Self>, listener: TcpListener) {
        vramscope_http::serve(listener, LIMITS, |place| {
            let server = Arc::clone(&self);
            service_fn(move |request| {
                let (server, place) = (Arc::clone(&server), place.clone());
                async move {
                    place.asks();
                    let answer = server.answer(&request).await;
                    place.is_answered();
                    Ok::<_, Infallible>(answer)
                }
            })
        })
        .await;
    }

    async fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if self.local && !Guard::Programs.admits(request.headers()) {
            return says(StatusCode::FORBIDDEN, "use the host 127.0.0.1 or localhost");
        }
        if request.uri().path() != "/metrics" {
            return says(StatusCode::NOT_FOUND, "only /metrics exists");
        }
        if request.method() != Method::GET {
            let mut response = says(StatusCode::METHOD_NOT_ALLOWED, "only GET is supported");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
            return response;
        }
        match metrics::text(self.scrape().await) {
            Ok(text) => response(StatusCode::OK, metrics::CONTENT_TYPE, text),
            Err(_) => says(StatusCode::INTERNAL_SERVER_ERROR, "the metrics could not be written"),
        }
    }

    /// Reads all sources concurrently.
    async fn scrape(&self) -> Vec<(Labels, Scraped)> {
        let mut scrapes = JoinSet::new();
        for (i, (_, scraped_source)) in self.sources.iter().enumerate() {
            let scrape = timeout(LONGEST_SCRAPE, scrape(Arc::clone(scraped_source)));
            scrapes.spawn(async move { (i, scrape.await.unwrap_or_default()) });
        }
        let mut seen: Vec<_> = self.sources.iter().map(|(l, _)| (l.clone(), Scraped::default())).collect();
        while let Some(scrape) = scrapes.join_next().await {
            if let Ok((i, scrape)) = scrape {
                seen[i].1 = scrape;
            }
        }
        seen
    }
}

/// Reads a source outside the server's thread, one request at a time.
async fn scrape(scraped_source: Arc<Mutex<ScrapedSource>>) -> Scraped {
    let mut scraped_source = scraped_source.lock_owned().await;
    // A source that panics counts as failed.
    spawn_blocking(move || scraped_source.scrape()).await.unwrap_or_default()
}

fn says(status: StatusCode, words: &str) -> Response<Full<Bytes>> {
    response(status, "text/plain; charset=utf-8", format!("{words}\n"))
}

fn response(status: StatusCode, kind: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
