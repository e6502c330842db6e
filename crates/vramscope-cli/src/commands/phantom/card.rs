//! The card that the user asked for.

use std::ops::RangeInclusive;

use vramscope::gpus::{Gpu, NEWEST_CUDA};

use crate::args::PhantomRunArgs;

/// Sizes of the card, in bytes.
pub(crate) struct Card {
    /// Its memory: its own, or what the user said.
    pub(crate) total: u64,
    /// What a context takes of it, from before kernels are loaded to a large program's. The program runs with the low end.
    pub(crate) context: RangeInclusive<u64>,
}

impl Card {
    pub(crate) fn of(args: &PhantomRunArgs) -> Self {
        Self { total: args.memory.unwrap_or(args.gpu.total_bytes), context: context_bytes(args, args.gpu) }
    }

    /// A listed card with its own memory, under the same options.
    pub(crate) fn listed(args: &PhantomRunArgs, gpu: &Gpu) -> Self {
        Self { total: gpu.total_bytes, context: context_bytes(args, gpu) }
    }
}

/// What a context takes of a card: what the user said, or the profile.
pub(crate) fn context_bytes(args: &PhantomRunArgs, gpu: &Gpu) -> RangeInclusive<u64> {
    args.context.map_or_else(|| gpu.context_bytes(NEWEST_CUDA), |bytes| bytes..=bytes)
}
