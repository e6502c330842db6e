//! Settings of the caching allocator, as a user writes them and as a recording has them.

mod conf;
mod divisions;
mod table;

pub use conf::{ConfError, conf_with};
pub use divisions::PowerOfTwoDivisions;
pub use table::{SettingKind, SettingValue, TorchSetting, TorchSettings};

use crate::release::TorchRelease;

/// The allocator's settings at the time of the snapshot. They may have changed during the run.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct AllocatorSettings {
    /// `PYTORCH_CUDA_ALLOC_CONF` in the environment.
    pub conf_text: Option<String>,
    /// The settings of that text, as far as it can be parsed.
    pub conf: TorchSettings,
    /// The snapshot's dictionary of settings, by its keys. It does not have all settings.
    pub recorded: TorchSettings,
}

impl AllocatorSettings {
    /// Returns the settings in effect: the dictionary's settings, plus settings of the text that the dictionary lacks.
    pub fn in_force(&self) -> TorchSettings {
        self.recorded.clone().or(&self.conf)
    }

    /// Returns the oldest release known to write all keys of the dictionary, if a key identifies one.
    pub fn oldest_release(&self) -> Option<TorchRelease> {
        let written = TorchSettings::ALL.iter().filter(|setting| setting.get(&self.recorded).is_some());
        written.filter_map(|setting| setting.recorded_since).max()
    }

    /// Whether the release that wrote the settings gives every event a compile context and user metadata, even empty ones.
    pub fn with_contexts(&self) -> bool {
        self.oldest_release() >= Some(TorchRelease::WITH_CONTEXTS)
    }

    /// Whether the release that wrote the settings also records pinned host memory.
    pub fn with_host_memory(&self) -> bool {
        self.oldest_release() >= Some(TorchRelease::WITH_HOST_MEMORY)
    }
}

impl From<TorchSettings> for AllocatorSettings {
    /// Settings as if set by a configuration text.
    fn from(conf: TorchSettings) -> Self {
        Self { conf, ..Self::default() }
    }
}
