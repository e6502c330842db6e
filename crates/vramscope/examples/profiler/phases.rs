//! Phases, threshold changes, and a timeline.

use std::error::Error;
use std::io::Write;
use std::time::Duration;

use vramscope::prelude::*;
use vramscope::profiler::{AlertQuantity, Severity};

use crate::training::{self, Model, bytes};

pub(crate) fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let pool = training::pool_of(64 << 20)?;
    let model = Model::new(&pool, 4)?;
    let options = TrackerOptions { interval: Duration::from_millis(1), ..TrackerOptions::default() };

    let tracker = MemoryTracker::start(PoolSource::new(&pool, "cuda:0")?, options)?;
    tracker.set_threshold(Threshold::new(AlertQuantity::DevicePercent, Severity::Warning, 50.0))?;
    {
        let _epoch = tracker.phase("epoch");
        for batch in 0..2 {
            let _step = tracker.phase_with("step", [("batch".into(), batch.to_string())].into());
            drop(model.train_step(32)?);
            training::wait_for_look(&tracker);
        }
    }
    tracker.stop();

    for event in tracker.events().iter().filter(|event| event.kind.name() == "phase_enter") {
        writeln!(out, "entered {}", event.kind)?;
    }
    let seen = tracker.samples_in_phases();
    let in_step = seen.iter().filter_map(|s| s.phases.last()).filter(|phase| phase.name() == "step");
    let batches: std::collections::BTreeSet<_> = in_step.map(|phase| &phase.metadata["batch"]).collect();
    writeln!(out, "sampled batches: {batches:?}")?;

    let timeline = tracker.memory_timeline(Duration::from_secs(3600))?;
    for point in &timeline {
        writeln!(
            out,
            "this hour: highest {}, last {}",
            bytes(point.high.allocated),
            bytes(point.last.allocated)
        )?;
    }
    tracker.clear_events();
    writeln!(out, "cleared: {} events", tracker.events().len())?;
    Ok(())
}
