//! A loaded recording with cached analysis results.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use vramscope::analysis::{By, Cancel, History, When};
use vramscope::export::{ExportError, Table, arrow_holders, arrow_table};
use vramscope::report::Advice;
use vramscope::session::{OpenRecording, ReportRequest, Session};
use vramscope::trace::formats::Recording;
use vramscope::viewer::{Library, OpenFile, Server};
use vramscope_basics::lock;

use crate::answers::{DeviceAnswers, json};
use crate::error::Failed;

/// The package's names for the actions that a report advises.
pub(crate) const ADVICE: Advice = Advice {
    any_moment: "`at=EVENT`",
    replay: "`Recording.replay()`",
    capacity: "`capacity=` or `gpu=`",
    capacity_alone: "`capacity=`",
    overhead: "`overhead=`",
    release: "`torch=`",
    device: "`device=`",
    no_oom: "`no_oom=True`",
    ..Advice::LIBRARY
};

/// Columns of a table in memory.
pub(crate) type Columns = arrow_array::RecordBatch;

/// The grouping and the event of a table of holders.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Holders {
    pub(crate) at: Option<When>,
    pub(crate) by: By,
}

/// A loaded recording, with answers that are computed once.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) session: Arc<Session>,
    /// The path of the file.
    pub(crate) file: Option<PathBuf>,
    answers: Vec<OnceLock<Arc<DeviceAnswers>>>,
    /// What the page's questions need, once one was asked.
    prepared: OnceLock<OpenRecording>,
    tables: Mutex<HashMap<(&'static str, Option<i64>), Columns>>,
    /// The address of its page, once it is served.
    page: OnceLock<String>,
}

impl Loaded {
    pub(crate) fn new(name: String, recording: Recording, file: Option<PathBuf>) -> Self {
        let devices = recording.trace.devices.len();
        Self {
            session: Arc::new(Session::new(name, recording, ADVICE)),
            file,
            answers: (0..devices).map(|_| OnceLock::new()).collect(),
            prepared: OnceLock::new(),
            tables: Mutex::default(),
            page: OnceLock::new(),
        }
    }

    /// The recording, prepared for the page's questions.
    pub(crate) fn prepared(&self, cancel: &Cancel) -> Result<&OpenRecording, Failed> {
        Ok(OpenRecording::prepared(&self.prepared, &self.session, cancel)?)
    }

    /// The answers of `report --json` for a device.
    pub(crate) fn answers(&self, position: usize, cancel: &Cancel) -> Result<Arc<DeviceAnswers>, Failed> {
        if let Some(answers) = self.answers[position].get() {
            return Ok(Arc::clone(answers));
        }
        let device = self.session.number(position);
        let request = ReportRequest { device: Some(device), ..ReportRequest::default() };
        let report = json(&self.session.report(&request, cancel)?.json())?;
        let answers = Arc::new(DeviceAnswers::of(&report)?);
        Ok(Arc::clone(self.answers[position].get_or_init(|| answers)))
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
        if let Some(made) = lock(&self.tables).get(&key) {
            return Ok(made.clone());
        }
        let histories = self.histories_of(positions, cancel)?;
        let made = arrow_table(self.session.names(), histories.iter().map(AsRef::as_ref), table, cancel)?;
        // If another thread computed it first, all callers use that table.
        match lock(&self.tables).entry(key) {
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
        arrow_holders(self.session.names(), histories, holders.at, holders.by, cancel)
    }

    /// The address of the page. From the first call on, the page is served until the process ends.
    pub(crate) fn url(&self) -> io::Result<String> {
        if let Some(url) = self.page.get() {
            return Ok(url.clone());
        }
        let server = Server::bind(0)?;
        let url = server.url();
        let library = Arc::new(Library::default());
        library.add(OpenFile::open(self.session.name().to_owned(), self.session.recording().clone())?);
        library.complete();
        std::thread::Builder::new().name("vramscope-view".to_owned()).spawn(move || server.serve(library))?;
        Ok(self.page.get_or_init(|| url).clone())
    }

    fn histories_of(&self, positions: &[usize], cancel: &Cancel) -> Result<Vec<Arc<History>>, ExportError> {
        let histories = positions.iter().map(|&position| self.session.history(position, cancel));
        histories.collect::<Result<_, _>>().map_err(|_| ExportError::Cancelled)
    }
}
