//! Facts about a file beyond its contents. A self-contained page stores recordings in its own format, so it also stores these
//! facts.

use serde::{Deserialize, Serialize};
use vramscope_analysis::{Recorder, RecordingFacts};
use vramscope_report::count;
use vramscope_trace::formats::{Compression, Format, Recording};

use crate::SessionError;

/// Facts about a file, taken when it was read.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct About {
    /// `pickle`, `json` or `log`.
    pub(crate) format: String,
    /// Names and values of the facts, in display order.
    pub(crate) facts: Vec<(String, String)>,
    /// Whether a pool in a Rust program recorded it, see [`Recorder`].
    is_pools: bool,
}

impl About {
    /// The facts about a recording.
    #[must_use]
    pub fn of(recording: &Recording) -> Self {
        let facts = RecordingFacts::of(&recording.trace);
        let (format, compression) = (recording.format, recording.compression);
        let mut told = vec![("Format", format.to_string())];
        if compression != Compression::None {
            told.push(("Compressed with", compression.name().to_owned()));
        }
        if !matches!(format, Format::Log { .. }) {
            told.push(("Age", facts.generation.to_owned()));
        }
        told.push(("Has", facts.features.join(", ")));
        told.push(("Stacks", count(recording.trace.stacks.len() as u64)));
        told.push(("Frames", count(recording.trace.frames.len() as u64)));
        let notices: Vec<String> = recording.notices.to_string().lines().map(str::to_owned).collect();
        told.push(("Not read", notices.join("; ")));
        told.retain(|(_, value)| !value.is_empty());
        Self {
            format: format.name().to_owned(),
            facts: told.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            is_pools: Recorder::of(recording) == Recorder::Pool,
        }
    }

    /// Parses the facts that a page stores about a file.
    ///
    /// # Errors
    /// Fails if the JSON does not have this form.
    pub fn of_json(json: &str) -> Result<Self, SessionError> {
        Ok(serde_json::from_str(json)?)
    }

    /// Adds why the trace of `torch.profiler` that the recording has is not shown.
    pub(crate) fn refuses_operators(&mut self, why: &SessionError) {
        self.facts.push(("Operators are not shown".to_owned(), why.to_string()));
    }

    pub(crate) fn recorder(&self) -> Recorder {
        if self.is_pools { Recorder::Pool } else { Recorder::Torch }
    }
}
