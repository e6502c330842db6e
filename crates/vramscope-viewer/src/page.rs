//! The built page, served or with recordings inside.

use std::borrow::Cow;
use std::io::Write as _;
use std::path::Path;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use sha2::{Digest as _, Sha256};
use vramscope_analysis::Cancel;
use vramscope_trace::formats::Recording;

use crate::ViewError;
use crate::packed::pack;
use crate::recording::OpenRecording;

/// A file of the page.
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

/// The answer that is the file of this name.
pub(crate) fn asset(name: &str) -> Option<Response> {
    let asset = ASSETS.iter().find(|a| a.name == name)?;
    Some(([(header::CONTENT_TYPE, asset.kind)], asset.read()).into_response())
}

impl Asset {
    /// The contents. Where `VRAMSCOPE_PAGE` names a directory they are read from there, so that a change of the page needs no new
    /// build of the command.
    fn read(&self) -> Cow<'static, [u8]> {
        let folder = std::env::var_os("VRAMSCOPE_PAGE");
        let newer = folder.and_then(|folder| std::fs::read(Path::new(&folder).join(self.name)).ok());
        newer.map_or(Cow::Borrowed(self.bytes), Cow::Owned)
    }
}

/// One page with the recordings, each with its name, inside: it opens from disk, without a server and without a network.
///
/// The recordings are one answer (`packed.rs`), deflated and written in base64, which no name in them can leave. The policy in the page
/// names its own script and style by their hashes: no other is run, and nobody can be reached.
///
/// # Errors
/// Where an answer cannot be written out.
pub fn self_contained(recordings: Vec<(String, Recording)>) -> Result<String, ViewError> {
    let open = recordings.into_iter().filter_map(|(name, r)| OpenRecording::of(name, r, &Cancel::default()));
    let open: Vec<_> = open.collect();
    let mut deflated = DeflateEncoder::new(Vec::new(), Compression::best());
    deflated.write_all(&pack(&open)?)?;
    let data = STANDARD.encode(deflated.finish()?);
    let [_, script, style] = ASSETS.map(|a| String::from_utf8_lossy(&a.read()).into_owned());
    let [script_hash, style_hash] = [&script, &style].map(|text| STANDARD.encode(Sha256::digest(text)));
    // The script does not contain "</script", and the style not "</style": a test checks what is built.
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'sha256-{script_hash}'; \
         style-src 'sha256-{style_hash}'; img-src blob: data:; base-uri 'none'; form-action 'none'\">\n\
         <title>vramscope</title>\n<style>{style}</style>\n</head>\n<body>\n<div id=\"app\"></div>\n\
         <script type=\"application/octet-stream\" id=\"recording\">{data}</script>\n\
         <script type=\"module\">{script}</script>\n</body>\n</html>\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_page_can_stand_inside_of_a_page() {
        let [_, script, style] = ASSETS.map(|a| String::from_utf8_lossy(a.bytes).to_ascii_lowercase());
        assert!(script.len() > 10_000, "viewer/ was not built");
        assert!(!script.contains("</script") && !script.contains("<!--"));
        assert!(!style.contains("</style"));
    }
}
