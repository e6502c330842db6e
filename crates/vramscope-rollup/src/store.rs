//! [`Stores`]: recordings in stores at `s3://`, `gs://`, `http://` and `https://` URLs.
//!
//! Credentials come from the usual environment variables: `AWS_ACCESS_KEY_ID` and similar, `GOOGLE_APPLICATION_CREDENTIALS`.

use std::io::{self, Read};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use object_store::aws::AmazonS3Builder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientOptions, Error, ObjectMeta, ObjectStore, ObjectStoreExt as _, RetryConfig,
};
use tokio::runtime::Runtime;
use url::Url;
use vramscope_fleet::{Store, Stored};

/// Timeout for any answer of a store: a connection, or the next bytes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Timeout of a connection attempt.
const TO_CONNECT: Duration = Duration::from_secs(5);

/// Number and total duration of retries.
const RETRIES: usize = 3;
const RETRY_FOR: Duration = Duration::from_secs(15);

/// Advice about credentials.
const WHO: &str = "set the credentials in the environment, as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";

/// The runtime for network access.
static NETWORK: LazyLock<io::Result<Runtime>> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).thread_name("stores").enable_all().build()
});

/// Returns the files under a URL, or the file at the URL.
///
/// # Errors
/// A message if the store does not respond or denies access.
pub fn list_stored(address: &str) -> Result<Vec<Stored>, String> {
    let place = StoreLocation::of(address)?;
    waited_for(async {
        // A prefix of a store is not a file.
        if !address.ends_with('/') && !place.path.as_ref().is_empty() {
            match place.store.head(&place.path).await {
                Ok(file) => return Ok(vec![place.stored(&file)]),
                // An HTTP URL is a file, unless it ends in a slash.
                Err(e) if address.starts_with("http") => return Err(in_words(&e)),
                Err(_) => {}
            }
        }
        let mut found = Vec::new();
        let mut files = place.store.list(Some(&place.path));
        while let Some(file) = files.next().await {
            found.push(place.stored(&file.map_err(|e| in_words(&e))?));
        }
        Ok(found)
    })
}

/// Reads files at `s3://`, `gs://`, `http://` and `https://` URLs.
#[derive(Debug)]
pub struct Stores;

impl Store for Stores {
    fn open(&self, address: &str) -> Result<Box<dyn Read + Send>, String> {
        let place = StoreLocation::of(address)?;
        let chunks = waited_for(async {
            let found = place.store.get(&place.path).await.map_err(|e| in_words(&e))?;
            Ok(found.into_stream())
        })?;
        Ok(Box::new(Arriving { chunks, here: Bytes::new() }))
    }
}

/// Blocks until a network operation completes.
fn waited_for<T>(work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let network = NETWORK.as_ref().map_err(|e| format!("cannot access stores: {e}"))?;
    let _entered = network.enter();
    network.block_on(async {
        let late = |_| format!("the store did not answer within {} s", PATIENCE.as_secs());
        tokio::time::timeout(PATIENCE, work).await.map_err(late)?
    })
}

/// A location in a store.
struct StoreLocation {
    store: Arc<dyn ObjectStore>,
    path: Path,
    /// The URL prefix of all paths.
    before: String,
}

impl StoreLocation {
    fn of(address: &str) -> Result<Self, String> {
        let url = Url::parse(address).map_err(|e| format!("is not a URL: {e}"))?;
        let host = url.host_str().ok_or("contains no bucket or host")?;
        let before = match url.port() {
            Some(port) => format!("{}://{host}:{port}/", url.scheme()),
            None => format!("{}://{host}/", url.scheme()),
        };
        let path = Path::from_url_path(url.path()).map_err(|e| e.to_string())?;
        let client = ClientOptions::new().with_timeout_disabled().with_connect_timeout(TO_CONNECT);
        let retries =
            RetryConfig { max_retries: RETRIES, retry_timeout: RETRY_FOR, backoff: BackoffConfig::default() };
        let store: Result<Arc<dyn ObjectStore>, Error> = match url.scheme() {
            "s3" => {
                // Private servers often have no certificate.
                let is_plain = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"]
                    .iter()
                    .any(|name| std::env::var(name).is_ok_and(|endpoint| endpoint.starts_with("http://")));
                let client = client.with_allow_http(is_plain);
                let builder = AmazonS3Builder::from_env().with_bucket_name(host);
                builder.with_client_options(client).with_retry(retries).build().map(|s| Arc::new(s) as _)
            }
            "gs" => {
                let builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(host);
                builder.with_client_options(client).with_retry(retries).build().map(|s| Arc::new(s) as _)
            }
            _ => {
                let client = client.with_allow_http(url.scheme() == "http");
                let builder = HttpBuilder::new().with_url(&before);
                builder.with_client_options(client).with_retry(retries).build().map(|s| Arc::new(s) as _)
            }
        };
        Ok(Self { store: store.map_err(|e| in_words(&e))?, path, before })
    }

    fn stored(&self, file: &ObjectMeta) -> Stored {
        let modified_ns = file.last_modified.timestamp_nanos_opt().unwrap_or(0);
        Stored {
            address: format!("{}{}", self.before, file.location),
            length: file.size,
            modified_ns,
            version: file.e_tag.clone().unwrap_or_else(|| modified_ns.to_string()),
        }
    }
}

/// Returns a store's error on one line.
fn in_words(error: &Error) -> String {
    // The innermost error has the reason; the outer ones contain request numbers.
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let text = innermost.to_string();
    let first = text.lines().next().unwrap_or_default();
    // Errors of listing have no separate variants for these.
    let is_absent = matches!(error, Error::NotFound { .. }) || first.contains("404 Not Found");
    let is_refused = matches!(error, Error::PermissionDenied { .. } | Error::Unauthenticated { .. })
        || ["401 Unauthorized", "403 Forbidden"].iter().any(|status| first.contains(status));
    if is_absent {
        "the store has no such file; check the name of the bucket".to_owned()
    } else if is_refused {
        format!("the store refuses access; {WHO}")
    } else {
        format!("the store cannot be read: {first}")
    }
}

/// Streams the bytes of a file.
struct Arriving {
    chunks: BoxStream<'static, object_store::Result<Bytes>>,
    here: Bytes,
}

impl Read for Arriving {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.here.is_empty() {
            let next = waited_for(async { Ok(self.chunks.next().await) }).map_err(io::Error::other)?;
            match next {
                Some(Ok(chunk)) => self.here = chunk,
                Some(Err(e)) => return Err(io::Error::other(in_words(&e))),
                None => return Ok(0),
            }
        }
        let length = self.here.len().min(out.len());
        out[..length].copy_from_slice(&self.here.split_to(length));
        Ok(length)
    }
}
