//! [`Guard`]: which requests a local server accepts.
//!
//! Other processes and web pages on the same machine can reach a local server. A page of another site cannot forge `Origin`. A page
//! that points its host name at 127.0.0.1 (DNS rebinding) still sends that name as `Host`.

use std::net::IpAddr;

use hyper::header::{HOST, HeaderMap, ORIGIN};
use hyper::http::uri::Authority;

/// Which of the requests from [`serve`](crate::serve) a server accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// Requests of the server's own page: `Host` is `127.0.0.1` or `localhost` with the server's port, and the request comes from no
    /// other page.
    OwnPage {
        /// The server's port.
        port: u16,
    },
    /// Requests of programs: `Host` is an IP address or `localhost`, or is missing.
    Programs,
}

impl Guard {
    /// Whether the server accepts a request with these headers.
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
