//! Replays a recording under other settings, and on other devices; estimates the effect of changes to the program.

use serde::Serialize;
use vramscope_analysis::{Cancel, Mark, Moment, Setting, smallest_gpu_for};
use vramscope_basics::gpus::{self, Gpu};
use vramscope_report::{ReplayJson, estimates, out_of_memory, replay_sentences};

use crate::ReplayRequest;
use crate::SessionError;
use crate::questions::recording::{OpenRecording, first_device, no_device};

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
    pub(crate) confidence: ReplayConfidence,
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
pub(crate) struct ReplayConfidence {
    /// The verdict in a few words.
    pub(crate) title: &'static str,
    /// What the replay reproduced; null if it did not reproduce the recording.
    pub(crate) reproduced: Option<&'static str>,
    /// Why the replay is approximate, one sentence each; empty if it is exact.
    pub(crate) limitations: Vec<String>,
    /// Further limitations, which apply only to settings other than the recorded ones.
    pub(crate) what_if_limitations: Vec<String>,
}

/// The known GPUs, smallest memory first.
pub(crate) fn known_gpus() -> Vec<KnownGpu> {
    gpus::by_size().into_iter().map(known_gpu).collect()
}

fn known_gpu(gpu: &'static Gpu) -> KnownGpu {
    KnownGpu { name: gpu.name, driver_name: gpu.full, bytes: gpu.total_bytes }
}

/// The most changes of one question.
const MOST_MARKS: usize = 100;

impl OpenRecording {
    /// Whether PyTorch accepts a setting.
    pub(crate) fn setting(&self, conf: &str) -> SettingCheck {
        let checked = Setting::parse(conf, self.session.trace().shown_release());
        SettingCheck { refused: checked.err().map(|e| e.to_string()) }
    }

    /// Estimates the peak with changes to parts of the program.
    pub(crate) fn marked(
        &self,
        device: usize,
        marks: &[String],
        cancel: &Cancel,
    ) -> Result<MarkedProgram, SessionError> {
        if marks.len() > MOST_MARKS {
            return Err(SessionError::Argument(format!("more than {MOST_MARKS} changes")));
        }
        let read = |text: &String| {
            text.parse::<Mark>().map_err(|why| SessionError::Argument(format!("{text}: {why}")))
        };
        let marks: Vec<Mark> = marks.iter().map(read).collect::<Result<_, _>>()?;
        let history = self.device(device)?.history();
        let estimate = vramscope_analysis::MarkedProgram::of(history, self.session.frames(), &marks, cancel);
        let vramscope_analysis::MarkedProgram { marks: effects, recorded_peak, peak } =
            estimate.ok_or(SessionError::Cancelled)?;
        let effect = |(mark, allocations): (Mark, usize)| MarkEffect {
            unchanged: (allocations == 0).then(|| estimates::unchanged_mark(&mark)),
            mark: mark.to_string(),
            allocations,
        };
        Ok(MarkedProgram {
            marks: effects.into_iter().map(effect).collect(),
            recorded_peak,
            peak,
            recorded_gpu: smallest_gpu_for(recorded_peak).map(known_gpu),
            gpu: smallest_gpu_for(peak).map(known_gpu),
            verify: estimates::verify_marks(&marks),
        })
    }

    /// Replays a device.
    pub(crate) fn replay(
        &self,
        device: usize,
        request: ReplayRequest,
        cancel: &Cancel,
    ) -> Result<Replay, SessionError> {
        let request = ReplayRequest { device: Some(self.number(device)?), ..request };
        let answers = self.session.replay(&request, cancel, &|| ())?;
        let [replay] = answers.devices.as_slice() else { return Err(no_device(device)) };
        let lines = replay
            .tried
            .iter()
            .map(|t| t.outcome.reserved.iter().map(|&(event, b)| (Moment::after(event).index(), b)).collect())
            .collect();
        let confidence = vramscope_report::ReplayConfidence::of(
            replay,
            self.session.names().overflowed(replay.device),
            self.session.advice(),
        );
        Ok(Replay {
            lines,
            device_size: replay_sentences::device_size(replay, self.session.advice()),
            floors: replay_sentences::floors(replay),
            nearest: replay.nearest.as_ref().map(out_of_memory::nearest),
            smallest_gpu: replay.smallest_gpu.as_ref().map(replay_sentences::smallest_gpu),
            confidence: ReplayConfidence {
                title: confidence.title,
                reproduced: confidence.reproduced,
                limitations: confidence.limitations,
                what_if_limitations: confidence.what_if_limitations,
            },
            device: first_device(serde_json::to_value(ReplayJson::new(&answers))?),
        })
    }
}
