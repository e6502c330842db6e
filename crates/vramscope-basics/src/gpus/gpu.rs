//! A GPU, and what follows from its compute capability.

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A GPU as its driver describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// As people write it: `h100-80gb`. The size is part of it where GPUs of several sizes share the rest.
    pub name: &'static str,
    /// The driver's own name: `NVIDIA H100 80GB HBM3`. GPUs that differ in their memory alone may share it.
    pub full: &'static str,
    /// Bytes that programs are told of as the whole memory (`cudaDeviceProp::totalGlobalMem`, PyTorch's "total
    /// capacity"). The driver keeps some of the advertised size for itself, ECC takes its share, and drivers differ by
    /// a tenth of a GiB: of several figures, this is a lower one.
    pub total_bytes: u64,
    /// Whether [`total_bytes`](Self::total_bytes) was printed on such a device by a program that asked it. Otherwise it
    /// is derived from the advertised size.
    pub printed: bool,
    /// Compute capability, ten times the major number and the minor: 90 is 9.0, 120 is 12.0.
    pub capability: u32,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of the level 2 cache.
    pub l2_bytes: u64,
    /// Width of the bus to the memory, in bits.
    pub bus_bits: u32,
    /// Whether it has no memory of its own but uses the host's.
    pub integrated: bool,
}

/// By compute capability, as in the table of technical specifications of NVIDIA's CUDA programming guide, and in
/// `arch_traits` of libcu++.
impl Gpu {
    /// Threads that one multiprocessor holds at a time.
    pub fn threads_per_multiprocessor(&self) -> u32 {
        match self.capability {
            75 => 1024,
            86..=89 | 110.. => 1536,
            _ => 2048,
        }
    }

    /// Blocks of threads that one multiprocessor holds at a time.
    pub fn blocks_per_multiprocessor(&self) -> u32 {
        match self.capability {
            75 | 86..=88 => 16,
            89 | 110.. => 24,
            _ => 32,
        }
    }

    /// Bytes of shared memory of one multiprocessor.
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

    /// Bytes of shared memory that a block may have without asking for more.
    pub fn shared_bytes_per_block(&self) -> u64 {
        48 * KIB
    }

    /// Bytes of shared memory that a block may have when its kernel asks for it (`sharedMemPerBlockOptin`): since
    /// capability 8.0, all of the multiprocessor's but one KiB, which CUDA keeps of every block.
    pub fn shared_bytes_per_block_optin(&self) -> u64 {
        match self.capability {
            ..70 => self.shared_bytes_per_block(),
            70..80 => self.shared_bytes_per_multiprocessor(),
            _ => self.shared_bytes_per_multiprocessor() - KIB,
        }
    }
}

/// Where the total of a row of the table comes from.
#[derive(Clone, Copy)]
pub(super) enum Total {
    /// Printed in GiB: hundredths of a GiB.
    Gib(u64),
    /// Printed in MiB.
    Mib(u64),
    /// Derived from so many advertised GiB: recent drivers keep about 320 MiB and a 128th of them, as the test below
    /// shows of printed totals from 6 to 96 GiB. Older drivers kept less.
    Of(u64),
    /// As `Of`, after a 16th of them for error correction, as data centre GPUs with GDDR memory have it.
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

    /// The rule that derives totals gives printed ones within 128 MiB, where those are of recent drivers.
    #[test]
    fn totals_are_derived_as_printed_ones_are() {
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
