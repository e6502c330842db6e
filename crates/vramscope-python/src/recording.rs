//! `vramscope.Recording`: what the commands answer, for Python.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use vramscope::analysis::{
    Both, Cancel, Capacity, DeviceReplay, Devices, Facts, Moment, Options, ReplayOptions, Setting,
    changed_settings, diff_devices, holders_at,
};
use vramscope::export::{self, Format, Source, Table as Kind};
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

/// The largest page, in bytes, that is shown in a notebook, whose file it becomes a part of.
const LARGEST_PAGE: usize = 24 << 20;

/// What a question ends with that nobody waits for; whoever cancelled it has gone.
const CANCELLED: &str = "cancelled";

/// A recording of GPU memory, as `vramscope.read` gives it.
///
/// Answers have the keys of the command's `--json`; `vramscope.answers` has their types. Sizes are bytes, times microseconds
/// since the Unix epoch, events are numbered from 0. `device` is needed where the recording has several devices that were used.
/// Every method that takes long lets other threads run, and Ctrl-C ends it.
///
/// Each raises ValueError where what is asked for makes no sense, as a device that the recording does not have, and
/// VramscopeError where it cannot be answered.
#[pyclass(frozen, module = "vramscope")]
pub(crate) struct Recording(Arc<OpenRecording>);

/// Reads a recording from a file or from bytes. `name` is what errors and reports call it.
#[pyfunction]
#[pyo3(signature = (origin, name, max_expanded=None, progress=None))]
pub(crate) fn read(
    py: Python<'_>,
    origin: Origin,
    name: String,
    #[pyo3(from_py_with = arguments::max_expanded)] max_expanded: Option<u64>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Recording> {
    // Absolute, for the program may change its folder.
    let file = match &origin {
        Origin::File(path) => std::path::absolute(path).ok(),
        Origin::Bytes(_) => None,
    };
    let recording = reading::read(py, origin, &name, max_expanded, progress.as_ref())?;
    Ok(Recording(Arc::new(OpenRecording::new(name, recording, file))))
}

#[pymethods]
impl Recording {
    /// The name of the file.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// The numbers of the devices that were used.
    #[getter]
    fn devices(&self) -> Vec<i64> {
        self.0.used()
    }

    /// What did not reach the recording, a sentence each: keys without a known meaning, bytes that were cut off.
    #[getter]
    fn notices(&self) -> Vec<String> {
        self.0.recording.notices.to_string().lines().map(str::to_owned).collect()
    }

    /// The bare facts of the file, as `vramscope info --json`.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.json(py, |open, _| {
            json(&InfoJson::new(&open.name, &open.recording, &Facts::of(&open.recording.trace)))
        })
    }

    /// All answers, as `vramscope report --json`.
    ///
    /// `at` is the number of the event after which holders are told, instead of the peak of allocated bytes; `by` what they are
    /// grouped by, as for `holders`, and by whole stacks where it is None; `top` limits lists of holders.
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

    /// The report in words, as `vramscope report` prints it, in lines of at most `width` columns, lists of at most `top` rows.
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

    /// The highest bytes of each kind, each at its own moment: `peak_requested_bytes`, `peak_allocated_bytes`,
    /// `peak_active_bytes`, `peak_reserved_bytes`, and when most was allocated: `peak_event`, `peak_time_us`.
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

    /// Who holds the allocated bytes, most first; the bytes sum to all that is allocated.
    ///
    /// `by` is what they are grouped by: `"line"`, `"function"`, `"file"`, `"module"`, `"stack"`, `"pool"`, `"stream"` and what
    /// else `vramscope report --by` takes. `at` is the number of the event after which it is told, instead of the peak of
    /// allocated bytes; `top` how many groups.
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

    /// Lines whose live allocations pile up over the run, most bytes first.
    #[pyo3(signature = (*, device=None))]
    fn leaks<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arguments::device)] device: Option<i64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.answers(py, device)?.get(py, "leaks")
    }

    /// The requests that failed for want of memory, the first 20: what was free, why none of it was usable, and who held the
    /// rest.
    #[pyo3(signature = (*, device=None))]
    fn ooms<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arguments::device)] device: Option<i64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.answers(py, device)?.get(py, "ooms")
    }

    /// What each annotated region of the program (`record_function`) needed.
    #[pyo3(signature = (*, device=None))]
    fn regions<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arguments::device)] device: Option<i64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.answers(py, device)?.get(py, "regions")
    }

    /// Memory that is reserved and of no use: `at_peak` of allocated bytes, and `at_end`; None where nothing was recorded.
    #[pyo3(signature = (*, device=None))]
    fn fragmentation<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arguments::device)] device: Option<i64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.answers(py, device)?.get(py, "fragmentation")
    }

    /// What was allocated over the whole run, by line, most bytes first.
    #[pyo3(signature = (*, device=None))]
    fn churn<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arguments::device)] device: Option<i64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.answers(py, device)?.get(py, "churn")
    }

    /// How far the numbers can be trusted, and why not further.
    #[pyo3(signature = (*, device=None))]
    fn quality<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arguments::device)] device: Option<i64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.answers(py, device)?.get(py, "quality")
    }

    /// Runs the recorded requests again, as `vramscope replay --json` of one device.
    ///
    /// `conf` are other settings, as for PYTORCH_CUDA_ALLOC_CONF; without them the recorded ones are compared with those that
    /// often help. The device is of `capacity`, in bytes or as `"24GiB"`, or a `gpu` by its name, as `"a100-40gb"`; `overhead`
    /// is what of it the allocator cannot have. `find_capacity` looks for the smallest device on which it fits. `torch` is the
    /// release whose rules hold, as `"2.11"`, instead of the one that the recording shows.
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

    /// What changed from this recording to another, and where their events part, as `vramscope diff --json`.
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

    /// One row for each event as it was recorded, with the counters after it: a table for polars, pandas, DuckDB, pyarrow.
    #[getter]
    fn events(&self, py: Python<'_>) -> PyResult<Table> {
        self.table(py, "events", None, None, None)
    }

    /// One row for each allocation, with its lifetime.
    #[getter]
    fn allocations(&self, py: Python<'_>) -> PyResult<Table> {
        self.table(py, "allocations", None, None, None)
    }

    /// One row for each range that was taken from the device, with its lifetime.
    #[getter]
    fn segments(&self, py: Python<'_>) -> PyResult<Table> {
        self.table(py, "segments", None, None, None)
    }

    /// A table: `"events"`, `"allocations"`, `"segments"` or `"holders"`, of one device or of all.
    ///
    /// `by` and `at` are for holders and mean what they mean for `holders`. Tables but holders are made once and kept.
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
                    "`by` and `at` are for holders, and not for {name}"
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
    /// `format` is `"chrome"`, `"pprof"`, `"folded"`, `"flamegraph"`, `"csv"`, `"parquet"` or `"pickle"`; where it is None, the
    /// end of the file's name tells. `table` is for csv and parquet: `"events"`, `"allocations"` or `"segments"`. `at` chooses
    /// the moment of pprof, folded and flamegraph. The file is there whole or not at all.
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
            return Err(PyValueError::new_err(format!("`at` is not for {}", format.name())));
        }
        if table.is_some() && !format.is_table() {
            return Err(PyValueError::new_err(format!(
                "`table` is for csv and parquet, not for {}",
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

    /// Opens the recording in the browser, as `vramscope view`, and returns the address of the page, which holds a secret.
    ///
    /// The page is served on this machine alone until the process ends: a script that ends takes it along. With `html` a page
    /// with everything in it is written to that file instead, and the file's name is returned.
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
            // Where no browser can be started, whoever has the address can.
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

    /// The viewer's page for notebooks, in a frame of its own that can reach neither the notebook nor the network.
    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        let page = self.page(py)?;
        let about = escaped(&self.__repr__());
        if page.len() > LARGEST_PAGE {
            return Ok(format!(
                "<pre>{about}\nThe page is larger than a notebook should keep; `view()` opens it in the browser.</pre>"
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
    /// Answers a question without the interpreter.
    fn ask<T: Send + 'static>(
        &self,
        py: Python<'_>,
        answer: impl FnOnce(&OpenRecording, &Cancel) -> Result<T, String> + Send + 'static,
    ) -> PyResult<T> {
        let open = Arc::clone(&self.0);
        let answer = work(py, None, move |steps| answer(&open, &steps.cancel))?;
        answer.map_err(|why| failed(&self.0.name, why))
    }

    /// The same, of an answer in JSON.
    fn json<'py>(
        &self,
        py: Python<'py>,
        answer: impl FnOnce(&OpenRecording, &Cancel) -> Result<String, String> + Send + 'static,
    ) -> PyResult<Bound<'py, PyAny>> {
        loads(py, &self.ask(py, answer)?)
    }

    /// What the report says of a device.
    fn answers(&self, py: Python<'_>, device: Option<i64>) -> PyResult<Arc<DeviceAnswers>> {
        let position = self.position(device)?;
        self.ask(py, move |open, cancel| open.answers(position, cancel)?.ok_or(CANCELLED.to_owned()))
    }

    fn position(&self, device: Option<i64>) -> PyResult<usize> {
        self.0.position(device).map_err(PyValueError::new_err)
    }

    /// Which devices a report is of, and how it looks at them.
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

    /// Opens a file to write into that is not the recording itself.
    fn target(&self, py: Python<'_>, path: &Path) -> PyResult<Target> {
        if self.0.file.as_deref().is_some_and(|file| is_same_file(path, file)) {
            let name = path.display();
            return Err(PyValueError::new_err(format!(
                "{name}: is the file that was read; name another one to write to"
            )));
        }
        py.detach(|| Target::open(path)).map_err(|e| os_error(path, &e))
    }

    /// The viewer's page with the recording inside.
    fn page(&self, py: Python<'_>) -> PyResult<String> {
        self.ask(py, |open, _| {
            self_contained(&[(&open.name, &open.recording)], &[]).map_err(|e| e.to_string())
        })
    }
}

/// The device that a replay is on.
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
        // What is an option of the command is an argument here.
        (None, Some(gpu)) => {
            Some(words::gpu(gpu).map_err(|e| PyValueError::new_err(e.replace("--capacity", "`capacity`")))?)
        }
        (None, None) => None,
    };
    if total.is_some() && find_capacity {
        return Err(PyValueError::new_err(
            "`find_capacity` looks for the device: give no `capacity` and no `gpu`",
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

/// The table of this name.
fn kind(name: &str) -> PyResult<Kind> {
    let all = [Kind::Events, Kind::Allocations, Kind::Segments];
    all.into_iter().find(|table| table.name() == name).ok_or_else(|| {
        PyValueError::new_err(format!("no table is called {name:?}; known are events, allocations, segments"))
    })
}

/// The format of this name, or that of a file's name.
fn format_of(path: &Path, format: Option<&str>) -> PyResult<Format> {
    let found = match format {
        Some(name) => Format::ALL.into_iter().find(|format| format.name() == name),
        None => Format::of_file_name(&path.to_string_lossy()),
    };
    found.ok_or_else(|| {
        let known = Format::ALL.map(|format| format!("{} ({})", format.name(), format.extension()));
        PyValueError::new_err(format!("no known format; known are {}", known.join(", ")))
    })
}

/// A file that is written until it is no longer wanted; then it goes.
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

/// An error with what it stands on.
fn in_full(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Text in which no character is HTML's.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Text without colours, which are of a terminal.
fn without_styles(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, style)) = rest.split_once("\u{1b}[") {
        plain.push_str(before);
        rest = style.split_once('m').map_or("", |(_, behind)| behind);
    }
    plain + rest
}
