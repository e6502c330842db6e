//! Tracking and alerts.

use std::error::Error;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use vramscope::prelude::*;
use vramscope::profiler::{AlertQuantity, Severity};

use crate::training::{self, Model};

pub(crate) fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let pool = training::pool_of(64 << 20)?;

    let options = TrackerOptions {
        interval: Duration::from_secs(60), // pools report every peak anyway
        thresholds: vec![
            Threshold::new(AlertQuantity::DevicePercent, Severity::Warning, 80.0),
            Threshold::new(AlertQuantity::GrowthPerMinute, Severity::Warning, 1e9),
        ],
        ..TrackerOptions::default()
    };
    let tracker = MemoryTracker::start(PoolSource::new(&pool, "cuda:0")?, options)?;
    let told = Arc::new(Mutex::new(Vec::new()));
    let page = Arc::clone(&told);
    tracker.add_alert_callback(Arc::new(move |alert| {
        page.lock().unwrap_or_else(PoisonError::into_inner).push(alert.to_string());
    }));

    let model = Model::new(&pool, 4)?;
    {
        let _phase = tracker.phase("warmup");
        for _step in 0..3 {
            drop(model.train_step(1500)?);
        }
    }
    tracker.stop();

    for event in tracker.events() {
        let line = format!("{:<12} {}", event.kind.name(), event.kind);
        writeln!(out, "{}", line.trim_end())?;
    }
    for alert in told.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        writeln!(out, "callback: {alert}")?;
    }
    Ok(())
}
