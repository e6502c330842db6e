//! The captured stacks as a tree: one node per line and callers.

use std::sync::Mutex;

use hashbrown::HashMap;
use pyo3::prelude::*;
use vramscope::allocator::SourceFrame;
use vramscope_basics::lock;

use crate::stacks::{self, Running};

/// Limit on the retained code objects, which allow lookups by address. Without a limit, a program that compiles code endlessly
/// would never free it.
const MOST_CODES: usize = 1 << 16;

/// The index of a node; 0 is the root, the empty stack.
pub(crate) type NodeId = u32;

/// A line of the program, called through the lines of its parents.
struct Node {
    parent: NodeId,
    /// Index of its frame.
    frame: u32,
}

/// The captured stacks. Parents precede their children, and nodes are in the order of their first capture.
#[derive(Default)]
pub(crate) struct CallTree {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Every node except the root; the first has index 1.
    nodes: Vec<Node>,
    frames: Vec<SourceFrame>,
    frame_numbers: HashMap<SourceFrame, u32>,
    /// The node of each line, by parent.
    by_frame: HashMap<(NodeId, u32), NodeId>,
    /// The node of each position in a code object, by parent. Lookups try this first.
    by_code: HashMap<(NodeId, usize, i32), NodeId>,
    /// The code objects in `by_code`. A retained code object keeps its address.
    codes: HashMap<usize, Py<PyAny>>,
    /// The stack of the last capture, outermost first. Most stacks share a prefix with the previous one.
    last: Vec<(usize, i32, NodeId)>,
    /// Reused buffer for frames, so that a capture allocates nothing.
    buffer: Vec<Running>,
}

impl CallTree {
    /// The node of the innermost Python function on this thread.
    ///
    /// No lock is held while Python code may run, because the garbage collector may call back into this function. A pending
    /// exception stays pending: memory is also freed while one unwinds.
    pub(crate) fn capture(&self, py: Python<'_>) -> PyResult<NodeId> {
        stacks::without_pending_exception(py, || {
            let mut stack = std::mem::take(&mut lock(&self.known).buffer);
            let captured = stacks::capture(py, &mut stack).and_then(|()| self.node_of(py, &stack));
            stack.clear();
            lock(&self.known).buffer = stack;
            captured
        })
    }

    fn node_of(&self, py: Python<'_>, stack: &[Running]) -> PyResult<NodeId> {
        loop {
            let num_known = match lock(&self.known).find(stack) {
                Ok(node) => return Ok(node),
                Err(num_known) => num_known,
            };
            // Innermost first, like `stack`.
            let new = &stack[..stack.len() - num_known];
            let frames = new.iter().map(|running| running.frame(py)).collect::<PyResult<Vec<_>>>()?;
            // Drops forgotten code objects here, after the lock is released.
            let _forgotten = lock(&self.known).add(py, stack, num_known, frames);
        }
    }

    /// Passes the stack of a node, as indices of frames, innermost first, and all frames to `read`.
    pub(crate) fn with<T>(&self, node: NodeId, read: impl FnOnce(&[u32], &[SourceFrame]) -> T) -> T {
        let known = lock(&self.known);
        let (mut stack, mut next) = (Vec::new(), node);
        while let Some(node) = next.checked_sub(1).and_then(|i| known.nodes.get(i as usize)) {
            stack.push(node.frame);
            next = node.parent;
        }
        read(&stack, &known.frames)
    }
}

impl Known {
    /// The node of a stack, or the number of its outermost frames that have nodes.
    fn find(&mut self, stack: &[Running]) -> Result<NodeId, usize> {
        let mut node = 0;
        let mut as_before = true;
        for (depth, running) in stack.iter().rev().enumerate() {
            let here = (running.code_address(), running.instruction);
            if as_before {
                match self.last.get(depth) {
                    Some(&(code, instruction, known)) if (code, instruction) == here => {
                        node = known;
                        continue;
                    }
                    _ => {
                        as_before = false;
                        self.last.truncate(depth);
                    }
                }
            }
            node = *self.by_code.get(&(node, here.0, here.1)).ok_or(depth)?;
            self.last.push((here.0, here.1, node));
        }
        self.last.truncate(stack.len());
        Ok(node)
    }

    /// Adds the frames of a stack after its `num_known` outermost ones. `frames` are the new ones, innermost first. Returns the
    /// code objects that are no longer retained.
    fn add(
        &mut self,
        py: Python<'_>,
        stack: &[Running],
        num_known: usize,
        frames: Vec<SourceFrame>,
    ) -> HashMap<usize, Py<PyAny>> {
        let mut forgotten = HashMap::new();
        if self.codes.len() > MOST_CODES {
            forgotten = std::mem::take(&mut self.codes);
            self.by_code.clear();
            self.last.clear();
        }
        let outermost = &stack[stack.len() - num_known..];
        // If another thread cleared the nodes in the meantime, the caller tries again.
        let Ok(mut node) = self.find(outermost) else { return forgotten };
        for (running, frame) in stack[..frames.len()].iter().zip(frames).rev() {
            let parent = node;
            node = self.child(parent, frame);
            let code = running.code_address();
            self.codes.entry(code).or_insert_with(|| running.code.clone_ref(py));
            self.by_code.insert((parent, code, running.instruction), node);
        }
        forgotten
    }

    /// The node of a frame that was called by the frame of `parent`.
    fn child(&mut self, parent: NodeId, frame: SourceFrame) -> NodeId {
        let frame = self.frame_number(frame);
        let next = self.nodes.len() as NodeId + 1;
        let node = *self.by_frame.entry((parent, frame)).or_insert(next);
        if node == next {
            self.nodes.push(Node { parent, frame });
        }
        node
    }

    fn frame_number(&mut self, frame: SourceFrame) -> u32 {
        if let Some(&number) = self.frame_numbers.get(&frame) {
            return number;
        }
        let number = self.frames.len() as u32;
        self.frames.push(frame.clone());
        self.frame_numbers.insert(frame, number);
        number
    }
}
