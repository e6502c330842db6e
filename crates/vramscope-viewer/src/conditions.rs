//! The conditions of a search.

use vramscope_trace::Category;

use crate::bits::{Bits, Spans};
use crate::protocol::LifetimeUnit;

/// A prepared search.
#[derive(Debug)]
pub(crate) struct Search {
    /// `None` if no condition is valid: everything matches.
    pub(crate) condition: Option<Condition>,
    /// Why conditions are ignored.
    pub(crate) unclear: Vec<String>,
}

/// A condition on an allocation or reserved range.
#[derive(Debug)]
pub(crate) enum Condition {
    All(Vec<Condition>),
    Any(Vec<Condition>),
    Not(Box<Condition>),
    Stacks(Bits),
    /// The stacks that match, for each origin of allocations: see [`Prepared::kept`](crate::transforms::Prepared::kept).
    Kept(Box<[Bits; 3]>),
    Tags(Bits),
    /// For each category, whether it matches.
    Categories([bool; Category::ALL.len()]),
    Address {
        at: f64,
        version: Option<u32>,
    },
    Size {
        min: u64,
        max: u64,
    },
    Lived {
        min: f64,
        max: f64,
        unit: LifetimeUnit,
    },
    Allocated(Spans),
    Freed(Spans),
    Leak(usize),
    Idle(usize),
}

impl Condition {
    /// Whether the condition matches all or nothing of a category. `None` if that depends on other properties.
    pub(crate) fn of_category(&self, category: usize) -> Option<bool> {
        let several = |of: &[Self], decides: bool| {
            let mut is_known = true;
            for one in of {
                match one.of_category(category) {
                    Some(found) if found == decides => return Some(decides),
                    Some(_) => {}
                    None => is_known = false,
                }
            }
            is_known.then_some(!decides)
        };
        match self {
            Self::Categories(of) => of.get(category).copied(),
            Self::Not(of) => of.of_category(category).map(|found| !found),
            Self::All(of) => several(of, false),
            Self::Any(of) => several(of, true),
            _ => None,
        }
    }
}
