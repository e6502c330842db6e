//! Labels: names of frames and stacks as one line of text that cannot break the syntax of any format.

use std::borrow::Cow;
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

/// Bytes of text that all labels of an output may have together beyond the usual ones: many events may share one long stack. Without room,
/// labels are cut to the usual length.
const ROOM: usize = 16 << 20;

/// The usual bytes of a stack's label, of another text, and of a frame's label. Known recordings have stacks of up to 9 KiB.
const USUAL_STACK: usize = 8 << 10;
const USUAL_TEXT: usize = 1 << 10;
const USUAL_FRAME: usize = 1 << 8;

/// The label of allocations without a stack.
pub(crate) const NO_STACK: &str = "(no stack)";

/// A text of the trace.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Source {
    Frame(FrameId),
    Stack(StackId),
    UsersStack(StackId),
    Text(StringId),
}

/// The labels of one trace. They are cached.
pub(crate) struct Labels<'r> {
    pub(crate) names: Names<'r>,
    /// What the format makes of each label.
    finish: fn(&str) -> Cow<'_, str>,
    frames: TextCache<FrameId>,
    /// The frame that names each stack. It is cached, because finding it visits all frames of the stack.
    own_frames: HashMap<StackId, Option<FrameId>>,
    /// By source and limit of bytes.
    texts: TextCache<(Source, usize)>,
    room: usize,
}

impl<'r> Labels<'r> {
    pub(crate) fn new(names: Names<'r>) -> Self {
        Self::finished_by(names, |text| text.into())
    }

    /// The labels of a format that changes texts further.
    pub(crate) fn finished_by(names: Names<'r>, finish: fn(&str) -> Cow<'_, str>) -> Self {
        let (frames, texts) = (TextCache::new(), TextCache::new());
        Self { names, finish, frames, own_frames: HashMap::new(), texts, room: ROOM }
    }

    /// Returns the label of a source of at most `longest` bytes. If it is longer than `usual`, it takes from the room.
    fn within_room(&mut self, source: Source, usual: usize, longest: usize) -> Rc<str> {
        let whole = self.at_most(source, longest);
        match self.room.checked_sub(whole.len().saturating_sub(usual)) {
            Some(room) => {
                self.room = room;
                whole
            }
            None => self.at_most(source, usual),
        }
    }

    fn at_most(&mut self, source: Source, most: usize) -> Rc<str> {
        if let Some(text) = self.texts.get(&(source, most)) {
            return text;
        }
        let Names { trace, frames } = self.names;
        let text: Rc<str> = match source {
            Source::Frame(id) => cut(self.frame(id).to_string(), most).into(),
            Source::Text(id) => cut(Shown::at_most(trace.strings.get(id), most).into(), most).into(),
            Source::Stack(id) => {
                let frames = trace.stacks.get(id);
                self.join(frames.iter().copied(), frames.len(), most).into()
            }
            Source::UsersStack(id) => match frames.user_frames(trace, id).count() {
                0 => self.own_frame(Some(id)),
                count => self.join(frames.user_frames(trace, id), count, most).into(),
            },
        };
        let text = (self.finish)(&text).into_owned();
        self.texts.keep((source, most), text)
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

    /// Like [`frame`](Self::frame), for a format that has a frame once for each caller.
    pub(crate) fn frame_of_stack(&mut self, id: FrameId) -> Rc<str> {
        self.within_room(Source::Frame(id), USUAL_FRAME, LONGEST_FRAME + '…'.len_utf8())
    }

    /// Like [`text`](Self::text), for a format that has each text once.
    pub(crate) fn text_once(&mut self, id: StringId) -> Rc<str> {
        self.at_most(Source::Text(id), LONGEST_STACK)
    }

    /// Returns a text of the recording, on one line and of bounded length.
    pub(crate) fn text(&mut self, id: StringId) -> Rc<str> {
        self.within_room(Source::Text(id), USUAL_TEXT, LONGEST_STACK)
    }

    /// Returns a whole stack, outermost frame first, with `;` between frames.
    pub(crate) fn stack(&mut self, stack: StackId) -> Rc<str> {
        self.within_room(Source::Stack(stack), USUAL_STACK, LONGEST_STACK)
    }

    /// Returns the user's frames of a stack in the same form; if there are none, the frame that names the stack.
    pub(crate) fn users_stack(&mut self, stack: StackId) -> Rc<str> {
        self.within_room(Source::UsersStack(stack), USUAL_STACK, LONGEST_STACK)
    }

    /// Joins `count` frames, given innermost first. If they take more than `most` bytes, the outermost ones are only counted.
    fn join(&mut self, innermost_first: impl Iterator<Item = FrameId>, count: usize, most: usize) -> String {
        let mut kept: Vec<Rc<str>> = Vec::new();
        let mut bytes = 0;
        for frame in innermost_first {
            let frame = self.frame(frame);
            bytes += frame.len() + 1;
            if bytes > most && !kept.is_empty() {
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
    out = cut(out, LONGEST_FRAME);
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
fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.push('…');
    }
    text
}

/// Returns a pool ID as text; `0:0` is the default pool.
pub(crate) fn pool(pool: PoolId) -> String {
    format!("{}:{}", pool.0, pool.1)
}

#[cfg(test)]
mod tests;
