//! `vramscope replay`

use std::sync::OnceLock;
use std::time::Instant;

use anyhow::{Context as _, bail};
use indicatif::{ProgressBar, ProgressStyle};
use vramscope::analysis::{Capacity, DeviceReplay, Frames, ReplayOptions, Setting};
use vramscope::report::{ReplayAnswers, ReplayJson, TextOptions, replay};
use vramscope::trace::{Trace, conf_with};

use crate::Found;
use crate::advice::ADVICE;
use crate::args::ReplayArgs;
use crate::input;
use crate::progress::{PATIENCE, is_watched};

pub(crate) fn run(args: &ReplayArgs) -> anyhow::Result<Found> {
    let capacity = args.capacity.or(args.gpu).map(|total| Capacity { total, overhead: args.overhead });
    if capacity.is_some_and(|c| c.total == 0) {
        bail!("--capacity 0: a device needs memory");
    }
    if let Some(c) = capacity.filter(|c| c.overhead >= c.total) {
        bail!("--overhead {} leaves nothing of a device of {} bytes", c.overhead, c.total);
    }
    if args.overhead > 0 && capacity.is_none() && !args.find_capacity {
        bail!("--overhead is a part of the device memory: set the device size with --capacity or --gpu");
    }
    let recording = input::read(&args.file, args.reading.options())?;
    let name = input::name(&args.file);
    let trace = &recording.trace;
    let devices = super::devices(&name, trace, args.device)?;
    let options = ReplayOptions { capacity, ..settings(args, trace)? };
    let frames = Frames::of(trace);
    let progress = Progress { started: Instant::now(), bar: OnceLock::new() };
    let replayed: Result<Vec<DeviceReplay>, _> = devices
        .into_iter()
        .map(|device| DeviceReplay::of(trace, device, &frames, &options, &|| progress.step()))
        .collect();
    progress.done();
    let replayed = replayed.with_context(|| name.clone())?;
    let found = if replayed.iter().all(|d| fits(d, &options)) { Found::Nothing } else { Found::Something };
    let answers = ReplayAnswers {
        file: &name,
        recording: &recording,
        frames: &frames,
        devices: replayed,
        advice: ADVICE,
    };
    if args.json {
        super::print_json(&ReplayJson::new(&answers))?;
    } else {
        super::print_text(&replay(
            &answers,
            TextOptions { width: super::width(), top: 10, full_stacks: false },
        ))?;
    }
    Ok(found)
}

/// The settings to replay under, parsed as PyTorch does.
fn settings(args: &ReplayArgs, trace: &Trace) -> anyhow::Result<ReplayOptions> {
    let release = args.torch.unwrap_or_else(|| trace.shown_release());
    let setting = match &args.conf {
        Some(conf) => Some(Setting::parse(conf, release).context("--conf")?),
        None => None,
    };
    let recorded = trace.settings.as_ref().and_then(|s| s.conf_text.as_deref()).unwrap_or("");
    let mut sweep = Vec::new();
    if let Some(asked) = &args.sweep {
        let base = args.conf.as_deref().unwrap_or(recorded);
        for value in &asked.values {
            sweep.push(Setting::parse(&conf_with(base, &asked.key, value), release).context("--sweep")?);
        }
    }
    let find_capacity = args.find_capacity.then_some(args.overhead);
    Ok(ReplayOptions { release: args.torch, setting, sweep, find_capacity, ..ReplayOptions::default() })
}

/// Whether the requested replay fits; for a sweep, whether any setting fits.
fn fits(device: &DeviceReplay, options: &ReplayOptions) -> bool {
    match &device.smallest {
        Some((_, outcome)) => outcome.fits(),
        None if options.sweep.is_empty() => device.asked.outcome.fits(),
        None => device.tried.iter().any(|t| t.outcome.fits()),
    }
}

struct Progress {
    started: Instant,
    bar: OnceLock<ProgressBar>,
}

impl Progress {
    /// Counts one more replay.
    fn step(&self) {
        if self.started.elapsed() > PATIENCE && is_watched() {
            self.bar.get_or_init(bar).inc(1);
        }
    }

    fn done(&self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    match ProgressStyle::with_template("replaying {spinner} {pos} more done") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
