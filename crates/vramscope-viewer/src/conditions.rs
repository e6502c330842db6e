//! What is searched for, as conditions that things are held to.

use vramscope_trace::Category;

use crate::bits::{Bits, Spans};

/// A search made ready to be asked of many things.
#[derive(Debug)]
pub(crate) struct Search {
    /// `None` where no condition counts: everything is found.
    pub(crate) condition: Option<Condition>,
    /// Why conditions do not count.
    pub(crate) unclear: Vec<String>,
}

/// What is searched for.
#[derive(Debug)]
pub(crate) enum Condition {
    All(Vec<Condition>),
    Any(Vec<Condition>),
    Not(Box<Condition>),
    Stacks(Bits),
    Tags(Bits),
    /// For each of all categories whether it is searched for.
    Categories([bool; Category::ALL.len()]),
    Address {
        at: f64,
        version: Option<u32>,
    },
    Size {
        min: u64,
        max: u64,
    },
    Allocated(Spans),
    Freed(Spans),
    Leak(usize),
}

impl Condition {
    /// Whether it finds all or nothing of a category, by its number; `None` where other things decide.
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
