//! Live memory as a tree of the user's calls.

use hashbrown::HashMap;
use vramscope_trace::{FrameId, Trace};

use crate::frames::Frames;
use crate::history::Origin;
use crate::holders::{Holder, HolderKey};

/// What a node of the tree stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeKind {
    /// A line of the program; without one, of a library or of compiled code.
    Frame(FrameId),
    /// Allocations without a stack.
    NoStack,
    /// Live before recording began, with their stacks below.
    BeforeRecording,
    /// Live before recording began; their stacks, below, are those of their frees.
    BeforeRecordingFreed,
}

/// A line and what was allocated by it and below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// What it stands for.
    pub kind: NodeKind,
    /// Bytes of the blocks.
    pub bytes: u64,
    /// How many blocks.
    pub count: u64,
    /// Calls made here, most bytes first. What is missing to `bytes` was allocated here.
    pub children: Vec<Node>,
}

/// The tree of `holders`, which are grouped by stack: outermost calls first, most bytes first.
///
/// Of a stack with frames of the user's, only these make nodes; of another, its
/// [own frame](Frames::own_frame) does; with `full` every frame does.
pub fn call_tree(trace: &Trace, frames: &Frames, holders: &[Holder], full: bool) -> Vec<Node> {
    let mut builder = Builder::default();
    for h in holders {
        let mut at = None;
        match h.origin {
            None | Some(Origin::Recorded) => {}
            Some(Origin::EndState) => at = Some(builder.child(at, NodeKind::BeforeRecording)),
            Some(Origin::FreeOnly) => at = Some(builder.child(at, NodeKind::BeforeRecordingFreed)),
        }
        builder.add(at, h);
        let path: Vec<FrameId> = match h.key {
            HolderKey::Stack(stack) if full => trace.stacks.get(stack).iter().rev().copied().collect(),
            HolderKey::Stack(stack) => {
                let mut path: Vec<FrameId> = frames.user_frames(trace, stack).rev().collect();
                if path.is_empty() {
                    path.extend(frames.own_frame(trace, stack));
                }
                path
            }
            _ => Vec::new(),
        };
        if path.is_empty() {
            at = Some(builder.child(at, NodeKind::NoStack));
            builder.add(at, h);
        }
        for frame in path {
            at = Some(builder.child(at, NodeKind::Frame(frame)));
            builder.add(at, h);
        }
    }
    builder.finish()
}

/// Nodes by number; children by (parent, kind).
#[derive(Default)]
struct Builder {
    nodes: Vec<(NodeKind, u64, u64, Option<usize>)>,
    index: HashMap<(Option<usize>, NodeKind), usize>,
}

impl Builder {
    fn child(&mut self, parent: Option<usize>, kind: NodeKind) -> usize {
        *self.index.entry((parent, kind)).or_insert_with(|| {
            self.nodes.push((kind, 0, 0, parent));
            self.nodes.len() - 1
        })
    }

    fn add(&mut self, node: Option<usize>, h: &Holder) {
        if let Some(node) = node {
            self.nodes[node].1 += h.bytes;
            self.nodes[node].2 += h.count;
        }
    }

    fn finish(self) -> Vec<Node> {
        let mut children: Vec<Vec<Node>> = vec![Vec::new(); self.nodes.len()];
        let mut roots = Vec::new();
        let sort = |nodes: &mut Vec<Node>| nodes.sort_by_key(|n| (std::cmp::Reverse(n.bytes), n.kind));
        // A child has a higher number than its parent, so from the last it is whole when it is moved.
        for (i, (kind, bytes, count, parent)) in self.nodes.into_iter().enumerate().rev() {
            let mut own = std::mem::take(&mut children[i]);
            sort(&mut own);
            let node = Node { kind, bytes, count, children: own };
            match parent {
                Some(parent) => children[parent].push(node),
                None => roots.push(node),
            }
        }
        sort(&mut roots);
        roots
    }
}
