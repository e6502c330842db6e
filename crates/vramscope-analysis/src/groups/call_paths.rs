//! The path of a stack in a call tree, and the transforms that change it.

use serde::Deserialize;
use vramscope_trace::{FrameId, StackId, Trace};

use crate::history::Origin;
use crate::stacks::{Code, Frames};

/// The subject of a tree node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeKind {
    /// A line of the program or, if the stack has none, of a library or of compiled code.
    Frame(FrameId),
    /// Allocations without a stack.
    NoStack,
    /// Allocations that were live before recording began, with their stacks below.
    BeforeRecording,
    /// Allocations that were live before recording began; the stacks below are those of their frees.
    BeforeRecordingFreed,
    /// Allocations of stacks whose frames are all merged.
    Merged,
    /// Adjacent frames of the group with this number: see [`Transform::Collapse`].
    Collapsed(u32),
}

/// The largest number of nested calls per stack: half of them are the outermost, half the innermost. Each call is a node, and
/// infinite recursion makes a million of them per stack.
const MOST_CALLS: usize = 1000;

/// The frames of a stack that become nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallsOf {
    /// The user's frames; for a stack without any, its [own frame](Frames::own_frame).
    Own,
    /// The Python frames, including libraries, [between the ends](Frames::between_the_ends).
    Python,
    /// All frames between the ends.
    All,
}

/// How stacks become a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calls {
    /// The frames that become nodes.
    pub of: CallsOf,
    /// Whether the innermost calls are at the root of the tree, with their callers below.
    pub inverted: bool,
}

/// A set of nodes: frames, and groups of collapsed frames.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeSet {
    /// For each frame of the trace, whether it is in the set. Missing entries are not.
    pub frames: Vec<bool>,
    /// The same for each group.
    pub groups: Vec<bool>,
}

impl NodeSet {
    fn has_frame(&self, frame: FrameId) -> bool {
        self.frames.get(frame.index()).copied().unwrap_or_default()
    }

    fn has(&self, kind: NodeKind) -> bool {
        match kind {
            NodeKind::Frame(frame) => self.has_frame(frame),
            NodeKind::Collapsed(group) => self.groups.get(group as usize).copied().unwrap_or_default(),
            _ => false,
        }
    }
}

/// The group of frames that do not collapse.
pub const NO_GROUP: u32 = u32::MAX;

/// A change of the paths in a call tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transform {
    /// Keeps the stacks with a frame of the set. Their paths begin at the outermost of these frames.
    Focus(NodeSet),
    /// Keeps the stacks whose path begins with a node of each of these lists, in order. Their paths begin at the last of these nodes.
    FocusPath {
        /// The tree that the path is from.
        calls: Calls,
        /// For each step from the root, the nodes that match it.
        steps: Vec<Vec<NodeKind>>,
    },
    /// Keeps the stacks without a frame of the set.
    Drop(NodeSet),
    /// Removes the nodes of the set from all paths. Their bytes go to the callers.
    Merge(NodeSet),
    /// Replaces adjacent frames of a group by one node. The number of each frame's group, or [`NO_GROUP`].
    Collapse(Vec<u32>),
    /// Replaces everything from the outermost to the innermost frame of the set by one node of this group.
    CollapseRecursion(NodeSet, u32),
}

/// Transforms, in the order in which they apply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transforms(pub Vec<Transform>);

/// The path of a stack in a call tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallPath {
    /// The nodes from the root of the tree. There is at least one.
    pub nodes: Vec<NodeKind>,
    /// Whether the transforms keep the stack. The path of any other stack is not cut.
    pub is_kept: bool,
}

/// Computes paths of stacks in a call tree.
#[derive(Debug, Clone, Copy)]
pub struct Paths<'t> {
    /// The trace of the stacks.
    pub trace: &'t Trace,
    /// The classification of its frames.
    pub frames: &'t Frames,
    /// How stacks become a tree.
    pub calls: Calls,
    /// The changes of the paths.
    pub transforms: &'t Transforms,
}

/// A node with the positions of its innermost and outermost frame in the stack, where 0 is the innermost. `None` for a node without
/// frames.
type Item = (NodeKind, Option<(usize, usize)>);

/// The part of a stack that transforms keep: positions `from..=to`.
#[derive(Debug, Clone, Copy)]
struct Cut {
    from: usize,
    to: usize,
    /// Whether the path keeps the nodes above the stack.
    has_head: bool,
}

impl Cut {
    const NONE: Self = Self { from: 0, to: usize::MAX, has_head: true };

    fn keeps(self, position: usize) -> bool {
        (self.from..=self.to).contains(&position)
    }
}

impl Paths<'_> {
    /// Returns the path of allocations of this origin with this stack.
    #[must_use]
    pub fn path(&self, origin: Option<Origin>, stack: Option<StackId>) -> CallPath {
        let cut = self.cut(origin, stack);
        let items = self.items(&self.transforms.0, self.calls, cut.unwrap_or(Cut::NONE), origin, stack);
        CallPath { nodes: items.into_iter().map(|(kind, _)| kind).collect(), is_kept: cut.is_some() }
    }

    /// Whether the transforms keep allocations of this origin with this stack.
    #[must_use]
    pub fn keeps(&self, origin: Option<Origin>, stack: Option<StackId>) -> bool {
        self.cut(origin, stack).is_some()
    }

    /// Returns the part of a stack that the transforms keep; `None` if they do not keep the stack.
    fn cut(&self, origin: Option<Origin>, stack: Option<StackId>) -> Option<Cut> {
        let all = stack.map_or(&[][..], |stack| self.trace.stacks.get(stack));
        let mut cut = Cut::NONE;
        for (number, transform) in self.transforms.0.iter().enumerate() {
            let has = |set: &NodeSet, at: usize| cut.keeps(at) && set.has_frame(all[at]);
            match transform {
                Transform::Focus(set) => cut.to = (0..all.len()).rev().find(|&at| has(set, at))?,
                Transform::Drop(set) if (0..all.len()).any(|at| has(set, at)) => return None,
                Transform::FocusPath { calls, steps } => {
                    let items = self.items(&self.transforms.0[..number], *calls, cut, origin, stack);
                    let is_below = items.len() >= steps.len()
                        && items.iter().zip(steps).all(|((kind, _), step)| step.contains(kind));
                    let (_, last) = items.get(steps.len().checked_sub(1)?).filter(|_| is_below)?;
                    match *last {
                        None => {}
                        Some((inner, _)) if calls.inverted => {
                            cut = Cut { from: cut.from.max(inner), has_head: false, ..cut };
                        }
                        Some((_, outer)) => cut = Cut { to: cut.to.min(outer), has_head: false, ..cut },
                    }
                }
                _ => {}
            }
        }
        Some(cut)
    }

    /// Returns the nodes of a stack from the root of the tree, after some of the transforms. There is at least one.
    fn items(
        &self,
        transforms: &[Transform],
        calls: Calls,
        cut: Cut,
        origin: Option<Origin>,
        stack: Option<StackId>,
    ) -> Vec<Item> {
        let mut head: Vec<Item> = match origin {
            None | Some(Origin::Recorded) => Vec::new(),
            Some(Origin::EndState) => vec![(NodeKind::BeforeRecording, None)],
            Some(Origin::FreeOnly) => vec![(NodeKind::BeforeRecordingFreed, None)],
        };
        let mut path = stack.map(|stack| self.frames_of(stack, calls.of, cut)).unwrap_or_default();
        let has_stack = !path.is_empty();
        for transform in transforms {
            match transform {
                Transform::Merge(set) => path.retain(|&(kind, _)| !set.has(kind)),
                Transform::Collapse(groups) => collapse(&mut path, groups),
                Transform::CollapseRecursion(set, group) => collapse_recursion(&mut path, set, *group),
                _ => {}
            }
        }
        if path.len() > MOST_CALLS {
            path.drain(MOST_CALLS / 2..path.len() - MOST_CALLS / 2);
        }
        if calls.inverted {
            path.reverse();
        }
        if !cut.has_head {
            head.clear();
        }
        if path.is_empty() {
            head.push((if has_stack { NodeKind::Merged } else { NodeKind::NoStack }, None));
        }
        head.extend(path);
        head
    }

    /// Returns the frames of a part of a stack that become nodes, the outermost first.
    fn frames_of(&self, stack: StackId, of: CallsOf, cut: Cut) -> Vec<Item> {
        let Self { trace, frames, .. } = self;
        let all = trace.stacks.get(stack);
        let range = match of {
            CallsOf::Own => 0..all.len(),
            CallsOf::Python | CallsOf::All => frames.ends(trace, stack),
        };
        let is_node = |&at: &usize| match of {
            CallsOf::Own => frames.code(all[at]) == Code::User,
            CallsOf::Python => frames.code(all[at]) != Code::Native,
            CallsOf::All => true,
        };
        let item = |at: usize| (NodeKind::Frame(all[at]), Some((at, at)));
        let mut path: Vec<Item> = range.rev().filter(|&at| cut.keeps(at)).filter(is_node).map(item).collect();
        if path.is_empty() {
            let own = frames.own_frame(trace, stack);
            let at = own.and_then(|own| all.iter().position(|&frame| frame == own));
            // If the part has not the frame that names the stack, its outermost frame stands for it.
            path.extend(at.map(|at| item(at.clamp(cut.from, cut.to.min(all.len() - 1)))));
        }
        path
    }
}

/// Returns the positions of the frames of two nodes and between them.
fn both(outer: Option<(usize, usize)>, inner: Option<(usize, usize)>) -> Option<(usize, usize)> {
    outer.zip(inner).map(|((_, outermost), (innermost, _))| (innermost, outermost))
}

/// Replaces adjacent frames of a group by one node.
fn collapse(path: &mut Vec<Item>, groups: &[u32]) {
    let mut collapsed: Vec<Item> = Vec::with_capacity(path.len());
    for item in path.drain(..) {
        let group = match item.0 {
            NodeKind::Frame(frame) => groups.get(frame.index()).copied().filter(|&group| group != NO_GROUP),
            _ => None,
        };
        let Some(kind) = group.map(NodeKind::Collapsed) else {
            collapsed.push(item);
            continue;
        };
        match collapsed.last_mut().filter(|last| last.0 == kind) {
            Some(last) => last.1 = both(last.1, item.1),
            None => collapsed.push((kind, item.1)),
        }
    }
    *path = collapsed;
}

/// Replaces everything from the first to the last node of the set by one node.
fn collapse_recursion(path: &mut Vec<Item>, set: &NodeSet, group: u32) {
    let is_in = |item: &Item| set.has(item.0);
    let (Some(first), Some(last)) = (path.iter().position(is_in), path.iter().rposition(is_in)) else {
        return;
    };
    let node = (NodeKind::Collapsed(group), both(path[first].1, path[last].1));
    path.splice(first..=last, [node]);
}
