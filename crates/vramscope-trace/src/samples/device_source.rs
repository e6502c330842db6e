//! [`DeviceMemorySource`]: the source of a device's numbers.

use serde::{Deserialize, Serialize};

use crate::named::named;

named! {
    /// The source of the used, free and total bytes of a device.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum DeviceMemorySource {
        /// The CUDA driver (`cuMemGetInfo`). On a MIG instance, these are the numbers of the instance.
        Driver = "driver",
        /// NVML, for a whole GPU.
        Nvml = "nvml",
        /// NVML, for a MIG instance. The GPU itself is larger.
        NvmlMig = "nvml_mig",
        /// `/proc/meminfo`, because the GPU shares the host's memory: the total is `MemTotal`, the free bytes are `MemAvailable`, without swap.
        Meminfo = "meminfo",
    }
    /// All sources.
    ALL
    /// Returns the name in JSON and in logs: `driver`, `nvml`, `nvml_mig`, `meminfo`.
    name
}
