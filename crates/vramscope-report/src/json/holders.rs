//! JSON of holders: groups of live allocations, and totals over the run.

use std::cmp::Reverse;

use serde::Serialize;
use vramscope_analysis::{Holder, HolderKey, Origin, Reason, ReasonGroup};
use vramscope_trace::Category;

use super::stacks::{Builder, FrameJson, StackJson, is_zero};
use crate::names::Names;
use crate::purposes::because;

/// A group of live allocations.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Holder"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Holder"))]
pub(super) struct HolderJson {
    bytes: u64,
    requested_bytes: u64,
    count: u64,
    /// The shared property of the group, named as in the text report.
    key: String,
    /// Whether the allocations were live before recording began; null in groups that do not distinguish it.
    preexisting: Option<bool>,
    /// Innermost frame first; for a group of several stacks, the stack with the most bytes.
    stack: Vec<FrameJson>,
    /// For memory live before recording whose allocation was not recorded: the stack that freed it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, ts(optional, as = "Option<_>"))]
    freed_at: Vec<FrameJson>,
    /// Number of outer frames left out of `stack` or `freed_at`, beyond the 1,000 innermost.
    #[serde(skip_serializing_if = "is_zero")]
    #[cfg_attr(test, ts(optional, as = "Option<_>"))]
    frames_left_out: usize,
}

/// Groups of live allocations, as in `vramscope report --json`.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct HoldersJson(Vec<HolderJson>);

impl HoldersJson {
    /// The first `top` groups of one trace, or all of them.
    pub fn new(names: Names<'_>, holders: &[Holder], top: Option<usize>) -> Self {
        Self(Builder::new(names, None).holders(holders, top))
    }
}

/// The bytes of a category.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "CategoryBytes"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "CategoryBytes"))]
pub(super) struct CategoryJson {
    /// The name of the category. `temporary` includes the workspaces of libraries.
    category: String,
    bytes: u64,
    count: u64,
    /// The bytes of workspaces in `bytes`; omitted if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    workspace_bytes: Option<u64>,
}

/// The evidence for a category.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "CategoryReason"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "CategoryReason"))]
pub(super) struct ReasonJson {
    /// The name of the category.
    category: &'static str,
    bytes: u64,
    count: u64,
    /// The kind of evidence: `said`, `frames`, `lifetime`, `likeness`, `nothing`.
    evidence: &'static str,
    /// The name of the rule; null if the category is recorded or the memory is preexisting.
    rule: Option<&'static str>,
    /// The reason, as a clause about "it".
    because: String,
}

impl ReasonJson {
    pub(super) fn of(told: &ReasonGroup) -> Self {
        let rule = match told.reason {
            Reason::Inferred { rule, .. } => Some(rule.name),
            Reason::Said | Reason::Preexisting => None,
        };
        Self {
            category: told.category.name(),
            bytes: told.bytes,
            count: told.count,
            evidence: told.reason.evidence().name(),
            rule,
            because: because(told.reason),
        }
    }
}

/// Totals of one line over the run.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Churn"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Churn"))]
pub(super) struct ChurnJson {
    key: String,
    total_bytes: u64,
    count: u64,
}

impl Builder<'_> {
    pub(super) fn holders(&self, holders: &[Holder], top: Option<usize>) -> Vec<HolderJson> {
        let holder = |h: &Holder| {
            let StackJson { frames: stack, left_out } = self.stack(h.stack);
            let (stack, freed_at) =
                if h.origin == Some(Origin::FreeOnly) { (Vec::new(), stack) } else { (stack, Vec::new()) };
            HolderJson {
                bytes: h.bytes,
                requested_bytes: h.requested,
                count: h.count,
                key: self.names.key(&h.key).into(),
                preexisting: h.origin.map(|o| o != Origin::Recorded),
                stack,
                freed_at,
                frames_left_out: left_out,
            }
        };
        holders.iter().take(top.unwrap_or(usize::MAX)).map(holder).collect()
    }

    pub(super) fn categories(&self, holders: &[Holder]) -> Vec<CategoryJson> {
        let mut rows: Vec<CategoryJson> = Vec::with_capacity(holders.len());
        for h in holders {
            let is_workspace = h.key == HolderKey::Category(Category::Workspace);
            let key = if is_workspace { &HolderKey::Category(Category::Temporary) } else { &h.key };
            let category = self.names.key(key).into();
            let workspace_bytes = is_workspace.then_some(h.bytes);
            match rows.iter_mut().find(|row| row.category == category) {
                Some(row) => {
                    row.bytes += h.bytes;
                    row.count += h.count;
                    row.workspace_bytes = row.workspace_bytes.or(workspace_bytes);
                }
                None => rows.push(CategoryJson { category, bytes: h.bytes, count: h.count, workspace_bytes }),
            }
        }
        rows.sort_by_key(|row| Reverse(row.bytes));
        rows
    }

    pub(super) fn churn(&self, h: &Holder) -> ChurnJson {
        ChurnJson { key: self.names.key(&h.key).into(), total_bytes: h.bytes, count: h.count }
    }
}
