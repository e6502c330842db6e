//! Categories of allocations (parameters, gradients, activations and others), and the reasons for them.
//!
//! - `tags`: recorded categories, which take precedence.
//! - `signs`: a table of known frames: what a stack alone shows.
//! - `phases`: phases of the program from event to event: forward, backward, optimizer.
//! - `stack_iterations`, `iterations`: iterations, as stacks show them and as repeated allocations show them.
//! - `facts`: facts about an allocation: frames, sizes, phase, and when it was freed.
//! - `rules`: a table of rules: from facts to a category.
//! - `inferred`: applies the rules to every allocation.

mod facts;
mod inferred;
mod iterations;
mod phases;
mod rules;
mod signs;
mod stack_iterations;
mod tags;

use std::sync::Arc;

use vramscope_trace::{Category, Phase};

use crate::history::{History, Moment, Origin, Peak, RecordedAllocation};

pub(crate) use iterations::iteration_starts;
pub(crate) use phases::{InferredPhase, PhasesFrom};
pub use rules::{Basis, CATEGORY_RULES, CategoryRule, Evidence};
pub(crate) use stack_iterations::StackIterations;

pub(crate) use phases::Phase as PassPhase;

use inferred::Inferred;
use tags::Tags;

/// The categories of a device's allocations: recorded if the recording has them, else inferred from stacks and lifetimes.
#[derive(Debug)]
pub struct AllocationCategories {
    tags: Tags,
    inferred: Inferred,
}

/// Why an allocation has its category.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The category was recorded.
    Said,
    /// The allocation was live before recording began.
    Preexisting,
    /// A rule inferred the category from the stack and the lifetime.
    Inferred {
        /// The rule.
        rule: &'static CategoryRule,
        /// The basis of the rule's decision.
        basis: Basis,
    },
}

/// A set of allocations with the same category and the same reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReasonGroup {
    /// The category.
    pub category: Category,
    /// The reason for the category.
    pub reason: Reason,
    /// Bytes of their blocks.
    pub bytes: u64,
    /// Number of allocations.
    pub count: u64,
}

impl Reason {
    /// Returns the evidence behind the reason.
    #[must_use]
    pub fn evidence(self) -> Evidence {
        match self {
            Self::Said | Self::Preexisting => Evidence::Said,
            Self::Inferred { rule, basis: Basis::Itself } => rule.evidence,
            Self::Inferred { rule, basis: Basis::Others | Basis::Rhythm } => {
                rule.evidence.min(Evidence::Likeness)
            }
        }
    }
}

impl AllocationCategories {
    /// Determines the categories of the allocations of the device of `history`.
    #[must_use]
    pub fn of(history: &History) -> Self {
        Self { tags: Tags::of(history), inferred: Inferred::of(history) }
    }

    /// Returns the category of `allocation`. Without a recorded category, memory that was live before recording began is
    /// [`Category::Preexisting`]. If no category can be inferred, it is [`Category::Unknown`].
    #[must_use]
    pub fn category(&self, allocation: &RecordedAllocation) -> Category {
        self.tags.category(allocation).unwrap_or_else(|| match self.verdict(allocation) {
            None => Category::Preexisting,
            Some((rule, _)) => rule.category,
        })
    }

    /// Returns the reason for the [`category`](Self::category) of `allocation`.
    #[must_use]
    pub fn reason(&self, allocation: &RecordedAllocation) -> Reason {
        match (self.tags.category(allocation), self.verdict(allocation)) {
            (Some(_), _) => Reason::Said,
            (None, None) => Reason::Preexisting,
            (None, Some((rule, basis))) => Reason::Inferred { rule, basis },
        }
    }

    /// Returns the path of the module that made `allocation`; empty for the outermost module.
    #[must_use]
    pub fn layer(&self, allocation: &RecordedAllocation) -> Option<&Arc<str>> {
        self.tags.layer(allocation)
    }

    /// Sums `allocations` by category and reason, most bytes first.
    pub fn reasons<'h>(&self, allocations: impl Iterator<Item = &'h RecordedAllocation>) -> Vec<ReasonGroup> {
        let mut groups: Vec<ReasonGroup> = Vec::new();
        for a in allocations {
            let (category, reason) = (self.category(a), self.reason(a));
            match groups.iter_mut().find(|t| t.category == category && t.reason == reason) {
                Some(t) => {
                    t.bytes += a.size;
                    t.count += 1;
                }
                None => groups.push(ReasonGroup { category, reason, bytes: a.size, count: 1 }),
            }
        }
        groups.sort_by_key(|t| std::cmp::Reverse(t.bytes));
        groups
    }

    /// Returns the phase of a training step in which `allocation` was made, if recorded.
    #[must_use]
    pub fn phase(&self, allocation: &RecordedAllocation) -> Option<Phase> {
        self.tags.phase(allocation)
    }

    /// Returns the peak of the allocated bytes of `category`, with its first moment.
    #[must_use]
    pub fn peak(&self, history: &History, category: Category) -> Peak {
        let mut changes: Vec<(Moment, bool, u64)> = Vec::new();
        for a in history.allocations.iter().filter(|a| a.from < a.freed && self.category(a) == category) {
            changes.push((a.from, true, a.size));
            changes.push((a.freed, false, a.size));
        }
        // At one moment, frees come before allocations.
        changes.sort_unstable();
        let mut peak = Peak { bytes: 0, moment: Moment::START };
        let mut held = 0;
        for (moment, begins, size) in changes {
            held = if begins { held + size } else { held - size };
            if held > peak.bytes {
                peak = Peak { bytes: held, moment };
            }
        }
        peak
    }

    /// Returns the inferred phases of steps, in order, and the source of them; `None` if none are known.
    pub(crate) fn inferred_phases(&self) -> Option<(PhasesFrom, &[InferredPhase])> {
        self.inferred.phases()
    }

    /// Returns the iterations of the program, as far as stacks show them.
    pub(crate) fn iterations(&self) -> &StackIterations {
        self.inferred.iterations()
    }

    /// Returns the phases of the program, each with the index of its first event, in order. One phase if the recording shows none.
    pub(crate) fn phases(&self) -> &[(u32, PassPhase)] {
        self.inferred.starts()
    }

    fn verdict(&self, allocation: &RecordedAllocation) -> Option<(&'static CategoryRule, Basis)> {
        match allocation.origin {
            Origin::Recorded => self.inferred.verdict(allocation),
            Origin::EndState | Origin::FreeOnly => None,
        }
    }
}
