//! The profiler of the whole program, which the attribute `#[profile]` uses.

use std::sync::{Arc, PoisonError, RwLock};

use super::GpuMemoryProfiler;

static GLOBAL: RwLock<Option<Arc<GpuMemoryProfiler>>> = RwLock::new(None);

/// Makes `profiler` the one that the attribute `#[profile]` measures with (gpumemprof's `set_global_profiler`), and
/// returns the one before. Calls that are open stay with theirs.
///
/// It is not dropped when the program ends; [`take_global_profiler`] takes it back.
pub fn set_global_profiler(profiler: impl Into<Arc<GpuMemoryProfiler>>) -> Option<Arc<GpuMemoryProfiler>> {
    let profiler = profiler.into();
    GLOBAL.write().unwrap_or_else(PoisonError::into_inner).replace(profiler)
}

/// The profiler that was set (gpumemprof's `get_global_profiler`). `None` where none was set: gpumemprof then makes one of the
/// current device, but in a process with several pools no pool is the current one.
pub fn global_profiler() -> Option<Arc<GpuMemoryProfiler>> {
    GLOBAL.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Takes the profiler back, and returns it. Functions with `#[profile]` are not profiled from here on.
pub fn take_global_profiler() -> Option<Arc<GpuMemoryProfiler>> {
    GLOBAL.write().unwrap_or_else(PoisonError::into_inner).take()
}
