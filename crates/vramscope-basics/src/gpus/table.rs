//! The table of GPUs.

use super::gpu::{Gpu, Total};
use Total::{Gib, Mib, Of, OfEcc};

/// The table of GPUs: data center GPUs, workstation GPUs, GeForce, and GPUs that share the host's memory (Jetson and others).
///
/// Total memory is what programs print on Linux: PyTorch in its out-of-memory message ("GPU 0 has a total capacity of 79.15 GiB") and
/// in its device properties, Ultralytics and llama.cpp at startup, NVIDIA's `deviceQuery`. Windows reports the advertised size to
/// programs, but they run out of memory before they reach it.
///
/// Multiprocessors, caches and bus widths come from the output of `deviceQuery` or PyTorch where such output was found, otherwise from
/// published specifications. The driver may report a smaller cache than the specification: 3 MiB for the 4 MiB of an RTX 3060 Ti.
pub const GPUS: &[Gpu] = &[
    // name, driver's name, total memory, compute capability, multiprocessors, L2 cache in KiB, bus width in bits
    own("a10g", "NVIDIA A10G", Gib(2205), 86, 80, 6144, 384),
    own("a100-40gb", "NVIDIA A100-SXM4-40GB", Gib(3950), 80, 108, 40960, 5120),
    own("a100-80gb", "NVIDIA A100-SXM4-80GB", Gib(7915), 80, 108, 40960, 5120),
    own("a2", "NVIDIA A2", OfEcc(16), 86, 10, 2048, 128),
    own("a10", "NVIDIA A10", Mib(22516), 86, 72, 6144, 384),
    own("a16", "NVIDIA A16", OfEcc(16), 86, 10, 2048, 128),
    own("a30", "NVIDIA A30", Mib(24164), 80, 56, 24576, 3072),
    own("a40", "NVIDIA A40", Mib(45403), 86, 84, 6144, 384),
    own("b200", "NVIDIA B200", Gib(17835), 100, 148, 129_536, 7680),
    own("b300", "NVIDIA B300 SXM6 AC", Gib(26769), 103, 148, 129_536, 7680),
    own("gb200", "NVIDIA GB200", Gib(18431), 100, 152, 129_536, 7680),
    own("gh200", "NVIDIA GH200 480GB", Mib(97280), 90, 132, 61440, 6144),
    own("h20", "NVIDIA H20", Mib(97285), 90, 78, 61440, 6144),
    own("h100-80gb", "NVIDIA H100 80GB HBM3", Gib(7918), 90, 132, 51200, 5120),
    own("h100-nvl", "NVIDIA H100 NVL", Mib(95320), 90, 132, 61440, 6016),
    own("h100-pcie", "NVIDIA H100 PCIe", Mib(81008), 90, 114, 51200, 5120),
    own("h200", "NVIDIA H200", Gib(13972), 90, 132, 61440, 6144),
    own("l4", "NVIDIA L4", Gib(2203), 89, 58, 49152, 192),
    own("l40", "NVIDIA L40", Gib(4440), 89, 142, 98304, 384),
    own("l40s", "NVIDIA L40S", Gib(4439), 89, 142, 98304, 384),
    own("p40", "Tesla P40", OfEcc(24), 61, 30, 3072, 384),
    own("p100-16gb", "Tesla P100-PCIE-16GB", Mib(16269), 60, 56, 4096, 4096),
    own("t4", "Tesla T4", Gib(1475), 75, 40, 4096, 256),
    own("v100-16gb", "Tesla V100-SXM2-16GB", Gib(1578), 70, 80, 6144, 4096),
    own("v100-32gb", "Tesla V100-SXM2-32GB", Gib(3174), 70, 80, 6144, 4096),
    // Workstations.
    own("quadro-rtx4000", "Quadro RTX 4000", Mib(7982), 75, 36, 4096, 256),
    own("quadro-rtx5000", "Quadro RTX 5000", Mib(15927), 75, 48, 4096, 256),
    own("quadro-rtx6000", "Quadro RTX 6000", Of(24), 75, 72, 6144, 384),
    own("quadro-rtx8000", "Quadro RTX 8000", Mib(48380), 75, 72, 6144, 384),
    own("titan-rtx", "NVIDIA TITAN RTX", Mib(24212), 75, 72, 6144, 384),
    own("a4000", "NVIDIA RTX A4000", Mib(16117), 86, 48, 4096, 256),
    own("a5000", "NVIDIA RTX A5000", Mib(24114), 86, 64, 6144, 384),
    own("a5500", "NVIDIA RTX A5500", Mib(24090), 86, 80, 6144, 384),
    own("a6000", "NVIDIA RTX A6000", Gib(4740), 86, 84, 6144, 384),
    own("rtx4000-sff-ada", "NVIDIA RTX 4000 SFF Ada Generation", Mib(20055), 89, 48, 49152, 160),
    own("rtx4500-ada", "NVIDIA RTX 4500 Ada Generation", Of(24), 89, 60, 49152, 192),
    own("rtx6000-ada", "NVIDIA RTX 6000 Ada Generation", Mib(48497), 89, 142, 98304, 384),
    own("rtxpro4000", "NVIDIA RTX PRO 4000 Blackwell", Gib(2342), 120, 70, 49152, 192),
    own("rtxpro4500", "NVIDIA RTX PRO 4500 Blackwell", Of(32), 120, 82, 65536, 256),
    own("rtxpro5000", "NVIDIA RTX PRO 5000 Blackwell", Of(48), 120, 110, 98304, 384),
    own(
        "rtxpro6000",
        "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
        Mib(97247),
        120,
        188,
        131_072,
        512,
    ),
    // GeForce.
    own("gtx1080ti", "NVIDIA GeForce GTX 1080 Ti", Mib(11164), 61, 28, 2816, 352),
    own("rtx2060", "NVIDIA GeForce RTX 2060", Mib(5905), 75, 30, 3072, 192),
    own("rtx2070", "NVIDIA GeForce RTX 2070", Mib(7949), 75, 36, 4096, 256),
    own("rtx2070-super", "NVIDIA GeForce RTX 2070 SUPER", Mib(7972), 75, 40, 4096, 256),
    own("rtx2080", "NVIDIA GeForce RTX 2080", Mib(7949), 75, 46, 4096, 256),
    own("rtx2080-super", "NVIDIA GeForce RTX 2080 SUPER", Mib(7982), 75, 48, 4096, 256),
    own("rtx2080ti", "NVIDIA GeForce RTX 2080 Ti", Gib(1073), 75, 68, 5632, 352),
    own("rtx3050-6gb", "NVIDIA GeForce RTX 3050", Mib(5803), 86, 18, 1536, 96),
    own("rtx3050-8gb", "NVIDIA GeForce RTX 3050", Of(8), 86, 20, 2048, 128),
    own("rtx3060", "NVIDIA GeForce RTX 3060", Mib(11901), 86, 28, 2304, 192),
    own("rtx3060ti", "NVIDIA GeForce RTX 3060 Ti", Mib(7833), 86, 38, 3072, 256),
    own("rtx3070", "NVIDIA GeForce RTX 3070", Mib(7817), 86, 46, 4096, 256),
    own("rtx3070ti", "NVIDIA GeForce RTX 3070 Ti", Mib(7840), 86, 48, 4096, 256),
    own("rtx3080", "NVIDIA GeForce RTX 3080", Gib(978), 86, 68, 5120, 320),
    own("rtx3080-12gb", "NVIDIA GeForce RTX 3080", Mib(12117), 86, 70, 6144, 384),
    own("rtx3080ti", "NVIDIA GeForce RTX 3080 Ti", Mib(11910), 86, 80, 6144, 384),
    own("rtx3090", "NVIDIA GeForce RTX 3090", Mib(24123), 86, 82, 6144, 384),
    own("rtx3090ti", "NVIDIA GeForce RTX 3090 Ti", Mib(24110), 86, 84, 6144, 384),
    own("rtx4060", "NVIDIA GeForce RTX 4060", Mib(7807), 89, 24, 24576, 128),
    own("rtx4060ti-8gb", "NVIDIA GeForce RTX 4060 Ti", Mib(7806), 89, 34, 32768, 128),
    own("rtx4060ti-16gb", "NVIDIA GeForce RTX 4060 Ti", Mib(15948), 89, 34, 32768, 128),
    own("rtx4070", "NVIDIA GeForce RTX 4070", Mib(11866), 89, 46, 36864, 192),
    own("rtx4070-super", "NVIDIA GeForce RTX 4070 SUPER", Of(12), 89, 56, 49152, 192),
    own("rtx4070ti", "NVIDIA GeForce RTX 4070 Ti", Mib(12007), 89, 60, 49152, 192),
    own("rtx4070ti-super", "NVIDIA GeForce RTX 4070 Ti SUPER", Mib(15934), 89, 66, 49152, 256),
    own("rtx4080", "NVIDIA GeForce RTX 4080", Mib(16049), 89, 76, 65536, 256),
    own("rtx4080-super", "NVIDIA GeForce RTX 4080 SUPER", Mib(15944), 89, 80, 65536, 256),
    own("rtx4090", "NVIDIA GeForce RTX 4090", Gib(2364), 89, 128, 73728, 384),
    own("rtx4090d", "NVIDIA GeForce RTX 4090 D", Mib(24111), 89, 114, 73728, 384),
    own("rtx5060", "NVIDIA GeForce RTX 5060", Of(8), 120, 30, 24576, 128),
    own("rtx5060ti-8gb", "NVIDIA GeForce RTX 5060 Ti", Of(8), 120, 36, 32768, 128),
    own("rtx5060ti-16gb", "NVIDIA GeForce RTX 5060 Ti", Mib(15825), 120, 36, 32768, 128),
    own("rtx5070", "NVIDIA GeForce RTX 5070", Gib(1149), 120, 48, 49152, 192),
    own("rtx5070ti", "NVIDIA GeForce RTX 5070 Ti", Mib(15808), 120, 70, 49152, 256),
    own("rtx5080", "NVIDIA GeForce RTX 5080", Mib(15840), 120, 84, 65536, 256),
    own("rtx5090", "NVIDIA GeForce RTX 5090", Gib(3137), 120, 170, 98304, 512),
    // Shared memory with the host.
    shared("agx-xavier-16gb", "Xavier", Mib(15692), 72, 8, 512, 256),
    shared("xavier-nx", "Xavier", Mib(7764), 72, 6, 512, 256),
    shared("orin-nano", "Orin", Mib(7546), 87, 8, 2048, 128),
    shared("orin-nx-16gb", "Orin", Mib(15388), 87, 8, 2048, 128),
    shared("agx-orin-32gb", "Orin", Mib(30622), 87, 14, 4096, 256),
    shared("agx-orin-64gb", "Orin", Mib(62841), 87, 16, 4096, 256),
    shared("agx-thor", "NVIDIA Thor", Mib(125_492), 110, 20, 32768, 256),
    shared("gb10", "NVIDIA GB10", Mib(122_570), 121, 48, 24576, 256),
];

/// Creates a GPU with dedicated memory.
const fn own(
    name: &'static str,
    full: &'static str,
    total: Total,
    capability: u32,
    multiprocessors: u32,
    l2_kib: u64,
    bus_bits: u32,
) -> Gpu {
    let (total_bytes, printed) = (total.bytes(), total.is_printed());
    let l2_bytes = l2_kib << 10;
    let integrated = false;
    Gpu { name, full, total_bytes, printed, capability, multiprocessors, l2_bytes, bus_bits, integrated }
}

/// Creates a GPU that shares the host's memory.
const fn shared(
    name: &'static str,
    full: &'static str,
    total: Total,
    capability: u32,
    multiprocessors: u32,
    l2_kib: u64,
    bus_bits: u32,
) -> Gpu {
    Gpu { integrated: true, ..own(name, full, total, capability, multiprocessors, l2_kib, bus_bits) }
}

#[cfg(test)]
mod tests {
    use super::super::find;
    use super::*;

    /// `--gpu NAME` stands for the same number of bytes in every release.
    #[test]
    fn the_total_bytes_of_known_gpus_never_change() {
        for (name, bytes) in [
            ("a10g", 23_676_007_219),
            ("a100-40gb", 42_412_802_048),
            ("a100-80gb", 84_986_665_369),
            ("a6000", 50_895_362_457),
            ("b200", 191_501_854_310),
            ("h100-80gb", 85_018_877_624),
            ("h200", 150_023_207_649),
            ("l4", 23_654_532_382),
            ("l40", 47_674_136_985),
            ("l40s", 47_663_399_567),
            ("rtx2080ti", 11_521_249_771),
            ("rtx3080", 10_501_195_038),
            ("rtx4090", 25_383_256_719),
            ("rtx5090", 33_683_281_018),
            ("t4", 15_837_691_904),
            ("v100-16gb", 16_943_645_982),
            ("v100-32gb", 34_080_565_493),
        ] {
            let gpu = find(name).map(|gpu| (gpu.name, gpu.total_bytes, gpu.printed));
            assert_eq!(gpu, Some((name, bytes, true)));
        }
    }

    #[test]
    fn every_row_is_plausible() {
        assert!(GPUS.len() >= 45);
        for gpu in GPUS {
            // The capabilities for which the limits in `gpu.rs` were verified.
            const KNOWN: [u32; 15] = [60, 61, 70, 72, 75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121];
            assert!(KNOWN.contains(&gpu.capability), "{gpu:?}");
            assert!((6..=192).contains(&gpu.multiprocessors), "{gpu:?}");
            assert!((1 << 19..=1 << 28).contains(&gpu.l2_bytes), "{gpu:?}");
            assert!((96..=8192).contains(&gpu.bus_bits) && gpu.bus_bits.is_multiple_of(32), "{gpu:?}");
            let size =
                gpu.name.rsplit_once('-').and_then(|(_, size)| size.strip_suffix("gb")?.parse::<u64>().ok());
            let advertised = size.unwrap_or_else(|| gpu.total_bytes.div_ceil(1 << 30)) << 30;
            assert!(gpu.total_bytes <= advertised && gpu.total_bytes >= advertised / 10 * 9, "{gpu:?}");
        }
    }

    #[test]
    fn gpu_names_have_only_lower_case_letters_digits_and_hyphens() {
        for gpu in GPUS {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(gpu.name.chars().all(plain), "{}", gpu.name);
            let of_one_name = GPUS.iter().filter(|other| other.full == gpu.full);
            assert!(of_one_name.clone().all(|other| other.capability == gpu.capability), "{}", gpu.full);
        }
    }
}
