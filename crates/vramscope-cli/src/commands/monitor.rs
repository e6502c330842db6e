//! `vramscope monitor`

use crate::args::seconds;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use serde::Serialize;
use vramscope::profiler::{
    AlertQuantity, CombinedSource, DeviceMemorySource, EventKind, HostSource, ListenAddress, LogFile,
    LogFormat, MemorySource, MemoryTracker, NvmlSource, PrometheusEndpoint, Reading, Severity, SourceError,
    Threshold, TrackerOptions, TrackerStatistics, live, nvml_devices, starts_on_mig_instance,
};
use vramscope::report::{Shown, bytes, count, device_source};
use vramscope::session::values::command::one_of;
use vramscope::session::values::size;
use vramscope_files::is_same_file;

use crate::Found;
use crate::output::new_recording;
use crate::say::say;

/// Watch a process and log samples of its pool, the GPU and the host at an interval
#[derive(Debug, Clone, Args)]
#[command(after_help = "Quantities of --alert:
  device=90%         device memory in use by all processes
  fragmentation=20%  device memory in free blocks that emptying the cache does not release
  growth=1GiB        growth of allocated bytes per minute
  hidden=2GiB        device memory in use outside of the pool

Examples:
  vramscope monitor 4711 --output run.csv
  vramscope monitor 4711 --alert device=90% --duration 60
  vramscope monitor /run/user/1000/vramscope/4711.sock --prometheus 127.0.0.1:9400

It ends with the process, after --duration, or with Ctrl-C. Exit code 1: an alert was raised.")]
pub(crate) struct MonitorArgs {
    /// A process ID, or the socket of a process that serves its pool
    #[arg(value_name = "PID|SOCKET")]
    pub(crate) target: String,
    /// Write every sample and event to this file as it happens; %t in the name stands for the time
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Replace an existing file of --output
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
    /// Format of the log [default: csv if FILE ends in .csv, else jsonl]
    #[arg(
        long,
        value_name = "FORMAT",
        requires = "output",
        value_parser = one_of(&LOG_FORMATS, log_format_name)
    )]
    pub(crate) format: Option<LogFormat>,
    /// Time between two samples
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "0.1")]
    pub(crate) interval: Duration,
    /// Stop after this time
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) duration: Option<Duration>,
    /// Raise an alert when a quantity reaches a value; may be given several times
    #[arg(long, value_name = "QUANTITY=VALUE")]
    pub(crate) alert: Vec<AlertArg>,
    /// Serve the metrics for Prometheus at this address
    #[arg(long, value_name = "[ADDRESS:]PORT")]
    pub(crate) prometheus: Option<ListenAddress>,
    /// The GPU index in NVML [default: the GPU of the process]
    #[arg(long, value_name = "N")]
    pub(crate) device: Option<i32>,
    /// Print the final summary as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The formats of a log.
const LOG_FORMATS: [LogFormat; 2] = [LogFormat::Csv, LogFormat::JsonLines];

fn log_format_name(format: LogFormat) -> &'static str {
    match format {
        LogFormat::Csv => "csv",
        LogFormat::JsonLines => "jsonl",
    }
}

/// A limit that raises an alert.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AlertArg(pub(crate) Threshold);

impl std::str::FromStr for AlertArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("expected QUANTITY=VALUE, as device=90%")?;
        let percent = || {
            let number = value.trim().trim_end_matches('%').trim().parse::<f64>().ok();
            number
                .filter(|p| (0.0..=100.0).contains(p))
                .ok_or(format!("`{value}` is not a percentage, as 90%"))
        };
        let (quantity, above) = match name.trim() {
            "device" => (AlertQuantity::DevicePercent, percent()?),
            "fragmentation" => (AlertQuantity::ExternalFragmentationPercent, percent()?),
            "growth" => (AlertQuantity::GrowthPerMinute, size(value)? as f64),
            "hidden" => (AlertQuantity::Hidden, size(value)? as f64),
            name => {
                return Err(format!(
                    "unknown quantity `{name}`; use one of device, fragmentation, growth, hidden"
                ));
            }
        };
        Ok(Self(Threshold::new(quantity, Severity::Warning, above)))
    }
}

/// Interval of checks for the end.
const PULSE: Duration = Duration::from_millis(20);

pub(crate) fn run(args: &MonitorArgs) -> anyhow::Result<Found> {
    if let Some(output) =
        args.output.as_deref().filter(|output| is_same_file(output, Path::new(&args.target)))
    {
        bail!("{}: is the watched socket; write to another file", output.display());
    }
    let output = args.output.as_deref();
    let output = output.map(|output| new_recording(Some(output), "", args.force)).transpose()?;
    let args = &MonitorArgs { output, ..args.clone() };
    let source = attach(args)?;
    let options = TrackerOptions {
        interval: args.interval,
        thresholds: args.alert.iter().map(|alert| alert.0).collect(),
        log: args.output.as_deref().map(|path| LogFile {
            format: args.format.unwrap_or_else(|| LogFile::at(path).format),
            path: path.to_owned(),
            replaces: args.force,
        }),
        ..TrackerOptions::default()
    };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // The second signal ends the process at once, in case the first waits for a hanging source.
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .context("cannot wait for Ctrl-C")?;
    }
    let _endpoint = match args.prometheus {
        Some(address) => {
            let endpoint = PrometheusEndpoint::start(address, vec![Arc::clone(&source)])?;
            say(&format!("metrics at http://{}/metrics", endpoint.address()));
            Some(endpoint)
        }
        None => None,
    };
    let name = Shown::of(&source.info().name).to_string();
    let tracker = MemoryTracker::start(source, options)?;
    if let Some(error) = log_error(args, &tracker) {
        bail!("{error}");
    }
    tracker.add_alert_callback(Arc::new(|alert| say(&alert.to_string())));
    if tracker.is_running() && args.duration.is_none() {
        say(&format!("watching {name}; stop with Ctrl-C"));
    }
    let start = Instant::now();
    let mut has_failed = false;
    let ended = loop {
        if !has_failed && let Some(error) = log_error(args, &tracker) {
            say(&format!("warning: {error}; watching goes on"));
            has_failed = true;
        }
        if !tracker.is_running() {
            break Ended::Gone;
        }
        if stop.load(Ordering::Relaxed) {
            break Ended::Interrupted;
        }
        let left = args.duration.map(|duration| duration.saturating_sub(start.elapsed()));
        if left.is_some_and(|left| left.is_zero()) {
            break Ended::Duration;
        }
        std::thread::sleep(left.unwrap_or(PULSE).min(PULSE));
    };
    tracker.stop();
    let summary = MonitorJson::of(args, &name, ended, &tracker);
    for quantity in &summary.never_measured {
        say(&format!("note: {quantity} was never measured, so it raised no alert"));
    }
    if args.json {
        super::print_json(&summary)?;
    } else {
        super::print_text(&summary.text())?;
    }
    if let Some(error) = log_error(args, &tracker) {
        bail!("{error}");
    }
    Ok(if tracker.statistics().alerts == 0 { Found::Nothing } else { Found::Something })
}

/// Why the log is incomplete, with its path.
fn log_error(args: &MonitorArgs, tracker: &MemoryTracker) -> Option<String> {
    let path = args.output.as_deref()?.display();
    let why = match tracker.log_error()? {
        io::ErrorKind::NotFound => "the file was removed or replaced while it was written".to_owned(),
        io::ErrorKind::StorageFull => "no space left on the disk".to_owned(),
        kind => kind.to_string(),
    };
    Some(format!("{path}: {why}; the log is incomplete"))
}

/// The sources of a target: its pool, its host memory, its GPU memory.
fn attach(args: &MonitorArgs) -> anyhow::Result<Arc<dyn MemorySource>> {
    let Ok(pid) = args.target.parse::<u32>() else {
        let path = Path::new(&args.target);
        if !path.metadata().is_ok_and(|metadata| metadata.file_type().is_socket()) {
            bail!("{}: is neither a process ID nor a socket", args.target);
        }
        return Ok(live::RemoteSource::connect(path)?);
    };
    let host = HostSource::of(pid).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => anyhow!("there is no process {pid}"),
        _ => anyhow!("cannot read the memory of process {pid}: {e}"),
    })?;
    let mut source: Arc<dyn MemorySource> = host;
    match on_gpu(args, pid) {
        Ok(gpu) => source = CombinedSource::new(source, gpu),
        Err(why) => say(&format!("note: its GPU memory is unknown: {why}")),
    }
    match served_by(pid) {
        Some(pool) => Ok(CombinedSource::new(pool, source)),
        None => Ok(source),
    }
}

/// The source that a process serves in its user's socket folder. Prints a note about other sources and failures.
fn served_by(pid: u32) -> Option<Arc<live::RemoteSource>> {
    let sockets = live::sockets().unwrap_or_else(|e| {
        say(&format!("note: {e}"));
        Vec::new()
    });
    let name = |path: &Path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let is_its = |path: &Path| {
        let stem = name(path).unwrap_or_default();
        stem.split('-').next() == Some(pid.to_string().as_str())
    };
    let mut found = None;
    let mut silent = true;
    for path in sockets.into_iter().filter(|path| is_its(path)) {
        match live::RemoteSource::connect(&path) {
            Ok(source) if found.is_none() => found = Some(source),
            Ok(other) => {
                let name = &other.hello().source_name;
                say(&format!(
                    "note: the process also serves {name}, which is not watched; to watch it, name {}",
                    path.display()
                ));
            }
            // A socket left by an earlier process with the same ID.
            Err(SourceError::Gone(_)) => {}
            Err(e) => {
                silent = false;
                say(&format!("note: cannot connect to the process: {e}"));
            }
        }
    }
    if found.is_none() && silent {
        say("note: the process serves no pool, so its pool is not visible (see LiveServer)");
    }
    found
}

/// The GPU from `--device`, or the only GPU of the process. CUDA and NVML number GPUs differently, so with several GPUs it is unknown
/// which one the pool uses.
fn on_gpu(args: &MonitorArgs, pid: u32) -> Result<Arc<dyn MemorySource>, String> {
    let devices = nvml_devices().map_err(|e: SourceError| e.to_string())?;
    let used = devices.iter().filter(|d| d.processes.iter().any(|p| p.pid == pid));
    let mut used: Vec<i32> = used.map(|d| d.index as i32).collect();
    // Instances of one GPU have its index.
    used.dedup();
    let device = match (args.device, used.as_slice()) {
        (Some(device), _) | (None, &[device]) => device,
        // The process has no context yet, and can have one only there.
        (None, []) if starts_on_mig_instance(pid) => 0,
        (None, []) => {
            return Err(
                "NVML lists the process on no GPU; use --device N to watch a GPU with all its processes"
                    .to_owned(),
            );
        }
        (None, several) => {
            let several: Vec<String> = several.iter().map(i32::to_string).collect();
            return Err(format!(
                "the process uses several GPUs, {}: choose one with --device",
                several.join(", ")
            ));
        }
    };
    NvmlSource::of_process(device, pid).map(|gpu| gpu as _).map_err(|e| e.to_string())
}

/// Why the watch ended.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum Ended {
    /// The target ended.
    Gone,
    /// `--duration` elapsed.
    Duration,
    /// Ctrl-C.
    Interrupted,
}

/// The output of `vramscope monitor --json`: the summary of a watch.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Monitor"))]
pub(crate) struct MonitorJson {
    source: String,
    /// The file of the log.
    output: Option<String>,
    ended: Ended,
    samples: u64,
    missed_ticks: u64,
    errors: u64,
    /// The reason for the last error.
    last_error: Option<String>,
    /// The highest value of each quantity.
    high: Reading,
    /// Whether `high` is exact for the bytes of the pool. Otherwise it is the highest of the samples.
    high_is_exact: bool,
    alerts: Vec<String>,
    /// Quantities whose alerts could not be raised, because they were never measured.
    never_measured: Vec<&'static str>,
    failed_requests: u64,
}

impl MonitorJson {
    fn of(args: &MonitorArgs, name: &str, ended: Ended, tracker: &MemoryTracker) -> Self {
        let TrackerStatistics { samples, missed_ticks, errors, high, high_is_exact, failed_requests, .. } =
            tracker.statistics();
        let last_error = tracker.events().into_iter().rev().find_map(|event| match event.kind {
            EventKind::Error(why) => Some(Shown::of(&why).into()),
            _ => None,
        });
        let never_measured = tracker.never_measured().iter().map(|t| t.quantity.name()).collect();
        Self {
            source: name.to_owned(),
            output: args.output.as_ref().map(|path| path.display().to_string()),
            ended,
            samples,
            missed_ticks,
            // The last error is the end of the target.
            errors: errors.saturating_sub(u64::from(matches!(ended, Ended::Gone))),
            last_error,
            high,
            high_is_exact: high_is_exact && samples > 0,
            alerts: tracker.alerts().iter().map(ToString::to_string).collect(),
            never_measured,
            failed_requests,
        }
    }

    fn text(&self) -> String {
        let how = match self.ended {
            Ended::Gone => "has ended",
            Ended::Duration => "was watched for the requested time",
            Ended::Interrupted => "was watched until now",
        };
        let mut text = format!("{} {how}: {} samples", self.source, count(self.samples));
        if self.missed_ticks > 0 {
            text += &format!(", {} samples missed", count(self.missed_ticks));
        }
        if let Some(output) = &self.output {
            text += &format!(", in {output}");
        }
        text.push('\n');
        if let Some(why) = &self.last_error {
            let looks = if self.errors == 1 { "sample" } else { "samples" };
            text += &format!("  {} {looks} failed; the last: {why}\n", count(self.errors));
        }
        // Only a pool reports peaks between two samples, and only for the bytes of that pool.
        let high = &self.high;
        for (what, value, exact) in [
            ("requested", high.requested, self.high_is_exact),
            ("allocated", high.allocated, self.high_is_exact),
            ("active", high.active, self.high_is_exact),
            ("reserved", high.reserved, self.high_is_exact),
            ("device used", high.device_used, false),
            ("process used", high.process_used, false),
            ("host memory", high.cpu, false),
        ] {
            if let Some(value) = value {
                let highest = if exact { "peak" } else { "peak of samples" };
                text += &format!("  {what:<16}{:>12}  {highest}\n", bytes(value));
            }
        }
        let source = high
            .device_source
            .filter(|source| matches!(source, DeviceMemorySource::NvmlMig | DeviceMemorySource::Meminfo));
        if let Some(source) = source {
            text += &format!("  the device's bytes are {}\n", device_source(source));
        }
        if self.failed_requests > 0 {
            text += &format!("  {} requests ran out of memory\n", count(self.failed_requests));
        }
        for alert in &self.alerts {
            text += &format!("  {alert}\n");
        }
        text
    }
}
