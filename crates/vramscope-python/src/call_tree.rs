//! The stacks that were seen, as a tree: a node for each line with the same callers.

use std::sync::{Mutex, PoisonError};

use hashbrown::HashMap;
use pyo3::prelude::*;

use crate::stacks::{self, Frame, Running};

/// Code objects that are kept, so that their stacks are known by addresses. A program that compiles without end would otherwise keep
/// what it compiles without end.
const MOST_CODES: usize = 1 << 16;

/// The number of a node; 0 is the root, which stands for all stacks.
pub(crate) type NodeId = u32;

/// A line of the program, called as its parents say.
pub(crate) struct Node {
    pub(crate) parent: NodeId,
    /// The position of its [`Frame`].
    pub(crate) frame: u32,
}

/// The stacks that were seen. Parents stand before their children, and nodes in the order in which they were seen first.
#[derive(Default)]
pub(crate) struct CallTree {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Every node but the root; the first has number 1.
    nodes: Vec<Node>,
    frames: Vec<Frame>,
    frame_numbers: HashMap<Frame, u32>,
    /// The node of each line, by its parent.
    by_frame: HashMap<(NodeId, u32), NodeId>,
    /// The node of each position in a code object, by its parent: what is asked first.
    by_code: HashMap<(NodeId, usize, i32), NodeId>,
    /// The code objects in `by_code`, which keep their addresses as long as they are kept here.
    codes: HashMap<usize, Py<PyAny>>,
    /// The stack that was captured last, outermost first: most begin as the one before.
    last: Vec<(usize, i32, NodeId)>,
    /// Where frames are put, so that no memory is taken for each stack.
    buffer: Vec<Running>,
}

impl CallTree {
    /// The node of the innermost Python function that runs on this thread.
    ///
    /// Python's code runs, if at all, while no lock is held: the garbage collector may call what calls this again. An exception that is
    /// pending stays: memory is also freed while one unwinds.
    pub(crate) fn capture(&self, py: Python<'_>) -> PyResult<NodeId> {
        stacks::without_pending_exception(py, || {
            let mut stack = std::mem::take(&mut self.lock().buffer);
            let captured = stacks::capture(py, &mut stack).and_then(|()| self.node_of(py, &stack));
            stack.clear();
            self.lock().buffer = stack;
            captured
        })
    }

    fn node_of(&self, py: Python<'_>, stack: &[Running]) -> PyResult<NodeId> {
        loop {
            let num_known = match self.lock().find(stack) {
                Ok(node) => return Ok(node),
                Err(num_known) => num_known,
            };
            // Innermost first, as in `stack`.
            let new = &stack[..stack.len() - num_known];
            let frames = new.iter().map(|running| Frame::of(py, running)).collect::<PyResult<Vec<_>>>()?;
            // Code objects that are no longer kept are dropped here, after the lock is gone.
            let _forgotten = self.lock().add(py, stack, num_known, frames);
        }
    }

    /// The node of a stack that somebody else captured, outermost frame first.
    pub(crate) fn node_of_frames(&self, stack: impl Iterator<Item = Frame>) -> NodeId {
        let mut known = self.lock();
        stack.fold(0, |parent, frame| known.child(parent, frame))
    }

    /// What was seen so far: the nodes from number 1 on, and the frames.
    pub(crate) fn with<T>(&self, read: impl FnOnce(&[Node], &[Frame]) -> T) -> T {
        let known = self.lock();
        read(&known.nodes, &known.frames)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// The node of a stack, or how many of its outermost frames have nodes.
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

    /// Adds the frames of a stack behind the `num_known` outermost ones; `frames` are theirs, innermost first. Returns the code objects
    /// that are not kept any longer.
    fn add(
        &mut self,
        py: Python<'_>,
        stack: &[Running],
        num_known: usize,
        frames: Vec<Frame>,
    ) -> HashMap<usize, Py<PyAny>> {
        let mut forgotten = HashMap::new();
        if self.codes.len() > MOST_CODES {
            forgotten = std::mem::take(&mut self.codes);
            self.by_code.clear();
            self.last.clear();
        }
        let outermost = &stack[stack.len() - num_known..];
        // Where it was forgotten meanwhile, the caller begins again.
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

    /// The node of a frame that the frame of `parent` called.
    fn child(&mut self, parent: NodeId, frame: Frame) -> NodeId {
        let frame = self.frame_number(frame);
        let next = self.nodes.len() as NodeId + 1;
        let node = *self.by_frame.entry((parent, frame)).or_insert(next);
        if node == next {
            self.nodes.push(Node { parent, frame });
        }
        node
    }

    fn frame_number(&mut self, frame: Frame) -> u32 {
        if let Some(&number) = self.frame_numbers.get(&frame) {
            return number;
        }
        let number = self.frames.len() as u32;
        self.frames.push(frame.clone());
        self.frame_numbers.insert(frame, number);
        number
    }
}
