//! Replays a recording under other settings, and on other devices; estimates the effect of changes to the program.

use vramscope_analysis::{Cancel, Mark, MarkedProgram, Moment, Setting, smallest_gpu_for};
use vramscope_basics::gpus::{self, Gpu};
use vramscope_report::{ReplayJson, ReplayTrust, estimates, out_of_memory, replay_sentences};
use vramscope_session::ReplayRequest;

use crate::ViewError;
use crate::advice::ADVICE;
use crate::protocol::{self, KnownGpu, MarkEffect, Replay, SettingCheck};
use crate::recording::{OpenRecording, first_device};

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
    ) -> Result<protocol::MarkedProgram, ViewError> {
        if marks.len() > MOST_MARKS {
            return Err(ViewError::Question(format!("more than {MOST_MARKS} changes")));
        }
        let read =
            |text: &String| text.parse::<Mark>().map_err(|why| ViewError::Question(format!("{text}: {why}")));
        let marks: Vec<Mark> = marks.iter().map(read).collect::<Result<_, _>>()?;
        let history = self.device(device)?.history();
        let estimate = MarkedProgram::of(history, self.session.frames(), &marks, cancel);
        let MarkedProgram { marks: effects, recorded_peak, peak } = estimate.ok_or(ViewError::Unwanted)?;
        let effect = |(mark, allocations): (Mark, usize)| MarkEffect {
            unchanged: (allocations == 0).then(|| estimates::unchanged_mark(&mark)),
            mark: mark.to_string(),
            allocations,
        };
        Ok(protocol::MarkedProgram {
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
    ) -> Result<Replay, ViewError> {
        let request = ReplayRequest { device: Some(self.number(device)?), ..request };
        let answers = self.session.replay(&request, cancel, &|| ())?;
        let [replay] = answers.devices.as_slice() else { return Err(ViewError::NoDevice(device)) };
        let lines = replay
            .tried
            .iter()
            .map(|t| t.outcome.reserved.iter().map(|&(event, b)| (Moment::after(event).index(), b)).collect())
            .collect();
        let trust = ReplayTrust::of(replay, self.session.names().overflowed(replay.device), &ADVICE);
        Ok(Replay {
            lines,
            device_size: replay_sentences::device_size(replay, &ADVICE),
            floors: replay_sentences::floors(replay),
            nearest: replay.nearest.as_ref().map(out_of_memory::nearest),
            smallest_gpu: replay.smallest_gpu.as_ref().map(replay_sentences::smallest_gpu),
            trust: protocol::ReplayTrust {
                title: trust.title,
                reproduced: trust.reproduced,
                doubts: trust.doubts,
                what_if_doubts: trust.what_if_doubts,
            },
            device: first_device(serde_json::to_value(ReplayJson::new(&answers))?),
        })
    }
}
