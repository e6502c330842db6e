//! [`DeviceMemorySource`]: the source of a device's numbers.

use serde::{Deserialize, Serialize};

/// The source of the used, free and total bytes of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceMemorySource {
    /// The CUDA driver (`cuMemGetInfo`). On a MIG instance, these are the numbers of the instance.
    Driver,
    /// NVML, for a whole GPU.
    Nvml,
    /// NVML, for a MIG instance. The GPU itself is larger.
    NvmlMig,
    /// `/proc/meminfo`, because the GPU shares the host's memory: the total is `MemTotal`, the free bytes are `MemAvailable`, without swap.
    Meminfo,
}

impl DeviceMemorySource {
    /// All sources.
    pub const ALL: [Self; 4] = [Self::Driver, Self::Nvml, Self::NvmlMig, Self::Meminfo];

    /// Returns the name in JSON and in logs: `driver`, `nvml`, `nvml_mig`, `meminfo`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Driver => "driver",
            Self::Nvml => "nvml",
            Self::NvmlMig => "nvml_mig",
            Self::Meminfo => "meminfo",
        }
    }
}
