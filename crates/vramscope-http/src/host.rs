//! The host of a request, as section 3.2 of RFC 9112 has it.

use hyper::header::{HOST, HeaderValue};
use hyper::http::uri::Authority;
use hyper::{Request, Version};

/// Returns the request with exactly one valid `Host`: that of the header or, for a target in absolute form, that of the target. Only a
/// request of HTTP/1.0 may have none. The error is the reason for the status 400.
pub(crate) fn with_one_host<T>(mut request: Request<T>) -> Result<Request<T>, &'static str> {
    let mut hosts = request.headers().get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (_, Some(_)) => return Err("more than one `Host` header"),
        (Some(host), None) if !host.is_empty() && Authority::try_from(host.as_bytes()).is_err() => {
            return Err("the `Host` header is not a host");
        }
        (None, None) if request.version() != Version::HTTP_10 => return Err("no `Host` header"),
        (Some(_) | None, None) => {}
    }
    if let Some(target) = request.uri().authority() {
        let host = HeaderValue::from_str(target.as_str()).map_err(|_| "the target is not a URI")?;
        request.headers_mut().insert(HOST, host);
    }
    Ok(request)
}
