//! The section about holders, groups of live allocations, at an event: as a tree of calls, or grouped as the user chose.

use std::cmp::Reverse;
use std::fmt::Write as _;

use serde::Serialize;
use unicode_width::UnicodeWidthStr as _;
use vramscope_analysis::{
    By, CallTree, Holder, HolderKey, Layer, Node, NodeKind, Origin, Reason, ReasonGroup, Recorder, Summary,
    When,
};
use vramscope_basics::units::{bytes, count};
use vramscope_trace::{Category, PoolId};

use crate::advice;
use crate::answers::Answers;
use crate::fit::fit;
use crate::json::stacks::{Builder, FrameJson, StackJson, is_zero};
use crate::names::{Names, category};
use crate::report::categories::{because, told_by};
use crate::shown::Shown;
use crate::text::lines::DIM;
use crate::text::page::Page;

/// A group of live allocations.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Holder"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Holder"))]
pub(crate) struct HolderJson {
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
pub(crate) struct CategoryJson {
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
pub(crate) struct ReasonJson {
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
    pub(crate) fn of(told: &ReasonGroup) -> Self {
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
pub(crate) struct ChurnJson {
    key: String,
    total_bytes: u64,
    count: u64,
}

impl Builder<'_> {
    pub(crate) fn holders(&self, holders: &[Holder], top: Option<usize>) -> Vec<HolderJson> {
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

    pub(crate) fn categories(&self, holders: &[Holder]) -> Vec<CategoryJson> {
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

    pub(crate) fn churn(&self, h: &Holder) -> ChurnJson {
        ChurnJson { key: self.names.key(&h.key).into(), total_bytes: h.bytes, count: h.count }
    }
}

impl Page<'_> {
    pub(crate) fn holders(&mut self, answers: &Answers<'_>, s: &Summary) {
        let total = s.counters.allocated;
        let when = match (answers.at, s.moment.event()) {
            (None, Some(e)) => format!("at the peak, after event {}", count(e as u64)),
            (None, None) if s.events == 0 => "when the snapshot was taken".to_owned(),
            (None, None) => "at the peak, before the first event".to_owned(),
            (Some(When::After(e)), _) => format!("after event {}", count(e as u64)),
            (Some(When::End), _) => "at the end of the recording".to_owned(),
        };
        self.heading(&format!("Holders of {} {when}", bytes(total)));
        if s.filtered_out > 0 {
            self.words(2, &format!("The filter left out {}.", bytes(s.filtered_out)));
        }
        if s.reasons.iter().any(|t| t.category.is_told()) && answers.by.is_none() {
            self.line(format!("{DIM}  by category{DIM:#}"));
            self.holder_rows(&s.categories, total, self.options.top);
            self.words(2, &told_by(&s.reasons));
            self.line(format!("{DIM}  by call{DIM:#}"));
        }
        match answers.by {
            None if self.options.full_stacks => self.holder_rows(&s.holders, total, self.options.top),
            None => match s.tree.roots.as_slice() {
                // Without events, all memory was live before them.
                &[all] if s.events == 0 => self.tree(&s.tree, &s.tree.nodes[all].children, total, 0),
                roots => self.tree(&s.tree, roots, total, 0),
            },
            Some(_) => self.holder_rows(&s.holders, total, self.options.top),
        }
        if answers.by == Some(By::Layer) {
            self.layers(&s.layers, total);
        }
        if answers.by == Some(By::Category) {
            self.reasons(&s.reasons, total);
        }
        let without: u64 = s
            .holders
            .iter()
            .filter(|h| h.key == HolderKey::NoStack && h.origin == Some(Origin::Recorded))
            .map(|h| h.bytes)
            .sum();
        if self.recorder == Recorder::Torch && has_stacks(s) && without * 20 >= total && total > 0 {
            let text = "Blocks without a stack were allocated outside of Python, usually in the backward pass; record with `stacks=\"all\"` to see their lines.";
            self.words(2, text);
        }
        if s.events > 0 && !has_stacks(s) {
            let stacks = advice::stacks(self.recorder);
            let is_frame = |node: &Node| matches!(node.kind, NodeKind::Frame(_));
            let text = if s.tree.nodes.iter().any(is_frame) {
                format!(
                    "Only memory that was live before recording has stacks; to record the others, {stacks}."
                )
            } else {
                format!("No stacks were recorded: {stacks}.")
            };
            self.words(2, &text);
        }
        let private = |h: &Holder| matches!(h.key, HolderKey::Pool(Some(p)) if p != PoolId::default());
        if s.pools.iter().any(private) {
            self.line(format!("{DIM}  by pool{DIM:#}"));
            self.holder_rows(&s.pools, total, self.options.top);
        }
        if s.streams.len() > 1 {
            self.line(format!("{DIM}  by stream{DIM:#}"));
            self.holder_rows(&s.streams, total, self.options.top);
        }
    }

    /// Modules as a tree; each row includes the modules inside it.
    fn layers(&mut self, layers: &[Layer], total: u64) {
        if layers.is_empty() {
            return;
        }
        self.line(format!("{DIM}  including inner modules{DIM:#}"));
        // Rows below one percent are left out to keep the list short.
        let shown = layers.iter().filter(|l| l.bytes.saturating_mul(100) >= total);
        for l in shown.take(self.options.top.saturating_mul(4)) {
            let name = Shown::end_of(l.path.rsplit('.').next().unwrap_or_default());
            let name = if l.path.is_empty() { "the outermost module".to_owned() } else { name.to_string() };
            let label = format!("{name} (forward {}, backward {})", bytes(l.forward), bytes(l.backward));
            self.row(l.bytes, total, l.depth * 2, &label, l.count);
        }
    }

    /// The evidence for each category.
    fn reasons(&mut self, told: &[ReasonGroup], total: u64) {
        self.line(format!("{DIM}  why{DIM:#}"));
        for t in told.iter().take(self.options.top) {
            let label = format!("{}: {}", category(t.category), because(t.reason));
            self.row(t.bytes, total, 0, &label, t.count);
        }
        self.words(2, &told_by(told));
    }

    /// The tree of calls. A chain of calls without a branch is one row, its innermost line first.
    fn tree(&mut self, tree: &CallTree, siblings: &[usize], total: u64, depth: usize) {
        // Deep recursion in the profiled program must not overflow the stack here.
        const DEEPEST: usize = 24;
        let nodes: Vec<&Node> = siblings.iter().map(|&n| &tree.nodes[n]).collect();
        // Rows below one percent are left out to keep the list short.
        let worth = |n: &&&Node| n.bytes.saturating_mul(100) >= total;
        let shown = nodes.iter().take_while(worth).take(self.options.top).count().max(nodes.len().min(1));
        let (nodes, rest) = nodes.split_at(shown);
        for &node in nodes {
            let mut chain = vec![node.kind];
            let mut node = node;
            while let (NodeKind::Frame(_), &[only]) = (node.kind, node.children.as_slice())
                && tree.nodes[only].bytes == node.bytes
            {
                node = &tree.nodes[only];
                chain.push(node.kind);
            }
            let room = self.room(depth * 2, node.count);
            let mut label = String::new();
            for (i, &kind) in chain.iter().rev().enumerate() {
                let between = if i == 0 { "" } else { " < " };
                // The innermost line comes first, and leaves room for its caller.
                let callers = if i == 0 && chain.len() > 1 { 22 } else { 0 };
                let left = room.saturating_sub(label.width() + between.len() + callers).max(10);
                if i > 0 && left < 12 {
                    break;
                }
                let _ = write!(label, "{between}{}", fit(&self.names.node(kind), left));
            }
            self.row(node.bytes, total, depth * 2, &label, node.count);
            if depth < DEEPEST {
                self.tree(tree, &node.children, total, depth + 1);
            }
        }
        if !rest.is_empty() {
            let label = format!("... {} more", count(rest.len() as u64));
            self.row(
                rest.iter().map(|n| n.bytes).sum(),
                total,
                depth * 2,
                &label,
                rest.iter().map(|n| n.count).sum(),
            );
        }
    }
}

/// Whether any allocation was recorded with its stack.
pub(crate) fn has_stacks(s: &Summary) -> bool {
    s.churn.iter().any(|h| h.key != HolderKey::NoStack)
}
