//! The findings of the report and of the replay.

use serde::Serialize;
use vramscope_report::SectionText;

/// The findings of the report for a device, as data and in sentences.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Report {
    /// The device's part of `vramscope report --json`.
    #[cfg_attr(test, ts(type = "ReportDevice"))]
    pub(crate) device: serde_json::Value,
    /// The sections of the report that the device has, in order.
    #[cfg_attr(test, ts(type = "ReportSection[]"))]
    pub(crate) sections: Vec<SectionText>,
    /// The explanations of `ooms`, in the same order.
    pub(crate) ooms: Vec<OomFinding>,
    /// The recommended change after an out-of-memory error, in sentences; null without such an error.
    pub(crate) best_setting: Option<String>,
    /// Null if the recording has no accesses.
    pub(crate) idle: Option<IdleTexts>,
    /// The allocations of the report's `referred_tensors`.
    pub(crate) referred: Vec<usize>,
}

/// The device's `idle`, in sentences.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct IdleTexts {
    /// The peak without idle memory, and the limits of this knowledge.
    pub(crate) told: Vec<String>,
    /// For each of `idle.findings`, its line and modules; and when it is idle, and the peak without that.
    pub(crate) findings: Vec<[String; 2]>,
    /// The findings that are left out.
    pub(crate) left_out: Option<String>,
}

/// The explanation of a failed request.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct OomFinding {
    /// The free blocks that the request could not use, with the reason: one clause each.
    pub(crate) unusable: Vec<String>,
    /// Why it failed.
    pub(crate) cause: String,
    /// The amount of free memory between blocks, and the lines that pinned it: one sentence each. Empty if there was none.
    pub(crate) pinned: Vec<String>,
}

/// The recording, replayed under its own settings and under others.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Replay {
    /// The device's part of `vramscope replay --json`.
    #[cfg_attr(test, ts(type = "ReplayDevice"))]
    pub(crate) device: serde_json::Value,
    /// Reserved bytes under each tried setting: moment and bytes, at each change.
    pub(crate) lines: Vec<Vec<(usize, u64)>>,
    /// The device size and its source, in a sentence.
    pub(crate) device_size: String,
    /// The lower bound for any allocator, and its confidence: two sentences.
    pub(crate) floors: [String; 2],
    /// The closest result if nothing fits, in a sentence.
    pub(crate) nearest: Option<String>,
    /// The smallest GPU that fits, in a sentence. Null if it was not requested or if there is none.
    pub(crate) smallest_gpu: Option<String>,
    pub(crate) trust: ReplayTrust,
}

/// Whether PyTorch accepts a setting.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct SettingCheck {
    /// Why PyTorch refuses it; null if it accepts it.
    pub(crate) refused: Option<String>,
}

/// A known GPU.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "KnownGpu"))]
pub(crate) struct KnownGpu {
    pub(crate) name: &'static str,
    /// The driver's name for the GPU.
    pub(crate) driver_name: &'static str,
    pub(crate) bytes: u64,
}

/// The estimated effect of changes to parts of the program.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct MarkedProgram {
    pub(crate) marks: Vec<MarkEffect>,
    /// The recorded peak of allocated bytes, and the estimated one.
    pub(crate) recorded_peak: u64,
    pub(crate) peak: u64,
    /// The smallest known GPU that has room for each peak and a CUDA context; null if none has.
    pub(crate) recorded_gpu: Option<KnownGpu>,
    pub(crate) gpu: Option<KnownGpu>,
    /// The command that verifies the changes.
    pub(crate) verify: String,
}

/// The effect of one change.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct MarkEffect {
    pub(crate) mark: String,
    /// The number of changed allocations.
    pub(crate) allocations: usize,
    /// Why it changes none, in a sentence; null if it changes some.
    pub(crate) unchanged: Option<String>,
}

/// The confidence in a replay, in the wording of the report.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct ReplayTrust {
    /// The verdict in a few words.
    pub(crate) title: &'static str,
    /// What the replay reproduced; null if it did not reproduce the recording.
    pub(crate) reproduced: Option<&'static str>,
    /// Why the replay is approximate, one sentence each; empty if it is exact.
    pub(crate) doubts: Vec<String>,
    /// Further limitations, which apply only to settings other than the recorded ones.
    pub(crate) what_if_doubts: Vec<String>,
}
