//! `fleet-of FOLDER RANKS SEED [RECORDING]`: writes the recordings of a job of RANKS ranks, with differences that the seed selects.
//! They are made from RECORDING, or from the committed recording of a leak. Prints the differing ranks as JSON.

use std::fs::File;
use std::path::Path;

use anyhow::{Context as _, bail};
use vramscope::trace::Trace;
use vramscope::trace::formats::read;
use vramscope_testing::fleet::{JobPlan, base};

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [folder, ranks, seed, recording @ ..] = args.as_slice() else {
        bail!("usage: fleet-of FOLDER RANKS SEED [RECORDING]")
    };
    let base = match recording.first() {
        Some(file) => Trace::clone(&read(File::open(file).context("RECORDING")?)?.trace),
        None => base(),
    };
    let plan =
        JobPlan::new(ranks.parse().context("RANKS is a number")?, seed.parse().context("SEED is a number")?);
    plan.write(Path::new(folder), &base);
    let known = serde_json::json!({
        "leaks": plan.leaks,
        "larger_stage": plan.larger_stage.1,
        "out_of_memory": plan.out_of_memory,
        "broken": plan.broken,
    });
    serde_json::to_writer(std::io::stdout(), &known)?;
    Ok(())
}
