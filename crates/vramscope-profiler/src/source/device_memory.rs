//! [`DeviceMemory`]: the memory of a device, and the source of its numbers.

use std::io;

use serde::Serialize;
use vramscope_trace::samples::DeviceMemorySource;

use super::Reading;

/// The memory of a device, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceMemory {
    /// Bytes used by all processes.
    #[serde(rename = "used_bytes")]
    pub used: u64,
    /// Bytes that are free. With [`DeviceMemorySource::Nvml`], the driver keeps a part of the rest for itself.
    #[serde(rename = "free_bytes")]
    pub free: u64,
    /// The size of the device.
    #[serde(rename = "total_bytes")]
    pub total: u64,
    /// The source of these numbers: `driver`, `nvml`, `nvml_mig` (a MIG instance) or `meminfo` (the host's memory, which the GPU shares).
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub source: DeviceMemorySource,
}

impl DeviceMemory {
    /// Reads the memory of a GPU that shares the host's memory, from `/proc/meminfo`.
    ///
    /// # Errors
    /// The system is not Linux, or its kernel is older than 3.14, which has no `MemAvailable`.
    pub fn of_host() -> io::Result<Self> {
        let text = std::fs::read_to_string("/proc/meminfo")?;
        Self::of_meminfo(&text)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/meminfo has no MemAvailable"))
    }

    /// Parses `/proc/meminfo`. Its unit `kB` is 1,024 bytes.
    fn of_meminfo(text: &str) -> Option<Self> {
        let field = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            value.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
        };
        let total = field("MemTotal")?;
        let free = field("MemAvailable")?.min(total);
        Some(Self { used: total - free, free, total, source: DeviceMemorySource::Meminfo })
    }
}

impl From<DeviceMemory> for Reading {
    fn from(memory: DeviceMemory) -> Self {
        let DeviceMemory { used, total, source, .. } = memory;
        Self {
            device_used: Some(used),
            device_total: Some(total),
            device_source: Some(source),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A DGX Spark: most of the memory that is not free is page cache, and swap is no memory of the GPU.
    const MEMINFO: &str = "MemTotal:       125508 kB\nMemFree:          2048 kB\nMemAvailable:   100000 kB\n\
                           Cached:          97000 kB\nSwapTotal:       16384 kB\nSwapFree:        16384 kB\n";

    #[test]
    fn available_memory_counts_and_swap_does_not() {
        let expected = DeviceMemory {
            used: 25_508 << 10,
            free: 100_000 << 10,
            total: 125_508 << 10,
            source: DeviceMemorySource::Meminfo,
        };
        assert_eq!(DeviceMemory::of_meminfo(MEMINFO), Some(expected));
    }

    #[test]
    fn meminfo_without_available_memory_has_no_numbers() {
        for text in [
            "",
            "MemTotal:       125508 kB\nMemFree:          2048 kB\n",
            &MEMINFO.replace(" kB", " MB"),
            &MEMINFO.replace("125508", "-1"),
            &MEMINFO.replace("MemTotal", "MemTotalHuge"),
        ] {
            assert_eq!(DeviceMemory::of_meminfo(text), None, "{text}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_machine_has_memory() {
        let memory = DeviceMemory::of_host().unwrap();
        assert!(memory.total > 0 && memory.used + memory.free == memory.total);
    }
}
