//! Known problems of programs with a caching allocator. Each rule is a file beside this one.

use vramscope_trace::StackId;

use super::certainty::Certainty;
use super::ineffective_advice::IneffectiveAdvice;
use super::late_block::LateBlock;
use super::stranded::StrandedCache;
use super::unbacked::UnbackedBytes;
use super::unsplit_growth::UnsplitGrowth;

/// A problem that a rule recognizes in a recording, with its evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllocatorFinding {
    /// Free blocks of streams that make no more requests. Bytes: all of them at the end.
    StrandedCache(StrandedCache),
    /// A request failed, although a block that fits became free within it or still waited for another stream. Bytes: the block.
    LateBlock(LateBlock),
    /// PyTorch's out-of-memory text recommends a setting without effect. Bytes: reserved but unallocated ones, for which it is meant.
    IneffectiveAdvice(IneffectiveAdvice),
    /// `max_split_size_mb` keeps free blocks from serving requests. Bytes: reserved ones that the setting adds at their peak.
    UnsplitGrowth(UnsplitGrowth),
    /// More bytes are reserved than the device has. Bytes: the difference.
    UnbackedBytes(UnbackedBytes),
}

impl AllocatorFinding {
    /// The name in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::StrandedCache(_) => "stranded_cache",
            Self::LateBlock(_) => "late_block",
            Self::IneffectiveAdvice(_) => "ineffective_advice",
            Self::UnsplitGrowth(_) => "max_split_size",
            Self::UnbackedBytes(_) => "unbacked_bytes",
        }
    }

    /// Bytes that the problem costs or concerns.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::StrandedCache(cache) => cache.bytes(),
            Self::LateBlock(late) => late.block.size,
            Self::IneffectiveAdvice(advice) => advice.unallocated,
            Self::UnsplitGrowth(growth) => growth.bytes(),
            Self::UnbackedBytes(unbacked) => unbacked.bytes(),
        }
    }

    /// How far the recording proves the problem.
    pub fn certainty(&self) -> Certainty {
        match self {
            Self::StrandedCache(StrandedCache { has_history: true, .. }) => Certainty::Likely,
            Self::StrandedCache(_) => Certainty::Possible,
            Self::LateBlock(_) | Self::IneffectiveAdvice(IneffectiveAdvice { was_on: true, .. }) => {
                Certainty::Shown
            }
            Self::UnsplitGrowth(UnsplitGrowth { is_exact: true, .. }) | Self::UnbackedBytes(_) => {
                Certainty::Shown
            }
            Self::IneffectiveAdvice(_) | Self::UnsplitGrowth(_) => Certainty::Likely,
        }
    }

    /// The event that shows the problem, and its stack.
    pub fn evidence(&self) -> Option<(usize, Option<StackId>)> {
        match self {
            Self::StrandedCache(cache) => cache.streams.first()?.last_request,
            Self::LateBlock(late) => Some((late.event, late.stack)),
            Self::IneffectiveAdvice(advice) => Some((advice.event, advice.stack)),
            Self::UnsplitGrowth(growth) => Some((growth.event?, None)),
            Self::UnbackedBytes(unbacked) => Some((unbacked.event?, None)),
        }
    }
}
