//! A loaded recording with cached analysis results.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use vramscope::analysis::{By, Cancel, Frames, History, Options, Summary};
use vramscope::export::{ExportError, Table, arrow_holders, arrow_table};
use vramscope::report::{Advice, Answers, Names, ReportJson};
use vramscope::trace::formats::Recording;
use vramscope::viewer::{Library, OpenFile, Server};

use crate::answers::{DeviceAnswers, json};

/// The package's names for the actions that a report advises.
pub(crate) const ADVICE: Advice = Advice {
    any_moment: "`at=EVENT`",
    replay: "`Recording.replay()`",
    capacity: "`capacity=` or `gpu=`",
    capacity_alone: "`capacity=`",
    overhead: "`overhead=`",
    release: "`torch=`",
    device: "`device=`",
    ..Advice::LIBRARY
};

/// Columns of a table in memory.
pub(crate) type Columns = arrow_array::RecordBatch;

/// The grouping and the event of a table of holders.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Holders {
    pub(crate) at: Option<usize>,
    pub(crate) by: By,
}

/// A loaded recording with its analyses.
#[derive(Debug)]
pub(crate) struct OpenRecording {
    /// The file's name, for display.
    pub(crate) name: String,
    pub(crate) recording: Recording,
    /// The path of the file.
    pub(crate) file: Option<PathBuf>,
    frames: OnceLock<Frames>,
    /// The history of each device, computed on first use.
    histories: Vec<OnceLock<Arc<History>>>,
    answers: Vec<OnceLock<Arc<DeviceAnswers>>>,
    tables: Mutex<HashMap<(&'static str, Option<i64>), Columns>>,
    /// The address of its page, once it is served.
    page: OnceLock<String>,
}

impl OpenRecording {
    pub(crate) fn new(name: String, recording: Recording, file: Option<PathBuf>) -> Self {
        let devices = recording.trace.devices.len();
        Self {
            name,
            recording,
            file,
            frames: OnceLock::new(),
            histories: (0..devices).map(|_| OnceLock::new()).collect(),
            answers: (0..devices).map(|_| OnceLock::new()).collect(),
            tables: Mutex::default(),
            page: OnceLock::new(),
        }
    }

    pub(crate) fn frames(&self) -> &Frames {
        self.frames.get_or_init(|| Frames::of(&self.recording.trace))
    }

    pub(crate) fn names(&self) -> Names<'_> {
        Names { trace: &self.recording.trace, frames: self.frames() }
    }

    /// The numbers of the used devices.
    pub(crate) fn used(&self) -> Vec<i64> {
        self.recording.trace.devices.iter().filter(|d| d.was_used()).map(|d| d.device).collect()
    }

    /// The position of the requested device, or of the only used device.
    pub(crate) fn position(&self, asked: Option<i64>) -> Result<usize, String> {
        let known = || self.recording.trace.devices.iter().map(|d| d.device);
        let used = self.used();
        let wanted = match (asked, &used[..]) {
            (Some(device), _) => device,
            (None, [device]) => *device,
            (None, []) => known().next().ok_or_else(|| format!("{}: has no device", self.name))?,
            (None, several) => {
                return Err(format!("{}: has devices {several:?}; name one with `device=`", self.name));
            }
        };
        known().position(|device| device == wanted).ok_or_else(|| {
            format!("{}: has no device {wanted}; it has {:?}", self.name, known().collect::<Vec<_>>())
        })
    }

    /// The position of the requested device, or the positions of all devices.
    pub(crate) fn positions(&self, asked: Option<i64>) -> Result<Vec<usize>, String> {
        match asked {
            Some(_) => self.position(asked).map(|position| vec![position]),
            None => Ok((0..self.recording.trace.devices.len()).collect()),
        }
    }

    /// Fails unless a device of `positions` has an event with this index.
    pub(crate) fn check_event(&self, positions: &[usize], at: Option<usize>) -> Result<(), String> {
        let devices = positions.iter().map(|&position| &self.recording.trace.devices[position]);
        let longest = devices.map(|device| device.events.len()).max().unwrap_or(0);
        match at.filter(|&at| at >= longest) {
            Some(at) => Err(format!(
                "{}: has no event {at}; its events are numbered from 0 and there are {longest}",
                self.name
            )),
            None => Ok(()),
        }
    }

    /// The history of a device. `None` if the computation was cancelled.
    pub(crate) fn history(&self, position: usize, cancel: &Cancel) -> Option<Arc<History>> {
        if let Some(history) = self.histories[position].get() {
            return Some(Arc::clone(history));
        }
        let history = Arc::new(History::replayed_unless(&self.recording.trace, position, cancel)?);
        Some(Arc::clone(self.histories[position].get_or_init(|| history)))
    }

    /// The report's answers about devices. `None` if the computation was cancelled.
    pub(crate) fn summaries(
        &self,
        positions: &[usize],
        options: &Options,
        cancel: &Cancel,
    ) -> Option<Answers<'_>> {
        let summary = |&position: &usize| {
            let history = self.history(position, cancel)?;
            Summary::of_history_unless(&history, self.frames(), options, cancel)
        };
        Some(Answers {
            file: &self.name,
            recording: &self.recording,
            frames: self.frames(),
            devices: positions.iter().map(summary).collect::<Option<_>>()?,
            by: options.by,
            at: options.at,
            advice: ADVICE,
        })
    }

    /// The answers of `report --json` for a device. `None` if the computation was cancelled.
    pub(crate) fn answers(
        &self,
        position: usize,
        cancel: &Cancel,
    ) -> Result<Option<Arc<DeviceAnswers>>, String> {
        if let Some(answers) = self.answers[position].get() {
            return Ok(Some(Arc::clone(answers)));
        }
        let Some(answers) = self.summaries(&[position], &Options::default(), cancel) else { return Ok(None) };
        let answers = Arc::new(DeviceAnswers::of(&json(&ReportJson::new(&answers, None))?)?);
        Ok(Some(Arc::clone(self.answers[position].get_or_init(|| answers))))
    }

    /// A table of the requested device or of all devices, computed once.
    pub(crate) fn table(
        &self,
        table: Table,
        device: Option<i64>,
        positions: &[usize],
        cancel: &Cancel,
    ) -> Result<Columns, ExportError> {
        let key = (table.name(), device);
        if let Some(made) = self.tables().get(&key) {
            return Ok(made.clone());
        }
        let histories = self.histories_of(positions, cancel)?;
        let made = arrow_table(self.names(), histories.iter().map(AsRef::as_ref), table, cancel)?;
        // If another thread computed it first, all callers use that table.
        match self.tables().entry(key) {
            Entry::Occupied(first) => Ok(first.get().clone()),
            Entry::Vacant(place) => Ok(place.insert(made).clone()),
        }
    }

    /// Computes the table of holders.
    pub(crate) fn holders(
        &self,
        holders: Holders,
        positions: &[usize],
        cancel: &Cancel,
    ) -> Result<Columns, ExportError> {
        let histories = self.histories_of(positions, cancel)?;
        let histories = histories.iter().map(AsRef::as_ref);
        arrow_holders(self.names(), histories, holders.at, holders.by, cancel)
    }

    /// The address of the page. From the first call on, the page is served until the process ends.
    pub(crate) fn url(&self) -> io::Result<String> {
        if let Some(url) = self.page.get() {
            return Ok(url.clone());
        }
        let server = Server::bind(0)?;
        let url = server.url();
        let library = Arc::new(Library::default());
        library.add(OpenFile::open(self.name.clone(), self.recording.clone())?);
        library.complete();
        std::thread::Builder::new().name("vramscope-view".to_owned()).spawn(move || server.serve(library))?;
        Ok(self.page.get_or_init(|| url).clone())
    }

    fn histories_of(&self, positions: &[usize], cancel: &Cancel) -> Result<Vec<Arc<History>>, ExportError> {
        let histories = positions.iter().map(|&position| self.history(position, cancel));
        histories.collect::<Option<_>>().ok_or(ExportError::Cancelled)
    }

    fn tables(&self) -> MutexGuard<'_, HashMap<(&'static str, Option<i64>), Columns>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
