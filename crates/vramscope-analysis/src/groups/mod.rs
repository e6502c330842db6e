//! Allocations in groups.
//!
//! - `amount`: bytes, requested bytes and number of some allocations.
//! - `holders`: the groupings, and the groups of allocations at a moment or in the whole run.
//! - `grouping`: the group of each allocation of an interval, with a table of all stacks.
//! - `interval_totals`: bytes allocated, freed, temporary and retained in an interval, by group.
//! - `call_tree`: live memory as a tree of the user's calls.
//! - `libraries`: memory beside PyTorch's allocator, by library.
//! - `layers`: live memory as a tree of the model's modules.

mod amount;
mod call_tree;
mod grouping;
mod holders;
mod interval_totals;
mod layers;
mod libraries;

pub use amount::Amount;
pub(crate) use call_tree::call_tree;
pub use call_tree::{CallTree, Calls, CallsOf, ComparedNode, Node, NodeKind, compared_call_tree};
pub(crate) use grouping::{Group, Grouping};
pub use holders::{
    AllocationProperties, By, Holder, HolderKey, NoProperties, frame_key, holders_among, holders_at,
    stack_key,
};
pub(crate) use holders::{by_category, by_step, churn, code_key, group};
pub use interval_totals::{
    IntervalGroup, IntervalGroupChange, IntervalGroups, IntervalTotals, interval_group_changes,
    interval_groups,
};
pub use layers::Layer;
pub(crate) use layers::layers;
pub use libraries::{LibraryUse, libraries};
