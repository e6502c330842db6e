//! Serves a Python program to `vramscope top`: Python functions supply its numbers and holders.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use vramscope::profiler::live::{self, LiveOptions};
use vramscope::profiler::{Counts, LiveHolder, MemorySource, Reading, SourceError, SourceInfo, Tick, Ticker};
use vramscope_basics::lock;

/// The result of a source's `read` function.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default)]
struct Said {
    now: Reading,
    /// The peaks since their last reset.
    peak: Reading,
    counts: Option<Counts>,
    inactive_split_bytes: Option<u64>,
    releasable_bytes: Option<u64>,
}

/// A memory source backed by a Python object.
struct PythonSource {
    info: SourceInfo,
    source: Py<PyAny>,
    knows_holders: bool,
    /// The last result: `MemorySource` reads it in parts.
    last: Mutex<Said>,
}

impl PythonSource {
    /// Calls a method of the source that returns plain data.
    fn ask<T: DeserializeOwned>(&self, method: &str, arguments: Option<usize>) -> Result<T, SourceError> {
        let asked = Python::try_attach(|py| -> PyResult<String> {
            let answer = match arguments {
                Some(top) => self.source.call_method1(py, method, (top,))?,
                None => self.source.call_method0(py, method)?,
            };
            py.import("json")?.call_method1("dumps", (answer,))?.extract()
        });
        // The interpreter is shutting down.
        let said = asked.ok_or_else(|| SourceError::Gone(self.info.name.clone()))?;
        let answer = |why: String| SourceError::Answer { source_name: self.info.name.clone(), why };
        serde_json::from_str(&said.map_err(|e| answer(e.to_string()))?).map_err(|e| answer(e.to_string()))
    }

    fn say(&self) -> Result<Said, SourceError> {
        let said: Said = self.ask("read", None)?;
        *lock(&self.last) = said;
        Ok(Said { now: Reading { counts: said.counts, ..said.now }, ..said })
    }

    fn last(&self) -> Said {
        *lock(&self.last)
    }
}

impl MemorySource for PythonSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn read(&self) -> Result<Reading, SourceError> {
        self.say().map(|said| said.now)
    }

    fn inactive_split_bytes(&self) -> Option<u64> {
        self.last().inactive_split_bytes
    }

    fn releasable_bytes(&self) -> Option<u64> {
        self.last().releasable_bytes
    }

    fn live_holders(&self, top: usize) -> Option<Vec<LiveHolder>> {
        match top {
            _ if !self.knows_holders => None,
            0 => Some(Vec::new()),
            // If the call fails, this sample has no holders; the next one may.
            _ => self.ask("holders", Some(top)).unwrap_or(None),
        }
    }

    fn ticker(self: Arc<Self>) -> Box<dyn Ticker> {
        let peak = self.say().map(|said| said.peak).unwrap_or_default();
        Box::new(PythonTicker { source: self, peak })
    }
}

/// Uses the source's peaks where they rose since the last sample, and otherwise the sampled values.
struct PythonTicker {
    source: Arc<PythonSource>,
    peak: Reading,
}

impl Ticker for PythonTicker {
    fn tick(&mut self) -> Result<Tick, SourceError> {
        let Said { now, peak, .. } = self.source.say()?;
        let before = std::mem::replace(&mut self.peak, peak);
        let risen = |new: Option<u64>, old: Option<u64>| new.filter(|&new| old.is_some_and(|old| new > old));
        let risen = Reading {
            requested: risen(peak.requested, before.requested),
            allocated: risen(peak.allocated, before.allocated),
            active: risen(peak.active, before.active),
            reserved: risen(peak.reserved, before.reserved),
            ..Reading::default()
        };
        Ok(Tick { now, high: Reading { counts: None, ..risen.max(now) }, high_is_exact: false })
    }
}

/// Serves a source to `vramscope top` until it is closed. Created by `vramscope.serve`.
#[pyclass(frozen, module = "vramscope")]
pub(crate) struct LiveServer {
    server: Mutex<Option<live::LiveServer>>,
    path: PathBuf,
}

#[pymethods]
impl LiveServer {
    #[new]
    #[pyo3(signature = (source, name, device_id=None, knows_holders=false, title=None, path=None))]
    fn new(
        py: Python<'_>,
        source: Py<PyAny>,
        name: String,
        device_id: Option<i32>,
        knows_holders: bool,
        title: Option<String>,
        path: Option<PathBuf>,
    ) -> PyResult<Self> {
        let info = SourceInfo { name, device_id };
        let source = Arc::new(PythonSource { info, source, knows_holders, last: Mutex::default() });
        let options = LiveOptions { path, collect_holders: knows_holders, title, ..LiveOptions::default() };
        let server = py.detach(|| live::LiveServer::start(source, options));
        let server = server.map_err(|e| PyOSError::new_err(e.to_string()))?;
        Ok(Self { path: server.path().to_owned(), server: Mutex::new(Some(server)) })
    }

    /// The path of the socket.
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Stops the server.
    fn close(&self, py: Python<'_>) {
        let server = lock(&self.server).take();
        // The server's thread may be waiting for the interpreter.
        py.detach(|| drop(server));
    }
}
