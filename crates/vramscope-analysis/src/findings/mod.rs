//! Findings that the history alone shows.
//!
//! - `leaks`: lines whose live allocations keep growing.
//! - `idle`: allocations that are live while nothing uses them.
//! - `fragmentation`: reserved bytes that a request cannot use, and why.
//! - `pins`: the lines whose blocks keep free blocks from being merged.
//! - `out_of_memory`: failed requests, with the memory state at each.
//! - `referrers`: tensors whose referrers the program named.
//! - `oom_causes`: why a request failed, each cause in bytes.
//! - `rise`: what would have followed a failed request, as the run before it shows.
//! - `loaded`: a checkpoint that is still held beside the model.
//! - `fixes`: changes of the program that a recording points to.
//! - `certainty`: how far a recording proves a conclusion.
//! - `allocator_findings`: known problems of programs with a caching allocator; `stranded` and others have their rules.

mod allocator_findings;
mod certainty;
mod fixes;
mod fragmentation;
mod idle;
mod ineffective_advice;
mod late_block;
pub(crate) mod leaks;
mod loaded;
mod oom_causes;
mod out_of_memory;
mod pins;
mod referrers;
mod rise;
mod stranded;
mod unbacked;
mod unsplit_growth;

pub use allocator_findings::AllocatorFinding;
pub use certainty::Certainty;
pub(crate) use fixes::Evidence;
pub use fixes::{Fix, FixKind};
pub use fragmentation::{Fragmentation, Request, Unusable, UnusableBlocks, largest_request};
pub use idle::{IdleFinding, IdleInterval, IdleKind, IdleMemory, Uses};
pub use ineffective_advice::IneffectiveAdvice;
pub use late_block::LateBlock;
pub(crate) use leaks::{ActiveRange, Growing, falls_back, retained};
pub use leaks::{LeakSuspect, WINDOWS, keeps_growing, leak_suspects, rises};
pub(crate) use loaded::held_checkpoint;
pub(crate) use oom_causes::{Failing, Inside, OWN_CONTEXT, Pending};
pub use oom_causes::{OomCause, OomCauseKind, OomCauses};
pub(crate) use out_of_memory::is_at_limit;
pub use out_of_memory::{FailedRequest, OomExplanation, UnexplainedOoms, ooms};
pub use pins::{Pin, Pins};

pub use referrers::{ReferredTensor, referred_tensors, tensor_text};
pub use rise::Rise;
pub(crate) use stranded::stranded_cache;
pub use stranded::{StrandedCache, StrandedStream};
pub use unbacked::UnbackedBytes;
pub use unsplit_growth::UnsplitGrowth;
