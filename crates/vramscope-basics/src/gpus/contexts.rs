//! Sizes of CUDA contexts, taken from public out-of-memory messages.
//!
//! PyTorch's message prints how many bytes the process uses on the GPU, how many of them PyTorch allocated, and how many it reserved
//! beyond that. The difference is the CUDA context with the kernels loaded so far. Messages of processes that also held NCCL buffers,
//! CUDA graphs or memory of other libraries are left out. A message prints hundredths of a GiB, so a difference is exact to 10 MiB.

use std::ops::RangeInclusive;

use super::{GPUS, Gpu};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Maximum error of a difference between two printed numbers, which are each rounded to hundredths of a GiB.
const ROUNDING: u64 = 10 * MIB;

/// A context size from a public out-of-memory message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextMessage {
    /// The GPU's name in [`GPUS`](super::GPUS).
    pub gpu: &'static str,
    /// Bytes that the process used beyond PyTorch's reserved bytes, exact to 10 MiB.
    pub bytes: u64,
    /// GitHub repository and issue number.
    pub source: &'static str,
}

/// The messages. If an issue does not name its GPU, the printed total memory identifies it.
pub const CONTEXT_MESSAGES: &[ContextMessage] = &[
    message("a10", 224, "zai-org/CogVLM#236"),
    message("a100-40gb", 501, "TianheWu/CoSeR#10"),
    message("a100-80gb", 409, "HiDream-ai/VAREdit#6"),
    message("a100-80gb", 512, "Kwai-Keye/Keye#11"),
    message("a4000", 210, "DengKaiCQ/VGGT-Long#6"),
    message("h100-nvl", 676, "ali-vilab/VACE#56"),
    message("l4", 236, "ArcInstitute/evo2#190"),
    message("l40", 507, "QwenLM/Qwen3-VL#2097"),
    message("l40s", 514, "huggingface/sentence-transformers#3214"),
    message("p40", 166, "ToTheBeginning/PuLID#110"),
    message("p100-16gb", 303, "andimarafioti/florence2-finetuning#17"),
    message("rtx3080", 257, "bcmi/libcom#54"),
    message("rtx3090", 304, "bytedance/X-Portrait#7"),
    message("rtx4060", 115, "ESRSchao/EdgeRegNet#2"),
    message("rtx4090", 450, "Soul-AILab/SoulX-FlashTalk#5"),
    message("rtx4090", 473, "pinokiofactory/flux-webui#11"),
    message("rtx4090", 495, "pytorch/torchchat#1341"),
    message("rtx4090", 504, "3DTopia/Phidias-Diffusion#8"),
    message("rtx5090", 595, "Wan-Video/Wan2.1#465"),
    message("rtx6000-ada", 429, "DINGYANB/MTVCrafter#21"),
    message("t4", 104, "mbzuai-oryx/GeoPixel#5"),
    message("t4", 123, "AlphaGPU/leetgpu-challenges#52"),
    message("t4", 128, "facebookresearch/tribev2#28"),
    message("t4", 135, "Zheng-Chong/CatVTON#133"),
    message("t4", 141, "FoundationVision/GenerateU#10"),
];

const fn message(gpu: &'static str, mib: u64, source: &'static str) -> ContextMessage {
    ContextMessage { gpu, bytes: mib * MIB, source }
}

impl ContextMessage {
    /// Returns the GPU's row in [`GPUS`].
    fn gpu(&self) -> Option<&'static Gpu> {
        GPUS.iter().find(|gpu| gpu.name == self.gpu)
    }
}

impl Gpu {
    /// Estimates the bytes that a CUDA context takes on the device. The range starts at a context before kernels are loaded and ends at
    /// a context with all kernels of a large program (CUDA loads a kernel at its first use). This is a model, not a figure of the
    /// driver.
    ///
    /// A context holds memory for every thread that the device can run at a time: a stack (1 KiB by default) and memory of the driver.
    /// Measured contexts without kernels take about 2 KiB a thread in CUDA 12 and 13. Measurements, with this model's result in
    /// parentheses:
    ///
    /// - RTX 4060 Ti 107 MiB (102), RTX PRO 6000 555 MiB (564): llama.cpp's pull request 23604
    /// - RTX 3090 256 MiB (246): InvokeAI's issue 9413
    /// - RTX 6000 Ada 426 MiB (426): unsloth-zoo's pull request 1053
    /// - H100 534 MiB (528): torchcomms' pull request 777
    ///
    /// The low end is 2 KiB a thread, or less if a [message](CONTEXT_MESSAGES) of the same compute capability shows less. The high end
    /// adds the largest excess over 2 KiB a thread in any message. So every message is within the range of its GPU. GPUs without a
    /// message are estimated from the messages of other GPUs.
    ///
    /// Before CUDA 12, kernels were not loaded at first use by default: a context held all kernels of the program's libraries. For
    /// PyTorch this adds about 550 MiB: PyTorch's issue 49481 reports 871 MiB a process. That issue does not name its GPU; a V100 is
    /// assumed here. PyTorch on CUDA 11.7 and 11.8 does load kernels at first use, so the estimate is too high for these versions.
    pub fn context_bytes(&self, cuda_major: u32) -> RangeInclusive<u64> {
        let threads = self.thread_bytes();
        let known = CONTEXT_MESSAGES.iter().filter_map(|message| Some((message.gpu()?, message.bytes)));
        let of_sibling = |gpu: &Gpu| gpu.capability == self.capability;
        let below = known.clone().filter(|(gpu, _)| of_sibling(gpu));
        let below = below.filter_map(|(gpu, bytes)| gpu.thread_bytes().checked_sub(bytes - ROUNDING)).max();
        let kernels =
            known.filter_map(|(gpu, bytes)| (bytes + ROUNDING).checked_sub(gpu.thread_bytes())).max();
        let all_kernels = if cuda_major < 12 { 550 * MIB } else { 0 };
        let low = threads.saturating_sub(below.unwrap_or(0)) + all_kernels;
        low..=threads + kernels.unwrap_or(0) + all_kernels
    }

    /// Returns the messages for this GPU that [`context_bytes`](Self::context_bytes) uses.
    pub fn context_messages(&self) -> impl Iterator<Item = &'static ContextMessage> {
        let name = self.name;
        CONTEXT_MESSAGES.iter().filter(move |message| message.gpu == name)
    }

    /// 2 KiB for each thread that the device can run at a time, in bytes.
    fn thread_bytes(&self) -> u64 {
        u64::from(self.multiprocessors) * u64::from(self.threads_per_multiprocessor()) * 2 * KIB
    }
}

#[cfg(test)]
mod tests {
    use super::super::find;
    use super::*;

    fn gpu(name: &str) -> &'static Gpu {
        find(name).unwrap_or_else(|| panic!("{name}"))
    }

    /// 2 KiB a thread is within 10% of each measured context without kernels, and the low end never exceeds it.
    #[test]
    fn contexts_without_kernels_take_about_2_kib_a_thread() {
        for (name, measured) in [
            ("rtx4060ti-8gb", 107),
            ("rtxpro6000", 555),
            ("rtx3090", 256),
            ("rtx6000-ada", 426),
            ("h100-80gb", 534),
        ] {
            let modelled = gpu(name).thread_bytes() / MIB;
            assert!(modelled.abs_diff(measured) * 10 < measured, "{name}: {modelled} MiB");
            assert!(gpu(name).context_bytes(13).start() / MIB <= modelled, "{name}");
            assert_eq!(gpu(name).context_bytes(12), gpu(name).context_bytes(13));
        }
        assert_eq!(gpu("v100-32gb").context_bytes(11).start() / MIB, 870);
    }

    /// No message contradicts the range of its GPU, within the rounding of the printed numbers. The second list has ranges derived from
    /// other messages of these GPUs.
    #[test]
    fn every_message_is_in_the_context_range_of_its_gpu() {
        for message in CONTEXT_MESSAGES {
            let range = gpu(message.gpu).context_bytes(13);
            assert!(range.contains(&(message.bytes - ROUNDING)), "{message:?}: {range:?}");
            assert!(range.contains(&(message.bytes + ROUNDING)), "{message:?}: {range:?}");
        }
        for (name, low, high) in [("t4", 114, 164), ("rtx4090", 379, 461), ("a100-80gb", 489, 522)] {
            let range = gpu(name).context_bytes(13);
            assert!(range.contains(&(low * MIB)) && range.contains(&(high * MIB)), "{name}: {range:?}");
        }
    }

    #[test]
    fn a_gpu_without_a_message_is_estimated_by_the_others() {
        for name in ["a2", "a16", "rtx3050-6gb", "rtx3060", "v100-16gb", "h100-80gb"] {
            let gpu = gpu(name);
            assert_eq!(gpu.context_messages().count(), 0, "{name}");
            let (low, high) = gpu.context_bytes(13).into_inner();
            assert!(low < gpu.thread_bytes() + MIB && high > gpu.thread_bytes() + 100 * MIB, "{name}");
        }
        assert_eq!(gpu("t4").context_messages().count(), 5);
    }
}
