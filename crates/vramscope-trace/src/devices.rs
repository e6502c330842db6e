//! Kinds of devices, and the allocators of recordings that PyTorch did not make.

use crate::named::named;
use crate::settings::{AllocatorSettings, TorchSettings};
use crate::stacks::FrameTable;
use crate::strings::StringTable;

/// The kind of the devices of a recording.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeviceKind {
    /// GPUs through CUDA. Also devices of unknown kinds.
    #[default]
    Cuda,
    /// GPUs of AMD, through PyTorch's build for ROCm, whose API has the names of CUDA.
    Rocm,
    /// GPUs of Intel (`torch.xpu`).
    Xpu,
    /// Ascend NPUs (`torch_npu`).
    Npu,
}

impl DeviceKind {
    /// Returns the name of a device of this kind, such as `XPU 0`.
    pub fn device(self, number: i64) -> String {
        let kind = match self {
            Self::Cuda => "device",
            Self::Rocm => "ROCm device",
            Self::Xpu => "XPU",
            Self::Npu => "NPU",
        };
        format!("{kind} {number}")
    }

    /// Returns the kind whose snapshots have this key for the allocator's configuration text.
    pub(crate) fn of_conf_key(key: &str) -> Option<Self> {
        Some(match key {
            "PYTORCH_CUDA_ALLOC_CONF" => Self::Cuda,
            "PYTORCH_HIP_ALLOC_CONF" => Self::Rocm,
            "PYTORCH_ALLOC_CONF" => Self::Xpu,
            "PYTORCH_NPU_ALLOC_CONF" => Self::Npu,
            _ => return None,
        })
    }

    /// Returns the key of the allocator's configuration text in snapshots of this kind.
    pub(crate) fn conf_key(self) -> &'static str {
        match self {
            Self::Cuda => "PYTORCH_CUDA_ALLOC_CONF",
            Self::Rocm => "PYTORCH_HIP_ALLOC_CONF",
            Self::Xpu => "PYTORCH_ALLOC_CONF",
            Self::Npu => "PYTORCH_NPU_ALLOC_CONF",
        }
    }

    /// Returns the kind that the frames of a recording show; `Cuda` if they show none.
    pub(crate) fn of_frames(frames: &FrameTable, strings: &StringTable) -> Self {
        let marks = [
            ("torch_npu/", Self::Npu),
            ("torch/xpu/", Self::Xpu),
            ("c10::xpu::", Self::Xpu),
            ("HIPCachingAllocator", Self::Rocm),
            ("c10::hip::", Self::Rocm),
        ];
        let shown = |text: &str| marks.iter().find(|(mark, _)| text.contains(mark)).map(|&(_, kind)| kind);
        let mut kinds = frames.iter().filter_map(|(_, frame)| {
            let [name, file] = [frame.name, frame.filename].map(|id| strings.get(id));
            // A very long name is compiled code of no interest here.
            [file, name].into_iter().filter(|text| text.len() < 4096).find_map(shown)
        });
        kinds.next().unwrap_or_default()
    }
}

named! {
    /// An allocator whose rules are unknown here, by the format that recorded it. A snapshot stores it as the setting `backend`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum OtherAllocator {
        /// A memory resource of RMM.
        Rmm = "rmm",
        /// Any allocator that msMemScope saw.
        Memscope = "msmemscope",
        /// An allocator that reported to `torch.profiler`.
        TorchProfiler = "torch_profiler",
        /// JAX.
        Jax = "jax",
        /// Any library that allocated through CUDA, as Nsight Systems saw it.
        Nsys = "nsys",
        /// Paddle.
        Paddle = "paddle",
        /// MLX.
        Mlx = "mlx",
        /// An allocator without a name.
        Unknown = "other",
    }
    /// All allocators.
    ALL
    /// The allocator's name as the value of `backend`.
    name
}

impl OtherAllocator {
    /// The allocator's name in a sentence.
    pub fn title(self) -> &'static str {
        match self {
            Self::Rmm => "RMM",
            Self::Memscope => "an allocator that msMemScope recorded",
            Self::TorchProfiler => "an allocator that `torch.profiler` recorded",
            Self::Jax => "JAX",
            Self::Nsys => "an allocator that Nsight Systems recorded",
            Self::Paddle => "Paddle",
            Self::Mlx => "MLX",
            Self::Unknown => "another allocator",
        }
    }

    /// Returns settings that name this allocator.
    pub(crate) fn settings(self) -> AllocatorSettings {
        let text = format!("backend:{}", self.name());
        let conf = TorchSettings::parse(&text).unwrap_or_default();
        AllocatorSettings { conf_text: Some(text), conf, recorded: TorchSettings::default() }
    }

    /// Returns the allocator of a value of `backend`.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|other| other.name() == name)
    }
}
