//! One profiler for the whole program.

use std::sync::{Arc, PoisonError, RwLock};

use super::GpuMemoryProfiler;

static GLOBAL: RwLock<Option<Arc<GpuMemoryProfiler>>> = RwLock::new(None);

/// Makes `profiler` the one that the attribute `#[profile]` measures with (gpumemprof's `set_global_profiler`), and
/// returns the one before. Calls that are open stay with theirs.
///
/// A program's end does not drop it; [`take_global_profiler`] takes it back.
pub fn set_global_profiler(profiler: impl Into<Arc<GpuMemoryProfiler>>) -> Option<Arc<GpuMemoryProfiler>> {
    let profiler = profiler.into();
    GLOBAL.write().unwrap_or_else(PoisonError::into_inner).replace(profiler)
}

/// The one that was set (gpumemprof's `get_global_profiler`). `None` where there is none: gpumemprof then makes one of the
/// current device, but in a process with several pools none is current.
pub fn global_profiler() -> Option<Arc<GpuMemoryProfiler>> {
    GLOBAL.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Takes it back: functions with `#[profile]` run unmeasured from here on.
pub fn take_global_profiler() -> Option<Arc<GpuMemoryProfiler>> {
    GLOBAL.write().unwrap_or_else(PoisonError::into_inner).take()
}
