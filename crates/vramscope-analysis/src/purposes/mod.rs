//! What allocations are for: parameters, gradients, activations and the rest, and why that is said.
//!
//! ```text
//!   tags.rs     what the recording says                     wins where it says anything
//!   signs.rs    a table of frames that are known: what a stack tells of itself
//!   phases.rs   what the program was doing from event to event: forward, backward, optimizer
//!   rules.rs    a table of rules: from stack, phase and fate to a category
//!   inferred.rs the rules, asked of every allocation
//! ```

mod inferred;
mod phases;
mod rules;
mod signs;
mod tags;
mod turns;

use std::sync::Arc;

use vramscope_trace::{Category, Phase};

use crate::counters::Peak;
use crate::history::{Allocation, History, Origin};
use crate::moment::Moment;

pub use rules::{Basis, CATEGORY_RULES, CategoryRule, Evidence};
pub(crate) use turns::Turns;

use inferred::Inferred;
use tags::Tags;

/// What the allocations of one device are for: as the recording says it, and where it does not, as stacks and lifetimes tell.
#[derive(Debug)]
pub struct Purposes {
    tags: Tags,
    inferred: Inferred,
}

/// Why an allocation is said to be for something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The recording says it.
    Said,
    /// It was live before recording began.
    Preexisting,
    /// A rule tells it from its stack and its lifetime.
    Inferred {
        /// The rule.
        rule: &'static CategoryRule,
        /// What it decided by.
        basis: Basis,
    },
}

/// What some allocations are for, and why that is said: those with one category and one reason, added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    /// What they are for.
    pub category: Category,
    /// Why that is said.
    pub reason: Reason,
    /// Bytes of their blocks.
    pub bytes: u64,
    /// How many they are.
    pub count: u64,
}

impl Reason {
    /// What it stands on.
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

impl Purposes {
    /// What the allocations of the device of `history` are for.
    #[must_use]
    pub fn of(history: &History) -> Self {
        Self { tags: Tags::of(history), inferred: Inferred::of(history) }
    }

    /// Whether the recording says of anything what it is for.
    #[must_use]
    pub fn are_said(&self) -> bool {
        self.tags.say_anything()
    }

    /// What `allocation` is for. What was live before recording began is [`Category::Preexisting`] where the recording does not say
    /// what it is for, and what cannot be told is [`Category::Unknown`].
    #[must_use]
    pub fn category(&self, allocation: &Allocation) -> Category {
        self.tags.category(allocation).unwrap_or_else(|| match self.verdict(allocation) {
            None => Category::Preexisting,
            Some((rule, _)) => rule.category,
        })
    }

    /// Why `allocation` is said to be for what [`category`](Self::category) says.
    #[must_use]
    pub fn reason(&self, allocation: &Allocation) -> Reason {
        match (self.tags.category(allocation), self.verdict(allocation)) {
            (Some(_), _) => Reason::Said,
            (None, None) => Reason::Preexisting,
            (None, Some((rule, basis))) => Reason::Inferred { rule, basis },
        }
    }

    /// The path of the module that made `allocation`; the outermost module is the empty path.
    #[must_use]
    pub fn layer(&self, allocation: &Allocation) -> Option<&Arc<str>> {
        self.tags.layer(allocation)
    }

    /// Adds up what `allocations` are for and why, most bytes first.
    pub fn told<'h>(&self, allocations: impl Iterator<Item = &'h Allocation>) -> Vec<Told> {
        let mut told: Vec<Told> = Vec::new();
        for a in allocations {
            let (category, reason) = (self.category(a), self.reason(a));
            match told.iter_mut().find(|t| t.category == category && t.reason == reason) {
                Some(t) => {
                    t.bytes += a.size;
                    t.count += 1;
                }
                None => told.push(Told { category, reason, bytes: a.size, count: 1 }),
            }
        }
        told.sort_by_key(|t| std::cmp::Reverse(t.bytes));
        told
    }

    /// In which part of a training step `allocation` was made, where the recording says it.
    #[must_use]
    pub fn phase(&self, allocation: &Allocation) -> Option<Phase> {
        self.tags.phase(allocation)
    }

    /// The most allocated bytes that were for `category` at any moment, and the first such moment.
    #[must_use]
    pub fn peak(&self, history: &History, category: Category) -> Peak {
        let mut changes: Vec<(Moment, bool, u64)> = Vec::new();
        for a in history.allocations.iter().filter(|a| a.from < a.freed && self.category(a) == category) {
            changes.push((a.from, true, a.size));
            changes.push((a.freed, false, a.size));
        }
        // What ends at a moment is gone before what begins at it counts.
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

    /// How often the program went round, as far as stacks tell.
    pub(crate) fn turns(&self) -> &Turns {
        self.inferred.turns()
    }

    fn verdict(&self, allocation: &Allocation) -> Option<(&'static CategoryRule, Basis)> {
        match allocation.origin {
            Origin::Recorded => self.inferred.verdict(allocation),
            Origin::EndState | Origin::FreeOnly => None,
        }
    }
}
