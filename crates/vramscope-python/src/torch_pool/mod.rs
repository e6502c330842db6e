//! vramscope's pool as PyTorch's allocator: `vramscope.torch.use_pool`.
//!
//! PyTorch takes the addresses of C functions (`functions`), which find the pool of this process (`pool`). `device` opens a GPU at its first
//! use. `checks` compares blocks with all others, and
//! `order` has the order of work on streams for it. `part` has the requests of the program or of a part of it, and `auto` finds a step that
//! they repeat. `cupy` serves CuPy from the same pool, and `share` has the bytes and the limit of each library. `hooks` calls hooks written in Python. `filter` and `throw` are the two places where
//! PyTorch's interface needs objects of C++: the selection of streams for a private pool, and exceptions.

mod auto;
mod checks;
mod cupy;
mod device;
mod failure;
mod filter;
mod functions;
mod hooks;
mod order;
mod part;
mod pool;
mod share;
mod throw;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use vramscope::allocator::{DevicePool, HistoryOptions, Policy, TorchRelease};
use vramscope::analysis::PlanSource;
use vramscope::engine::{Metric, PartialStat, PlanUse};
use vramscope::session::values;
use vramscope::trace::TorchSettings;

use crate::error::VramscopeError;
pub(crate) use cupy::CupyPool;
use failure::Failure;
use hooks::PythonHook;
use part::{Part, PartOptions};
use pool::{POOL, Pool, Totals};

/// The pool under PyTorch. `settings` is the text of PYTORCH_CUDA_ALLOC_CONF.
#[pyclass(frozen, module = "vramscope._native")]
pub(crate) struct TorchPool {
    release: TorchRelease,
}

#[pymethods]
impl TorchPool {
    #[new]
    fn new(
        release: (u32, u32),
        settings: &str,
        plan: Option<PathBuf>,
        share_streams: bool,
        check: bool,
    ) -> PyResult<Self> {
        let release = TorchRelease::new(release.0, release.1);
        let plan = plan_source(plan, share_streams)?;
        let policy = policy(settings, release, plan.as_ref())?;
        throw::prepare().map_err(|name| {
            VramscopeError::new_err(format!("this build of PyTorch has no {name}, which the pool needs"))
        })?;
        match POOL.set(Pool::new(policy, plan, check)) {
            Ok(()) => Ok(Self { release }),
            Err(_) => Err(VramscopeError::new_err("this process has a pool already")),
        }
    }

    /// Serves PyTorch's own allocator, which asks for segments, on this number of GPUs.
    #[staticmethod]
    fn serve_segments(devices: i32) -> PyResult<()> {
        POOL.get().map_or(Ok(()), |pool| pool.serve_segments(devices)).map_err(failed)
    }

    /// Adds a part of the program, with its own rules, cache and plan.
    fn part(&self, settings: &str, plan: Option<PathBuf>, share_streams: bool) -> PyResult<TorchPoolPart> {
        let plan = plan_source(plan, share_streams)?;
        let policy = policy(settings, self.release, plan.as_ref())?;
        let pool = POOL.get().ok_or_else(|| failed(Failure::no_pool()))?;
        let part = pool.add_part(PartOptions { policy, plan, history: None }).map_err(failed)?;
        Ok(TorchPoolPart { part })
    }

    /// The addresses of the functions for PyTorch, by the names of their setters.
    #[staticmethod]
    fn functions() -> BTreeMap<&'static str, usize> {
        functions::addresses().into()
    }

    /// Statistics of all parts in the form of `torch._C._cuda_memoryStats`. Numbers that the pool does not count are absent.
    fn stats<'py>(&self, py: Python<'py>, device: i32) -> PyResult<Bound<'py, PyDict>> {
        statistics(py, POOL.get().and_then(|pool| pool.totals(device)))
    }

    /// The table of `torch.cuda.memory_summary`.
    fn summary(&self, device: i32, abbreviated: bool) -> String {
        let device = whole().and_then(|whole| whole.device(device));
        device.map_or_else(String::new, |pool| pool.memory_summary(abbreviated))
    }

    /// Resets the peaks of a device.
    fn reset_peak(&self, device: i32) {
        if let Some(pool) = POOL.get() {
            pool.reset_peaks(device);
        }
    }

    /// How the requests of a device were served, as requests and bytes by the outcome; empty without a plan.
    fn plan_use(&self, device: i32) -> BTreeMap<&'static str, (u64, u64)> {
        whole().map(|whole| plan_use(whole, device)).unwrap_or_default()
    }

    /// How many requests of a device made their streams wait for others; 0 without a plan.
    fn plan_waits(&self, device: i32) -> u64 {
        whole().map_or(0, |whole| plan_waits(whole, device))
    }

    /// Starts to record every request, without stacks, and at most `max_entries` events of each device; 0 stops.
    fn record_history(&self, max_entries: usize) -> PyResult<()> {
        let options = history(max_entries);
        POOL.get().map_or(Ok(()), |pool| pool.record_history(options).map_err(VramscopeError::new_err))
    }

    /// Registers a hook for all threads, if this process has a pool. Returns false if it has none.
    #[staticmethod]
    fn add_hook(hook: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Some(pool) = POOL.get() else { return Ok(false) };
        pool.add_hook(PythonHook::new(hook)?)?;
        Ok(true)
    }

    /// Removes the hook of this name. Returns false if there is none.
    #[staticmethod]
    fn remove_hook(name: &str) -> bool {
        POOL.get().is_some_and(|pool| pool.remove_hook(name))
    }

    /// Writes a snapshot, as `torch.cuda.memory._dump_snapshot` does.
    fn dump_snapshot(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let Some(whole) = whole() else {
            return Err(VramscopeError::new_err("the program has not used a GPU yet"));
        };
        dump_snapshot(py, whole, &path)
    }
}

/// A part of the program, with its own rules, cache and plan.
#[pyclass(frozen, module = "vramscope._native")]
pub(crate) struct TorchPoolPart {
    part: Arc<Part>,
}

#[pymethods]
impl TorchPoolPart {
    /// Serves the requests of this thread, or of all threads, until `leave`.
    fn enter(&self, all_threads: bool) {
        if let Some(pool) = POOL.get() {
            pool.enter(&self.part, all_threads);
        }
    }

    /// Ends `enter`. Returns false if this part is not entered.
    fn leave(&self, all_threads: bool) -> bool {
        POOL.get().is_some_and(|pool| pool.leave(&self.part, all_threads))
    }

    /// As for the pool.
    fn stats<'py>(&self, py: Python<'py>, device: i32) -> PyResult<Bound<'py, PyDict>> {
        statistics(py, self.part.device(device).map(Totals::of))
    }

    /// As for the pool.
    fn plan_use(&self, device: i32) -> BTreeMap<&'static str, (u64, u64)> {
        plan_use(&self.part, device)
    }

    /// As for the pool.
    fn plan_waits(&self, device: i32) -> u64 {
        plan_waits(&self.part, device)
    }

    /// As for the pool.
    fn record_history(&self, max_entries: usize) -> PyResult<()> {
        self.part.record_history(history(max_entries)).map_err(VramscopeError::new_err)
    }

    /// As for the pool.
    fn dump_snapshot(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        dump_snapshot(py, &self.part, &path)
    }

    /// Releases the cache of this part.
    fn empty_cache(&self) -> PyResult<()> {
        let mut devices = self.part.pool.devices().iter();
        devices.try_for_each(|device| device.free_all_blocks()).map_err(|error| failed(Failure::other(error)))
    }
}

/// The rules of these settings, beside a plan if there is one. A plan of the program's own steps comes after their first requests: if the
/// settings do not say otherwise, segments are expandable, so that as many free pages as possible can be released for the plan.
fn policy(settings: &str, release: TorchRelease, plan: Option<&PlanSource>) -> PyResult<Policy> {
    let mut settings = TorchSettings::parse_for(settings, release)
        .map_err(|error| PyValueError::new_err(format!("settings: {error}")))?;
    if settings.backend.as_deref().is_some_and(|backend| backend != "native") {
        return Err(PyValueError::new_err("settings: the pool has no backend; remove `backend`"));
    }
    if matches!(plan, Some(PlanSource::Recording { .. })) {
        settings.expandable_segments.get_or_insert(true);
    }
    let policy = Policy::torch(&settings, release);
    Ok(if plan.is_some() { policy.beside_plan() } else { policy })
}

fn failed(Failure { text, .. }: Failure) -> PyErr {
    VramscopeError::new_err(text)
}

/// The program without its parts.
fn whole() -> Option<&'static Arc<Part>> {
    POOL.get()?.whole()
}

fn statistics(py: Python<'_>, totals: Option<Totals>) -> PyResult<Bound<'_, PyDict>> {
    let result = PyDict::new(py);
    let Some(Totals { summary, num_device_alloc, num_device_free, max_split_size }) = totals else {
        return Ok(result);
    };
    result.set_item("num_alloc_retries", summary.num_alloc_retries)?;
    result.set_item("num_ooms", summary.num_ooms)?;
    result.set_item("max_split_size", max_split_size.map_or(-1, u64::cast_signed))?;
    result.set_item("num_device_alloc", num_device_alloc)?;
    result.set_item("num_device_free", num_device_free)?;
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

fn plan_use(part: &Part, device: i32) -> BTreeMap<&'static str, (u64, u64)> {
    let Some(PlanUse { planned, left, differing, in_use, no_memory, .. }) =
        part.device(device).and_then(DevicePool::plan_use)
    else {
        return BTreeMap::default();
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

fn plan_waits(part: &Part, device: i32) -> u64 {
    part.device(device).and_then(DevicePool::plan_use).map_or(0, |used| used.waits)
}

/// A history without stacks; 0 events stop the recording.
fn history(max_entries: usize) -> HistoryOptions {
    match max_entries {
        0 => HistoryOptions { enabled: None, ..HistoryOptions::default() },
        _ => HistoryOptions { context: None, max_entries, ..HistoryOptions::default() },
    }
}

fn dump_snapshot(py: Python<'_>, part: &Part, path: &Path) -> PyResult<()> {
    py.detach(|| part.pool.dump_snapshot(path)).map_err(|error| VramscopeError::new_err(error.to_string()))
}

/// The plan of a pool. A file says itself whether streams share memory, so `share_streams` is for `auto` only.
fn plan_source(plan: Option<PathBuf>, share_streams: bool) -> PyResult<Option<PlanSource>> {
    match plan.map(|path| read_plan(&path)).transpose()? {
        Some(PlanSource::Recording { .. }) => Ok(Some(PlanSource::Recording { share_streams })),
        _ if share_streams => Err(PyValueError::new_err(
            "share_streams needs plan=\"auto\"; for a plan in a file, use `vramscope plan --share-streams`",
        )),
        other => Ok(other),
    }
}

/// Reads a plan that `vramscope plan` wrote. The name `auto` is a plan of the program's own first steps.
fn read_plan(path: &Path) -> PyResult<PlanSource> {
    let wrong = |why: String| PyValueError::new_err(format!("{}: {why}", path.display()));
    let text = path.to_str().ok_or_else(|| wrong("the name of a plan has to be UTF-8".to_owned()))?;
    values::plan(text).map_err(wrong)
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
