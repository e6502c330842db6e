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

use std::sync::Arc;

use vramscope_trace::Category;

use crate::history::{Allocation, History, Origin};

pub use rules::{CATEGORY_RULES, CategoryRule, Evidence};

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
        /// It was not known when this one is given back: the rule is that of others of the same stack and size.
        like_others: bool,
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

impl Told {
    /// It says what memory was for, and not only that it was there before or that nobody can tell.
    #[must_use]
    pub fn says_something(&self) -> bool {
        !matches!(self.category, Category::Preexisting | Category::Unknown)
    }
}

impl Reason {
    /// What it stands on.
    #[must_use]
    pub fn evidence(self) -> Evidence {
        match self {
            Self::Said | Self::Preexisting => Evidence::Said,
            Self::Inferred { rule, like_others: true } => rule.evidence.min(Evidence::Likeness),
            Self::Inferred { rule, .. } => rule.evidence,
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
            (None, Some((rule, like_others))) => Reason::Inferred { rule, like_others },
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

    fn verdict(&self, allocation: &Allocation) -> Option<(&'static CategoryRule, bool)> {
        match allocation.origin {
            Origin::Recorded => self.inferred.verdict(allocation),
            Origin::EndState | Origin::FreeOnly => None,
        }
    }
}
