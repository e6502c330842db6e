//! Replays a recording under other settings, and on other devices.

use vramscope_analysis::{Cancel, Moment, Setting};
use vramscope_basics::gpus;
use vramscope_report::{ReplayJson, ReplayTrust, findings};
use vramscope_session::ReplayRequest;

use crate::ViewError;
use crate::advice::ADVICE;
use crate::protocol::{self, KnownGpu, Replay, SettingCheck};
use crate::recording::{OpenRecording, first_device};

/// The known GPUs, smallest memory first.
pub(crate) fn known_gpus() -> Vec<KnownGpu> {
    let known = gpus::by_size().into_iter();
    known.map(|gpu| KnownGpu { name: gpu.name, driver_name: gpu.full, bytes: gpu.total_bytes }).collect()
}

impl OpenRecording {
    /// Whether PyTorch accepts a setting.
    pub(crate) fn setting(&self, conf: &str) -> SettingCheck {
        let checked = Setting::parse(conf, self.session.trace().shown_release());
        SettingCheck { refused: checked.err().map(|e| e.to_string()) }
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
            device_size: findings::device_size(replay, &ADVICE),
            floors: findings::floors(replay),
            nearest: replay.nearest.as_ref().map(findings::nearest),
            smallest_gpu: replay.smallest_gpu.as_ref().map(findings::smallest_gpu),
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
