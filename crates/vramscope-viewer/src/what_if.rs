//! Replays a recording under other settings, and on other devices.

use vramscope_analysis::{Cancel, Capacity, DeviceReplay, Moment, ReplayOptions, Setting};
use vramscope_basics::gpus;
use vramscope_report::{Names, ReplayAnswers, ReplayJson, ReplayTrust, bytes, findings};

use crate::ViewError;
use crate::advice::ADVICE;
use crate::protocol::{self, KnownGpu, Replay, ReplayQuery, SettingCheck};
use crate::recording::{OpenRecording, first_device};

/// The known GPUs, smallest memory first.
pub(crate) fn known_gpus() -> Vec<KnownGpu> {
    let known = gpus::by_size().into_iter();
    known.map(|gpu| KnownGpu { name: gpu.name, driver_name: gpu.full, bytes: gpu.total_bytes }).collect()
}

impl OpenRecording {
    /// Whether PyTorch accepts a setting.
    pub(crate) fn setting(&self, conf: &str) -> SettingCheck {
        let checked = Setting::parse(conf, self.recording.trace.shown_release());
        SettingCheck { refused: checked.err().map(|e| e.to_string()) }
    }

    /// Replays the device with the options of `query`.
    pub(crate) fn replay(
        &self,
        device: usize,
        query: &ReplayQuery,
        cancel: &Cancel,
    ) -> Result<Replay, ViewError> {
        let trace = &self.recording.trace;
        let position = self.device(device)?.history().position();
        let options = ReplayOptions { cancel: cancel.clone(), ..self.replay_options(query)? };
        let replay = DeviceReplay::of(trace, position, &self.frames, &options, &|| ())?;
        let lines = replay
            .tried
            .iter()
            .map(|t| t.outcome.reserved.iter().map(|&(event, b)| (Moment::after(event).index(), b)).collect())
            .collect();
        let names = Names { trace, frames: &self.frames };
        let trust = ReplayTrust::of(&replay, names.overflowed(replay.device), &ADVICE);
        let trust = protocol::ReplayTrust {
            title: trust.title,
            reproduced: trust.reproduced,
            doubts: trust.doubts,
            what_if_doubts: trust.what_if_doubts,
        };
        let (device_size, floors) = (findings::device_size(&replay, &ADVICE), findings::floors(&replay));
        let nearest = replay.nearest.as_ref().map(findings::nearest);
        let smallest_gpu = replay.smallest_gpu.as_ref().map(findings::smallest_gpu);
        let answers = ReplayAnswers {
            file: self.name(),
            recording: &self.recording,
            frames: &self.frames,
            devices: vec![replay],
            advice: ADVICE,
        };
        let device = first_device(serde_json::to_value(ReplayJson::new(&answers))?);
        Ok(Replay { device, lines, device_size, floors, nearest, smallest_gpu, trust })
    }

    /// The options of a replay, after validation.
    fn replay_options(&self, query: &ReplayQuery) -> Result<ReplayOptions, ViewError> {
        let refused = |text: String| Err(ViewError::Question(text));
        let &ReplayQuery { capacity, overhead, find_capacity, .. } = query;
        match capacity {
            Some(_) if find_capacity => {
                return refused("the smallest device is searched for; give no device size".to_owned());
            }
            Some(0) => return refused("the device size must be more than 0 bytes".to_owned()),
            Some(total) if overhead >= total => {
                let (overhead, total) = (bytes(overhead), bytes(total));
                return refused(format!("an overhead of {overhead} leaves nothing of a device of {total}"));
            }
            None if overhead > 0 && !find_capacity => {
                return refused("an overhead is part of a device; give the device size".to_owned());
            }
            _ => {}
        }
        let parse = |conf: &String| Setting::parse(conf, self.recording.trace.shown_release());
        let setting = query.conf.as_ref().map(parse).transpose();
        let setting = setting.map_err(|e| ViewError::Question(e.to_string()))?;
        Ok(ReplayOptions {
            setting,
            capacity: capacity.map(|total| Capacity { total, overhead }),
            find_capacity: find_capacity.then_some(overhead),
            ..ReplayOptions::default()
        })
    }
}
