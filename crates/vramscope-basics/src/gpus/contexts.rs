//! What CUDA contexts took of GPUs, as messages of an out of memory show it.
//!
//! PyTorch's message says how much the process has in use of the GPU, how much of it is allocated, and how much is reserved beyond that.
//! The difference is the context with the kernels that were loaded until then. Left out are processes that also held NCCL's buffers,
//! CUDA graphs or other libraries' memory. Each message prints hundredths of a GiB, so that a difference is right within 10 MiB.

use std::ops::RangeInclusive;

use super::{GPUS, Gpu};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// So much a difference of printed numbers may be off: two of them are rounded to hundredths of a GiB.
const ROUNDING: u64 = 10 * MIB;

/// A public message of an out of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextMessage {
    /// The GPU, by its name in [`GPUS`](super::GPUS).
    pub gpu: &'static str,
    /// Bytes that the process had in use beside PyTorch's reserved bytes: within 10 MiB.
    pub bytes: u64,
    /// The repository on GitHub, and the number of the issue.
    pub source: &'static str,
}

/// The messages. Where an issue does not name its GPU, the total that the message prints does.
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
    /// Its row in [`GPUS`].
    fn gpu(&self) -> Option<&'static Gpu> {
        GPUS.iter().find(|gpu| gpu.name == self.gpu)
    }
}

impl Gpu {
    /// Bytes that a CUDA context takes of the device: from as few as it may take before kernels are loaded to as many as with the
    /// kernels of a large program, which are loaded when they are first used. A model, not a figure of the driver.
    ///
    /// A context holds memory for every thread that the device can run at a time: a stack, which is 1 KiB unless the
    /// program asks for another size, and the driver's own. Measured contexts of CUDA 12 and 13 without kernels are about 2 KiB a
    /// thread: 107 MiB on an RTX 4060 Ti (this gives 102) and 555 on an RTX PRO 6000 (564) in llama.cpp's pull request 23604,
    /// 256 on an RTX 3090 (246) in InvokeAI's issue 9413, 426 on an RTX 6000 Ada (426) in unsloth-zoo's pull request 1053,
    /// 534 on an H100 (528) in torchcomms' pull request 777. This is the low end, or less where a [message](CONTEXT_MESSAGES) of
    /// the same compute capability shows less. The high end adds the most that any message shows beyond 2 KiB a thread. So every
    /// message lies between the two ends of its GPU; GPUs without a message are estimated by the others.
    ///
    /// Before CUDA 12, loading at first use was not the rule, and a context held all kernels of the program's libraries.
    /// For PyTorch that was some 550 MiB more: 871 MiB a process in PyTorch's issue 49481, which does not name its GPU and
    /// is read here as a V100. PyTorch on CUDA 11.7 and 11.8 does load at first use: for it this is too much.
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

    /// The messages that [`context_bytes`](Self::context_bytes) knows of this GPU.
    pub fn context_messages(&self) -> impl Iterator<Item = &'static ContextMessage> {
        let name = self.name;
        CONTEXT_MESSAGES.iter().filter(move |message| message.gpu == name)
    }

    /// 2 KiB for each thread that the device can run at a time.
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

    /// 2 KiB a thread is within a tenth of each measured context without kernels, and the low end is not above it.
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

    /// No message contradicts a range, within the rounding of what it prints. The second list are ranges that were read off other
    /// messages of these GPUs.
    #[test]
    fn every_message_lies_in_the_range_of_its_gpu() {
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
