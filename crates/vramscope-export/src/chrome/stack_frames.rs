//! `stackFrames`: the stacks of events, as a tree in which each frame refers to its caller.

use std::io::{self, Write};

use hashbrown::HashMap;
use serde::Serialize;
use vramscope_trace::{FrameId, StackId, Trace};

use super::to_json;
use crate::labels::Labels;

/// Frames by their caller and place. The number of a frame is its index.
#[derive(Default)]
pub(super) struct StackFrames {
    nodes: Vec<(Option<usize>, FrameId)>,
    index: HashMap<(Option<usize>, FrameId), usize>,
    /// The number of the innermost frame of each known stack. It is cached, because a stack may have millions of frames.
    stacks: HashMap<StackId, Option<usize>>,
}

#[derive(Serialize)]
struct Node<'a> {
    category: &'static str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<usize>,
}

impl StackFrames {
    /// Returns the number of the innermost frame of a stack; `None` for an empty stack.
    pub(super) fn of(&mut self, trace: &Trace, stack: StackId) -> Option<usize> {
        let Self { nodes, index, stacks } = self;
        *stacks.entry(stack).or_insert_with(|| {
            trace.stacks.get(stack).iter().rev().fold(None, |caller, &frame| {
                let at = index.entry((caller, frame)).or_insert_with(|| {
                    nodes.push((caller, frame));
                    nodes.len() - 1
                });
                Some(*at)
            })
        })
    }

    /// Writes all frames as one JSON object.
    pub(super) fn write(&self, out: &mut impl Write, labels: &mut Labels<'_>) -> io::Result<()> {
        out.write_all(b"{")?;
        for (i, &(parent, frame)) in self.nodes.iter().enumerate() {
            out.write_all(if i == 0 { b"\n" } else { b",\n" })?;
            write!(out, "\"{i}\":")?;
            to_json(out, &Node { category: "frame", name: &labels.frame_of_stack(frame), parent })?;
        }
        out.write_all(b"\n}")
    }
}
