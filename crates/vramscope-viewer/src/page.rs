//! The built page, served or self-contained.

use std::borrow::Cow;
use std::io::{self, Write as _};
use std::path::Path;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use vramscope_trace::OperatorTrace;
use vramscope_trace::formats::{self, Recording};

use crate::ViewError;
use crate::notes::Note;
use vramscope_session::About;
use vramscope_session::columns::{Columns, U8s, Written};

/// A file of the page.
struct Asset {
    name: &'static str,
    bytes: &'static [u8],
}

macro_rules! asset {
    ($name:literal) => {
        Asset { name: $name, bytes: include_bytes!(concat!("../page/", $name)) }
    };
}

/// The files of the page. `viewer/` builds them; they are committed so that cargo alone builds the command.
const PAGE: Asset = asset!("index.html");
const SCRIPT: Asset = asset!("viewer.js");
const STYLE: Asset = asset!("viewer.css");
// The view of all ranks of a job, which only the page of a job loads.
const RANKS: Asset = asset!("ranks.js");
// The parts of a self-contained page: the engine, its worker, and the script that unpacks them.
const ENGINE: Asset = asset!("engine.wasm.gz");
const WORKER: Asset = asset!("worker.js");
const UNPACKING: Asset = asset!("carried.js");

/// The files that a server serves besides the page, with their MIME types.
const SERVED: [(Asset, &str); 3] = [
    (SCRIPT, "text/javascript; charset=utf-8"),
    (RANKS, "text/javascript; charset=utf-8"),
    (STYLE, "text/css; charset=utf-8"),
];

/// The page's HTML. The page of a job preloads the ranks view.
pub(crate) fn index(is_of_ranks: bool) -> String {
    let page = String::from_utf8_lossy(&PAGE.read()).into_owned();
    let ranks = format!("<link rel=\"modulepreload\" crossorigin href=\"./{}\">\n  </head>", RANKS.name);
    if is_of_ranks { page.replacen("</head>", &ranks, 1) } else { page }
}

/// The response with the file of this name.
pub(crate) fn asset(name: &str) -> Option<Response> {
    let (asset, kind) = SERVED.into_iter().find(|(asset, _)| asset.name == name)?;
    Some(([(header::CONTENT_TYPE, kind)], asset.read()).into_response())
}

impl Asset {
    /// The contents. If `VRAMSCOPE_PAGE` names a directory, they are read from there, so that a change of the page needs no
    /// rebuild of the command.
    fn read(&self) -> Cow<'static, [u8]> {
        let folder = std::env::var_os("VRAMSCOPE_PAGE");
        let newer = folder.and_then(|folder| std::fs::read(Path::new(&folder).join(self.name)).ok());
        newer.map_or(Cow::Borrowed(self.bytes), Cow::Owned)
    }
}

/// The parts of a self-contained page that its first script unpacks, beside the engine.
#[derive(Debug, Serialize)]
struct Packed {
    script: U8s,
    style: U8s,
    worker: U8s,
}

/// The recordings of a page.
#[derive(Debug, Serialize)]
struct Carried {
    recordings: Vec<CarriedRecording>,
}

/// A recording as a log or a pickle, compressed with zstd. The engine decompresses it.
#[derive(Debug, Serialize)]
struct CarriedRecording {
    name: String,
    about: About,
    bytes: U8s,
    operators: Option<CarriedTrace>,
}

/// The operators beside a recording as a trace of `torch.profiler`, compressed with zstd.
#[derive(Debug, Serialize)]
struct CarriedTrace {
    name: String,
    bytes: U8s,
}

/// A recording for a page.
#[derive(Debug, Clone, Copy)]
pub struct PageFile<'f> {
    /// The name that the page shows.
    pub name: &'f str,
    /// The recording.
    pub recording: &'f Recording,
    /// The name of a trace's file, and its operators to show beside the recording.
    pub operators: Option<(&'f str, &'f OperatorTrace)>,
}

impl<'f> PageFile<'f> {
    /// A recording without operators.
    #[must_use]
    pub fn new(name: &'f str, recording: &'f Recording) -> Self {
        Self { name, recording, operators: None }
    }
}

/// Recordings and traces below this size, in bytes, are compressed with [`SMALLEST`], which takes less than a second for them.
const SHORT: usize = 4 << 20;
const SMALLEST: i32 = 19;

/// Returns one page with the recordings, notes on them, and the engine that answers questions about them. The page opens from disk, without
/// a server and without a network.
///
/// A log whose [bytes are kept](Recording::log) stays a log. Any other recording becomes a pickle, which lacks the other libraries' memory
/// and the accesses. Operators become a trace with the events that the page shows.
///
/// The parts are base64, so no name or text of a recording can end the element that holds it. The content security policy names the
/// page's scripts and style by their hashes. Only these and the worker run; the page makes the worker from its own parts. The page cannot
/// send requests.
///
/// # Errors
/// If a recording cannot be written.
pub fn self_contained(files: &[PageFile<'_>], notes: &[Note]) -> Result<String, ViewError> {
    let [script, style, worker, engine, unpacking] =
        [SCRIPT, STYLE, WORKER, ENGINE, UNPACKING].map(|asset| asset.read());
    let packed = Columns::answer(|columns| Packed {
        script: columns.u8(script.iter().copied()),
        style: columns.u8(style.iter().copied()),
        worker: columns.u8(worker.iter().copied()),
    })?;
    let packed = STANDARD.encode(gzip(&packed.bytes()?)?);
    let engine = STANDARD.encode(&engine);

    let mut columns = Columns::default();
    let mut carried = Vec::new();
    for &PageFile { name, recording, operators } in files {
        let plain = match &recording.log {
            Some(log) => Cow::Borrowed(&log[..]),
            None => {
                let mut pickle = Vec::new();
                formats::write_pickle(&recording.trace, &mut pickle)?;
                Cow::Owned(pickle)
            }
        };
        let bytes = columns.u8(compressed(&plain)?);
        let operators = match operators {
            Some((name, trace)) => {
                let mut plain = Vec::new();
                formats::write_operators(trace, &mut plain)?;
                Some(CarriedTrace { name: name.to_owned(), bytes: columns.u8(compressed(&plain)?) })
            }
            None => None,
        };
        carried.push(CarriedRecording {
            name: name.to_owned(),
            about: About::of(recording),
            bytes,
            operators,
        });
    }
    let carried = STANDARD.encode(Written { head: Carried { recordings: carried }, columns }.bytes()?);
    // No note may terminate its script element.
    let notes = serde_json::to_string(notes)?.replace('<', "\\u003c");

    let hash = |text: &[u8]| STANDARD.encode(Sha256::digest(text));
    let [unpacking_hash, script_hash, style_hash] = [&unpacking, &script, &style].map(|text| hash(text));
    let unpacking = String::from_utf8_lossy(&unpacking);
    // The script must not contain "</script"; a test checks the built file.
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         script-src 'sha256-{unpacking_hash}' 'sha256-{script_hash}' 'wasm-unsafe-eval'; worker-src data:; \
         style-src 'sha256-{style_hash}'; img-src blob: data:; base-uri 'none'; form-action 'none'\">\n\
         <title>vramscope</title>\n</head>\n<body>\n<div id=\"app\"></div>\n\
         <script type=\"text/plain\" id=\"packed\">{packed}</script>\n\
         <script type=\"text/plain\" id=\"engine\">{engine}</script>\n\
         <script type=\"text/plain\" id=\"recordings\">{carried}</script>\n\
         <script type=\"text/plain\" id=\"notes\">{notes}</script>\n\
         <script>{unpacking}</script>\n</body>\n</html>\n"
    ))
}

/// Compresses a part of a page with zstd.
fn compressed(plain: &[u8]) -> io::Result<Vec<u8>> {
    let level = if plain.len() < SHORT { SMALLEST } else { zstd::DEFAULT_COMPRESSION_LEVEL };
    zstd::encode_all(plain, level)
}

fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_page_can_stand_inside_of_a_page() {
        let unpacking = String::from_utf8_lossy(UNPACKING.bytes).to_ascii_lowercase();
        assert!(SCRIPT.bytes.len() > 10_000 && unpacking.len() > 500, "viewer/ was not built");
        assert!(!unpacking.contains("</script") && !unpacking.contains("<!--"));
    }
}
