//! The local server.

mod guard;
mod library;
mod open_file;
pub(crate) mod source;
pub(crate) mod sql;
mod status;
mod upload;

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, FromRef, Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::{Service as _, service_fn};
use hyper_util::service::TowerToHyperService;
use serde::Deserialize;
use tokio::sync::Semaphore;
use vramscope_http::{Guard, Limits};

use crate::notes::PageQuery;
use crate::page::{self, PageFile, self_contained};
use vramscope_session::{Pace, Question};

use crate::ViewError;
use guard::guard;
pub use library::{JobFiles, Library};
pub use open_file::OpenFile;
pub use source::SourceFolders;
use source::SourceQuery;
pub use sql::SqlEngine;
pub use upload::LARGEST_UPLOAD;

/// A server on the loopback interface, under an address with a secret.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    port: u16,
    secret: String,
}

impl Server {
    /// Binds a port of 127.0.0.1; 0 selects any free port.
    ///
    /// # Errors
    /// Fails if the port is taken, or if the system has no random numbers.
    pub fn bind(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let port = listener.local_addr()?.port();
        let mut secret = [0; 16];
        getrandom::fill(&mut secret).map_err(io::Error::other)?;
        let secret = secret.iter().map(|b| format!("{b:02x}")).collect();
        Ok(Self { listener, port, secret })
    }

    /// The address of the page. It contains the secret: anyone who knows it can read the recordings.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/{}/", self.port, self.secret)
    }

    /// Serves `library` until the process ends.
    ///
    /// # Errors
    /// Fails if the runtime or the listener cannot be created.
    pub fn serve(self, library: Arc<Library>) -> io::Result<()> {
        let guard = Guard::OwnPage { port: self.port };
        let own = format!("/{}/", self.secret);
        let state = AppState {
            library,
            decoding: Arc::new(Semaphore::new(MOST_DECODING)),
            querying: Arc::new(Semaphore::new(MOST_QUERYING)),
        };
        let app = app(state, &self.secret, guard);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            // For reading dropped files and ranks: one thread per connection, and some for connections that were just closed.
            // Queries run on the threads of their files.
            .max_blocking_threads(2 * LIMITS.connections)
            .enable_all()
            .build()?;
        runtime.block_on(async {
            self.listener.set_nonblocking(true)?;
            let listener = tokio::net::TcpListener::from_std(self.listener)?;
            vramscope_http::serve(listener, LIMITS, |place| {
                let (app, own) = (TowerToHyperService::new(app.clone()), own.clone());
                service_fn(move |request: Request<Incoming>| {
                    // Only requests of the page itself keep a connection's place (see `vramscope_http`).
                    let place = (request.uri().path().starts_with(&own) && guard.admits(request.headers()))
                        .then(|| place.clone());
                    if let Some(place) = &place {
                        place.asks();
                    }
                    let answer = app.call(request);
                    async move {
                        let answer = answer.await;
                        if let Some(place) = &place {
                            place.is_answered();
                        }
                        answer
                    }
                })
            })
            .await;
            Ok(())
        })
    }
}

/// The limits of connections. A page opens about six. 256 is far below the limit of open files per process.
const LIMITS: Limits = Limits {
    connections: 256,
    head: Duration::from_secs(30),
    longest_head: 64 << 10,
    whole: None,
    keep_alive: true,
};

/// The maximum number of dropped files and ranks that are decoded concurrently; others wait.
const MOST_DECODING: usize = 4;

/// The maximum number of SQL queries that are answered concurrently; others wait.
const MOST_QUERYING: usize = 2;

/// The shared state of the routes.
#[derive(Debug, Clone)]
struct AppState {
    library: Arc<Library>,
    decoding: Arc<Semaphore>,
    querying: Arc<Semaphore>,
}

impl FromRef<AppState> for Arc<Library> {
    fn from_ref(state: &AppState) -> Self {
        Arc::clone(&state.library)
    }
}

/// The maximum size of a query in bytes: a search may list all matching stacks.
const LONGEST_QUESTION: usize = 64 << 20;

fn app(state: AppState, secret: &str, admits: Guard) -> Router {
    let api = Router::new()
        .route("/recordings", get(recordings))
        .route("/progress", get(progress))
        .route("/open", post(open))
        .route("/page", post(page_of))
        .route("/ranks", get(ranks))
        .route("/sql", get(sql::tables).post(sql::answer).layer(DefaultBodyLimit::max(sql::LONGEST_SQL)))
        .route("/{file}/source", post(source_of))
        .route("/{file}/read", post(read))
        .route("/{file}/operators", post(operators))
        .route("/{file}/close", post(close))
        .route("/{file}/{device}/ask", post(ask).layer(DefaultBodyLimit::max(LONGEST_QUESTION)));
    let found = |name: &str| page::asset(name).ok_or(StatusCode::NOT_FOUND);
    let is_of_ranks = state.library.is_of_ranks;
    Router::new()
        .route(&format!("/{secret}/"), get(async move || Html(page::index(is_of_ranks))))
        .route(&format!("/{secret}/{{name}}"), get(async move |Path(name): Path<String>| found(&name)))
        .nest(&format!("/{secret}/api"), api)
        .layer(from_fn_with_state(admits, guard))
        .with_state(state)
}

#[derive(Deserialize)]
struct Name {
    name: String,
}

/// Answers a query about one device.
async fn ask(
    State(library): State<Arc<Library>>,
    Path((file, device)): Path<(usize, usize)>,
    question: Bytes,
) -> Result<Response, ViewError> {
    let question = Question::of_json(&question)?;
    let other = match question.other_file() {
        Some(other) => Some(library.file(other).await?.recording().await?),
        None => None,
    };
    let file = library.file(file).await?;
    let answer =
        file.ask(question.pace(), move |f, cancel| question.answer(f, device, other.as_deref(), cancel));
    answer.await.map(bytes)
}

/// The list of the first data of each file; null for a closed file.
async fn recordings(State(library): State<Arc<Library>>) -> Result<Response, ViewError> {
    let mut all = Vec::new();
    for file in library.all().await {
        all.push(match file {
            Some(file) => file.ask(Pace::Quick, |f, _| f.overview_json()).await?,
            None => b"null".to_vec(),
        });
    }
    Ok(bytes([b"[", all.join(&b","[..]).as_slice(), b"]"].concat()))
}

/// How far the files from the command line are read; null if none is being read.
async fn progress(State(library): State<Arc<Library>>) -> Response {
    Json(library.progress()).into_response()
}

/// The data about all ranks of a job.
async fn ranks(State(library): State<Arc<Library>>) -> Result<Response, StatusCode> {
    let ranks = library.ranks().await.ok_or(StatusCode::NOT_FOUND)?;
    Ok(bytes(ranks.answer.clone()))
}

/// Reads a rank's recording, if it is not open, and returns its first data. The rank is identified by its position, so only
/// files of the job can be opened.
async fn read(
    State(AppState { library, decoding, .. }): State<AppState>,
    Path(position): Path<usize>,
) -> Result<Response, ViewError> {
    // Acquiring fails only if the semaphore is closed, which never happens.
    let reading = decoding.acquire().await.ok();
    let file = match library.file(position).await {
        Ok(open) => open,
        Err(_) => tokio::task::spawn_blocking(move || library.read_rank(position))
            .await
            .map_err(|_| ViewError::Failed)??,
    };
    drop(reading);
    file.ask(Pace::Quick, |f, _| f.overview_json()).await.map(bytes)
}

/// The source file of a frame. The path is that of the recording, never one from the request.
async fn source_of(
    State(library): State<Arc<Library>>,
    Path(file): Path<usize>,
    asked: Bytes,
) -> Result<Response, ViewError> {
    let SourceQuery { frame, choice } = serde_json::from_slice(&asked)
        .map_err(|e| ViewError::Question(format!("invalid source request: {e}")))?;
    let open = library.file(file).await?;
    let recorded = open.ask(Pace::Quick, move |f, _| f.path_of(frame).map(str::to_owned)).await?;
    let read = tokio::task::spawn_blocking(move || library.sources.read(&recorded, choice));
    Ok(Json(read.await.map_err(|_| ViewError::Failed)?).into_response())
}

async fn open(
    State(AppState { library, decoding, .. }): State<AppState>,
    Query(Name { name }): Query<Name>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ViewError> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|l| l.to_str().ok()?.parse().ok());
    let recording = upload::read(&name, length, body, decoding, |reader| reader.read()).await?;
    let opened = OpenFile::open(name, recording)?;
    opened.ask(Pace::Quick, |_, _| Ok(())).await?;
    // The files from the command line have the first positions, so wait for them.
    library.all().await;
    let file = library.add(opened);
    Ok(Json(serde_json::json!({ "file": file })).into_response())
}

/// Shows the operators of a dropped trace beside a recording.
async fn operators(
    State(AppState { library, decoding, .. }): State<AppState>,
    Path(file): Path<usize>,
    Query(Name { name }): Query<Name>,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, ViewError> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|l| l.to_str().ok()?.parse().ok());
    let trace = upload::read(&name, length, body, decoding, |reader| reader.read_operators()).await?;
    let open = library.file(file).await?;
    open.ask(Pace::Slow, move |f, _| f.add_operators(&name, Arc::new(trace))).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A self-contained page with files and notes on them.
async fn page_of(State(library): State<Arc<Library>>, asked: Bytes) -> Result<Response, ViewError> {
    let PageQuery { files, notes } = serde_json::from_slice(&asked)
        .map_err(|e| ViewError::Question(format!("invalid page request: {e}")))?;
    let mut open = Vec::new();
    for file in files {
        open.push(library.file(file).await?.recording().await?);
    }
    let make = move || {
        let traces: Vec<_> = open.iter().map(|open| open.operator_trace()).collect();
        let files = open.iter().zip(&traces).map(|(open, trace)| PageFile {
            name: open.session().name(),
            recording: open.session().recording(),
            operators: trace.as_ref().map(|(name, trace)| (name.as_str(), &**trace)),
        });
        self_contained(&files.collect::<Vec<_>>(), &notes)
    };
    let page = tokio::task::spawn_blocking(make).await.map_err(|_| ViewError::Failed)??;
    Ok(Html(page).into_response())
}

async fn close(
    State(library): State<Arc<Library>>,
    Path(file): Path<usize>,
) -> Result<StatusCode, ViewError> {
    // Wait until the files from the command line have their positions.
    library.all().await;
    if library.close(file) { Ok(StatusCode::NO_CONTENT) } else { Err(ViewError::NoFile(file)) }
}

fn bytes(answer: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, "application/octet-stream")], answer).into_response()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::TcpStream;
    use std::time::Instant;

    use vramscope_trace::formats;

    use super::*;

    /// Longer than anything takes here.
    const LONG: Duration = Duration::from_secs(60);

    /// Waits until exactly this number of queries hold the file.
    fn wait_for(file: &Arc<OpenFile>, questions: usize) {
        let began = Instant::now();
        // The library and this test hold it, too.
        while Arc::strong_count(file) != 2 + questions {
            assert!(began.elapsed() < LONG, "{} hold the file", Arc::strong_count(file));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Closing a connection cancels its query, even while it waits in the queue.
    #[test]
    fn closing_a_connection_cancels_its_query() {
        const MANY: usize = 100;
        let recording = formats::read(&br#"{"segments": [], "device_traces": []}"#[..]).unwrap();
        let library = Arc::new(Library::default());
        library.add(OpenFile::open("empty".to_owned(), recording).unwrap());
        library.complete();
        let server = Server::bind(0).unwrap();
        let host = (Ipv4Addr::LOCALHOST, server.port);
        let question = r#"{"question":"replay"}"#;
        let head = format!(
            "POST /{}/api/0/0/ask HTTP/1.1\r\nhost: 127.0.0.1:{}\r\ncontent-length: {}\r\n\r\n{question}",
            server.secret,
            server.port,
            question.len()
        );
        std::thread::spawn({
            let library = Arc::clone(&library);
            move || server.serve(library)
        });
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let file = runtime.block_on(library.file(0)).unwrap();
        // No query is answered, because the answering threads wait for this test.
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let wait = Arc::new(std::sync::Mutex::new(wait));
        let (begun, begins) = std::sync::mpsc::channel::<()>();
        let busy: Vec<_> = (0..2)
            .map(|_| {
                let (file, wait, begun) = (Arc::clone(&file), Arc::clone(&wait), begun.clone());
                runtime.spawn(async move {
                    file.ask(Pace::Slow, move |_, _| {
                        begun.send(()).unwrap();
                        wait.lock().unwrap().recv().ok();
                        Ok(())
                    })
                    .await
                })
            })
            .collect();
        // Everything else queues only after both threads are busy.
        for _ in &busy {
            begins.recv_timeout(LONG).unwrap();
        }
        let mut asking: Vec<TcpStream> = Vec::new();
        for _ in 0..MANY {
            let mut stream = TcpStream::connect(host).unwrap();
            stream.write_all(head.as_bytes()).unwrap();
            asking.push(stream);
        }
        wait_for(&file, busy.len() + MANY);
        asking.truncate(1);
        wait_for(&file, busy.len() + 1);
        drop(release);
        for asked in busy {
            runtime.block_on(asked).unwrap().unwrap();
        }
        wait_for(&file, 0);
    }
}
