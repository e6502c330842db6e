//! [`Gpu`]: one row of the table, and the limits that follow from its compute capability.

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A GPU as its driver describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// Short name, such as `h100-80gb`. It includes the memory size if several GPUs differ only in size.
    pub name: &'static str,
    /// The driver's name, such as `NVIDIA H100 80GB HBM3`. GPUs that differ only in memory size may share it.
    pub full: &'static str,
    /// Total memory in bytes that programs see (`cudaDeviceProp::totalGlobalMem`, PyTorch's "total capacity"). It is below the
    /// advertised size: the driver reserves a part, ECC takes another, and drivers differ by 0.1 GiB. If several figures were printed,
    /// a low one is listed.
    pub total_bytes: u64,
    /// Whether a program printed [`total_bytes`](Self::total_bytes) on such a device. Otherwise the total is derived from the
    /// advertised size.
    pub printed: bool,
    /// Compute capability as 10 * major + minor: 90 is 9.0, 120 is 12.0.
    pub capability: u32,
    /// Number of streaming multiprocessors.
    pub multiprocessors: u32,
    /// Size of the L2 cache in bytes.
    pub l2_bytes: u64,
    /// Width of the memory bus in bits.
    pub bus_bits: u32,
    /// Whether the GPU shares the host's memory.
    pub integrated: bool,
}

/// Limits by compute capability. Sources: the technical specifications in NVIDIA's CUDA programming guide, and `arch_traits` in
/// libcu++.
impl Gpu {
    /// Maximum number of resident threads per multiprocessor.
    pub fn threads_per_multiprocessor(&self) -> u32 {
        match self.capability {
            75 => 1024,
            86..=89 | 110.. => 1536,
            _ => 2048,
        }
    }

    /// Maximum number of resident thread blocks per multiprocessor.
    pub fn blocks_per_multiprocessor(&self) -> u32 {
        match self.capability {
            75 | 86..=88 => 16,
            89 | 110.. => 24,
            _ => 32,
        }
    }

    /// Shared memory per multiprocessor, in bytes.
    pub fn shared_bytes_per_multiprocessor(&self) -> u64 {
        let kib = match self.capability {
            ..=60 | 62 | 75 => 64,
            61..75 => 96,
            80 | 87 => 164,
            90..120 => 228,
            _ => 100,
        };
        kib * KIB
    }

    /// Shared memory per thread block without opt-in, in bytes.
    pub fn shared_bytes_per_block(&self) -> u64 {
        48 * KIB
    }

    /// Shared memory per thread block with opt-in (`sharedMemPerBlockOptin`), in bytes. Since capability 8.0, this is the
    /// multiprocessor's shared memory minus 1 KiB, which CUDA reserves per block.
    pub fn shared_bytes_per_block_optin(&self) -> u64 {
        match self.capability {
            ..70 => self.shared_bytes_per_block(),
            70..80 => self.shared_bytes_per_multiprocessor(),
            _ => self.shared_bytes_per_multiprocessor() - KIB,
        }
    }
}

/// Source of a GPU's total memory.
#[derive(Clone, Copy)]
pub(super) enum Total {
    /// Printed in hundredths of a GiB.
    Gib(u64),
    /// Printed in MiB.
    Mib(u64),
    /// Derived from the advertised GiB. Recent drivers reserve about 320 MiB plus 1/128 of the memory; the test below compares this
    /// with printed totals from 6 to 96 GiB. Older drivers reserve less.
    Of(u64),
    /// Like `Of`, after 1/16 of the memory for ECC, as on data center GPUs with GDDR memory.
    OfEcc(u64),
}

impl Total {
    pub(super) const fn bytes(self) -> u64 {
        match self {
            Self::Gib(hundredths) => hundredths * (1 << 30) / 100,
            Self::Mib(mib) => mib * MIB,
            Self::Of(gib) => gib * (1024 - 8) * MIB - 320 * MIB,
            Self::OfEcc(gib) => gib * (1024 - 64 - 8) * MIB - 320 * MIB,
        }
    }

    pub(super) const fn is_printed(self) -> bool {
        matches!(self, Self::Gib(_) | Self::Mib(_))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{GPUS, find};
    use super::*;

    fn gpu(name: &str) -> &'static Gpu {
        find(name).unwrap_or_else(|| panic!("{name}"))
    }

    #[test]
    fn limits_follow_the_compute_capability() {
        for (name, threads, blocks, shared, optin) in [
            ("p100-16gb", 2048, 32, 64, 48),
            ("gtx1080ti", 2048, 32, 96, 48),
            ("v100-16gb", 2048, 32, 96, 96),
            ("xavier-nx", 2048, 32, 96, 96),
            ("t4", 1024, 16, 64, 64),
            ("a100-40gb", 2048, 32, 164, 163),
            ("rtx3090", 1536, 16, 100, 99),
            ("orin-nx-16gb", 1536, 16, 164, 163),
            ("l4", 1536, 24, 100, 99),
            ("h100-80gb", 2048, 32, 228, 227),
            ("b200", 2048, 32, 228, 227),
            ("b300", 2048, 32, 228, 227),
            ("agx-thor", 1536, 24, 228, 227),
            ("rtx5090", 1536, 24, 100, 99),
            ("gb10", 1536, 24, 100, 99),
        ] {
            let gpu = gpu(name);
            assert_eq!(gpu.threads_per_multiprocessor(), threads, "{name}");
            assert_eq!(gpu.blocks_per_multiprocessor(), blocks, "{name}");
            assert_eq!(gpu.shared_bytes_per_multiprocessor(), shared * KIB, "{name}");
            assert_eq!(gpu.shared_bytes_per_block_optin(), optin * KIB, "{name}");
            assert_eq!(gpu.shared_bytes_per_block(), 48 * KIB, "{name}");
        }
    }

    /// The derived totals are within 128 MiB of the totals that recent drivers print.
    #[test]
    fn derived_totals_match_printed_ones() {
        let near = |gpu: &Gpu, rule: Total| {
            assert!(gpu.printed && gpu.total_bytes.abs_diff(rule.bytes()) <= 128 * MIB, "{gpu:?}");
        };
        for (name, gib) in [
            ("rtx3050-6gb", 6),
            ("rtx4060", 8),
            ("rtx4070", 12),
            ("rtx5080", 16),
            ("rtx3090", 24),
            ("rtx5090", 32),
            ("rtx6000-ada", 48),
            ("rtxpro6000", 96),
        ] {
            near(gpu(name), Total::Of(gib));
        }
        for (name, gib) in [("a10g", 24), ("l4", 24), ("a40", 48), ("l40s", 48)] {
            near(gpu(name), Total::OfEcc(gib));
        }
        assert!(GPUS.iter().any(|gpu| !gpu.printed));
    }
}
