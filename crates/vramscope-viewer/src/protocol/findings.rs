//! What the report and the replay find.

use serde::{Deserialize, Serialize};

/// What the report finds on a device, as data and in sentences.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Report {
    /// The device's part of `vramscope report --json`.
    #[cfg_attr(test, ts(type = "ReportDevice"))]
    pub(crate) device: serde_json::Value,
    /// What is said of each of `ooms`, in their order.
    pub(crate) ooms: Vec<OomFinding>,
    /// What to change after an out of memory, in sentences; null where there was none.
    pub(crate) best_setting: Option<String>,
}

/// What is said of a request that failed.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct OomFinding {
    /// Which free blocks were of no use to the request and why, a clause each.
    pub(crate) unusable: Vec<String>,
    /// Why it failed.
    pub(crate) cause: String,
    /// How much free memory lay between blocks, and the lines that pinned it, a sentence each; empty where none did.
    pub(crate) pinned: Vec<String>,
}

/// The recording replayed under its own settings and under others.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Replay {
    /// The device's part of `vramscope replay --json`.
    #[cfg_attr(test, ts(type = "ReplayDevice"))]
    pub(crate) device: serde_json::Value,
    /// Reserved bytes under each of the settings tried: moment and bytes, at each change.
    pub(crate) lines: Vec<Vec<(usize, u64)>>,
    /// How large the device is, and from where that is known, in a sentence.
    pub(crate) device_size: String,
    /// How little any allocator could do with, and how sure that is: two sentences.
    pub(crate) floors: [String; 2],
    /// What comes nearest where nothing fits, in a sentence.
    pub(crate) nearest: Option<String>,
    /// The smallest GPU on which it fits, in a sentence, where that was asked for and there is one.
    pub(crate) smallest_gpu: Option<String>,
    pub(crate) trust: ReplayTrust,
}

/// What to replay, as the options of `vramscope replay`.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(default)]
pub struct ReplayQuery {
    /// One setting, compared with the recorded one; null: those that often help.
    pub(crate) conf: Option<String>,
    /// Bytes of the device; null: as the recording shows it.
    pub(crate) capacity: Option<u64>,
    /// What of it the allocator cannot have.
    pub(crate) overhead: u64,
    /// Look for the smallest device and the smallest GPU instead.
    pub(crate) find_capacity: bool,
}

/// Whether PyTorch takes a setting.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct SettingCheck {
    /// Why it refuses it; null where it takes it.
    pub(crate) refused: Option<String>,
}

/// A GPU that is known.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "KnownGpu"))]
pub(crate) struct KnownGpu {
    pub(crate) name: &'static str,
    /// As its driver names it.
    pub(crate) driver_name: &'static str,
    pub(crate) bytes: u64,
}

/// How far the numbers of a replay can be trusted, in the words of the report.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct ReplayTrust {
    /// The verdict in a few words.
    pub(crate) title: &'static str,
    /// What the replay reproduced; null where it did not reproduce the recording.
    pub(crate) reproduced: Option<&'static str>,
    /// Why the replay is approximate, a sentence each; empty where it is exact.
    pub(crate) doubts: Vec<String>,
    /// Further reasons, which hold only for settings other than the recorded ones.
    pub(crate) what_if_doubts: Vec<String>,
}
