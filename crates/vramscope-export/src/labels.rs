//! Labels: names of frames and stacks as one line of text that cannot break the syntax of any format.

use std::fmt::Write as _;
use std::rc::Rc;

use hashbrown::HashMap;
use vramscope_report::{Names, Shown};
use vramscope_trace::{FrameId, PoolId, StackId, StringId};

use crate::text_cache::TextCache;

/// Limit on the bytes of a stack's label, and of any other text of an event. A few bytes of a hostile file can refer to a stack whose label
/// would take gigabytes; labels of known recordings are far shorter.
pub const LONGEST_STACK: usize = 64 << 10;

/// Limit on the bytes of a frame's label.
pub const LONGEST_FRAME: usize = 1 << 10;

/// The label of allocations without a stack.
pub(crate) const NO_STACK: &str = "(no stack)";

/// The labels of one trace. Labels of frames and stacks are cached.
pub(crate) struct Labels<'r> {
    pub(crate) names: Names<'r>,
    frames: TextCache<FrameId>,
    /// The frame that names each stack. It is cached, because finding it visits all frames of the stack.
    own_frames: HashMap<StackId, Option<FrameId>>,
    users_stacks: TextCache<StackId>,
}

impl<'r> Labels<'r> {
    pub(crate) fn new(names: Names<'r>) -> Self {
        Self { names, frames: TextCache::new(), own_frames: HashMap::new(), users_stacks: TextCache::new() }
    }

    /// Returns the label of a frame as in reports, valid as one frame of a folded stack.
    pub(crate) fn frame(&mut self, id: FrameId) -> Rc<str> {
        match self.frames.get(&id) {
            Some(text) => text,
            None => self.frames.keep(id, one_frame(&self.names.frame(id))),
        }
    }

    /// Returns the label of the frame that names a stack.
    pub(crate) fn own_frame(&mut self, stack: Option<StackId>) -> Rc<str> {
        let Names { trace, frames } = self.names;
        let own = |id| *self.own_frames.entry(id).or_insert_with(|| frames.own_frame(trace, id));
        match stack.and_then(own) {
            Some(frame) => self.frame(frame),
            None => NO_STACK.into(),
        }
    }

    /// Returns a text of the recording, on one line and of bounded length.
    pub(crate) fn text(&self, id: StringId) -> String {
        let mut text = Shown::at_most(self.names.trace.strings.get(id), LONGEST_STACK).into();
        cut(&mut text, LONGEST_STACK);
        text
    }

    /// Returns a whole stack, outermost frame first, with `;` between frames.
    pub(crate) fn stack(&mut self, stack: StackId) -> String {
        let frames = self.names.trace.stacks.get(stack);
        self.join(frames.iter().copied(), frames.len())
    }

    /// Returns the user's frames of a stack in the same form; if there are none, the frame that names the stack.
    pub(crate) fn users_stack(&mut self, stack: StackId) -> Rc<str> {
        if let Some(text) = self.users_stacks.get(&stack) {
            return text;
        }
        let Names { trace, frames } = self.names;
        let text = match frames.user_frames(trace, stack).count() {
            0 => self.own_frame(Some(stack)),
            count => self.join(frames.user_frames(trace, stack), count).into(),
        };
        self.users_stacks.keep(stack, text)
    }

    /// Joins `count` frames, given innermost first. If there are too many, the outermost ones are only counted.
    fn join(&mut self, innermost_first: impl Iterator<Item = FrameId>, count: usize) -> String {
        let mut kept: Vec<Rc<str>> = Vec::new();
        let mut bytes = 0;
        for frame in innermost_first {
            let frame = self.frame(frame);
            bytes += frame.len() + 1;
            if bytes > LONGEST_STACK && !kept.is_empty() {
                break;
            }
            kept.push(frame);
        }
        let mut out = String::with_capacity(bytes);
        if kept.len() < count {
            let _ = write!(out, "({} more frames)", count - kept.len());
        }
        for frame in kept.iter().rev() {
            if !out.is_empty() {
                out.push(';');
            }
            out.push_str(frame);
        }
        out
    }
}

/// Makes `name` valid as one frame of a folded stack: on one line, without `;`, and without a number at its end, which readers would
/// interpret as a count. Nearly all names stay unchanged.
pub(crate) fn one_frame(name: &str) -> String {
    let mut out: String = Shown::of(name)
        .chars()
        .map(|c| match c {
            ';' => ',',
            // These characters are not allowed in XML.
            '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
            c if c.is_whitespace() => ' ',
            c => c,
        })
        .collect();
    cut(&mut out, LONGEST_FRAME);
    let name = out.trim();
    if name.is_empty() {
        return "(unnamed)".to_owned();
    }
    let starts_like_a_number = |s: &str| s.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
    match name.rsplit_once(' ') {
        Some((before, last)) if starts_like_a_number(last) => format!("{before}_{last}"),
        // Some readers interpret a line that starts with `#` as a comment.
        _ if name.starts_with('#') => format!("_{name}"),
        _ => name.to_owned(),
    }
}

/// Shortens `text` to `most` bytes, at a character boundary.
fn cut(text: &mut String, most: usize) {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.push('…');
    }
}

/// Returns a pool ID as text; `0:0` is the default pool.
pub(crate) fn pool(pool: PoolId) -> String {
    format!("{}:{}", pool.0, pool.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn a_frame_cannot_end_a_line_a_frame_or_a_stack() {
        for (name, frame) in [
            ("model.py:42 forward", "model.py:42 forward"),
            ("a;b", "a,b"),
            ("a\nb", "a\\u{a}b"),
            ("a\u{2028}b\u{a0}c", "a\\u{2028}b c"),
            ("operator 12", "operator_12"),
            ("operator 1.5", "operator_1.5"),
            ("operator\u{3000}7", "operator_7"),
            ("# note", "_# note"),
            (" ", "(unnamed)"),
            ("\u{ffff}", "\u{fffd}"),
        ] {
            assert_eq!(one_frame(name), frame, "{name:?}");
        }
    }

    #[test]
    fn a_very_deep_stack_keeps_its_innermost_frames() {
        let trace = testing::deep_stack(100_000);
        let frames = vramscope_analysis::Frames::of(&trace);
        let mut labels = Labels::new(Names { trace: &trace, frames: &frames });
        let (stack, _) = trace.stacks.iter().next().unwrap();
        let text = labels.stack(stack);
        assert!(text.len() <= LONGEST_STACK + 40, "{}", text.len());
        assert!(text.starts_with('(') && text.contains(" more frames);"), "{}", &text[..40]);
        assert!(text.ends_with("a.py:0 f"), "{}", &text[text.len() - 40..]);
        assert_eq!(*labels.users_stack(stack), *text);
    }

    #[test]
    fn the_users_stack_is_made_once() {
        let trace = testing::deep_stack(3);
        let frames = vramscope_analysis::Frames::of(&trace);
        let mut labels = Labels::new(Names { trace: &trace, frames: &frames });
        let (stack, _) = trace.stacks.iter().next().unwrap();
        let text = labels.users_stack(stack);
        assert!(Rc::ptr_eq(&text, &labels.users_stack(stack)));
        assert!(Rc::ptr_eq(&labels.own_frame(Some(stack)), &labels.own_frame(Some(stack))));
    }

    #[test]
    fn a_name_of_any_length_is_a_frame_of_a_bounded_one() {
        for length in [5_000, 5_000_000] {
            let long = "x".repeat(length);
            let frames = serde_json::json!([
                {"name": "step", "filename": format!("/{long}.py"), "line": 3},
                {"name": long, "filename": "b.py", "line": 4},
                {"name": long, "filename": "??", "line": 0},
            ]);
            let event = serde_json::json!({"action": "alloc", "addr": 512, "size": 9, "stream": 0,
                "frames": frames, "user_metadata": long});
            let trace = testing::read(&serde_json::json!({"segments": [], "device_traces": [[event]]}));
            let frames = vramscope_analysis::Frames::of(&trace);
            let mut labels = Labels::new(Names { trace: &trace, frames: &frames });
            for (id, _) in trace.frames.iter() {
                let text = labels.frame(id);
                assert!(text.len() <= LONGEST_FRAME + '…'.len_utf8(), "{}", text.len());
                assert!(text.contains("xxx") && text.contains('…'), "{text}");
            }
            let metadata = trace.tags.iter().find_map(|t| t.user_metadata).unwrap();
            assert!(labels.text(metadata).len() <= LONGEST_STACK + '…'.len_utf8());
        }
    }
}
