//! The names of frames, and the stacks of a file.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Serialize;
use vramscope_trace::{FrameId, StringId};

use crate::questions::columns::{Columns, NONE, U8s, U32s};
use crate::questions::recording::OpenRecording;
use crate::questions::tables::code;
use crate::questions::transforms::library;

/// Frames and stacks of a file. Frames refer to the distinct `texts` by position.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Names<'r> {
    pub(crate) texts: Vec<Cow<'r, str>>,
    /// For each frame, its file as recorded.
    pub(crate) file: U32s,
    /// The file as shortened in reports.
    pub(crate) short_file: U32s,
    pub(crate) function: U32s,
    pub(crate) short_function: U32s,
    /// The library, by which transforms of the call tree know the frame; `NONE` for the user's code.
    pub(crate) library: U32s,
    pub(crate) line: U32s,
    /// The code classification: a position in `CODES`.
    pub(crate) code: U8s,
    /// Stack `i` has the frames from `ends[i - 1]` (0 for the first) up to `ends[i]`, innermost first.
    pub(crate) ends: U32s,
    pub(crate) frames: U32s,
    /// For each stack, the frame that names it: usually the innermost user frame.
    pub(crate) own: U32s,
    /// The frames of generated code whose origin is recorded, in order.
    pub(crate) generated: U32s,
    /// For each of them, the graph node, as a position in `texts`; `NONE` without a name.
    pub(crate) node: U32s,
    /// For each of them, the original lines of the program, as a position in `texts`.
    pub(crate) original: U32s,
}

impl OpenRecording {
    /// The names of frames, and the stacks. Each text is sent once and frames refer to it, because a file may give one long
    /// name to any number of frames.
    pub(crate) fn names(&self, answer: &mut Columns) -> Names<'_> {
        let trace = self.session.trace();
        let names = vramscope_report::Names { trace, frames: self.session.frames() };
        let mut texts = Vec::new();
        let mut numbers: HashMap<(FrameText, StringId), u32> = HashMap::new();
        let mut number = |kind: FrameText, frame: FrameId| {
            let of = trace.frames.get(frame);
            let string =
                if matches!(kind, FrameText::File | FrameText::ShortFile) { of.filename } else { of.name };
            *numbers.entry((kind, string)).or_insert_with(|| {
                texts.push(match kind {
                    FrameText::File | FrameText::Function => Cow::Borrowed(trace.strings.get(string)),
                    FrameText::ShortFile => names.file(frame).into(),
                    FrameText::ShortFunction => names.function(frame).into(),
                });
                (texts.len() - 1) as u32
            })
        };
        let columns = [FrameText::File, FrameText::ShortFile, FrameText::Function, FrameText::ShortFunction]
            .map(|kind| trace.frames.iter().map(|(id, _)| number(kind, id)).collect::<Vec<u32>>());
        let [file, short_file, function, short_function] = columns;
        let mut numbers: HashMap<String, u32> = HashMap::new();
        let libraries: Vec<u32> = trace
            .frames
            .iter()
            .map(|(id, _)| {
                library(&names, id).map_or(NONE, |name| {
                    *numbers.entry(name).or_insert_with_key(|name| {
                        texts.push(name.clone().into());
                        (texts.len() - 1) as u32
                    })
                })
            })
            .collect();
        // Graph node names and original source lines follow the texts of frames.
        let generated =
            || trace.frames.iter().filter(|(_, f)| f.fx.name.is_some() || f.fx.original_trace.is_some());
        let mut further: HashMap<StringId, u32> = HashMap::new();
        let mut as_recorded = |string: Option<StringId>| {
            string.map_or(NONE, |string| {
                *further.entry(string).or_insert_with(|| {
                    texts.push(Cow::Borrowed(trace.strings.get(string)));
                    (texts.len() - 1) as u32
                })
            })
        };
        let node: Vec<u32> = generated().map(|(_, f)| as_recorded(f.fx.name)).collect();
        let original: Vec<u32> = generated().map(|(_, f)| as_recorded(f.fx.original_trace)).collect();
        let mut end = 0;
        let ends = trace.stacks.iter().map(|(_, stack)| {
            end += stack.len() as u32;
            end
        });
        let own = trace.stacks.iter().map(|(id, _)| self.session.frames().own_frame(trace, id));
        Names {
            texts,
            file: answer.u32(file),
            short_file: answer.u32(short_file),
            function: answer.u32(function),
            short_function: answer.u32(short_function),
            line: answer.u32(trace.frames.iter().map(|(_, f)| f.line)),
            library: answer.u32(libraries),
            code: answer.u8(trace.frames.iter().map(|(id, _)| code(self.session.frames().code(id)))),
            ends: answer.u32(ends),
            frames: answer.u32(trace.stacks.iter().flat_map(|(_, s)| s.iter().map(|f| f.index() as u32))),
            own: answer.u32(own.map(|f| f.map_or(NONE, |f| f.index() as u32))),
            generated: answer.u32(generated().map(|(id, _)| id.index() as u32)),
            node: answer.u32(node),
            original: answer.u32(original),
        }
    }
}

/// The texts of a frame: file and function, each as recorded, and as shortened in reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum FrameText {
    File,
    ShortFile,
    Function,
    ShortFunction,
}
