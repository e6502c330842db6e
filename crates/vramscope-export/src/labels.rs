//! Names of frames and stacks as one line of text that no format can mistake for its own syntax.

use std::fmt::Write as _;

use hashbrown::HashMap;
use vramscope_report::{Names, clean};
use vramscope_trace::{FrameId, PoolId, StackId, StringId};

/// The most bytes of text for one stack, and for any other text of an event. A few bytes of a hostile file can name
/// a stack of gigabytes; no known recording comes near.
pub const LONGEST_STACK: usize = 64 << 10;

/// The name of what has no stack.
pub(crate) const NO_STACK: &str = "(no stack)";

/// Labels of one trace, each made once.
pub(crate) struct Labels<'r> {
    pub(crate) names: Names<'r>,
    frames: HashMap<FrameId, Box<str>>,
}

impl<'r> Labels<'r> {
    pub(crate) fn new(names: Names<'r>) -> Self {
        Self { names, frames: HashMap::new() }
    }

    /// A frame as the report names it, as one frame of a folded stack.
    pub(crate) fn frame(&mut self, id: FrameId) -> &str {
        let names = self.names;
        self.frames.entry(id).or_insert_with(|| one_frame(&names.frame(id)).into())
    }

    /// The frame that a stack is named by.
    pub(crate) fn own_frame(&mut self, stack: Option<StackId>) -> &str {
        let Names { trace, frames } = self.names;
        match stack.and_then(|s| frames.own_frame(trace, s)) {
            Some(frame) => self.frame(frame),
            None => NO_STACK,
        }
    }

    /// A text of an event, on one line and of a bounded length.
    pub(crate) fn text(&self, id: StringId) -> String {
        let mut text = clean(self.names.trace.strings.get(id));
        cut(&mut text, LONGEST_STACK);
        text
    }

    /// A whole stack, outermost frame first, with `;` between frames.
    pub(crate) fn stack(&mut self, stack: StackId) -> String {
        let frames = self.names.trace.stacks.get(stack);
        self.join(frames.iter().copied(), frames.len())
    }

    /// The user's frames of a stack, likewise; without any, the frame it is named by.
    pub(crate) fn users_stack(&mut self, stack: StackId) -> String {
        let Names { trace, frames } = self.names;
        let count = frames.user_frames(trace, stack).count();
        match count {
            0 => self.own_frame(Some(stack)).to_owned(),
            _ => self.join(frames.user_frames(trace, stack), count),
        }
    }

    /// Joins `count` frames, innermost first; of too many the outermost are counted only.
    fn join(&mut self, innermost_first: impl Iterator<Item = FrameId>, count: usize) -> String {
        let mut kept: Vec<FrameId> = Vec::new();
        let mut bytes = 0;
        for frame in innermost_first {
            bytes += self.frame(frame).len() + 1;
            if bytes > LONGEST_STACK && !kept.is_empty() {
                break;
            }
            kept.push(frame);
        }
        let mut out = String::with_capacity(bytes);
        if kept.len() < count {
            let _ = write!(out, "({} more frames)", count - kept.len());
        }
        for frame in kept.into_iter().rev() {
            if !out.is_empty() {
                out.push(';');
            }
            out.push_str(self.frame(frame));
        }
        out
    }
}

/// `name` as one frame of a folded stack: on one line, without `;`, and not ending in a number, which readers
/// would take for a count. As it is for nearly every frame.
pub(crate) fn one_frame(name: &str) -> String {
    let mut out: String = clean(name)
        .chars()
        .map(|c| match c {
            ';' => ',',
            // XML cannot hold these.
            '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
            c if c.is_whitespace() => ' ',
            c => c,
        })
        .collect();
    cut(&mut out, LONGEST_STACK / 2);
    let name = out.trim();
    if name.is_empty() {
        return "(unnamed)".to_owned();
    }
    let starts_like_a_number = |s: &str| s.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
    match name.rsplit_once(' ') {
        Some((before, last)) if starts_like_a_number(last) => format!("{before}_{last}"),
        // A line that begins like this is a comment to some.
        _ if name.starts_with('#') => format!("_{name}"),
        _ => name.to_owned(),
    }
}

/// Shortens `text` to `most` bytes, at a character's end.
fn cut(text: &mut String, most: usize) {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.push('…');
    }
}

/// `0:0` for the default pool.
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
            ("a\u{2028}b\u{a0}c", "a b c"),
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
    fn a_stack_without_end_is_told_in_its_innermost_frames() {
        let trace = testing::deep_stack(100_000);
        let frames = vramscope_analysis::Frames::of(&trace);
        let mut labels = Labels::new(Names { trace: &trace, frames: &frames });
        let (stack, _) = trace.stacks.iter().next().unwrap();
        let text = labels.stack(stack);
        assert!(text.len() <= LONGEST_STACK + 40, "{}", text.len());
        assert!(text.starts_with('(') && text.contains(" more frames);"), "{}", &text[..40]);
        assert!(text.ends_with("a.py:0 f"), "{}", &text[text.len() - 40..]);
        assert_eq!(labels.users_stack(stack), text);
    }
}
