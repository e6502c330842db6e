//! `vramscope fleet-scheduler` and `vramscope fleet-executor`

use crate::args::{FleetExecutorArgs, FleetSchedulerArgs};

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
