//! Progress of bytes, where it takes long and somebody watches.

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// How long work may take before it shows its progress.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// Somebody sees what is on stderr.
#[expect(clippy::disallowed_methods, reason = "looked at, not written to")]
pub(crate) fn is_watched() -> bool {
    io::stderr().is_terminal()
}

/// Bytes that go by.
pub(crate) struct Progress {
    started: Instant,
    what: &'static str,
    length: Option<u64>,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Begins; `what` is done to the bytes, and there will be `length` of them.
    pub(crate) fn new(what: &'static str, length: Option<u64>) -> Self {
        Self { started: Instant::now(), what, length, bar: None }
    }

    /// So many bytes have gone by.
    pub(crate) fn at(&mut self, bytes: u64) {
        if self.bar.is_none() && self.started.elapsed() > PATIENCE && is_watched() {
            self.bar = Some(self.bar());
        }
        if let Some(bar) = &self.bar {
            bar.set_position(bytes);
        }
    }

    /// All have.
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
