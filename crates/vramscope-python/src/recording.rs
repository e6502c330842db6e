//! `vramscope.Recording`: the answers of the commands, for Python.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use vramscope::analysis::{
    Both, Cancel, Capacity, DeviceReplay, Devices, Moment, Options, RecordingFacts, ReplayOptions, Setting,
    changed_settings, diff_devices, holders_at,
};
use vramscope::export::{self, ExportFormat, Source, Table as Kind};
use vramscope::report::{
    Compared, DiffAnswers, DiffJson, HoldersJson, InfoJson, ReplayAnswers, ReplayJson, ReportJson, Shown,
    TextOptions, count, report,
};
use vramscope::trace::TorchRelease;
use vramscope::viewer::self_contained;
use vramscope_cli::words;
use vramscope_files::{Target, is_same_file};

use crate::answers::{DeviceAnswers, failed, json, loads};
use crate::arguments;
use crate::files::os_error;
use crate::open_recording::{ADVICE, Holders, OpenRecording};
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
pub(crate) struct Recording(Arc<OpenRecording>);

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
    Ok(Recording(Arc::new(OpenRecording::new(name, recording, file))))
}

#[pymethods]
impl Recording {
    /// The file's name.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// The numbers of the used devices.
    #[getter]
    fn devices(&self) -> Vec<i64> {
        self.0.used()
    }

    /// Information that was not loaded, one sentence each: unknown keys, truncated data.
    #[getter]
    fn notices(&self) -> Vec<String> {
        self.0.recording.notices.to_string().lines().map(str::to_owned).collect()
    }

    /// Basic facts about the file, as in `vramscope info --json`.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.json(py, |open, _| {
            json(&InfoJson::new(&open.name, &open.recording, &RecordingFacts::of(&open.recording.trace)))
        })
    }

    /// The full report, as in `vramscope report --json`.
    ///
    /// Holders are those after event `at`, or at the peak of allocated bytes by default. `by` is their grouping, as for
    /// `holders`; None groups by whole stacks. `top` limits lists of holders.
    #[pyo3(signature = (*, device=None, at=None, by=None, top=None))]
    fn report<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arguments::device)] device: Option<i64>,
        #[pyo3(from_py_with = arguments::at)] at: Option<usize>,
        by: Option<&str>,
        #[pyo3(from_py_with = arguments::top)] top: Option<usize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (positions, options) = self.options(device, at, by)?;
        self.json(py, move |open, cancel| {
            let answers = open.summaries(&positions, &options, cancel).ok_or(CANCELLED)?;
            json(&ReportJson::new(&answers, top))
        })
    }

    /// The report as text, as in `vramscope report`, in lines of at most `width` columns, with lists of at most `top` rows.
    #[pyo3(signature = (*, device=None, at=None, by=None, top=10, width=100))]
    fn text(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::device)] device: Option<i64>,
        #[pyo3(from_py_with = arguments::at)] at: Option<usize>,
        by: Option<&str>,
        #[pyo3(from_py_with = arguments::rows)] top: usize,
        #[pyo3(from_py_with = arguments::width)] width: usize,
    ) -> PyResult<String> {
        let (positions, options) = self.options(device, at, by)?;
        let shape = TextOptions { width: width.clamp(60, 1000), top: top.max(1), full_stacks: false };
        self.ask(py, move |open, cancel| {
            let answers = open.summaries(&positions, &options, cancel).ok_or(CANCELLED)?;
            Ok(without_styles(&report(&answers, shape)))
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
    /// values of `vramscope report --by`. The moment is after event `at`, or the peak of allocated bytes by default. `top`
    /// limits the number of groups.
    #[pyo3(signature = (by="line", *, at=None, device=None, top=None))]
    fn holders<'py>(
        &self,
        py: Python<'py>,
        by: &str,
        #[pyo3(from_py_with = arguments::at)] at: Option<usize>,
        #[pyo3(from_py_with = arguments::device)] device: Option<i64>,
        #[pyo3(from_py_with = arguments::top)] top: Option<usize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let by = words::by(by).map_err(PyValueError::new_err)?;
        let position = self.position(device)?;
        self.0.check_event(&[position], at).map_err(PyValueError::new_err)?;
        self.json(py, move |open, cancel| {
            let history = open.history(position, cancel).ok_or(CANCELLED)?;
            let moment = at.map_or_else(|| history.peaks().allocated.moment, Moment::after);
            json(&HoldersJson::new(open.names(), &holders_at(&history, open.frames(), moment, by), top))
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
    #[pyo3(signature = (*, conf=None, capacity=None, gpu=None, overhead=None, find_capacity=false, torch=None, device=None))]
    #[expect(clippy::too_many_arguments, reason = "named in Python")]
    fn replay<'py>(
        &self,
        py: Python<'py>,
        conf: Option<&str>,
        #[pyo3(from_py_with = arguments::capacity)] capacity: Option<u64>,
        gpu: Option<&str>,
        #[pyo3(from_py_with = arguments::overhead)] overhead: Option<u64>,
        find_capacity: bool,
        torch: Option<&str>,
        #[pyo3(from_py_with = arguments::device)] device: Option<i64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let position = self.position(device)?;
        let release = torch.map(str::parse::<TorchRelease>).transpose().map_err(PyValueError::new_err)?;
        let shown = || self.0.recording.trace.shown_release();
        let setting = conf.map(|conf| Setting::parse(conf, release.unwrap_or_else(shown))).transpose();
        let options = ReplayOptions {
            release,
            setting: setting.map_err(|e| PyValueError::new_err(format!("conf: {e}")))?,
            ..device_of(capacity, gpu, overhead, find_capacity)?
        };
        let replayed = self.json(py, move |open, cancel| {
            let options = ReplayOptions { cancel: cancel.clone(), ..options };
            let trace = &open.recording.trace;
            let replayed = DeviceReplay::of(trace, position, open.frames(), &options, &|| ());
            json(&ReplayJson::new(&ReplayAnswers {
                file: &open.name,
                recording: &open.recording,
                frames: open.frames(),
                devices: vec![replayed.map_err(|e| e.to_string())?],
                advice: ADVICE,
            }))
        })?;
        replayed.get_item("devices")?.get_item(0)
    }

    /// Changes from this recording to another, and the event where they diverge, as in `vramscope diff --json`.
    #[pyo3(signature = (other, *, device=None))]
    fn diff<'py>(
        &self,
        py: Python<'py>,
        other: &Self,
        #[pyo3(from_py_with = arguments::device)] device: Option<i64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let both = Both { a: &self.0, b: &other.0 };
        let used = |open: &Arc<OpenRecording>| {
            let positions = open.positions(device).map_err(PyValueError::new_err)?;
            let devices = &open.recording.trace.devices;
            Ok::<Vec<usize>, PyErr>(positions.into_iter().filter(|&at| devices[at].was_used()).collect())
        };
        let positions = Both { a: used(both.a)?, b: used(both.b)? };
        let b = Arc::clone(&other.0);
        self.json(py, move |a, _| {
            let of = Both {
                a: Devices { trace: &a.recording.trace, frames: a.frames(), positions: &positions.a },
                b: Devices { trace: &b.recording.trace, frames: b.frames(), positions: &positions.b },
            };
            let (devices, only) = diff_devices(of, &|_| None);
            let recordings = Both { a, b: &b }.map(|open| Compared {
                file: &open.name,
                recording: &open.recording,
                frames: open.frames(),
            });
            let settings = changed_settings(of.map(|of| &**of.trace));
            json(&DiffJson::new(&DiffAnswers {
                recordings,
                devices,
                only,
                settings,
                at: None,
                advice: ADVICE,
            }))
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
        #[pyo3(from_py_with = arguments::at)] at: Option<usize>,
    ) -> PyResult<Table> {
        let positions = self.0.positions(device).map_err(PyValueError::new_err)?;
        self.0.check_event(&positions, at).map_err(PyValueError::new_err)?;
        let columns = if name == "holders" {
            let by = words::by(by.unwrap_or("line")).map_err(PyValueError::new_err)?;
            self.ask(py, move |open, cancel| {
                open.holders(Holders { at, by }, &positions, cancel).map_err(|e| e.to_string())
            })?
        } else {
            let table = kind(name)?;
            if by.is_some() || at.is_some() {
                return Err(PyValueError::new_err(format!(
                    "`by` and `at` apply only to holders, not to {name}"
                )));
            }
            self.ask(py, move |open, cancel| {
                open.table(table, device, &positions, cancel).map_err(|e| e.to_string())
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
        let positions = self.0.positions(device).map_err(PyValueError::new_err)?;
        self.0.check_event(&positions, at).map_err(PyValueError::new_err)?;
        let options = export::Options { at, table: table.map(kind).transpose()?.unwrap_or_default() };
        let target = self.target(py, &path)?;
        self.ask(py, move |open, cancel| {
            let source = Source { trace: &open.recording.trace, frames: open.frames(), devices: positions };
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
        let url = py.detach(|| self.0.url()).map_err(|e| failed(&self.0.name, e))?;
        if browser {
            // If no browser can be started, the caller can still open the address.
            open::that_detached(&url).ok();
        }
        Ok(url)
    }

    fn __repr__(&self) -> String {
        let devices = self.0.recording.trace.devices.iter().filter(|device| device.was_used());
        let devices: Vec<String> = devices
            .map(|d| format!("device {}: {} events", d.device, count(d.events.len() as u64)))
            .collect();
        let devices = if devices.is_empty() { "nothing recorded".to_owned() } else { devices.join(", ") };
        format!("<Recording {}: {}, {devices}>", Shown::of(&self.0.name), self.0.recording.format.name())
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
    fn ask<T: Send + 'static>(
        &self,
        py: Python<'_>,
        answer: impl FnOnce(&OpenRecording, &Cancel) -> Result<T, String> + Send + 'static,
    ) -> PyResult<T> {
        let open = Arc::clone(&self.0);
        let answer = work(py, None, move |steps| answer(&open, &steps.cancel))?;
        answer.map_err(|why| failed(&self.0.name, why))
    }

    /// Computes an answer that is JSON, and parses it.
    fn json<'py>(
        &self,
        py: Python<'py>,
        answer: impl FnOnce(&OpenRecording, &Cancel) -> Result<String, String> + Send + 'static,
    ) -> PyResult<Bound<'py, PyAny>> {
        loads(py, &self.ask(py, answer)?)
    }

    /// The report's answers for a device.
    fn answers(&self, py: Python<'_>, device: Option<i64>) -> PyResult<Arc<DeviceAnswers>> {
        let position = self.position(device)?;
        self.ask(py, move |open, cancel| open.answers(position, cancel)?.ok_or(CANCELLED.to_owned()))
    }

    fn position(&self, device: Option<i64>) -> PyResult<usize> {
        self.0.position(device).map_err(PyValueError::new_err)
    }

    /// The devices and options of a report.
    fn options(
        &self,
        device: Option<i64>,
        at: Option<usize>,
        by: Option<&str>,
    ) -> PyResult<(Vec<usize>, Options)> {
        let positions = self.0.positions(device).map_err(PyValueError::new_err)?;
        self.0.check_event(&positions, at).map_err(PyValueError::new_err)?;
        let by = by.map(words::by).transpose().map_err(PyValueError::new_err)?;
        Ok((positions, Options { at, by, filter: None }))
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
        self.ask(py, |open, _| {
            self_contained(&[(&open.name, &open.recording)], &[]).map_err(|e| e.to_string())
        })
    }
}

/// The device of a replay.
fn device_of(
    capacity: Option<u64>,
    gpu: Option<&str>,
    overhead: Option<u64>,
    find_capacity: bool,
) -> PyResult<ReplayOptions> {
    let overhead = overhead.unwrap_or(0);
    let total = match (capacity, gpu) {
        (Some(_), Some(_)) => return Err(PyValueError::new_err("give `capacity` or `gpu`, not both")),
        (Some(size), None) => Some(size),
        // The command's option is an argument here.
        (None, Some(gpu)) => {
            Some(words::gpu(gpu).map_err(|e| PyValueError::new_err(e.replace("--capacity", "`capacity`")))?)
        }
        (None, None) => None,
    };
    if total.is_some() && find_capacity {
        return Err(PyValueError::new_err(
            "`find_capacity` finds the device size; give neither `capacity` nor `gpu`",
        ));
    }
    if let Some(total) = total.filter(|&total| total <= overhead) {
        return Err(PyValueError::new_err(format!(
            "an `overhead` of {overhead} leaves nothing of a device of {total} bytes"
        )));
    }
    if overhead > 0 && total.is_none() && !find_capacity {
        return Err(PyValueError::new_err("`overhead` is part of a device: give its `capacity` or `gpu`"));
    }
    Ok(ReplayOptions {
        capacity: total.map(|total| Capacity { total, overhead }),
        find_capacity: find_capacity.then_some(overhead),
        ..ReplayOptions::default()
    })
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
