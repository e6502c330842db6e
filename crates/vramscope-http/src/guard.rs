//! Who may ask a server on this machine.
//!
//! Other programs and web pages on the machine reach a local server. A page of another site cannot lie about `Origin`,
//! and one that points its own name at 127.0.0.1 (DNS rebinding) still sends that name as `Host`.

use std::net::IpAddr;

use hyper::header::{HOST, HeaderMap, ORIGIN};
use hyper::http::uri::Authority;

/// Which questions are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// Those of the server's own page: they name it `127.0.0.1` or `localhost` with its port, and come from no other page.
    OwnPage {
        /// The server's port.
        port: u16,
    },
    /// Those of programs: they name the server by a number or as `localhost`, or do not name it.
    Programs,
}

impl Guard {
    /// Whether a question with these headers is answered.
    pub fn admits(self, headers: &HeaderMap) -> bool {
        match self {
            Self::OwnPage { port } => is_of_own_page(headers, port),
            Self::Programs => headers.get(HOST).is_none_or(|host| {
                let authority = Authority::try_from(host.as_bytes());
                authority.is_ok_and(|authority| {
                    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
                    name == "localhost" || name.parse::<IpAddr>().is_ok()
                })
            }),
        }
    }
}

fn is_of_own_page(headers: &HeaderMap, port: u16) -> bool {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let own = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
    let Some(host) = text(HOST.as_str()).filter(|&host| own.iter().any(|own| own == host)) else {
        return false;
    };
    let is_own = |origin: &str| origin.strip_prefix("http://") == Some(host);
    text(ORIGIN.as_str()).is_none_or(is_own)
        && text("sec-fetch-site").is_none_or(|site| matches!(site, "same-origin" | "none"))
}
