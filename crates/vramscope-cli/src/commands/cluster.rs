//! `vramscope fleet-scheduler` and `vramscope fleet-executor`

use std::path::PathBuf;

use clap::Args;

/// Run the scheduler of a cluster for `fleet --cluster` and `query --cluster`
#[derive(Debug, Args)]
#[command(
    after_help = "This is the scheduler of Apache Ballista with vramscope's tables. Anyone who can connect to it can make its executors
read recordings: run it only in a network that you trust.

Example:
  vramscope fleet-scheduler --listen 0.0.0.0:50050"
)]
pub(crate) struct FleetSchedulerArgs {
    /// The address to listen on
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:50050")]
    pub(crate) listen: std::net::SocketAddr,
    /// The host name or address at which executors reach the scheduler
    #[arg(long, value_name = "HOST", default_value = "localhost")]
    pub(crate) external_host: String,
}

/// Run an executor of a cluster, which reads recordings
#[derive(Debug, Args)]
#[command(
    after_help = "This is an executor of Apache Ballista with vramscope's tables. It resolves paths on its machine, and accesses stores
with the credentials from its environment.

Example:
  vramscope fleet-executor --scheduler scheduler:50050 --listen 0.0.0.0:50051 --external-host $(hostname -i)"
)]
pub(crate) struct FleetExecutorArgs {
    /// The address of the scheduler
    #[arg(long, value_name = "HOST:PORT", default_value = "localhost:50050")]
    pub(crate) scheduler: String,
    /// The address to listen on; the executor also uses the next port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:50051")]
    pub(crate) listen: std::net::SocketAddr,
    /// The host name or address at which others reach the executor [default: the address that the scheduler sees]
    #[arg(long, value_name = "HOST")]
    pub(crate) external_host: Option<String>,
    /// Number of recordings read in parallel [default: number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,
    /// Folder for partial results until they are fetched [default: a temporary folder, removed at exit]
    #[arg(long, value_name = "DIR")]
    pub(crate) work_dir: Option<PathBuf>,
}

#[cfg(not(feature = "rollup"))]
pub(crate) fn run_scheduler(_: &FleetSchedulerArgs) -> anyhow::Result<()> {
    anyhow::bail!("this build of vramscope has no cluster support; {}", crate::ranks::WITH_ROLLUP)
}

#[cfg(not(feature = "rollup"))]
pub(crate) fn run_executor(_: &FleetExecutorArgs) -> anyhow::Result<()> {
    anyhow::bail!("this build of vramscope has no cluster support; {}", crate::ranks::WITH_ROLLUP)
}

/// Prints warnings of Ballista and of `vramscope-rollup` to stderr, one line each.
#[cfg(feature = "rollup")]
struct Warnings;

#[cfg(feature = "rollup")]
impl log::Log for Warnings {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::Level::Warn
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            crate::say::say(&format!("{}: {}", record.level().as_str().to_lowercase(), record.args()));
        }
    }

    fn flush(&self) {}
}

#[cfg(feature = "rollup")]
fn say_warnings() {
    // A logger that is already installed gets them instead.
    if log::set_logger(&Warnings).is_ok() {
        log::set_max_level(log::LevelFilter::Warn);
    }
}

#[cfg(feature = "rollup")]
pub(crate) fn run_scheduler(args: &FleetSchedulerArgs) -> anyhow::Result<()> {
    say_warnings();
    crate::say::say(&format!("scheduling at {}", args.listen));
    Ok(vramscope_rollup::run_scheduler(args.listen, &args.external_host)?)
}

#[cfg(feature = "rollup")]
pub(crate) fn run_executor(args: &FleetExecutorArgs) -> anyhow::Result<()> {
    let executor = vramscope_rollup::Executor {
        scheduler: args.scheduler.clone(),
        listen: args.listen,
        external_host: args.external_host.clone(),
        cores: args.jobs.map_or(0, usize::from),
        work_dir: args.work_dir.clone(),
    };
    say_warnings();
    crate::say::say(&format!("working at {} for {}", args.listen, args.scheduler));
    Ok(executor.run()?)
}
