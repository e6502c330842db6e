//! The local server.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use axum::{Json, Router};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::ViewError;
use crate::answers::{Answer, SearchQuery};
use crate::guard::{Guard, guard};
use crate::library::Library;
use crate::recording::{OpenDevice, OpenRecording};
use crate::{page, upload};

/// A server on this machine alone, under an address with a secret.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    port: u16,
    secret: String,
}

impl Server {
    /// Takes a port of 127.0.0.1; 0 is any free one.
    ///
    /// # Errors
    /// Where the port is taken, or the system has no randomness.
    pub fn bind(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let port = listener.local_addr()?.port();
        let mut secret = [0; 16];
        getrandom::fill(&mut secret).map_err(io::Error::other)?;
        let secret = secret.iter().map(|b| format!("{b:02x}")).collect();
        Ok(Self { listener, port, secret })
    }

    /// The address of the page. Who knows it can read the recordings; nobody can guess it.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/{}/", self.port, self.secret)
    }

    /// Serves `library` until the process ends.
    ///
    /// # Errors
    /// Where the system refuses to go on.
    pub fn serve(self, library: Arc<Library>) -> io::Result<()> {
        let app = app(library, &self.secret, Guard::new(self.port));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(MOST_AT_ONCE)
            .enable_all()
            .build()?;
        runtime.block_on(async {
            self.listener.set_nonblocking(true)?;
            let listener = tokio::net::TcpListener::from_std(self.listener)?;
            axum::serve(listener, app).await
        })
    }
}

/// Questions answered at one time; a page asks a few.
const MOST_AT_ONCE: usize = 16;

/// The longest question: the numbers of all stacks that a search found.
const LONGEST_QUESTION: usize = 64 << 20;

fn app(library: Arc<Library>, secret: &str, admits: Guard) -> Router {
    let device = Router::new()
        .route("/picture", of_device(OpenDevice::picture))
        .route("/live", of_device(|d, at: AtMoment| d.live(at.moment)))
        .route("/layout", of_device(|d, at: AtMoment| d.layout(at.moment)))
        .route("/events", of_device(|d, some: SomeEvents| d.events(some.first, some.count)))
        .route("/allocation", of_device(|d, one: OneAllocation| json(&d.allocation(one.id)?)))
        .route("/regions", of_device(|d, _: Nothing| d.regions()))
        .route("/segments", of_device(|d, _: Nothing| d.segments()))
        .route("/search", post(search).layer(DefaultBodyLimit::max(LONGEST_QUESTION)))
        .route("/report", of_file(|file, device| json(&file.report(device)?)))
        .route("/replay", of_file(|file, device| json(&file.replay(device)?)));
    let api = Router::new()
        .route("/recordings", get(recordings))
        .route("/open", post(open))
        .route("/{file}/names", get(names))
        .nest("/{file}/{device}", device);
    let found = |name: &str| page::asset(name).ok_or(StatusCode::NOT_FOUND);
    Router::new()
        .route(&format!("/{secret}/"), get(async move || found("index.html")))
        .route(&format!("/{secret}/{{name}}"), get(async move |Path(name): Path<String>| found(&name)))
        .nest(&format!("/{secret}/api"), api)
        .layer(from_fn_with_state(admits, guard))
        .with_state(library)
}

#[derive(Deserialize)]
struct Nothing {}

#[derive(Deserialize)]
struct AtMoment {
    moment: usize,
}

#[derive(Deserialize)]
struct SomeEvents {
    first: usize,
    count: usize,
}

#[derive(Deserialize)]
struct OneAllocation {
    id: usize,
}

#[derive(Deserialize)]
struct Name {
    name: String,
}

/// Answers a question about one device.
fn of_device<Q: DeserializeOwned + Send + 'static>(
    answer: fn(&OpenDevice, Q) -> Answer,
) -> MethodRouter<Arc<Library>> {
    get(
        async move |State(library): State<Arc<Library>>,
                    Path((file, device)): Path<(usize, usize)>,
                    Query(question): Query<Q>| {
            let file = library.file(file).await?;
            bytes(move || answer(file.device(device)?, question)).await
        },
    )
}

/// Answers a question about one device that needs its whole file.
fn of_file(answer: fn(&OpenRecording, usize) -> Answer) -> MethodRouter<Arc<Library>> {
    get(async move |State(library): State<Arc<Library>>, Path((file, device)): Path<(usize, usize)>| {
        let file = library.file(file).await?;
        bytes(move || answer(&file, device)).await
    })
}

async fn recordings(State(library): State<Arc<Library>>) -> Result<Response, ViewError> {
    let files = library.all().await;
    bytes(move || json(&files.iter().map(|f| f.overview()).collect::<Vec<_>>())).await
}

async fn names(State(library): State<Arc<Library>>, Path(file): Path<usize>) -> Result<Response, ViewError> {
    let file = library.file(file).await?;
    bytes(move || file.names()).await
}

async fn search(
    State(library): State<Arc<Library>>,
    Path((file, device)): Path<(usize, usize)>,
    Json(query): Json<SearchQuery>,
) -> Result<Response, ViewError> {
    let file = library.file(file).await?;
    bytes(move || file.device(device)?.search(query)).await
}

async fn open(
    State(library): State<Arc<Library>>,
    Query(Name { name }): Query<Name>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ViewError> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|l| l.to_str().ok()?.parse().ok());
    let recording = upload::read(&name, length, body).await?;
    let opened = tokio::task::spawn_blocking(move || OpenRecording::new(name, recording)).await?;
    // The files that were named come first.
    library.all().await;
    let file = library.add(opened);
    Ok(Json(serde_json::json!({ "file": file })).into_response())
}

/// Work off the threads that serve.
async fn bytes(work: impl FnOnce() -> Answer + Send + 'static) -> Result<Response, ViewError> {
    let answer = tokio::task::spawn_blocking(work).await??;
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], answer).into_response())
}

fn json(answer: &impl Serialize) -> Answer {
    Ok(serde_json::to_vec(answer)?)
}
