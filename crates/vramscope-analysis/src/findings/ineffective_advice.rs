//! The setting that PyTorch's out-of-memory text recommends, if it has no effect (pytorch/pytorch#173049).

use vramscope_engine::{Policy, TorchRelease};
use vramscope_trace::StackId;

use super::out_of_memory::OomExplanation;

/// A recommended setting without effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IneffectiveAdvice {
    /// The event of the failed request.
    pub event: usize,
    /// The stack of the failed request.
    pub stack: Option<StackId>,
    /// The setting: `expandable_segments:True` since 2.2, `max_split_size_mb` before.
    pub setting: &'static str,
    /// Whether the setting was on when the request failed. If not, replays show that the request fails with it too.
    pub was_on: bool,
    /// Bytes that PyTorch's text calls reserved but unallocated: the setting is meant for them.
    pub unallocated: u64,
}

impl IneffectiveAdvice {
    /// The recommended setting after `oom`; `helps` is the result of a replay with it, if one is known.
    pub(crate) fn of(policy: &Policy, oom: &OomExplanation, helps: Option<bool>) -> Option<Self> {
        let release = policy.release()?;
        let (setting, was_on) = if release < TorchRelease::new(2, 2) {
            ("max_split_size_mb", policy.max_split_size.is_some())
        } else {
            ("expandable_segments:True", policy.expandable_segments)
        };
        let has_no_effect = was_on || helps == Some(false);
        has_no_effect.then_some(Self {
            event: oom.event,
            stack: oom.stack,
            setting,
            was_on,
            unallocated: oom.counters.reserved.saturating_sub(oom.counters.allocated),
        })
    }
}
