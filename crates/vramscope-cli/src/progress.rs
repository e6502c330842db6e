//! Progress bars for slow reads and writes on a terminal.

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Time after which progress is shown.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// Whether stderr is a terminal.
#[expect(clippy::disallowed_methods, reason = "queried, not written to")]
pub(crate) fn is_watched() -> bool {
    io::stderr().is_terminal()
}

/// The progress of reading or writing bytes.
pub(crate) struct ByteProgress {
    started: Instant,
    what: &'static str,
    length: Option<u64>,
    bar: Option<ProgressBar>,
}

impl ByteProgress {
    /// Starts at zero; `what` names the activity, and `length` is the total number of bytes.
    pub(crate) fn new(what: &'static str, length: Option<u64>) -> Self {
        Self { started: Instant::now(), what, length, bar: None }
    }

    /// Sets the number of processed bytes.
    pub(crate) fn at(&mut self, bytes: u64) {
        if self.bar.is_none() && self.started.elapsed() > PATIENCE && is_watched() {
            self.bar = Some(self.bar());
        }
        if let Some(bar) = &self.bar {
            bar.set_position(bytes);
        }
    }

    /// Removes the bar.
    pub(crate) fn done(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn bar(&self) -> ProgressBar {
        let what = self.what;
        let template = match self.length {
            Some(_) => format!("{what} {{wide_bar}} {{bytes}} of {{total_bytes}}, {{eta}} left"),
            None => format!("{what} {{spinner}} {{bytes}}"),
        };
        let bar = self.length.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
        match ProgressStyle::with_template(&template) {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        }
    }
}
