//! What a phantom GPU does not know: the extremes that were run, and the reasons that follow for a peak.

use serde::Serialize;

/// Something that a phantom GPU does not know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "CertaintyReason"))]
pub(crate) struct Reason {
    pub(crate) about: About,
    /// The sentence without a full stop, in the order of the verdict's first line.
    pub(crate) text: String,
    pub(crate) effect: Effect,
}

/// The subject of a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "CertaintyAbout"))]
#[serde(rename_all = "snake_case")]
pub(crate) enum About {
    /// The program did not run to its end.
    End,
    /// Values that kernels would have computed.
    Values,
    /// When the GPU has done its work.
    Time,
    /// Memory of libraries.
    Libraries,
    /// Choices by measured time.
    Choices,
}

/// The effect of a reason on the peak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "CertaintyEffect"))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Effect {
    /// The extremes have the same peak.
    None,
    /// The peak includes a model.
    Model,
    /// The extremes are in the range.
    Range,
    /// An extreme was not run: the peak may be higher.
    Unbounded,
}

impl Reason {
    pub(crate) fn unbounded(about: About, text: impl Into<String>) -> Self {
        Self { about, text: text.into(), effect: Effect::Unbounded }
    }
}

/// Why the peak depends on when the GPU has done its work.
pub(crate) const CROSSING: &str = "memory that several streams use is freed when the GPU is done with it";

/// The result of a run of the program with something else that a phantom GPU cannot know.
#[derive(Debug, Clone)]
pub(crate) struct Extreme {
    pub(crate) about: About,
    /// What the runs differ in, in words, as `the program reads computed values (train.py:12)`.
    pub(crate) unknown: String,
    /// The peak of the program's memory on one GPU, without contexts, in bytes.
    pub(crate) peak: u64,
    /// Why the run may not show the whole peak.
    pub(crate) cut_off: Option<String>,
}

impl Extreme {
    /// The same beside the run of a changed program, whose peak is `to` bytes instead of `from`.
    pub(crate) fn shifted(&self, from: u64, to: u64) -> Self {
        Self { peak: (self.peak + to).saturating_sub(from), ..self.clone() }
    }

    /// The reason that follows from this run beside one with a peak of `peak` bytes.
    pub(crate) fn reason(&self, peak: u64) -> Reason {
        let (effect, text) = match &self.cut_off {
            Some(why) => (Effect::Unbounded, format!("{}, and in a second run {why}", self.unknown)),
            None if self.peak == peak => (Effect::None, self.unknown.clone()),
            None => (Effect::Range, self.unknown.clone()),
        };
        Reason { about: self.about, text, effect }
    }
}
