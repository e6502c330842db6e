//! The GPU that the user chose.

use std::ops::RangeInclusive;

use vramscope::gpus::{Gpu, NEWEST_CUDA};

use crate::commands::phantom::args::PhantomGpuArgs;

/// Sizes of a GPU in bytes.
pub(crate) struct Card {
    /// Total memory: from the profile, or from the option.
    pub(crate) total: u64,
    /// Memory of a context, from before kernels are loaded to a large program's kernels. The program runs with the low end.
    pub(crate) context: RangeInclusive<u64>,
}

impl Card {
    pub(crate) fn of(args: &PhantomGpuArgs) -> Self {
        Self { total: args.total_bytes(), context: args.context_bytes(args.gpu) }
    }

    /// A listed GPU with its own memory, under the same options.
    pub(crate) fn listed(args: &PhantomGpuArgs, gpu: &Gpu) -> Self {
        Self { total: gpu.total_bytes, context: args.context_bytes(gpu) }
    }
}

impl PhantomGpuArgs {
    /// Total memory of the GPU: from the option, or from the profile.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.memory.unwrap_or(self.gpu.total_bytes)
    }

    /// Memory of a context: from the option, or from the profile.
    pub(crate) fn context_bytes(&self, gpu: &Gpu) -> RangeInclusive<u64> {
        self.context.map_or_else(|| gpu.context_bytes(NEWEST_CUDA), |bytes| bytes..=bytes)
    }
}
