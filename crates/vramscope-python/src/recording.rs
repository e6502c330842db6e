//! `vramscope.Recording`: the answers of the commands, for Python.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use vramscope::analysis::{Cancel, Growth, When};
use vramscope::export::{self, ExportFormat, Source, Table as Kind};
use vramscope::report::{CheckJson, DiffJson, HoldersJson, ReplayJson, Shown, count};
use vramscope::session::own_operators;
use vramscope::session::values::{self, At};
use vramscope::session::{
    CheckRequest, DiffRequest, HoldersRequest, Question, ReplayRequest, ReportRequest, SessionError,
};
use vramscope::viewer::{PageFile, self_contained};
use vramscope_files::{Target, is_same_file};

use crate::answers::{DeviceAnswers, failed, json, loads};
use crate::arguments;
use crate::error::Failed;
use crate::files::os_error;
use crate::open_recording::{Holders, Loaded};
use crate::reading::{self, Origin};
use crate::table::Table;
use crate::work::work;

/// The maximum size in bytes of a page in a notebook, which stores it in its file.
const LARGEST_PAGE: usize = 24 << 20;

/// The error of a cancelled computation. Its caller no longer waits for it.
const CANCELLED: &str = "cancelled";

/// A recording of GPU memory, returned by `vramscope.read`.
///
/// Answers have the keys of the command's `--json`; `vramscope.answers` has their types. Sizes are bytes, times are
/// microseconds since the Unix epoch, and events are numbered from 0. `device` is required if the recording has several used
/// devices. Long-running methods release the interpreter, and Ctrl-C interrupts them.
///
/// Methods raise ValueError for invalid arguments, such as an unknown device, and VramscopeError if the question cannot be
/// answered.
#[pyclass(frozen, module = "vramscope")]
pub(crate) struct Recording(Arc<Loaded>);

/// Reads a recording from a file or from bytes. `name` is its name in errors and reports.
#[pyfunction]
#[pyo3(signature = (origin, name, max_expanded=None, progress=None))]
pub(crate) fn read(
    py: Python<'_>,
    origin: Origin,
    name: String,
    #[pyo3(from_py_with = arguments::max_expanded)] max_expanded: Option<u64>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Recording> {
    // Absolute, because the program may change its current directory.
    let file = match &origin {
        Origin::File(path) => std::path::absolute(path).ok(),
        Origin::Bytes(_) => None,
    };
    let recording = reading::read(py, origin, &name, max_expanded, progress.as_ref())?;
    Ok(Recording(Arc::new(Loaded::new(name, recording, file))))
}

#[pymethods]
impl Recording {
    /// The file's name.
    #[getter]
    fn name(&self) -> &str {
        self.0.session.name()
    }

    /// The numbers of the used devices.
    #[getter]
    fn devices(&self) -> Vec<i64> {
        let devices = &self.0.session.trace().devices;
        devices.iter().filter(|device| device.was_used()).map(|device| device.device).collect()
    }

    /// Information that was not loaded, one sentence each: unknown keys, truncated data.
    #[getter]
    fn notices(&self) -> Vec<String> {
        self.0.session.recording().notices.to_string().lines().map(str::to_owned).collect()
    }

    /// Answers a question of the page, such as `"live"` or `"allocations"`, with its arguments. Columns are lists.
    ///
    /// `docs/mcp.md` lists the questions. `other` is the recording that a comparison refers to, `other_device` its device.
    #[pyo3(signature = (question, *, device=None, other=None, other_device=None, **arguments))]
    fn ask<'py>(
        &self,
        py: Python<'py>,
        question: &str,
        #[pyo3(from_py_with = arguments::device)] device: Option<i64>,
        other: Option<&Self>,
        #[pyo3(from_py_with = arguments::other_device)] other_device: Option<i64>,
        arguments: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let asked = arguments.map_or_else(|| Ok(PyDict::new(py)), PyDictMethods::copy)?;
        asked.set_item("question", question)?;
        let other = other.map(|other| Arc::clone(&other.0));
        if let Some(other) = &other {
            let position = other.session.used_position(other_device);
            let position = position.map_err(|e| Failed::from(e).raised(other.session.name()))?;
            asked.set_item("other_device", position)?;
            asked.set_item("other_file", 0)?;
        }
        let asked: String = py.import("json")?.call_method1("dumps", (asked,))?.extract()?;
        let question = Question::of_json(asked.as_bytes()).map_err(|e| self.raised(e))?;
        self.json(py, move |open, cancel| {
            let position = open.session.used_position(device)?;
            let prepared = open.prepared(cancel)?;
            let other = other.as_ref().map(|other| other.prepared(cancel)).transpose()?;
            Ok(json(&question.json(prepared, position, other, cancel)?)?)
        })
    }

    /// Basic facts about the file, as in `vramscope info --json`.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.json(py, |open, _| Ok(json(&open.session.info())?))
    }

    /// The full report, as in `vramscope report --json`.
    ///
    /// Holders are those after event `at`, at the end of the recording with `"end"`, or at the peak of allocated bytes by
    /// default; for a range such as `"10..99"`, or a step or its phase such as `"step:2"` or `"backward:2"`, the report has the allocations and frees of these events. `by` is their grouping, as for `holders`; None groups by whole
    /// stacks. `filter` is a regular expression: only stacks with a matching frame, as `file:line function`, are included.
    /// `top` limits lists of holders.
    /// `budget`, in bytes or as `"24GiB"`, estimates changes to the program that lower its peak.
    #[pyo3(signature = (*, device=None, at=None, by=None, filter=None, budget=None, top=None))]
    #[expect(clippy::too_many_arguments, reason = "named in Python")]
    fn report<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arguments::device)] device: Option<i64>,
        #[pyo3(from_py_with = arguments::event_or_range)] at: Option<At>,
        by: Option<&str>,
        filter: Option<&str>,
        #[pyo3(from_py_with = arguments::budget)] budget: Option<u64>,
        #[pyo3(from_py_with = arguments::top)] top: Option<usize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (by, filter) = (arguments::by(by)?, arguments::filter(filter)?);
        let request = ReportRequest { device, at, by, filter, budget, top };
        self.json(py, move |open, cancel| Ok(json(&open.session.report(&request, cancel)?.json())?))
    }

    /// The report as text, as in `vramscope report`, in lines of at most `width` columns, with lists of at most `top` rows.
    /// The other arguments are those of `report`.
    #[pyo3(signature = (*, device=None, at=None, by=None, filter=None, budget=None, top=10, width=100))]
    #[expect(clippy::too_many_arguments, reason = "named in Python")]
    fn text(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::device)] device: Option<i64>,
        #[pyo3(from_py_with = arguments::event_or_range)] at: Option<At>,
        by: Option<&str>,
        filter: Option<&str>,
        #[pyo3(from_py_with = arguments::budget)] budget: Option<u64>,
        #[pyo3(from_py_with = arguments::rows)] top: usize,
        #[pyo3(from_py_with = arguments::width)] width: usize,
    ) -> PyResult<String> {
        let (by, filter) = (arguments::by(by)?, arguments::filter(filter)?);
        let request = ReportRequest { device, at, by, filter, budget, top: Some(top) };
        self.compute(py, move |open, cancel| {
            Ok(without_styles(&open.session.report(&request, cancel)?.text(width.clamp(60, 1000), false)))
        })
    }

    /// The peak of each kind of bytes, each at its own moment: `peak_requested_bytes`, `peak_allocated_bytes`,
    /// `peak_active_bytes`, `peak_reserved_bytes`; and the moment of the allocated peak: `peak_event`, `peak_time_us`.
    #[pyo3(signature = (*, device=None))]
    fn peaks<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arguments::device)] device: Option<i64>,
    ) -> PyResult<Bound<'py, PyDict>> {
        const KEYS: [&str; 6] = [
            "peak_event",
            "peak_time_us",
            "peak_requested_bytes",
            "peak_allocated_bytes",
            "peak_active_bytes",
            "peak_reserved_bytes",
        ];
        let answers = self.answers(py, device)?;
        let peaks = PyDict::new(py);
        KEYS.iter().try_for_each(|key| peaks.set_item(key, answers.get(py, key)?))?;
        Ok(peaks)
    }

    /// The holders of the allocated bytes, most bytes first. Their sum is all allocated bytes.
    ///
    /// `by` is the grouping: `"line"`, `"function"`, `"file"`, `"module"`, `"stack"`, `"pool"`, `"stream"`, and the other
    /// values of `vramscope report --by`. The moment is after event `at`, or at the end with `"end"`, or the peak of allocated bytes by
    /// default. `filter` includes only stacks with a frame that this regular expression matches; the sum is then that of these
    /// stacks. `top` limits the number of groups.
    #[pyo3(signature = (by="line", *, at=None, device=None, filter=None, top=None))]
    fn holders<'py>(
        &self,
        py: Python<'py>,
        by: &str,
        #[pyo3(from_py_with = arguments::when)] at: Option<When>,
        #[pyo3(from_py_with = arguments::device)] device: Option<i64>,
        filter: Option<&str>,
        #[pyo3(from_py_with = arguments::top)] top: Option<usize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (by, filter) = (arguments::by(Some(by))?, arguments::filter(filter)?);
        let request = HoldersRequest { device, at, by, filter, top };
        self.json(py, move |open, cancel| {
            let groups = open.session.holders(&request, cancel)?;
            Ok(json(&HoldersJson::new(open.session.names(), &groups.holders, top))?)
        })
    }

    /// Lines whose live allocations accumulate over the run, most bytes first.
    #[pyo3(signature = (*, device=None))]
    fn leaks<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arguments::device)] device: Option<i64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.answers(py, device)?.get(py, "leaks")
    }

    /// The first 20 requests that failed with an out-of-memory error: the free memory, why it was not usable, and the holders
    /// of the rest.
    #[pyo3(signature = (*, device=None))]
    fn ooms<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arguments::device)] device: Option<i64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.answers(py, device)?.get(py, "ooms")
    }

    /// The memory use of each annotated region of the program (`record_function`).
    #[pyo3(signature = (*, device=None))]
    fn regions<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arguments::device)] device: Option<i64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.answers(py, device)?.get(py, "regions")
    }

    /// Reserved memory that is unusable: `at_peak` of allocated bytes, and `at_end`; None without recorded events.
    #[pyo3(signature = (*, device=None))]
    fn fragmentation<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arguments::device)] device: Option<i64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.answers(py, device)?.get(py, "fragmentation")
    }

    /// Bytes allocated over the whole run, by line, most bytes first.
    #[pyo3(signature = (*, device=None))]
    fn churn<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arguments::device)] device: Option<i64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.answers(py, device)?.get(py, "churn")
    }

    /// The confidence in the numbers, and its limitations.
    #[pyo3(signature = (*, device=None))]
    fn quality<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arguments::device)] device: Option<i64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.answers(py, device)?.get(py, "quality")
    }

    /// Replays the recorded requests, as in `vramscope replay --json` for one device.
    ///
    /// `conf` are other settings, in the format of PYTORCH_CUDA_ALLOC_CONF. Without it, the recorded settings are compared with
    /// settings that often help. The device has a `capacity`, in bytes or as `"24GiB"`, or is a `gpu` by name, such as
    /// `"a100-40gb"`. `overhead` is the part of it that the allocator cannot use. `find_capacity` finds the smallest device
    /// that fits. `torch` is the release whose rules apply, such as `"2.11"`, instead of the release in the recording.
    /// `sweep` compares values of one setting, as in `"max_split_size_mb=32..512"`. `plan` also replays with a plan: the path of a
    /// file of `vramscope plan`, or `"auto"` for a plan of this recording.
    #[pyo3(signature = (*, conf=None, capacity=None, gpu=None, overhead=None, find_capacity=false, sweep=None, torch=None, plan=None, device=None))]
    #[expect(clippy::too_many_arguments, reason = "named in Python")]
    fn replay<'py>(
        &self,
        py: Python<'py>,
        conf: Option<String>,
        #[pyo3(from_py_with = arguments::capacity)] capacity: Option<u64>,
        gpu: Option<&str>,
        #[pyo3(from_py_with = arguments::overhead)] overhead: Option<u64>,
        find_capacity: bool,
        sweep: Option<&str>,
        torch: Option<&str>,
        plan: Option<PathBuf>,
        #[pyo3(from_py_with = arguments::device)] device: Option<i64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // One device, because a replay can take minutes.
        let position = self.position(device)?;
        let request = ReplayRequest {
            conf,
            capacity,
            gpu: gpu
                .map(values::gpu)
                .transpose()
                .map_err(|known| PyValueError::new_err(format!("{known}; for other GPUs, use `capacity`")))?,
            overhead,
            torch: torch.map(str::parse).transpose().map_err(PyValueError::new_err)?,
            sweep: sweep
                .map(str::parse)
                .transpose()
                .map_err(|e| PyValueError::new_err(format!("sweep: {e}")))?,
            find_capacity,
            plan: plan
                .map(|plan| values::plan(&plan.to_string_lossy()))
                .transpose()
                .map_err(|e| PyValueError::new_err(format!("plan: {e}")))?,
            device: Some(self.0.session.number(position)),
        };
        let replayed = self.json(py, move |open, cancel| {
            Ok(json(&ReplayJson::new(&open.session.replay(&request, cancel, &|| ())?))?)
        })?;
        replayed.get_item("devices")?.get_item(0)
    }

    /// Changes from this recording to another, and the event where they diverge, as in `vramscope diff --json`. `at_step`
    /// compares the peaks of that step, counted from 1, instead of those of the recordings. `promised`, in bytes or as `"2GiB"`, are bytes
    /// that the change should free.
    #[pyo3(signature = (other, *, device=None, at_step=None, promised=None))]
    fn diff<'py>(
        &self,
        py: Python<'py>,
        other: &Self,
        #[pyo3(from_py_with = arguments::device)] device: Option<i64>,
        #[pyo3(from_py_with = arguments::at_step)] at_step: Option<u32>,
        #[pyo3(from_py_with = arguments::promised)] promised: Option<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let other = Arc::clone(&other.0);
        let request = DiffRequest { device, at_step, promised };
        self.json(py, move |a, cancel| {
            Ok(json(&DiffJson::new(&a.session.diff(&other.session, &request, cancel)?))?)
        })
    }

    /// Verdicts on budgets, as in `vramscope check --json`.
    ///
    /// `max_peak` and `max_reserved` limit the peaks of allocated and reserved bytes, in bytes or as `"40GiB"`. `max_category`
    /// limits the peaks of categories, as `["activation=20GiB"]`. With a `baseline`, an earlier recording, the peaks may grow
    /// by `max_growth`, in bytes or as `"5%"`; by default not at all. `no_leaks` forbids suspected leaks, `no_oom`
    /// out-of-memory failures.
    #[pyo3(signature = (*, max_peak=None, max_reserved=None, max_category=None, baseline=None, max_growth=None, no_leaks=false, no_oom=false, device=None))]
    #[expect(clippy::too_many_arguments, reason = "named in Python")]
    fn check<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arguments::max_peak)] max_peak: Option<u64>,
        #[pyo3(from_py_with = arguments::max_reserved)] max_reserved: Option<u64>,
        max_category: Option<Vec<String>>,
        baseline: Option<&Self>,
        #[pyo3(from_py_with = arguments::max_growth)] max_growth: Option<Growth>,
        no_leaks: bool,
        no_oom: bool,
        #[pyo3(from_py_with = arguments::device)] device: Option<i64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let limits = max_category.unwrap_or_default();
        let limits = limits.iter().map(|limit| values::category_limit(limit)).collect::<Result<_, _>>();
        let max_category = limits.map_err(|e| PyValueError::new_err(format!("max_category: {e}")))?;
        let request =
            CheckRequest { max_peak, max_reserved, max_category, max_growth, no_leaks, no_oom, device };
        let baseline = baseline.map(|old| Arc::clone(&old.0));
        self.json(py, move |open, cancel| {
            let old = baseline.as_ref().map(|old| &*old.session);
            Ok(json(&CheckJson::new(&open.session.check(&request, old, cancel)?))?)
        })
    }

    /// One row per recorded event, with the counters after it: a table for polars, pandas, DuckDB and pyarrow.
    #[getter]
    fn events(&self, py: Python<'_>) -> PyResult<Table> {
        self.table(py, "events", None, None, None)
    }

    /// One row per allocation, with its lifetime.
    #[getter]
    fn allocations(&self, py: Python<'_>) -> PyResult<Table> {
        self.table(py, "allocations", None, None, None)
    }

    /// One row per range that was taken from the device, with its lifetime.
    #[getter]
    fn segments(&self, py: Python<'_>) -> PyResult<Table> {
        self.table(py, "segments", None, None, None)
    }

    /// A table of one device or of all devices: `"events"`, `"allocations"`, `"segments"` or `"holders"`.
    ///
    /// `by` and `at` apply only to holders, and have the same meaning as for `holders`. All other tables are cached.
    #[pyo3(signature = (name, *, device=None, by=None, at=None))]
    fn table(
        &self,
        py: Python<'_>,
        name: &str,
        #[pyo3(from_py_with = arguments::device)] device: Option<i64>,
        by: Option<&str>,
        #[pyo3(from_py_with = arguments::when)] at: Option<When>,
    ) -> PyResult<Table> {
        let positions = self.positions(device, at)?;
        let columns = if name == "holders" {
            let by = values::by(by.unwrap_or("line")).map_err(PyValueError::new_err)?;
            self.compute(py, move |open, cancel| {
                Ok(open.holders(Holders { at, by }, &positions, cancel).map_err(|e| e.to_string())?)
            })?
        } else {
            let table = kind(name)?;
            if by.is_some() || at.is_some() {
                return Err(PyValueError::new_err(format!(
                    "`by` and `at` apply only to holders, not to {name}"
                )));
            }
            self.compute(py, move |open, cancel| {
                Ok(open.table(table, device, &positions, cancel).map_err(|e| e.to_string())?)
            })?
        };
        Ok(Table::new(name.to_owned(), columns))
    }

    /// Writes a file in another tool's format, as `vramscope export`, and returns the number of its rows.
    ///
    /// `format` is `"chrome"`, `"pprof"`, `"folded"`, `"flamegraph"`, `"csv"`, `"parquet"` or `"pickle"`; by default, the
    /// file's extension decides. `table` applies to csv and parquet: `"events"`, `"allocations"` or `"segments"`. `at` selects
    /// the event for pprof, folded and flamegraph. The file is either complete or not written at all.
    #[pyo3(signature = (path, *, format=None, table=None, at=None, device=None))]
    fn export(
        &self,
        py: Python<'_>,
        path: PathBuf,
        format: Option<&str>,
        table: Option<&str>,
        #[pyo3(from_py_with = arguments::at)] at: Option<usize>,
        #[pyo3(from_py_with = arguments::device)] device: Option<i64>,
    ) -> PyResult<u64> {
        let format = format_of(&path, format)?;
        if at.is_some() && !format.shows_a_moment() {
            return Err(PyValueError::new_err(format!("`at` does not apply to {}", format.name())));
        }
        if table.is_some() && !format.is_table() {
            return Err(PyValueError::new_err(format!(
                "`table` applies only to csv and parquet, not to {}",
                format.name()
            )));
        }
        let positions = self.positions(device, at.map(When::After))?;
        let options = export::ExportOptions { at, table: table.map(kind).transpose()?.unwrap_or_default() };
        let target = self.target(py, &path)?;
        self.compute(py, move |open, cancel| {
            let source =
                Source { trace: open.session.trace(), frames: open.session.frames(), devices: positions };
            let mut out = BufWriter::new(WantedFile { target, cancel: cancel.clone() });
            let written = export::write(&source, format, &options, &mut out);
            let written = written.map_err(|e| in_full(&e))?;
            let out = out.into_inner().map_err(|e| e.error().to_string())?;
            out.target.finish().map_err(|e| format!("{}: {e}", path.display()))?;
            Ok(written.rows)
        })
    }

    /// Opens the recording in the browser, as `vramscope view`, and returns the page's address, which contains a secret.
    ///
    /// The page is served only on this machine, and only until the process ends. With `html`, a self-contained page is written
    /// to that file instead, and the file's name is returned.
    #[pyo3(signature = (*, html=None, browser=true))]
    fn view(&self, py: Python<'_>, html: Option<PathBuf>, browser: bool) -> PyResult<String> {
        if let Some(path) = html {
            let page = self.page(py)?;
            let target = self.target(py, &path)?;
            let written =
                py.detach(|| target.file().write_all(page.as_bytes()).and_then(|()| target.finish()));
            written.map_err(|e| os_error(&path, &e))?;
            return Ok(path.display().to_string());
        }
        let url = py.detach(|| self.0.url()).map_err(|e| failed(self.0.session.name(), e))?;
        if browser {
            // If no browser can be started, the caller can still open the address.
            open::that_detached(&url).ok();
        }
        Ok(url)
    }

    fn __repr__(&self) -> String {
        let devices = self.0.session.trace().devices.iter().filter(|device| device.was_used());
        let devices: Vec<String> = devices
            .map(|d| format!("device {}: {} events", d.device, count(d.events.len() as u64)))
            .collect();
        let devices = if devices.is_empty() { "nothing recorded".to_owned() } else { devices.join(", ") };
        format!(
            "<Recording {}: {}, {devices}>",
            Shown::of(self.0.session.name()),
            self.0.session.recording().format.name()
        )
    }

    /// The viewer's page for notebooks, in a sandboxed frame without access to the notebook or the network.
    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        let page = self.page(py)?;
        let about = escaped(&self.__repr__());
        if page.len() > LARGEST_PAGE {
            return Ok(format!(
                "<pre>{about}\nThe page is too large for a notebook; `view()` opens it in the browser.</pre>"
            ));
        }
        Ok(format!(
            "<iframe title=\"{about}\" srcdoc=\"{}\" sandbox=\"allow-scripts allow-downloads\" \
             style=\"width: 100%; height: 640px; border: 0\"></iframe>",
            escaped(&page)
        ))
    }
}

impl Recording {
    /// Computes an answer without holding the interpreter.
    fn compute<T: Send + 'static>(
        &self,
        py: Python<'_>,
        answer: impl FnOnce(&Loaded, &Cancel) -> Result<T, Failed> + Send + 'static,
    ) -> PyResult<T> {
        let open = Arc::clone(&self.0);
        let answer = work(py, None, move |steps| answer(&open, &steps.cancel))?;
        answer.map_err(|why| why.raised(self.0.session.name()))
    }

    /// Computes an answer that is JSON, and parses it.
    fn json<'py>(
        &self,
        py: Python<'py>,
        answer: impl FnOnce(&Loaded, &Cancel) -> Result<String, Failed> + Send + 'static,
    ) -> PyResult<Bound<'py, PyAny>> {
        loads(py, &self.compute(py, answer)?)
    }

    /// The report's answers for a device.
    fn answers(&self, py: Python<'_>, device: Option<i64>) -> PyResult<Arc<DeviceAnswers>> {
        let position = self.position(device)?;
        self.compute(py, move |open, cancel| open.answers(position, cancel))
    }

    fn position(&self, device: Option<i64>) -> PyResult<usize> {
        self.0.session.device(device).map_err(|e| self.raised(e))
    }

    /// The positions of the requested device or of all devices, one of which has the event of `at`.
    fn positions(&self, device: Option<i64>, at: Option<When>) -> PyResult<Vec<usize>> {
        let positions = self.0.session.devices(device).map_err(|e| self.raised(e))?;
        self.0.session.check_moment(&positions, at).map_err(|e| self.raised(e))?;
        Ok(positions)
    }

    fn raised(&self, error: SessionError) -> PyErr {
        Failed::from(error).raised(self.0.session.name())
    }

    /// Opens an output file, which must not be the recording's own file.
    fn target(&self, py: Python<'_>, path: &Path) -> PyResult<Target> {
        if self.0.file.as_deref().is_some_and(|file| is_same_file(path, file)) {
            let name = path.display();
            return Err(PyValueError::new_err(format!(
                "{name}: is the file that was read; name another one to write to"
            )));
        }
        py.detach(|| Target::open(path)).map_err(|e| os_error(path, &e))
    }

    /// The viewer's page with the recording embedded.
    fn page(&self, py: Python<'_>) -> PyResult<String> {
        self.compute(py, |open, _| {
            let session = &open.session;
            let (name, recording) = (session.name(), session.recording());
            // A trace that does not fit is left out.
            let own = own_operators(name, recording).ok().flatten();
            let operators = own.as_ref().map(|(trace, _)| (name, trace));
            let file = PageFile { operators, ..PageFile::new(name, recording) };
            Ok(self_contained(&[file], &[]).map_err(|e| e.to_string())?)
        })
    }
}

/// The table with a name.
fn kind(name: &str) -> PyResult<Kind> {
    let all = [Kind::Events, Kind::Allocations, Kind::Segments];
    all.into_iter().find(|table| table.name() == name).ok_or_else(|| {
        PyValueError::new_err(format!("unknown table {name:?}; known tables: events, allocations, segments"))
    })
}

/// The format with a name, or the format for a file's name.
fn format_of(path: &Path, format: Option<&str>) -> PyResult<ExportFormat> {
    let found = match format {
        Some(name) => ExportFormat::ALL.into_iter().find(|format| format.name() == name),
        None => ExportFormat::of_file_name(&path.to_string_lossy()),
    };
    found.ok_or_else(|| {
        let known = ExportFormat::ALL.map(|format| format!("{} ({})", format.name(), format.extension()));
        PyValueError::new_err(format!("unknown format; known formats: {}", known.join(", ")))
    })
}

/// An output file whose writes fail after a cancellation.
struct WantedFile {
    target: Target,
    cancel: Cancel,
}

impl Write for WantedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() {
            return Err(io::Error::other(CANCELLED));
        }
        self.target.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.target.file().flush()
    }
}

/// An error with all its causes.
fn in_full(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Escapes text for HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Removes terminal colors from text.
fn without_styles(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, style)) = rest.split_once("\u{1b}[") {
        plain.push_str(before);
        rest = style.split_once('m').map_or("", |(_, behind)| behind);
    }
    plain + rest
}
