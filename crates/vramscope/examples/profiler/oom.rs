//! Bundles of a run that is out of memory.

use std::error::Error;
use std::fs;
use std::io::Write;

use vramscope::prelude::*;
use vramscope::profiler::FlightRecorderOptions;

use crate::training::{self, Model};

pub(crate) fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let pool = training::pool_of(64 << 20)?;
    let folder = std::env::temp_dir().join(format!("oom-dumps-{}", std::process::id()));

    let recorder = FlightRecorder::attach(&pool, &folder, FlightRecorderOptions::default())?;
    let model = Model::new(&pool, 4)?;
    let failed = model.train_step(4096);

    if let Err(error) = failed {
        writeln!(out, "{error}")?;
    }
    for bundle in recorder.bundles() {
        let mut files: Vec<_> =
            fs::read_dir(&bundle)?.map(|f| Ok(f?.file_name())).collect::<Result<_, std::io::Error>>()?;
        files.sort();
        for file in files {
            writeln!(out, "  {}", file.display())?;
        }
        let report = fs::read_to_string(bundle.join("report.txt"))?;
        for line in report.lines().skip_while(|line| !line.starts_with("Out of memory:")).take(2) {
            writeln!(out, "{line}")?;
        }
    }
    fs::remove_dir_all(folder)?;
    Ok(())
}
