//! The replay under other settings, and on other devices.

use serde::Deserialize;
use vramscope_analysis::{Cancel, Capacity, DeviceReplay, PlanSource, ReplayError, ReplayOptions, Setting};
use vramscope_basics::gpus::Gpu;
use vramscope_report::{Advice, ReplayAnswers, bytes};
use vramscope_trace::{TorchRelease, Trace, conf_with};

use crate::error::{Result, SessionError};
use crate::session::Session;
use crate::values::{self, Sweep};

/// A question for a replay.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "command", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, derive(ts_rs::TS), ts(optional_fields = nullable))]
#[serde(default, deny_unknown_fields)]
pub struct ReplayRequest {
    /// Replay under these settings, in the syntax of PYTORCH_CUDA_ALLOC_CONF [default: the recorded settings, compared
    /// with others]
    #[cfg_attr(feature = "command", arg(long, value_name = "CONF"))]
    pub conf: Option<String>,
    /// Total memory of the device, as 80GiB or in bytes [default: inferred from the recorded out-of-memory failure]
    #[cfg_attr(
        feature = "command",
        arg(long, value_name = "SIZE", value_parser = values::size, allow_hyphen_values = true)
    )]
    #[cfg_attr(feature = "schema", schemars(schema_with = "values::schema::number_or_text"))]
    #[cfg_attr(test, ts(as = "Option<u64>"))]
    #[serde(deserialize_with = "values::in_json_size")]
    pub capacity: Option<u64>,
    /// Total memory of the device, by GPU name, as a100-40gb
    #[cfg_attr(
        feature = "command",
        arg(long, value_name = "NAME", value_parser = values::command::gpu, conflicts_with = "capacity")
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    #[cfg_attr(test, ts(as = "Option<String>"))]
    #[serde(deserialize_with = "values::in_json_gpu")]
    pub gpu: Option<&'static Gpu>,
    /// Device memory that the allocator cannot use: CUDA contexts, other processes [default: 0]
    #[cfg_attr(feature = "command", arg(long, value_name = "SIZE", value_parser = values::size))]
    #[cfg_attr(feature = "schema", schemars(schema_with = "values::schema::number_or_text"))]
    #[cfg_attr(test, ts(as = "Option<u64>"))]
    #[serde(deserialize_with = "values::in_json_size")]
    pub overhead: Option<u64>,
    /// The PyTorch release that made the recording [default: inferred from the recording]
    #[cfg_attr(feature = "command", arg(long, value_name = "VERSION"))]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    #[cfg_attr(test, ts(as = "Option<String>"))]
    #[serde(deserialize_with = "values::in_json_release")]
    pub torch: Option<TorchRelease>,
    /// Compare values of one setting: `KEY=A..B` doubles integers and adds 0.1 to fractions, `KEY=A,B,C` lists values
    #[cfg_attr(feature = "command", arg(long, value_name = "KEY=VALUES", conflicts_with = "find_capacity"))]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    #[cfg_attr(test, ts(as = "Option<String>"))]
    #[serde(deserialize_with = "values::in_json_sweep")]
    pub sweep: Option<Sweep>,
    /// Find the smallest device on which the run fits
    #[cfg_attr(feature = "command", arg(long, conflicts_with_all = ["capacity", "gpu"]))]
    pub find_capacity: bool,
    /// Also replay with a plan: a file of `vramscope plan`, or `auto` for a plan of this recording
    #[cfg_attr(
        feature = "command",
        arg(long, value_name = "PLAN", value_parser = values::plan, conflicts_with = "find_capacity")
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    #[cfg_attr(test, ts(as = "Option<String>"))]
    #[serde(deserialize_with = "values::in_json_plan")]
    pub plan: Option<PlanSource>,
    /// Only this device
    #[cfg_attr(feature = "command", arg(long, value_name = "N"))]
    pub device: Option<i64>,
}

impl ReplayRequest {
    /// Checks the arguments that do not depend on a recording.
    ///
    /// # Errors
    /// Two arguments contradict each other, or nothing is left of the device.
    pub fn check(&self, advice: &Advice) -> Result<()> {
        self.capacity(advice).map(|_| ())
    }

    /// The device, unless the recording decides.
    fn capacity(&self, advice: &Advice) -> Result<Option<Capacity>> {
        let refused = |why: String| Err(SessionError::Argument(why));
        if self.sweep.is_some() && self.find_capacity {
            let [sweep, find] = ["sweep", "find-capacity"].map(|name| advice.option(name));
            return refused(format!("{find} searches for the device size under one setting; omit {sweep}"));
        }
        let Advice { capacity, overhead, .. } = advice;
        let total = match (self.capacity, self.gpu) {
            (Some(_), Some(_)) => {
                return refused(format!("give one device size, with {capacity}"));
            }
            (total, gpu) => total.or_else(|| gpu.map(|gpu| gpu.total_bytes)),
        };
        let taken = self.overhead.unwrap_or(0);
        match total {
            Some(_) if self.find_capacity => {
                let find = advice.option("find-capacity");
                refused(format!("{find} searches for the device size; do not give {capacity}"))
            }
            Some(0) => refused("the device size must be more than 0 bytes".to_owned()),
            Some(total) if taken >= total => {
                let (taken, total) = (bytes(taken), bytes(total));
                refused(format!("an overhead of {taken} leaves nothing of a device of {total}"))
            }
            None if taken > 0 && !self.find_capacity => {
                refused(format!("{overhead} is part of a device: set its size with {capacity}"))
            }
            total => Ok(total.map(|total| Capacity { total, overhead: taken })),
        }
    }

    /// The options of the replay of a recording; settings are parsed as PyTorch does.
    fn options(&self, trace: &Trace, advice: &Advice, cancel: &Cancel) -> Result<ReplayOptions> {
        let capacity = self.capacity(advice)?;
        let release = self.torch.unwrap_or_else(|| trace.shown_release());
        let parse = |name: &str, conf: &str| {
            Setting::parse(conf, release)
                .map_err(|e| SessionError::Argument(format!("{}: {e}", advice.option(name))))
        };
        let setting = self.conf.as_deref().map(|conf| parse("conf", conf)).transpose()?;
        let recorded = trace.settings.as_ref().and_then(|s| s.conf_text.as_deref()).unwrap_or("");
        let base = self.conf.as_deref().unwrap_or(recorded);
        let swept = |value: &String, key: &str| parse("sweep", &conf_with(base, key, value));
        let sweep = self.sweep.iter().flat_map(|of| of.values.iter().map(|value| swept(value, &of.key)));
        Ok(ReplayOptions {
            release: self.torch,
            setting,
            capacity,
            sweep: sweep.collect::<Result<_>>()?,
            find_capacity: self.find_capacity.then(|| self.overhead.unwrap_or(0)),
            plan: self.plan.clone().filter(|_| !self.find_capacity),
            cancel: cancel.clone(),
        })
    }

    /// Whether the requested replay fits; for a sweep, whether any setting fits.
    #[must_use]
    pub fn fits(&self, device: &DeviceReplay) -> bool {
        match &device.smallest {
            Some((_, outcome)) => outcome.fits(),
            None if self.sweep.is_none() => device.asked.outcome.fits(),
            None => device.tried.iter().any(|tried| tried.outcome.fits()),
        }
    }
}

impl Session {
    /// Replays the requested device, or all devices without the host. `done` is called after each replay, on any thread.
    ///
    /// # Errors
    /// An argument is invalid, there is no such device, the recording cannot be replayed, or the request was cancelled.
    pub fn replay(
        &self,
        request: &ReplayRequest,
        cancel: &Cancel,
        done: &(dyn Fn() + Sync),
    ) -> Result<ReplayAnswers<'_>> {
        let mut positions = self.devices(request.device)?;
        let is_host = |position: usize| self.trace().devices[position].is_host();
        if request.device.is_none() && !positions.iter().all(|&position| is_host(position)) {
            // Settings and sizes of the request are about devices.
            positions.retain(|&position| !is_host(position));
        }
        let options = request.options(self.trace(), self.advice(), cancel)?;
        let replay = |position| {
            DeviceReplay::of(self.trace(), position, self.frames(), &options, done).map_err(|e| match e {
                ReplayError::Cancelled => SessionError::Cancelled,
                e => SessionError::Unanswerable(e.to_string()),
            })
        };
        Ok(ReplayAnswers {
            file: self.name(),
            recording: self.recording(),
            frames: self.frames(),
            devices: positions.into_iter().map(replay).collect::<Result<_>>()?,
            advice: *self.advice(),
        })
    }
}
