//! JSON of stacks: lists of frames, bounded in number and in bytes.

use std::cell::Cell;

use serde::Serialize;
use vramscope_trace::{FrameId, StackId};

use crate::names::Names;

/// Limit on the innermost frames of one stack. Real stacks have some hundred; infinite recursion can record a million.
pub(crate) const MOST_FRAMES: usize = 1000;

/// Approximate limit on the bytes of all stacks together: a file may refer to one stack, or one long name, any number of times.
const MOST_STACK_BYTES: usize = 64 << 20;

/// Approximate bytes of a frame without its names.
const FRAME_BYTES: usize = 64;

/// A line of code.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Frame"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "ReportFrame"))]
pub(crate) struct FrameJson {
    filename: String,
    line: u32,
    name: String,
}

/// The frames of a stack, innermost first, and the number of outer frames left out.
#[derive(Default)]
pub(crate) struct StackJson {
    pub(crate) frames: Vec<FrameJson>,
    pub(crate) left_out: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
pub(crate) fn is_zero(n: &usize) -> bool {
    *n == 0
}

pub(crate) struct Builder<'r> {
    pub(crate) names: Names<'r>,
    pub(crate) top: Option<usize>,
    /// The bytes left of [`MOST_STACK_BYTES`].
    left: Cell<usize>,
}

impl<'r> Builder<'r> {
    pub(crate) fn new(names: Names<'r>, top: Option<usize>) -> Self {
        Self { names, top, left: Cell::new(MOST_STACK_BYTES) }
    }

    pub(crate) fn stack(&self, stack: Option<StackId>) -> StackJson {
        let Some(stack) = stack else { return StackJson::default() };
        let trace = self.names.trace;
        let all = trace.stacks.get(stack);
        let room = |id: &FrameId| {
            let frame = trace.frames.get(*id);
            let names = [frame.filename, frame.name].map(|s| trace.strings.get(s).len());
            let left = self.left.get().checked_sub(FRAME_BYTES + names.iter().sum::<usize>());
            self.left.set(left.unwrap_or(0));
            left.is_some()
        };
        let told = all.iter().take(MOST_FRAMES).take_while(|id| room(id));
        let frames: Vec<FrameJson> = told.map(|&f| self.frame(f)).collect();
        StackJson { left_out: all.len() - frames.len(), frames }
    }

    pub(crate) fn frame(&self, id: FrameId) -> FrameJson {
        let trace = self.names.trace;
        let frame = trace.frames.get(id);
        FrameJson {
            filename: trace.strings.get(frame.filename).to_owned(),
            line: frame.line,
            name: trace.strings.get(frame.name).to_owned(),
        }
    }
}
