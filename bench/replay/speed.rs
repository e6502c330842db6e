//! `replay-speed RECORDING RUNS`: prints events per second on one core, from the history to the last step.

use std::fs::File;
use std::io::{self, Write as _};
use std::time::Instant;

use anyhow::{Context as _, bail};
use vramscope::analysis::{History, Replay, ReplayDevice, Setting};
use vramscope::trace::formats::read;

const SETTINGS: [&str; 4] = [
    "expandable_segments:True",
    "max_split_size_mb:32",
    "roundup_power2_divisions:4",
    "large_segment_size_mb:64",
];

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [file, runs] = args.as_slice() else { bail!("usage: replay-speed RECORDING RUNS") };
    let runs: usize = runs.parse().context("RUNS is a number")?;
    let trace = read(File::open(file).context("RECORDING")?)?.trace;
    let device = trace.devices.first().context("the recording has no device")?;
    let mut out = io::stdout();
    let mut tell = |name: &str, mut seconds: Vec<f64>| -> anyhow::Result<()> {
        seconds.sort_by(f64::total_cmp);
        let median = seconds[seconds.len() / 2];
        let rate = device.events.len() as f64 / median / 1e6;
        writeln!(out, "  {name:<34}{:>9.1} ms {rate:>8.1} million events a second", median * 1e3)?;
        Ok(())
    };
    let time = |work: &dyn Fn() -> anyhow::Result<()>| -> anyhow::Result<Vec<f64>> {
        (0..runs.max(1))
            .map(|_| {
                let start = Instant::now();
                work()?;
                Ok(start.elapsed().as_secs_f64())
            })
            .collect()
    };
    let history = History::of(&trace, 0);
    let replay = Replay::of(&history)?;
    let whole = time(&|| {
        let history = History::of(&trace, 0);
        anyhow::ensure!(Replay::of(&history)?.reproduction.first_difference.is_none(), "not reproduced");
        Ok(())
    })?;
    tell("history and replay as recorded", whole)?;
    for text in SETTINGS {
        let setting = Setting::parse(text, trace.shown_release())?;
        tell(
            text,
            time(&|| replay.under(&setting.policy, ReplayDevice::Unlimited).map(drop).map_err(Into::into))?,
        )?;
    }
    Ok(())
}
