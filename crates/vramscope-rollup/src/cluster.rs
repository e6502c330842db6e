//! A cluster of Apache Ballista: its scheduler and executors with vramscope's table. Ballista schedules, shuffles and retries.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ballista::prelude::SessionContextExt as _;
use ballista_core::extension::SessionConfigExt as _;
use ballista_core::utils::default_session_builder;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::start_server;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use url::Url;
use vramscope_files::PrivateFolder;

use crate::codec::Codec;
use crate::sandbox;
use crate::scan::Says;

/// Heartbeat interval of an executor in seconds.
const HEARTBEAT: u64 = 2;

/// Default port of a scheduler.
const PORT: u16 = 50050;

/// Timeout of a connection attempt.
const TO_CONNECT: Duration = Duration::from_secs(5);

/// Seconds without a heartbeat after which an executor counts as dead, and others take over its work.
const DEAD_AFTER: u64 = 10;

/// Why a part of a cluster failed.
#[derive(Debug, Error)]
pub enum ClusterError {
    /// An address is invalid.
    #[error("{address}: is not a scheduler address as {example}: {why}")]
    Address {
        /// The address.
        address: String,
        /// A valid address.
        example: &'static str,
        /// The reason.
        why: String,
    },
    /// No scheduler listens at the address.
    #[error("no scheduler answers at {address}; start one with `vramscope fleet-scheduler`")]
    NoScheduler {
        /// The address.
        address: String,
    },
    /// Ballista failed.
    #[error("{0}")]
    Ballista(String),
    /// A thread could not be started.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Returns a context that runs queries on a cluster.
pub(crate) async fn client(scheduler: &str, config: SessionConfig) -> Result<SessionContext, ClusterError> {
    let wrong = |why: &str| ClusterError::Address {
        address: scheduler.to_owned(),
        example: "df://host:50050",
        why: why.to_owned(),
    };
    let url = Url::parse(scheduler).map_err(|e| wrong(&e.to_string()))?;
    let host = url.host_str().filter(|_| url.scheme() == "df").ok_or_else(|| wrong("it contains no host"))?;
    let address = (host, url.port().unwrap_or(PORT));
    // Checked first, because a query without a scheduler would wait for a long time.
    let connected = tokio::time::timeout(TO_CONNECT, TcpStream::connect(address)).await;
    if !matches!(connected, Ok(Ok(_))) {
        return Err(ClusterError::NoScheduler { address: format!("{}:{}", address.0, address.1) });
    }
    let state = SessionStateBuilder::new()
        .with_config(with_codec(config.upgrade_for_ballista()))
        .with_default_features()
        .build();
    let context = SessionContext::remote_with_state(scheduler, state).await;
    context.map_err(|e| ClusterError::Ballista(e.strip_backtrace()))
}

fn codec() -> Arc<Codec> {
    Arc::new(Codec::new(Says::default()))
}

fn with_codec(config: SessionConfig) -> SessionConfig {
    let codec = codec();
    config.with_ballista_logical_extension_codec(codec.clone()).with_ballista_physical_extension_codec(codec)
}

/// An executor of a cluster.
#[derive(Debug, Clone)]
pub struct Executor {
    /// The host and port of the scheduler.
    pub scheduler: String,
    /// The address to listen on; the executor also uses the next port.
    pub listen: SocketAddr,
    /// The host name or address at which others reach the executor.
    pub external_host: Option<String>,
    /// Number of recordings processed in parallel; 0 is the number of cores.
    pub cores: usize,
    /// Folder for partial results until they are fetched.
    pub work_dir: Option<PathBuf>,
}

impl Executor {
    /// Runs until a signal arrives.
    ///
    /// # Errors
    /// The scheduler cannot be reached, or an address is in use.
    pub fn run(&self) -> Result<(), ClusterError> {
        let wrong = |why: &str| ClusterError::Address {
            address: self.scheduler.clone(),
            example: "host:50050",
            why: why.to_owned(),
        };
        let (host, port) = self.scheduler.rsplit_once(':').ok_or_else(|| wrong("it has no port"))?;
        let port = port.parse().map_err(|_| wrong("its port is not a number"))?;
        let codec = codec();
        // Removed with its contents when the process ends. Only its owner can access it, because executors serve its files.
        let own = PrivateFolder::new("vramscope-")?;
        let work_dir = self.work_dir.as_deref().unwrap_or(own.path());
        let spilled = work_dir.to_owned();
        let config = ExecutorProcessConfig {
            bind_host: self.listen.ip().to_string(),
            external_host: self.external_host.clone(),
            port: self.listen.port(),
            grpc_port: self.listen.port().checked_add(1).ok_or_else(|| wrong("there is no next port"))?,
            scheduler_host: host.to_owned(),
            scheduler_port: port,
            scheduler_connect_timeout_seconds: 30,
            vcores: self.cores,
            work_dir: Some(work_dir.display().to_string()),
            executor_heartbeat_interval_seconds: HEARTBEAT,
            override_runtime_producer: Some(Arc::new(move |_| {
                sandbox::without_stores().with_temp_file_path(&spilled).build_arc()
            })),
            override_logical_codec: Some(codec.clone()),
            override_physical_codec: Some(codec),
            ..ExecutorProcessConfig::default()
        };
        Runtime::new()?
            .block_on(start_executor_process(Arc::new(config)))
            .map_err(|e| ClusterError::Ballista(e.to_string()))
    }
}

/// Runs the scheduler of a cluster at an address.
///
/// # Errors
/// The address is in use.
pub fn run_scheduler(listen: SocketAddr, external_host: &str) -> Result<(), ClusterError> {
    let codec = codec();
    let config = SchedulerConfig {
        bind_host: listen.ip().to_string(),
        bind_port: listen.port(),
        external_host: external_host.to_owned(),
        executor_timeout_seconds: DEAD_AFTER,
        expire_dead_executor_interval_seconds: HEARTBEAT,
        override_session_builder: Some(Arc::new(|config| {
            let state = SessionStateBuilder::new_from_existing(default_session_builder(config)?);
            Ok(state.with_runtime_env(sandbox::without_stores().build_arc()?).build())
        })),
        override_logical_codec: Some(codec.clone()),
        override_physical_codec: Some(codec),
        ..SchedulerConfig::default()
    };
    let serve = async {
        let cluster = BallistaCluster::new_from_config(&config).await?;
        start_server(cluster, listen, Arc::new(config)).await
    };
    Runtime::new()?.block_on(serve).map_err(|e| ClusterError::Ballista(e.to_string()))
}
