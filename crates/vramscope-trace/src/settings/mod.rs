//! The caching allocator's settings: as a user gives them, and as a recording has them.

mod conf;
mod divisions;
mod table;

pub use conf::{ConfError, conf_with};
pub use divisions::PowerOfTwoDivisions;
pub use table::{SettingKind, SettingValue, TorchSetting, TorchSettings};

use crate::release::TorchRelease;

/// The allocator's settings when the snapshot was taken; they may have been others during the run.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct AllocatorSettings {
    /// `PYTORCH_CUDA_ALLOC_CONF` as it stood in the environment.
    pub conf_text: Option<String>,
    /// What that text sets, as far as it can be parsed.
    pub conf: TorchSettings,
    /// What the snapshot's dictionary says, under its own keys; it leaves some settings out.
    pub recorded: TorchSettings,
}

impl AllocatorSettings {
    /// The settings that held: what the dictionary says, and what the text sets where it says nothing.
    pub fn in_force(&self) -> TorchSettings {
        self.recorded.clone().or(&self.conf)
    }

    /// The oldest release that was seen to write all the keys of the dictionary, where one of them tells.
    pub fn oldest_release(&self) -> Option<TorchRelease> {
        let written = TorchSettings::ALL.iter().filter(|setting| setting.get(&self.recorded).is_some());
        written.filter_map(|setting| setting.recorded_since).max()
    }

    /// The release that wrote them gives every event a compile context and user metadata, be they empty.
    pub fn with_contexts(&self) -> bool {
        self.oldest_release() >= Some(TorchRelease::WITH_CONTEXTS)
    }

    /// The release that wrote them lists pinned host memory beside devices.
    pub fn with_host_memory(&self) -> bool {
        self.oldest_release() >= Some(TorchRelease::WITH_HOST_MEMORY)
    }
}

impl From<TorchSettings> for AllocatorSettings {
    /// As if a configuration text had set them.
    fn from(conf: TorchSettings) -> Self {
        Self { conf, ..Self::default() }
    }
}
