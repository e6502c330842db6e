//! The built page.

use axum::http::header;
use axum::response::{IntoResponse, Response};

/// A file of the page: its name, its type, what is in it.
struct Asset {
    name: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
}

/// Everything that the page is made of. `viewer/` builds it; its copy is committed so that cargo alone builds the command.
const ASSETS: [Asset; 3] = [
    Asset {
        name: "index.html",
        kind: "text/html; charset=utf-8",
        bytes: include_bytes!("../page/index.html"),
    },
    Asset {
        name: "viewer.js",
        kind: "text/javascript; charset=utf-8",
        bytes: include_bytes!("../page/viewer.js"),
    },
    Asset {
        name: "viewer.css",
        kind: "text/css; charset=utf-8",
        bytes: include_bytes!("../page/viewer.css"),
    },
];

/// The file of this name.
///
/// Where `VRAMSCOPE_PAGE` names a directory, files are read from there: for who works on the page.
pub(crate) fn asset(name: &str) -> Option<Response> {
    let asset = ASSETS.iter().find(|a| a.name == name)?;
    let kind = [(header::CONTENT_TYPE, asset.kind)];
    match std::env::var_os("VRAMSCOPE_PAGE") {
        Some(folder) => {
            let bytes = std::fs::read(std::path::Path::new(&folder).join(asset.name)).ok()?;
            Some((kind, bytes).into_response())
        }
        None => Some((kind, asset.bytes).into_response()),
    }
}
