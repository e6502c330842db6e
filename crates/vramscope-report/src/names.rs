//! Names of frames, pools and groups.

use std::fmt::Write as _;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};
use vramscope_analysis::{Code, Frames, Grown, Holder, HolderKey, NodeKind, Origin, Place, Unusable};
use vramscope_trace::{FrameId, PoolId, SegmentKind, Trace};

/// Before the name of where memory was freed that was live before recording.
const FREED_AT: &str = "(live before recording, freed at) ";

/// Names things of one trace as the reports do. No name can steer a terminal.
#[derive(Debug, Clone, Copy)]
pub struct Names<'r> {
    /// The trace.
    pub trace: &'r Trace,
    /// Whose code its frames are.
    pub frames: &'r Frames,
}

impl Names<'_> {
    /// `model/attention.py:42 forward`; of compiled code the function alone.
    pub fn frame(&self, id: FrameId) -> String {
        let function = self.function(id);
        if self.frames.code(id) == Code::Native {
            return function;
        }
        format!("{}:{} {function}", self.file(id), self.trace.frames.get(id).line)
    }

    /// `model/attention.py`: the file of a frame.
    pub fn file(&self, id: FrameId) -> String {
        clean(&self.frames.short_path(self.trace, id))
    }

    /// `forward`: the function of a frame; of compiled code without its parameters.
    pub fn function(&self, id: FrameId) -> String {
        let name = self.trace.strings.get(self.trace.frames.get(id).name);
        match self.frames.code(id) {
            Code::Native => clean(&short_function(name)),
            _ => clean(name),
        }
    }

    /// `/home/user/model/attention.py:42 forward`: all there is.
    pub(crate) fn full_frame(&self, id: FrameId) -> String {
        let frame = self.trace.frames.get(id);
        let (file, name) = (self.trace.strings.get(frame.filename), self.trace.strings.get(frame.name));
        clean(&format!("{file}:{} {name}", frame.line))
    }

    /// What a node of the tree of calls stands for.
    pub fn node(&self, kind: NodeKind) -> String {
        match kind {
            NodeKind::Frame(id) => self.frame(id),
            NodeKind::NoStack => "(no stack)".to_owned(),
            NodeKind::BeforeRecording => "(live before recording)".to_owned(),
            NodeKind::BeforeRecordingFreed => "(live before recording; below, where it was freed)".to_owned(),
        }
    }

    /// A group of allocations: what they share, and whether they were live before recording.
    pub(crate) fn holder(&self, h: &Holder) -> String {
        let before = match h.origin {
            None | Some(Origin::Recorded) => "",
            Some(Origin::EndState) => "(live before recording) ",
            Some(Origin::FreeOnly) => FREED_AT,
        };
        format!("{before}{}", self.key(&h.key))
    }

    /// What holds more than in another recording.
    pub(crate) fn grown(&self, g: &Grown) -> String {
        let place = match g.place {
            Place::NoStack => self.key(&HolderKey::NoStack),
            Place::Line(frame) => self.frame(frame),
            Place::Function(frame) => format!("{} and other lines of the function", self.frame(frame)),
        };
        format!("{}{place}", if g.freed_there { FREED_AT } else { "" })
    }

    pub(crate) fn key(&self, key: &HolderKey) -> String {
        match key {
            HolderKey::NoStack => "(no stack)".to_owned(),
            HolderKey::Stack(stack) => {
                let own = self.frames.own_frame(self.trace, *stack);
                own.map_or_else(|| "(empty stack)".to_owned(), |f| self.frame(f))
            }
            HolderKey::Line(frame) => self.frame(*frame),
            HolderKey::Function(file, name) => {
                let (file, name) = (self.trace.strings.get(*file), self.trace.strings.get(*name));
                match base(file) {
                    python if python.ends_with(".py") => clean(&format!("{name} ({python})")),
                    _ => clean(&short_function(name)),
                }
            }
            HolderKey::File(file) => clean(self.trace.strings.get(*file)),
            HolderKey::Module(path) => clean(path),
            HolderKey::Pool(pool) => self.pool(*pool),
            HolderKey::Stream(stream) => self.stream(*stream),
        }
    }

    pub(crate) fn pool(&self, pool: Option<PoolId>) -> String {
        match pool {
            None => "pool not recorded".to_owned(),
            Some(PoolId(0, 0)) => "default pool".to_owned(),
            Some(PoolId(a, b)) => format!("private pool ({a}, {b})"),
        }
    }

    pub(crate) fn stream(&self, stream: u64) -> String {
        if stream == 0 { "default stream".to_owned() } else { format!("stream 0x{stream:x}") }
    }
}

pub(crate) fn kind(kind: SegmentKind) -> &'static str {
    match kind {
        SegmentKind::Small => "small pool",
        SegmentKind::Large => "large pool",
        SegmentKind::Unknown => "pool",
    }
}

/// Why free blocks were no use, as what follows "52 free blocks".
pub(crate) fn unusable(why: Unusable) -> &'static str {
    match why {
        Unusable::TooSmall => "each smaller than asked",
        Unusable::OtherStream => "of other streams",
        Unusable::OtherSize => "of the pool for requests of another size",
        Unusable::OtherPool => "of private pools",
    }
}

/// Names come from a file that may be hostile: nothing in them may move the cursor or change colours.
///
/// Control characters and those that turn the direction of writing are written as `\u{1b}`.
pub fn clean(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        if c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        {
            let _ = write!(out, "{}", c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

/// `text`, a name or a path and a name, in at most `room` columns: directories go first, then the end.
pub fn fit(text: &str, room: usize) -> String {
    if text.width() <= room {
        return text.to_owned();
    }
    let path = text.split(' ').next().unwrap_or_default();
    for (i, _) in path.match_indices('/') {
        let shorter = format!("…{}", &text[i..]);
        if shorter.width() <= room {
            return shorter;
        }
    }
    let text = path.rfind('/').map_or(text, |i| &text[i + 1..]);
    let mut out = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > room {
            break;
        }
        out.push(c);
    }
    out.push('…');
    out
}

fn base(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// A C++ function without its parameters.
fn short_function(name: &str) -> String {
    let name = name.replace("(anonymous namespace)::", "").replace("torch::autograd::generated::", "");
    match name.find('(') {
        Some(0) | None => name,
        Some(end) => name[..end].to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_steer_the_terminal() {
        assert_eq!(clean("a\u{1b}[31mb\n"), "a\\u{1b}[31mb\\u{a}");
        assert_eq!(clean("größe"), "größe");
        assert_eq!(clean("\u{202e}evil"), "\\u{202e}evil");
    }

    #[test]
    fn long_names_lose_their_directories_first() {
        assert_eq!(fit("a/b/model.py:42 forward", 30), "a/b/model.py:42 forward");
        assert_eq!(fit("some/where/model.py:42 forward", 23), "…/model.py:42 forward");
        assert_eq!(fit("some/where/model.py:42 forward", 12), "model.py:42…");
        assert_eq!(fit("BmmBackward0::apply", 8), "BmmBack…");
    }

    #[test]
    fn functions_lose_their_parameters() {
        assert_eq!(short_function("at::empty(c10::ArrayRef<long>, bool)"), "at::empty");
        assert_eq!(
            short_function("torch::autograd::generated::BmmBackward0::apply(int)"),
            "BmmBackward0::apply"
        );
        assert_eq!(short_function("torch::(anonymous namespace)::f(int)"), "torch::f");
    }
}
