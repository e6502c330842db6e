//! [`PrometheusEndpoint`]: an address that Prometheus scrapes.

mod metrics;
mod scraped_source;
mod server;

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::str::FromStr;
use std::sync::Arc;
use std::thread::JoinHandle;

use thiserror::Error;
use tokio::sync::oneshot;

use crate::source::MemorySource;
use server::Server;

/// Serves the numbers of sources at `http://ADDRESS/metrics`, on a separate thread, until it is dropped.
///
/// ```
/// use vramscope_allocator::{MemoryPool, Policy};
/// use vramscope_profiler::{PoolSource, PrometheusEndpoint};
///
/// let pool = MemoryPool::on_host(Policy::cupy(), 1 << 30)?;
/// let endpoint = PrometheusEndpoint::start(0, vec![PoolSource::new(&pool, 0)?])?; // 0: any free port
/// println!("curl http://{}/metrics", endpoint.address());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Sources are read only when the address is scraped. Unknown numbers are left out. A source that fails, or does not respond within five
/// seconds, has only `vramscope_up 0`. `docs/prometheus.md` lists the metrics.
pub struct PrometheusEndpoint {
    address: SocketAddr,
    /// Dropped to stop the thread.
    running: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
    /// The process that runs the thread. A forked process does not have the thread.
    process: u32,
}

/// The address to listen on: a port on 127.0.0.1, which only this machine reaches, or an IP address and a port.
///
/// ```
/// use vramscope_profiler::ListenAddress;
///
/// assert_eq!("9464".parse::<ListenAddress>()?, ListenAddress::from(9464));
/// assert_eq!(ListenAddress::from(9464).to_string(), "127.0.0.1:9464");
/// assert_eq!("0.0.0.0:9464".parse::<ListenAddress>()?.to_string(), "0.0.0.0:9464");
/// assert!("localhost".parse::<ListenAddress>().is_err());
/// # Ok::<(), vramscope_profiler::PrometheusError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenAddress(SocketAddr);

impl From<u16> for ListenAddress {
    fn from(port: u16) -> Self {
        Self((Ipv4Addr::LOCALHOST, port).into())
    }
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        Self(address)
    }
}

impl FromStr for ListenAddress {
    type Err = PrometheusError;

    fn from_str(text: &str) -> Result<Self, PrometheusError> {
        let port = || text.parse::<u16>().map(Self::from).ok();
        let address = text.parse::<SocketAddr>().map(Self::from).ok().or_else(port);
        address.ok_or_else(|| PrometheusError::NotAnAddress(text.to_owned()))
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The reason why an endpoint was not started.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PrometheusError {
    /// The text is neither a port nor an IP address with a port.
    #[error(
        "`{0}` is not a listen address: use a port such as 9464, or an IP address and a port such as 0.0.0.0:9464"
    )]
    NotAnAddress(String),
    /// The port is in use, or the address does not belong to this machine.
    #[error("cannot listen on {address}: {why}; choose another port, or 0 for any free port")]
    Bind {
        /// The requested address.
        address: SocketAddr,
        /// The system's error.
        why: io::Error,
    },
    /// The system cannot start a thread.
    #[error("cannot start the Prometheus endpoint's thread: {0}")]
    Thread(io::Error),
}

impl PrometheusEndpoint {
    /// Listens at `address`: a port, which only this machine reaches, or a [`SocketAddr`]. Peaks start now.
    ///
    /// # Errors
    /// The port is in use, or the system cannot start a thread.
    pub fn start(
        address: impl Into<ListenAddress>,
        sources: Vec<Arc<dyn MemorySource>>,
    ) -> Result<Self, PrometheusError> {
        let ListenAddress(address) = address.into();
        let bind = |why| PrometheusError::Bind { address, why };
        let listener = TcpListener::bind(address).map_err(bind)?;
        listener.set_nonblocking(true).map_err(bind)?;
        let address = listener.local_addr().map_err(bind)?;
        // One thread per source, so that a source that hangs does not delay the others.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(sources.len().max(1))
            .build()
            .map_err(PrometheusError::Thread)?;
        let listener = {
            let _within = runtime.enter();
            tokio::net::TcpListener::from_std(listener).map_err(bind)?
        };
        let server = Arc::new(Server::new(sources, address.ip().to_canonical().is_loopback()));
        let (running, stopped) = oneshot::channel();
        let serve = move || {
            runtime.spawn(server.serve(listener));
            runtime.block_on(stopped).ok();
            // Do not wait for a source that hangs.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("vramscope-prometheus".to_owned());
        let thread = thread.spawn(serve).map_err(PrometheusError::Thread)?;
        Ok(Self { address, running: Some(running), thread: Some(thread), process: std::process::id() })
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for PrometheusEndpoint {
    /// Closes the port and all connections immediately.
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // This process has no thread to stop, and waking it would wake the parent's thread.
            std::mem::forget((self.running.take(), self.thread.take()));
            return;
        }
        drop(self.running.take());
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}
