//! The card that the user asked for.

use vramscope::gpus::{Gpu, NEWEST_CUDA};

use crate::args::PhantomRunArgs;

/// Sizes of the card, in bytes.
pub(crate) struct Card {
    /// Its memory: its own, or what the user said.
    pub(crate) total: u64,
    /// What a context takes of it.
    pub(crate) context: u64,
}

impl Card {
    pub(crate) fn of(args: &PhantomRunArgs) -> Self {
        Self { total: args.memory.unwrap_or(args.gpu.total_bytes), context: context_bytes(args, args.gpu) }
    }
}

/// What a context takes of a card: what the user said, or the profile.
pub(crate) fn context_bytes(args: &PhantomRunArgs, gpu: &Gpu) -> u64 {
    args.context.unwrap_or_else(|| gpu.context_bytes(NEWEST_CUDA))
}
