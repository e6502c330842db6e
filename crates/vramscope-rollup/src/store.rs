//! [`Stores`]: recordings in stores, `s3://`, `gs://`, and what `http://` and `https://` serve.
//!
//! Who may read is told by the usual environment: `AWS_ACCESS_KEY_ID` and its like, `GOOGLE_APPLICATION_CREDENTIALS`.

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

/// How long a store may take until it says anything: a connection, or the next bytes.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a connection may take.
const TO_CONNECT: Duration = Duration::from_secs(5);

/// How often and how long something that fails is tried again.
const RETRIES: usize = 3;
const RETRY_FOR: Duration = Duration::from_secs(15);

/// Where credentials come from.
const WHO: &str = "who may read is told by the environment, as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";

/// Talks to stores, for whoever waits.
static NETWORK: LazyLock<io::Result<Runtime>> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).thread_name("stores").enable_all().build()
});

/// The files under an address, or the file there.
///
/// # Errors
/// In words where the store does not answer, or refuses.
pub fn list_stored(address: &str) -> Result<Vec<Stored>, String> {
    let place = Place::of(address)?;
    waited_for(async {
        // A prefix of a store has no file of its own.
        if !address.ends_with('/') && !place.path.as_ref().is_empty() {
            match place.store.head(&place.path).await {
                Ok(file) => return Ok(vec![place.stored(&file)]),
                // What HTTP serves is a file, or a folder whose address says so.
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

/// Reads `s3://`, `gs://`, `http://` and `https://`.
#[derive(Debug)]
pub struct Stores;

impl Store for Stores {
    fn open(&self, address: &str) -> Result<Box<dyn Read + Send>, String> {
        let place = Place::of(address)?;
        let chunks = waited_for(async {
            let found = place.store.get(&place.path).await.map_err(|e| in_words(&e))?;
            Ok(found.into_stream())
        })?;
        Ok(Box::new(Arriving { chunks, here: Bytes::new() }))
    }
}

/// Waits for what happens in the network.
fn waited_for<T>(work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let network = NETWORK.as_ref().map_err(|e| format!("cannot talk to stores: {e}"))?;
    let _entered = network.enter();
    network.block_on(async {
        let late = |_| format!("the store said nothing for {} s", PATIENCE.as_secs());
        tokio::time::timeout(PATIENCE, work).await.map_err(late)?
    })
}

/// Where something lies.
struct Place {
    store: Arc<dyn ObjectStore>,
    path: Path,
    /// What stands before paths in addresses.
    before: String,
}

impl Place {
    fn of(address: &str) -> Result<Self, String> {
        let url = Url::parse(address).map_err(|e| format!("is no address: {e}"))?;
        let host = url.host_str().ok_or("names no bucket or host")?;
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
                // A server of one's own has no certificate.
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

/// What a store says, in a line.
fn in_words(error: &Error) -> String {
    // The innermost says it; around it stand numbers of requests.
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let text = innermost.to_string();
    let first = text.lines().next().unwrap_or_default();
    // Listing has no words of its own for these.
    let is_absent = matches!(error, Error::NotFound { .. }) || first.contains("404 Not Found");
    let is_refused = matches!(error, Error::PermissionDenied { .. } | Error::Unauthenticated { .. })
        || ["401 Unauthorized", "403 Forbidden"].iter().any(|status| first.contains(status));
    if is_absent {
        "the store has nothing there; is the bucket called so?".to_owned()
    } else if is_refused {
        format!("the store refuses to show it; {WHO}")
    } else {
        format!("the store cannot be read: {first}")
    }
}

/// The bytes of a file, as they arrive.
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
