//! vramscope's pool as PyTorch's allocator: `vramscope.torch.use_pool`.
//!
//! PyTorch takes the addresses of C functions (`functions`), which find the pool of this process (`pool`). `device` opens a GPU at its first
//! use. `checks` compares blocks with all others. `filter` and `throw` are the two places where PyTorch's interface needs objects of C++: the selection of streams for a private pool,
//! and exceptions.

mod checks;
mod device;
mod filter;
mod functions;
mod pool;
mod throw;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use vramscope::allocator::{DevicePool, HistoryOptions, Policy, TorchRelease};
use vramscope::analysis::PlanSource;
use vramscope::engine::{Metric, PartialStat, Plan, PlanUse};
use vramscope::session::values;
use vramscope::trace::TorchSettings;

use crate::error::VramscopeError;
use pool::{POOL, Pool};

/// The pool under PyTorch. `settings` is the text of PYTORCH_CUDA_ALLOC_CONF.
#[pyclass(frozen, module = "vramscope._native")]
pub(crate) struct TorchPool;

#[pymethods]
impl TorchPool {
    #[new]
    fn new(release: (u32, u32), settings: &str, plan: Option<PathBuf>, check: bool) -> PyResult<Self> {
        let release = TorchRelease::new(release.0, release.1);
        let settings = TorchSettings::parse_for(settings, release)
            .map_err(|error| PyValueError::new_err(format!("settings: {error}")))?;
        if settings.backend.as_deref().is_some_and(|backend| backend != "native") {
            return Err(PyValueError::new_err("settings: the pool has no backend; remove `backend`"));
        }
        throw::prepare().map_err(|name| {
            VramscopeError::new_err(format!("this build of PyTorch has no {name}, which the pool needs"))
        })?;
        let plan = plan.map(|path| read_plan(&path)).transpose()?;
        match POOL.set(Pool::new(Policy::torch(&settings, release), plan, check)) {
            Ok(()) => Ok(Self),
            Err(_) => Err(VramscopeError::new_err("this process has a pool already")),
        }
    }

    /// The addresses of the functions for PyTorch, by the names of their setters.
    #[staticmethod]
    fn functions() -> std::collections::BTreeMap<&'static str, usize> {
        functions::addresses().into()
    }

    /// Statistics in the form of `torch._C._cuda_memoryStats`. Numbers that the pool does not count are absent.
    fn stats<'py>(&self, py: Python<'py>, device: i32) -> PyResult<Bound<'py, PyDict>> {
        let result = PyDict::new(py);
        let Some(pool) = device_pool(device) else { return Ok(result) };
        let (summary, statistics) = (pool.summary(), pool.statistics());
        result.set_item("num_alloc_retries", summary.num_alloc_retries)?;
        result.set_item("num_ooms", summary.num_ooms)?;
        result.set_item("max_split_size", pool.policy().max_split_size.map_or(-1, u64::cast_signed))?;
        result.set_item("num_device_alloc", statistics.num_device_alloc)?;
        result.set_item("num_device_free", statistics.num_device_free)?;
        result.set_item("oversize_allocations", stat(py, &summary.oversize_allocations)?)?;
        result.set_item("oversize_segments", stat(py, &summary.oversize_segments)?)?;
        let metrics = [
            ("allocation", &summary.allocation),
            ("segment", &summary.segment),
            ("active", &summary.active),
            ("inactive_split", &summary.inactive_split),
            ("allocated_bytes", &summary.allocated_bytes),
            ("reserved_bytes", &summary.reserved_bytes),
            ("active_bytes", &summary.active_bytes),
            ("inactive_split_bytes", &summary.inactive_split_bytes),
            ("requested_bytes", &summary.requested_bytes),
        ];
        for (name, Metric { all, small, large }) in metrics {
            let pools = PyDict::new(py);
            pools.set_item("all", stat(py, all)?)?;
            pools.set_item("small_pool", stat(py, small)?)?;
            pools.set_item("large_pool", stat(py, large)?)?;
            result.set_item(name, pools)?;
        }
        Ok(result)
    }

    /// The table of `torch.cuda.memory_summary`.
    fn summary(&self, device: i32, abbreviated: bool) -> String {
        device_pool(device).map_or_else(String::new, |pool| pool.memory_summary(abbreviated))
    }

    /// Resets the peaks of a device.
    fn reset_peak(&self, device: i32) {
        if let Some(pool) = device_pool(device) {
            pool.reset_peak_stats();
        }
    }

    /// How the requests of a device were served, as requests and bytes by the outcome; empty without a plan.
    fn plan_use(&self, device: i32) -> std::collections::BTreeMap<&'static str, (u64, u64)> {
        let Some(PlanUse { planned, left, differing, in_use, no_memory }) =
            device_pool(device).and_then(DevicePool::plan_use)
        else {
            return Default::default();
        };
        [
            ("planned", planned),
            ("left", left),
            ("differing", differing),
            ("in_use", in_use),
            ("no_memory", no_memory),
        ]
        .map(|(name, served)| (name, (served.requests, served.bytes)))
        .into()
    }

    /// Starts to record every request, without stacks, and at most `max_entries` events of each device; 0 stops.
    fn record_history(&self, max_entries: usize) -> PyResult<()> {
        let options = match max_entries {
            0 => HistoryOptions { enabled: None, ..HistoryOptions::default() },
            _ => HistoryOptions { context: None, max_entries, ..HistoryOptions::default() },
        };
        POOL.get().map_or(Ok(()), |pool| pool.record_history(options).map_err(VramscopeError::new_err))
    }

    /// Writes a snapshot, as `torch.cuda.memory._dump_snapshot` does.
    fn dump_snapshot(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let Some(pool) = POOL.get().and_then(Pool::started) else {
            return Err(VramscopeError::new_err("the program has not used a GPU yet"));
        };
        py.detach(|| pool.dump_snapshot(path)).map_err(|error| VramscopeError::new_err(error.to_string()))
    }
}

/// Reads a plan that `vramscope plan` wrote.
fn read_plan(path: &Path) -> PyResult<Arc<Plan>> {
    let wrong = |why: String| PyValueError::new_err(format!("{}: {why}", path.display()));
    let text = path.to_str().ok_or_else(|| wrong("the name of a plan has to be UTF-8".to_owned()))?;
    match values::plan(text).map_err(wrong)? {
        PlanSource::Given(plan) => Ok(plan),
        PlanSource::Recording => Err(wrong("a pool has no recording to plan; name a file".to_owned())),
    }
}

/// The pool's part on one device.
fn device_pool(device: i32) -> Option<&'static DevicePool> {
    POOL.get()?.started()?.device(device)
}

/// The values of a statistic that are known.
fn stat<'py>(py: Python<'py>, stat: &PartialStat) -> PyResult<Bound<'py, PyDict>> {
    let values = PyDict::new(py);
    values.set_item("current", stat.current)?;
    for (name, value) in [("peak", stat.peak), ("allocated", stat.allocated), ("freed", stat.freed)] {
        if let Some(value) = value {
            values.set_item(name, value)?;
        }
    }
    Ok(values)
}
