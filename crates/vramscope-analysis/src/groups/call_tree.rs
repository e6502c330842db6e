//! Live memory as a tree of the user's calls.

use std::cmp::Reverse;

use hashbrown::HashMap;
use vramscope_trace::Trace;

use super::amount::Amount;
use super::call_paths::{Calls, CallsOf, NodeKind, Paths, Transforms};
use super::keys::{Holder, HolderKey};
use crate::basics::Both;
use crate::stacks::Frames;

/// A line, with the memory allocated by it and below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The subject of the node.
    pub kind: NodeKind,
    /// Bytes of the blocks allocated here and below.
    pub bytes: u64,
    /// Number of these blocks.
    pub count: u64,
    /// Indices of the calls made here, most bytes first. The difference between `bytes` and their sum was allocated here.
    pub children: Vec<usize>,
}

/// Live memory by calls. Nodes are in one list and refer to each other by index: a deeply recursive program makes a deep tree,
/// which must not be walked by recursion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallTree {
    /// All nodes; callers come before their callees.
    pub nodes: Vec<Node>,
    /// Indices of the outermost calls, most bytes first.
    pub roots: Vec<usize>,
}

/// If one line of the user's code allocates this share of all bytes itself, its calls of packages become nodes too.
const NEARLY_ALL_PERCENT: u128 = 97;

/// Builds the tree of `holders`, which must be grouped by stack: outermost calls first, most bytes first.
///
/// For a stack with user frames, only these become nodes; for any other stack, its [own frame](Frames::own_frame). A program may leave all work
/// to a library, so that one line has nearly everything: then the Python frames of packages become nodes too.
pub(crate) fn call_tree(trace: &Trace, frames: &Frames, holders: &[Holder]) -> CallTree {
    let own = call_tree_of(CallsOf::Own, trace, frames, holders);
    let all: u64 = own.roots.iter().map(|&root| own.nodes[root].bytes).sum();
    let itself =
        |node: &Node| node.bytes - node.children.iter().map(|&child| own.nodes[child].bytes).sum::<u64>();
    let has_nearly_all = |node: &Node| u128::from(itself(node)) * 100 >= u128::from(all) * NEARLY_ALL_PERCENT;
    if all > 0 && own.nodes.iter().any(has_nearly_all) {
        return call_tree_of(CallsOf::Python, trace, frames, holders);
    }
    own
}

fn call_tree_of(of: CallsOf, trace: &Trace, frames: &Frames, holders: &[Holder]) -> CallTree {
    let calls = Calls { of, inverted: false };
    let transforms = Transforms::default();
    let mut shape = Shape::of(Paths { trace, frames, calls, transforms: &transforms });
    let held = shape.held(holders);
    let held = shape.with_what_is_below(held);
    let mut tree = CallTree::default();
    for (&(parent, kind), amount) in shape.nodes.iter().zip(held) {
        let number = tree.nodes.len();
        tree.nodes.push(Node { kind, bytes: amount.bytes, count: amount.count, children: Vec::new() });
        match parent {
            Some(parent) => tree.nodes[parent].children.push(number),
            None => tree.roots.push(number),
        }
    }
    let order: Vec<_> = tree.nodes.iter().map(|n| (Reverse(n.bytes), n.kind)).collect();
    for node in &mut tree.nodes {
        node.children.sort_by_key(|&child| order[child]);
    }
    tree.roots.sort_by_key(|&root| order[root]);
    tree
}

/// A call, with the memory allocated by it and below it at two moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ComparedNode {
    /// The subject of the node.
    pub kind: NodeKind,
    /// The index of its caller; `None` for the outermost calls.
    pub parent: Option<usize>,
    /// The amounts allocated at the earlier and at the later moment.
    pub held: Both<Amount>,
    /// Bytes of the later moment that match the search.
    pub found: u64,
    /// The larger of both moments in bytes, summed up from the innermost calls; so it is never less than the sum over the
    /// callees.
    pub weight: u64,
}

/// Builds the tree of the memory live at two moments, both grouped by stack, and of the part of the later moment that matches a
/// search. Callers come before their callees, and heavier siblings first.
#[must_use]
pub fn compared_call_tree(paths: Paths<'_>, at: Both<&[Holder]>, found: &[Holder]) -> Vec<ComparedNode> {
    let mut shape = Shape::of(paths);
    // The stacks of the later moment come first, so its nodes exist before the matches in it are added.
    let (b, a, found) = (shape.held(at.b), shape.held(at.a), shape.held(found));
    let own = |of: &[Amount], number: usize| of.get(number).map_or(0, |amount| amount.bytes);
    let weigh = |number| Amount { bytes: own(&a, number).max(own(&b, number)), ..Amount::default() };
    let weights = (0..shape.nodes.len()).map(weigh).collect();
    let [a, b, found, weights] = [a, b, found, weights].map(|held| shape.with_what_is_below(held));
    let node = |number: usize, parent: Option<usize>| ComparedNode {
        kind: shape.nodes[number].1,
        parent,
        held: Both { a: a[number], b: b[number] },
        found: found[number].bytes,
        weight: weights[number].bytes,
    };
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); shape.nodes.len()];
    let mut roots = Vec::new();
    for (number, &(parent, _)) in shape.nodes.iter().enumerate() {
        parent.map_or(&mut roots, |parent| &mut children[parent]).push(number);
    }
    // Pending nodes, the next one last, each with the output index of its caller.
    let mut waiting: Vec<(usize, Option<usize>)> = Vec::new();
    let lightest_first = |of: &mut Vec<usize>| {
        of.sort_by_key(|&number| (weights[number].bytes, Reverse(shape.nodes[number].1)));
        std::mem::take(of)
    };
    waiting.extend(lightest_first(&mut roots).into_iter().map(|root| (root, None)));
    let mut nodes = Vec::with_capacity(shape.nodes.len());
    while let Some((number, parent)) = waiting.pop() {
        let caller = Some(nodes.len());
        nodes.push(node(number, parent));
        waiting.extend(lightest_first(&mut children[number]).into_iter().map(|child| (child, caller)));
    }
    nodes
}

/// The calls of some stacks; callers come before their callees.
struct Shape<'t> {
    paths: Paths<'t>,
    nodes: Vec<(Option<usize>, NodeKind)>,
    index: HashMap<(Option<usize>, NodeKind), usize>,
}

impl<'t> Shape<'t> {
    fn of(paths: Paths<'t>) -> Self {
        Self { paths, nodes: Vec::new(), index: HashMap::new() }
    }

    fn child(&mut self, parent: Option<usize>, kind: NodeKind) -> usize {
        let Self { nodes, index, .. } = self;
        *index.entry((parent, kind)).or_insert_with(|| {
            nodes.push((parent, kind));
            nodes.len() - 1
        })
    }

    /// Returns the amount that each node holds of `holders`, without the nodes below it. Creates missing nodes; nodes created
    /// later hold nothing.
    fn held(&mut self, holders: &[Holder]) -> Vec<Amount> {
        let mut held = Vec::new();
        for h in holders {
            let innermost = self.innermost(h);
            held.resize(self.nodes.len().max(held.len()), Amount::default());
            held[innermost].add(h.held());
        }
        held
    }

    /// Returns the innermost call of a group.
    fn innermost(&mut self, h: &Holder) -> usize {
        let stack = match h.key {
            HolderKey::Stack(stack) => Some(stack),
            _ => None,
        };
        let mut at = None;
        for kind in self.paths.path(h.origin, stack).nodes {
            at = Some(self.child(at, kind));
        }
        at.unwrap_or_default()
    }

    /// Adds to each node the amounts of all nodes below it.
    fn with_what_is_below(&self, mut held: Vec<Amount>) -> Vec<Amount> {
        held.resize(self.nodes.len(), Amount::default());
        for (number, (parent, _)) in self.nodes.iter().enumerate().rev() {
            if let Some(parent) = *parent {
                let below = held[number];
                held[parent].add(below);
            }
        }
        held
    }
}
