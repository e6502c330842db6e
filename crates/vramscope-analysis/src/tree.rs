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
    /// Bytes of the blocks that were allocated here and below.
    pub bytes: u64,
    /// The number of these blocks.
    pub count: u64,
    /// Numbers of the calls made here, most bytes first. What is missing to `bytes` was allocated here.
    pub children: Vec<usize>,
}

/// Live memory by calls. Nodes lie in one list and name each other by number: a program that recurses deeply
/// makes a deep tree, which nothing here may walk by recursion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallTree {
    /// Every node, a caller before those it calls.
    pub nodes: Vec<Node>,
    /// Numbers of the outermost calls, most bytes first.
    pub roots: Vec<usize>,
}

/// Calls on top of each other that are told, half of them the outermost, half the innermost: each is a node, and recursion
/// without an end makes a million of them in every stack.
const MOST_CALLS: usize = 1000;

/// The tree of `holders`, which are grouped by stack: outermost calls first, most bytes first.
///
/// Of a stack with frames of the user's, only these make nodes; of another, its
/// [own frame](Frames::own_frame) does.
pub fn call_tree(trace: &Trace, frames: &Frames, holders: &[Holder]) -> CallTree {
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
            HolderKey::Stack(stack) => {
                let mut path: Vec<FrameId> = frames.user_frames(trace, stack).rev().collect();
                if path.is_empty() {
                    path.extend(frames.own_frame(trace, stack));
                }
                if path.len() > MOST_CALLS {
                    path.drain(MOST_CALLS / 2..path.len() - MOST_CALLS / 2);
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

/// The tree as it grows, and its nodes by caller and kind.
#[derive(Default)]
struct Builder {
    tree: CallTree,
    index: HashMap<(Option<usize>, NodeKind), usize>,
}

impl Builder {
    fn child(&mut self, parent: Option<usize>, kind: NodeKind) -> usize {
        let Self { tree, index } = self;
        *index.entry((parent, kind)).or_insert_with(|| {
            let number = tree.nodes.len();
            tree.nodes.push(Node { kind, bytes: 0, count: 0, children: Vec::new() });
            match parent {
                Some(parent) => tree.nodes[parent].children.push(number),
                None => tree.roots.push(number),
            }
            number
        })
    }

    fn add(&mut self, node: Option<usize>, h: &Holder) {
        if let Some(node) = node {
            self.tree.nodes[node].bytes += h.bytes;
            self.tree.nodes[node].count += h.count;
        }
    }

    fn finish(self) -> CallTree {
        let mut tree = self.tree;
        let order: Vec<_> = tree.nodes.iter().map(|n| (std::cmp::Reverse(n.bytes), n.kind)).collect();
        for node in &mut tree.nodes {
            node.children.sort_by_key(|&child| order[child]);
        }
        tree.roots.sort_by_key(|&root| order[root]);
        tree
    }
}
