//! The GPU that the user chose.

use std::ops::RangeInclusive;

use vramscope_basics::gpus::Gpu;

use crate::phantom::request::GpuRequest;

/// Sizes of a GPU in bytes.
pub(crate) struct Card {
    /// Total memory: from the profile, or from the option.
    pub(crate) total: u64,
    /// Memory of a context, from before kernels are loaded to a large program's kernels. The program runs with the low end.
    pub(crate) context: RangeInclusive<u64>,
}

impl Card {
    pub(crate) fn of(args: &GpuRequest) -> Self {
        Self { total: args.total_bytes(), context: args.context_bytes(args.gpu) }
    }

    /// A listed GPU with its own memory, under the same options.
    pub(crate) fn listed(args: &GpuRequest, gpu: &Gpu) -> Self {
        Self { total: gpu.total_bytes, context: args.context_bytes(gpu) }
    }
}
