//! Refuses requests that do not come from the page itself.
//!
//! Other programs and web pages on the same machine can reach a local server. The secret in the address keeps them
//! out. Where it leaks, web pages are still refused: a page of another site cannot lie about `Origin`, and one that
//! points its own name at 127.0.0.1 (DNS rebinding) still sends that name as `Host`.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// The names under which the server may be asked, with its port.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    hosts: [String; 2],
}

/// Headers of every answer: what the page may do, and that nothing of it is stored.
const HEADERS: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' blob: data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

impl Guard {
    pub(crate) fn new(port: u16) -> Self {
        Self { hosts: [format!("127.0.0.1:{port}"), format!("localhost:{port}")] }
    }

    /// Whether a request with these headers was sent to this server, and not by a page of another site.
    pub(crate) fn admits(&self, headers: &HeaderMap) -> bool {
        let text = |name: HeaderName| headers.get(name).map(|v| v.to_str().unwrap_or("?"));
        let Some(host) = text(header::HOST).filter(|&host| self.hosts.iter().any(|h| h == host)) else {
            return false;
        };
        let same_origin = |origin: &str| origin.strip_prefix("http://") == Some(host);
        let site = text(HeaderName::from_static("sec-fetch-site"));
        text(header::ORIGIN).is_none_or(same_origin)
            && site.is_none_or(|site| matches!(site, "same-origin" | "none"))
    }
}

/// The middleware that refuses what does not come from the page, and adds [`HEADERS`] to every answer.
pub(crate) async fn guard(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let mut response = if guard.admits(request.headers()) {
        next.run(request).await
    } else {
        StatusCode::FORBIDDEN.into_response()
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
