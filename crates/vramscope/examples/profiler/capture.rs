//! A bundle for an error that the pool did not raise, and a bundle on demand.

use std::error::Error;
use std::fs;
use std::io::Write;

use vramscope::prelude::*;
use vramscope::profiler::{BundleContext, FlightRecorderOptions};

use crate::training::{self, Model};

/// Simulates a library that allocates device memory itself.
fn matmul(_model: &Model) -> Result<(), &'static str> {
    Err("CUBLAS_STATUS_ALLOC_FAILED")
}

pub(crate) fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let pool = training::pool_of(64 << 20)?;
    let folder = std::env::temp_dir().join(format!("captured-{}", std::process::id()));
    let recorder = FlightRecorder::attach(&pool, &folder, FlightRecorderOptions::default())?;
    let model = Model::new(&pool, 4)?;

    let context = BundleContext::new("validation").with("batch", 17);
    let failed = recorder.capture_oom(context, || matmul(&model));

    let wanted = recorder.dump("before the long run", BundleContext::new("epoch 3"))?;

    writeln!(out, "error returned: {}", failed.is_err())?;
    for bundle in recorder.bundles() {
        let metadata: serde_json::Value = serde_json::from_slice(&fs::read(bundle.join("metadata.json"))?)?;
        let (reason, context) = (&metadata["reason"], &metadata["context"]);
        writeln!(out, "{reason} in {context}, {}", metadata["custom_metadata"])?;
    }
    writeln!(out, "the last bundle is the one on demand: {}", recorder.bundles().last() == Some(&wanted))?;
    fs::remove_dir_all(folder)?;
    Ok(())
}
