//! The profiler of the whole program, which the attribute `#[profile]` uses.

use std::sync::{Arc, PoisonError, RwLock};

use super::GpuMemoryProfiler;

static GLOBAL: RwLock<Option<Arc<GpuMemoryProfiler>>> = RwLock::new(None);

/// Sets the profiler of the attribute `#[profile]` (gpumemprof's `set_global_profiler`), and returns the previous one. Open calls stay with
/// their profiler.
///
/// The profiler is not dropped when the program ends; [`take_global_profiler`] removes it.
pub fn set_global_profiler(profiler: impl Into<Arc<GpuMemoryProfiler>>) -> Option<Arc<GpuMemoryProfiler>> {
    let profiler = profiler.into();
    GLOBAL.write().unwrap_or_else(PoisonError::into_inner).replace(profiler)
}

/// Returns the global profiler (gpumemprof's `get_global_profiler`). `None` if none is set: gpumemprof then creates one for the current
/// device, but a process with several pools has no current pool.
pub fn global_profiler() -> Option<Arc<GpuMemoryProfiler>> {
    GLOBAL.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Removes and returns the global profiler. Functions with `#[profile]` are not profiled from now on.
pub fn take_global_profiler() -> Option<Arc<GpuMemoryProfiler>> {
    GLOBAL.write().unwrap_or_else(PoisonError::into_inner).take()
}
