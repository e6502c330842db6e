//! The rules of the Rust tracker for alerts, for the Python tracker.

use std::time::Duration;

use pyo3::prelude::*;
use vramscope::profiler;

/// Monotonic times in seconds, relative to the first one.
#[derive(Default)]
struct Clock {
    start: Option<f64>,
}

impl Clock {
    fn since_start(&mut self, at: f64) -> Duration {
        let start = *self.start.get_or_insert(at);
        Duration::try_from_secs_f64((at - start).max(0.0)).unwrap_or(Duration::MAX)
    }
}

/// Whether the alert of a threshold is raised.
#[pyclass(module = "vramscope._native")]
#[derive(Default)]
pub(crate) struct AlertState {
    state: profiler::AlertState,
    clock: Clock,
}

#[pymethods]
impl AlertState {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Applies a value at a monotonic time in seconds; returns `raised`, `cleared` or `None`.
    fn update(&mut self, value: f64, above: f64, at: f64) -> Option<&'static str> {
        let at = self.clock.since_start(at);
        self.state.update(&profiler::AlertLimits::new(above), value, at).map(|change| match change {
            profiler::AlertChange::Raised => "raised",
            profiler::AlertChange::Cleared => "cleared",
        })
    }
}

/// The growth of retained bytes per minute.
#[pyclass(module = "vramscope._native")]
pub(crate) struct GrowthRate {
    growth: profiler::GrowthRate,
    clock: Clock,
}

#[pymethods]
impl GrowthRate {
    /// Measures over a window in seconds.
    #[new]
    fn new(window: f64) -> Self {
        let window = Duration::try_from_secs_f64(window).unwrap_or(Duration::MAX);
        Self { growth: profiler::GrowthRate::new(window), clock: Clock::default() }
    }

    /// Adds the allocated bytes at a monotonic time in seconds; returns bytes per minute, or `None` if it is too early.
    fn update(&mut self, at: f64, allocated: f64) -> Option<f64> {
        self.growth.update(self.clock.since_start(at), allocated as u64)
    }
}
