//! The rules of the Rust tracker for alerts, for the Python tracker.

use std::collections::BTreeMap;
use std::time::Duration;

use pyo3::prelude::*;
use vramscope::profiler::{AlertChange, AlertLimits, AlertState, GrowthRate};

/// The alerts of a run, and the growth of retained bytes. Times are monotonic, in seconds.
#[pyclass(module = "vramscope._native")]
pub(crate) struct Alerts {
    states: BTreeMap<String, AlertState>,
    growth: GrowthRate,
    start: Option<f64>,
}

#[pymethods]
impl Alerts {
    /// Measures growth over a window in seconds.
    #[new]
    fn new(window: f64) -> Self {
        let window = Duration::try_from_secs_f64(window).unwrap_or(Duration::MAX);
        Self { states: BTreeMap::new(), growth: GrowthRate::new(window), start: None }
    }

    /// Applies a value to the alert of this name; returns `raised`, `cleared` or `None`.
    fn update(&mut self, name: &str, value: f64, above: f64, at: f64) -> Option<&'static str> {
        let at = self.since_start(at);
        let state = self.states.entry(name.to_owned()).or_default();
        state.update(&AlertLimits::new(above), value, at).map(|change| match change {
            AlertChange::Raised => "raised",
            AlertChange::Cleared => "cleared",
        })
    }

    /// Adds the allocated bytes; returns their growth in bytes per minute, or `None` if it is too early.
    fn growth(&mut self, allocated: f64, at: f64) -> Option<f64> {
        let at = self.since_start(at);
        self.growth.update(at, allocated as u64)
    }
}

impl Alerts {
    fn since_start(&mut self, at: f64) -> Duration {
        let start = *self.start.get_or_insert(at);
        Duration::try_from_secs_f64((at - start).max(0.0)).unwrap_or(Duration::MAX)
    }
}
