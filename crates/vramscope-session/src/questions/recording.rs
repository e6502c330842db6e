//! A recording, prepared for the page.

use std::sync::{Arc, Mutex, OnceLock};

use serde::Serialize;
use vramscope_analysis::{Cancel, Timeline, at_once};
use vramscope_trace::{SettingKind, SettingValue, TorchSettings};

use crate::Session;
use crate::SessionError;
use crate::questions::about::About;
use crate::questions::advice::PAGE_ADVICE;
use crate::questions::categories::CategoriesOfDevice;
use crate::questions::device::{Device, OpenDevice};
use crate::questions::lanes::OpenOperators;
use crate::questions::tags::TagsOfDevice;

/// One open file.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Recording<'r> {
    pub(crate) name: &'r str,
    /// `pickle`, `json` or `log`.
    pub(crate) format: &'r str,
    /// `PYTORCH_CUDA_ALLOC_CONF` as it was recorded.
    pub(crate) conf: Option<&'r str>,
    /// Names and values of facts about the file, in display order.
    pub(crate) facts: &'r [(String, String)],
    /// Names and values of the recorded allocator settings.
    pub(crate) settings: Vec<(&'static str, String)>,
    pub(crate) devices: Vec<Device<'r>>,
}

/// A recording, prepared for queries.
#[derive(Debug)]
pub struct OpenRecording {
    pub(crate) session: Arc<Session>,
    pub(crate) about: About,
    pub(crate) devices: Vec<OpenDevice>,
    /// The trace of `torch.profiler` beside it.
    pub(crate) operators: Mutex<Option<Arc<OpenOperators>>>,
}

/// The maximum number of events for which categories are computed on opening. For longer recordings they are computed on
/// request, so that the first picture does not wait for them.
const AT_ONCE: usize = 1 << 18;

impl OpenRecording {
    /// Prepares a recording for the page. `about` has the facts about the file if a page stores the recording in its own format. `None`
    /// if the file was closed in the meantime.
    pub fn of(
        name: String,
        about: Option<About>,
        recording: vramscope_trace::formats::Recording,
        closed: &Cancel,
    ) -> Option<Self> {
        Self::of_session(Arc::new(Session::new(name, recording, PAGE_ADVICE)), about, closed)
    }

    /// Prepares an open session: the history, the lifetimes and the tags of each device, and in parallel the classification of its frames.
    /// `None` if the question was cancelled.
    pub fn of_session(session: Arc<Session>, about: Option<About>, closed: &Cancel) -> Option<Self> {
        let about = about.unwrap_or_else(|| About::of(session.recording()));
        let devices = || {
            let open = |position| {
                let history = session.history(position, closed).ok()?;
                let is_short = history.device().events.len() <= AT_ONCE;
                let told =
                    || (TagsOfDevice::of(&history), is_short.then(|| CategoriesOfDevice::of(&history)));
                let ((tags, purposes), timeline) = at_once(told, || Timeline::of(Arc::clone(&history)));
                Some((timeline, tags, purposes))
            };
            session.used_devices(None).ok()?.into_iter().map(open).collect::<Option<Vec<_>>>()
        };
        let (frames, devices) = at_once(|| Arc::clone(session.frames()), devices);
        let opened =
            |(timeline, tags, purposes)| OpenDevice::new(timeline, tags, Arc::clone(&frames)).told(purposes);
        let devices = devices?.into_iter().map(opened).collect();
        let opened = Self { about, devices, session, operators: Mutex::default() };
        Some(opened.with_own_operators())
    }

    /// The recording that `prepared` holds. It is prepared on first use.
    ///
    /// # Errors
    /// The question was cancelled.
    pub fn prepared<'p>(
        prepared: &'p OnceLock<Self>,
        session: &Arc<Session>,
        cancel: &Cancel,
    ) -> Result<&'p Self, SessionError> {
        match prepared.get() {
            Some(open) => Ok(open),
            None => {
                let open = Self::of_session(Arc::clone(session), None, cancel);
                let open = open.ok_or(SessionError::Cancelled)?;
                Ok(prepared.get_or_init(|| open))
            }
        }
    }

    /// The first data that the page requests, as JSON: facts about the file, and the peaks of its devices.
    ///
    /// # Errors
    /// Fails if it cannot be serialized as JSON.
    pub fn overview_json(&self) -> Result<Vec<u8>, SessionError> {
        Ok(serde_json::to_vec(&self.overview())?)
    }

    pub(crate) fn overview(&self) -> Recording<'_> {
        let trace = self.session.trace();
        Recording {
            name: self.session.name(),
            format: &self.about.format,
            conf: trace.settings.as_ref().and_then(|s| s.conf_text.as_deref()),
            facts: &self.about.facts,
            settings: settings(self.session.recording()),
            devices: self
                .devices
                .iter()
                .map(|device| device.overview(self.about.recorder(), self.session.advice()))
                .collect(),
        }
    }

    /// The session of the recording.
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// The index of the device at a position of the page.
    pub(crate) fn number(&self, position: usize) -> Result<i64, SessionError> {
        Ok(self.device(position)?.history().device().device)
    }

    pub(crate) fn device(&self, position: usize) -> Result<&OpenDevice, SessionError> {
        self.devices.get(position).ok_or_else(|| no_device(position))
    }
}

/// The error that the file has no device at a position.
pub(crate) fn no_device(position: usize) -> SessionError {
    SessionError::Missing(format!("has no device at position {position}"))
}

/// The only device of a JSON report.
pub(crate) fn first_device(mut json: serde_json::Value) -> serde_json::Value {
    json["devices"][0].take()
}

/// All settings of the file, by PyTorch's names.
fn settings(recording: &vramscope_trace::formats::Recording) -> Vec<(&'static str, String)> {
    let Some(s) = &recording.trace.settings else { return Vec::new() };
    let recorded = TorchSettings::ALL.iter().filter_map(|setting| {
        let value = match setting.get(&s.recorded)? {
            SettingValue::Int(n) if setting.kind != SettingKind::Bytes => n.to_string(),
            SettingValue::Int(n) => u64::try_from(n).map_or("unlimited".to_owned(), vramscope_report::bytes),
            SettingValue::Float(x) => x.to_string(),
            SettingValue::Bool(b) => b.to_string(),
            SettingValue::Divisions(of) => divisions(of),
            SettingValue::Word(text) => text.to_owned(),
        };
        Some((setting.recorded?, value))
    });
    let conf = s.conf_text.clone().map(|text| ("PYTORCH_CUDA_ALLOC_CONF", text));
    conf.into_iter().chain(recorded).collect()
}

/// The divisions of each power of two, such as `1 MiB: 4, 2 MiB: 8`; `off` without divisions.
fn divisions(of: vramscope_trace::PowerOfTwoDivisions) -> String {
    let on = of.0.iter().enumerate().filter(|&(_, &n)| n > 0);
    let parts: Vec<String> =
        on.map(|(i, n)| format!("{}: {n}", vramscope_report::bytes(1 << (20 + i)))).collect();
    if parts.is_empty() { "off".to_owned() } else { parts.join(", ") }
}

/// One of the project's example recordings, for tests.
#[cfg(test)]
pub(crate) fn example(name: &str) -> OpenRecording {
    let path = format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"));
    let recording = vramscope_trace::formats::read(std::fs::File::open(path).unwrap()).unwrap();
    OpenRecording::of(name.to_owned(), None, recording, &Cancel::default()).unwrap()
}
