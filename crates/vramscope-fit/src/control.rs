//! What runs tell their caller, and ask it.

use std::io;

use vramscope_recorder::RecordedProcess;

/// Whether a program is to end. It is asked a hundred times a second.
pub type Ends = Box<dyn Fn() -> bool>;

/// The caller of runs. Several run at the same time.
pub trait Control: Sync {
    /// Receives a line about the progress.
    fn say(&self, line: &str);

    /// Receives the logs of a run's processes when it has ended. They may be incomplete.
    fn recorded(&self, _logs: &[RecordedProcess]) {}

    /// Begins to watch whether a program that starts now is to end. It then gets SIGTERM, and what it did until then counts.
    ///
    /// # Errors
    /// The system's error, if the caller cannot watch.
    fn ends(&self) -> io::Result<Ends>;

    /// Whether a search is to end. What it found until then counts.
    fn is_stopped(&self) -> bool;
}
