//! Requests to the thread that reads the rings, and the names of a run's folders.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;

use crate::log::LogCopy;
use crate::running::RunningProcess;

/// First part of the name of a run's folder.
pub(crate) const RECORDER_FOLDER: &str = "vramscope-recorder-";
/// The folder of the rings in the run's folder.
pub(crate) const RINGS: &str = "rings";

/// A request to the thread that reads the rings. It is answered once the logs have all events of that moment.
#[derive(Debug)]
pub(crate) enum Asked {
    /// A copy of the log of this process; `None` if it is not recorded.
    #[cfg(target_os = "linux")]
    Copy(u32, Sender<Option<io::Result<LogCopy>>>),
    /// The processes that are recorded.
    Processes(Sender<Vec<RunningProcess>>),
}

/// The requests that wait for an answer.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    pub(crate) asked: Mutex<Vec<Asked>>,
    /// Whether the run is finished.
    pub(crate) is_over: AtomicBool,
}
