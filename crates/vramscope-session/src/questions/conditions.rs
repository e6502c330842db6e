//! The conditions of a search.

use serde::Deserialize;
use vramscope_trace::Category;

use crate::questions::bits::{Bits, Spans};
use crate::questions::transforms::CallTransform;

/// A search for allocations: one condition, or a combination. Conditions with an invalid text are ignored, and the answer says
/// why.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Query"))]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum SearchQuery {
    /// All conditions match.
    All { of: Vec<SearchQuery> },
    /// At least one condition matches.
    Any { of: Vec<SearchQuery> },
    /// The condition does not match.
    Not { of: Box<SearchQuery> },
    /// The allocation was retained by this leak: an index into the report's leaks.
    Leak { leak: usize },
    /// The allocation is idle memory of this finding: an index into the report's findings of idle memory.
    Idle { idle: usize },
    /// The allocations that transforms of the call tree keep.
    Transforms { transforms: Vec<CallTransform> },
    /// A frame of the stack, or the frame that names it, contains this text.
    Frame { field: FrameField, sought: Sought },
    /// A tag contains this text.
    Tag { field: TagField, sought: Sought },
    /// The name of the category contains this text.
    Category { sought: Sought },
    /// The allocation was made in a region whose name contains this text.
    Region { sought: Sought },
    /// The allocation was made in a phase of a step whose name contains this text.
    Phase { sought: Sought },
    /// The allocation was made in one of these steps, counted from 1, inclusive.
    Step { from: f64, to: Option<f64> },
    /// The block contains this address. With `version`, the allocation with this index among those that begin at the address.
    Address { address: f64, version: Option<u32> },
    /// The block size compared with a size such as `10MiB`.
    Size { sign: SizeSign, size: String },
    /// The allocation lived for at least `from` and at most `to`; `null` means any longer time. If the allocation or its free is not
    /// recorded, it lived at least as long as it was live in the recording.
    Lived { from: f64, to: Option<f64>, unit: LifetimeUnit },
    /// The moment after the allocation is in one of these closed intervals of moments.
    Allocated { spans: Vec<[u32; 2]> },
    /// The moment after the free is in one of these closed intervals. It is `NONE` if the allocation was never freed.
    Freed { spans: Vec<[u32; 2]> },
}

/// A text to search for, ignoring case.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Sought {
    pub(crate) text: String,
    /// Whether it is a regular expression.
    pub(crate) is_pattern: bool,
}

/// The part of a stack in which a text is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum FrameField {
    /// File, line and function of any frame.
    Any,
    /// The file of any frame.
    File,
    /// The function of any frame.
    Function,
    /// The line by which tables name the stack.
    Line,
}

/// The tag in which a text is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum TagField {
    Stream,
    Pool,
    /// The path of the module.
    Layer,
    /// The compile context.
    Context,
    /// The program's text.
    Metadata,
}

/// The comparison of a block size with a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum SizeSign {
    Above,
    AtLeast,
    Below,
    AtMost,
    /// Within half a percent.
    About,
}

/// The unit of a lifetime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum LifetimeUnit {
    Events,
    /// Microseconds.
    Us,
}

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
    /// The stacks that match, for each origin of allocations: see [`Prepared::kept`](crate::questions::transforms::Prepared::kept).
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
