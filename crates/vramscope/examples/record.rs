//! Records a small training run in host memory, dumps a snapshot and explains it: `cargo run -p vramscope --example record [FILE]`
//!
//! FILE is the snapshot (default: `recording.pickle` in the system's temporary folder). It opens in `vramscope report`,
//! `torch.cuda._memory_viz` and memory_viz.

use std::error::Error;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use vramscope::prelude::*;
use vramscope::report::{Advice, report};

const MIB: u64 = 1 << 20;

struct Layer {
    _weight: Allocation,
    gradient: Option<Allocation>,
    size: u64,
}

#[inline(never)]
fn build(pool: &MemoryPool) -> Result<Vec<Layer>, AllocError> {
    [8, 32, 32, 4]
        .into_iter()
        .map(|mib| Ok(Layer { _weight: pool.malloc(mib * MIB)?, gradient: None, size: mib * MIB }))
        .collect()
}

#[inline(never)]
fn forward(pool: &MemoryPool, layers: &[Layer], batch: u64) -> Result<Vec<Allocation>, AllocError> {
    layers.iter().map(|layer| pool.malloc(layer.size / 16 * batch)).collect()
}

#[inline(never)]
fn backward(
    pool: &MemoryPool,
    layers: &mut [Layer],
    mut activations: Vec<Allocation>,
) -> Result<(), AllocError> {
    for layer in layers.iter_mut().rev() {
        layer.gradient = Some(pool.malloc(layer.size)?);
        drop(activations.pop());
    }
    Ok(())
}

/// Keeps blocks that it should free.
#[inline(never)]
fn log_loss(pool: &MemoryPool, history: &mut Vec<Allocation>) -> Result<(), AllocError> {
    history.push(pool.malloc(3 * MIB)?);
    Ok(())
}

fn train(pool: &MemoryPool) -> Result<(), AllocError> {
    let mut layers = build(pool)?;
    let mut losses = Vec::new();
    for step in 0..20 {
        let _step = pool.annotate(&format!("step {step}"));
        let activations = forward(pool, &layers, 8 + step % 3)?;
        log_loss(pool, &mut losses)?;
        backward(pool, &mut layers, activations)?;
        layers.iter_mut().for_each(|layer| layer.gradient = None);
    }
    // The last request exceeds the remaining memory.
    let _too_much = pool.malloc(200 * MIB)?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args_os()
        .nth(1)
        .map_or_else(|| std::env::temp_dir().join("recording.pickle"), PathBuf::from);
    run(&file)
}

fn run(file: &Path) -> Result<(), Box<dyn Error>> {
    let policy = Policy::torch(&TorchSettings::default(), TorchRelease::new(2, 11));
    let pool = MemoryPool::on_host(policy, 320 * MIB)?;
    pool.record_memory_history(&HistoryOptions::default())?;
    // Called when a request fails, before unwinding.
    let path = file.to_owned();
    pool.on_oom(std::sync::Arc::new(move |pool, _| {
        if let Err(e) = pool.dump_snapshot(&path) {
            writeln!(std::io::stderr(), "{e}").ok();
        }
    }));

    let outcome = train(&pool);
    // Color only on a terminal.
    let mut out = anstream::stdout().lock();
    if let Err(e) = outcome {
        writeln!(out, "{e}\n")?;
    }
    let recording = formats::Reader::open(file)?.read()?;
    let frames = analysis::Frames::of(&recording.trace);
    let options = analysis::Options::default();
    let devices = 0..recording.trace.devices.len();
    let name = file.display().to_string();
    let answers = report::Answers {
        file: &name,
        recording: &recording,
        frames: &frames,
        devices: devices.map(|d| analysis::Summary::of(&recording.trace, d, &frames, &options)).collect(),
        by: None,
        at: None,
        top: None,
        advice: Advice::default(),
    };
    out.write_all(report(&answers, TextOptions { width: 100, top: 5, full_stacks: false }).as_bytes())?;
    Ok(())
}

#[test]
fn it_leaves_a_snapshot() -> Result<(), Box<dyn Error>> {
    let file = std::env::temp_dir().join(format!("record-{}.pickle", std::process::id()));
    run(&file)?;
    Ok(std::fs::remove_file(file)?)
}
