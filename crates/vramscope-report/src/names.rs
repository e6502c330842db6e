//! Names of frames, pools and groups.

use std::borrow::Cow;

use vramscope_analysis::{Code, CodePlace, Frames, Holder, HolderKey, NodeKind, Origin, Pin, Unusable};
use vramscope_trace::{Category, FrameId, PoolId, SegmentKind, StackId, StringId, Trace};

use crate::shown::{LONGEST_SHOWN, Shown};

/// Prefix of the place that freed memory which was live before recording.
const FREED_AT: &str = "(live before recording, freed at) ";

/// PyTorch functions in every call of a module. They are left out of stacks on one line.
const WRAPPERS: [&str; 2] = ["_call_impl", "_wrapped_call_impl"];

/// Number of innermost frames in a stack on one line.
const MOST_IN_A_STACK: usize = 3;

/// Names the parts of one trace for reports. No name can control a terminal.
#[derive(Debug, Clone, Copy)]
pub struct Names<'r> {
    /// The trace whose frames, pools and groups are named.
    pub trace: &'r Trace,
    /// Classifies each frame as user code, library code or compiled code.
    pub frames: &'r Frames,
}

impl Names<'_> {
    /// A frame, as `model/attention.py:42 forward`; for compiled code, the function only.
    pub fn frame(&self, id: FrameId) -> Shown {
        let function = self.function(id);
        if self.frames.code(id) == Code::Native {
            return function;
        }
        Shown::joined(&format!("{}:{} {function}", self.file(id), self.trace.frames.get(id).line))
    }

    /// The file of a frame, as `model/attention.py`.
    pub fn file(&self, id: FrameId) -> Shown {
        let path = self.trace.strings.get(self.trace.frames.get(id).filename);
        // Many frames may share a very long path, and shortening reads all of it.
        if path.len() > LONGEST_SHOWN {
            return Shown::end_of(path);
        }
        Shown::end_of(&self.frames.short_path(self.trace, id))
    }

    /// The function of a frame, as `forward`; for compiled code, without parameters.
    pub fn function(&self, id: FrameId) -> Shown {
        let name = self.bounded(self.trace.frames.get(id).name);
        match self.frames.code(id) {
            Code::Native => Shown::of(&short_function(&name)),
            _ => Shown::of(&name),
        }
    }

    /// A frame with its full path, as `/home/user/model/attention.py:42 forward`.
    pub(crate) fn full_frame(&self, id: FrameId) -> Shown {
        let frame = self.trace.frames.get(id);
        let [file, name] = [frame.filename, frame.name].map(|s| self.trace.strings.get(s));
        Shown::joined(&format!("{}:{} {}", Shown::end_of(file), frame.line, Shown::of(name)))
    }

    /// A string of the recording, cut to [`LONGEST_SHOWN`] bytes.
    fn bounded(&self, text: StringId) -> Cow<'_, str> {
        let text = self.trace.strings.get(text);
        match text.len() {
            0..=LONGEST_SHOWN => text.into(),
            _ => format!("{}…", &text[..text.floor_char_boundary(LONGEST_SHOWN)]).into(),
        }
    }

    /// The name of a device at the start of a line, such as `Device 0` or `Pinned host memory`.
    pub fn device(&self, number: i64) -> String {
        first_upper(&self.trace.device_name(number))
    }

    /// Whether the recording states that the oldest events of this device are lost.
    pub fn overflowed(&self, device: i64) -> bool {
        self.trace.devices.iter().any(|d| d.device == device && d.overflowed == Some(true))
    }

    /// The label of a node in the tree of calls.
    pub fn node(&self, kind: NodeKind) -> Shown {
        match kind {
            NodeKind::Frame(id) => self.frame(id),
            NodeKind::NoStack => Shown::of("(no stack)"),
            NodeKind::BeforeRecording => Shown::of("(live before recording)"),
            NodeKind::Merged => Shown::of("(merged frames)"),
            NodeKind::Collapsed(_) => Shown::of("(collapsed frames)"),
            NodeKind::BeforeRecordingFreed => Shown::of("(live before recording; below, where it was freed)"),
        }
    }

    /// The label of a group in a narrow table: its shared property, and whether it was live before recording.
    pub(crate) fn holder(&self, h: &Holder) -> Shown {
        with_origin(h.origin, &self.shared(&h.key, self.own(h)))
    }

    /// The label of a group in a wide table, which distinguishes stacks of one line and functions of one name.
    pub fn wide_holder(&self, h: &Holder) -> Shown {
        with_origin(h.origin, &self.wide_key(&h.key, self.own(h)))
    }

    /// The label of a group's shared property in a wide table. `own` is the frame that names one of its stacks.
    pub fn wide_key(&self, key: &HolderKey, own: Option<FrameId>) -> Shown {
        match (key, own) {
            (HolderKey::Stack(stack), _) => self.stack(*stack),
            (HolderKey::Function(..), Some(own)) if self.frames.code(own) != Code::Native => {
                Shown::joined(&format!("{} ({})", self.function(own), self.file(own)))
            }
            _ => self.shared(key, own),
        }
    }

    fn own(&self, h: &Holder) -> Option<FrameId> {
        self.frames.own_frame(self.trace, h.stack?)
    }

    /// The label of a group's shared property in a narrow table.
    fn shared(&self, key: &HolderKey, own: Option<FrameId>) -> Shown {
        let name = match key {
            HolderKey::File(_) => own.map(|own| self.file(own)),
            HolderKey::Category(of) => Some(Shown::of(&category(*of))),
            _ => None,
        };
        name.unwrap_or_else(|| self.key(key))
    }

    /// A stack on one line: its innermost frames outside of compiled code, and the frame that names it.
    /// `activations.py:66 forward ‹ gpt2.py:240 forward ‹ train.py:10 main`.
    fn stack(&self, stack: StackId) -> Shown {
        let Some(own) = self.frames.own_frame(self.trace, stack) else {
            return self.key(&HolderKey::Stack(stack));
        };
        let function = |id: FrameId| self.trace.strings.get(self.trace.frames.get(id).name);
        let tells =
            |id: &FrameId| self.frames.code(*id) != Code::Native && !WRAPPERS.contains(&function(*id));
        let frames = self.trace.stacks.get(stack).iter().copied().filter(tells);
        let mut shown: Vec<FrameId> = frames.take(MOST_IN_A_STACK).collect();
        if !shown.contains(&own) {
            shown.push(own);
        }
        let names: Vec<String> = shown.into_iter().map(|id| self.frame(id).into()).collect();
        Shown::joined(&names.join(" ‹ "))
    }

    /// The label of a line whose blocks pin free memory.
    pub fn pin(&self, pin: &Pin) -> Shown {
        with_origin(Some(pin.origin), &self.key(&pin.key))
    }

    /// The label of a place that was matched between two recordings.
    pub(crate) fn matched(&self, place: CodePlace, freed_there: bool) -> Shown {
        let place = match place {
            CodePlace::NoStack => self.key(&HolderKey::NoStack),
            CodePlace::Line(frame) => self.frame(frame),
            CodePlace::Function(frame) => {
                Shown::joined(&format!("{} and other lines of the function", self.frame(frame)))
            }
        };
        Shown::joined(&format!("{}{place}", if freed_there { FREED_AT } else { "" }))
    }

    /// The label of the line that names a stack.
    pub(crate) fn place(&self, stack: Option<StackId>) -> Shown {
        self.key(&stack.map_or(HolderKey::NoStack, HolderKey::Stack))
    }

    /// The shared property of a group of allocations, as `model.py:42 forward`.
    pub fn key(&self, key: &HolderKey) -> Shown {
        match key {
            HolderKey::NoStack => Shown::of("(no stack)"),
            HolderKey::Stack(stack) => {
                let own = self.frames.own_frame(self.trace, *stack);
                own.map_or_else(|| Shown::of("(empty stack)"), |f| self.frame(f))
            }
            HolderKey::Line(frame) => self.frame(*frame),
            HolderKey::Function(file, name) => {
                let name = self.bounded(*name);
                match base(self.trace.strings.get(*file)) {
                    python if python.ends_with(".py") => {
                        Shown::joined(&format!("{} ({})", Shown::of(&name), Shown::end_of(python)))
                    }
                    _ => Shown::of(&short_function(&name)),
                }
            }
            HolderKey::File(file) => Shown::end_of(self.trace.strings.get(*file)),
            HolderKey::NoFile => Shown::of("compiled code"),
            HolderKey::Module(path) => Shown::end_of(path),
            HolderKey::Pool(pool) => Shown::of(&self.pool(*pool)),
            HolderKey::Stream(stream) => Shown::of(&crate::names::stream(*stream)),
            HolderKey::Category(category) => Shown::of(category.name()),
            HolderKey::Step(None) => Shown::of("before the first step"),
            HolderKey::Step(Some(step)) => Shown::joined(&format!("step {}", step + 1)),
            HolderKey::Size(power) => {
                Shown::joined(&format!("{} to {}", two_to_the(*power), two_to_the(power + 1)))
            }
            HolderKey::Layer(None) => Shown::of("(no module)"),
            HolderKey::Layer(Some(path)) if path.is_empty() => Shown::of("(the outermost module)"),
            HolderKey::Layer(Some(path)) => Shown::end_of(path),
        }
    }

    /// The kind of a pool, inferred from its ID as PyTorch assigns them (`MemPool::MemPool`, c10/cuda/CUDACachingAllocator.cpp).
    /// `None` for the default pool.
    pub fn pool_kind(&self, pool: Option<PoolId>) -> Option<&'static str> {
        match pool? {
            PoolId(0, 0) => None,
            PoolId(0, _) => Some("a `torch.cuda.MemPool`, or made by `graph_pool_handle()`"),
            PoolId(_, 0) => Some("made by the capture of a CUDA graph"),
            PoolId(..) => Some("a custom pool of the program"),
        }
    }

    /// The name of a pool: `default pool`, `private pool (0, 1)`.
    pub fn pool(&self, pool: Option<PoolId>) -> String {
        match pool {
            None => "pool not recorded".to_owned(),
            Some(PoolId(0, 0)) => "default pool".to_owned(),
            Some(PoolId(a, b)) => format!("private pool ({a}, {b})"),
        }
    }
}

/// The name of a group, with a prefix for memory live before recording.
fn with_origin(origin: Option<Origin>, name: &Shown) -> Shown {
    let before = match origin {
        None | Some(Origin::Recorded) => "",
        Some(Origin::EndState) => "(live before recording) ",
        Some(Origin::FreeOnly) => FREED_AT,
    };
    Shown::joined(&format!("{before}{name}"))
}

/// The name of a category, as `optimizer state`.
pub(crate) fn category(category: Category) -> String {
    category.name().replace('_', " ")
}

/// The name of a stream: `default stream`, `stream 0x7f3a`. Streams are recorded as addresses.
pub(crate) fn stream(stream: u64) -> String {
    if stream == 0 { "default stream".to_owned() } else { format!("stream 0x{stream:x}") }
}

/// The pool that segments of this kind belong to.
pub(crate) fn kind(kind: SegmentKind) -> &'static str {
    match kind {
        SegmentKind::Small => "small pool",
        SegmentKind::Large => "large pool",
        SegmentKind::Unknown => "pool",
    }
}

/// Why free blocks could not serve a request; completes "52 free blocks".
pub(crate) fn unusable(why: Unusable) -> &'static str {
    match why {
        Unusable::TooSmall => "each smaller than the request",
        Unusable::OtherStream => "of other streams",
        Unusable::OtherSize => "of the pool for requests of another size",
        Unusable::OtherPool => "of private pools",
        Unusable::NotSplit => "that `max_split_size` does not allow to split",
    }
}

/// Two to this power, as `512 B` or `4 KiB`.
fn two_to_the(power: u32) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    format!("{} {}", 1 << (power % 10), UNITS[(power / 10) as usize % UNITS.len()])
}

/// A file name without its folders. Reads only the end of very long paths, because many functions may share one.
fn base(path: &str) -> &str {
    let end = &path[path.ceil_char_boundary(path.len().saturating_sub(LONGEST_SHOWN))..];
    match end.rfind(['/', '\\']) {
        Some(at) => &end[at + 1..],
        None => path,
    }
}

/// The name of a C++ function without its parameters.
fn short_function(name: &str) -> String {
    let name = name.replace("(anonymous namespace)::", "").replace("torch::autograd::generated::", "");
    match name.find('(') {
        Some(0) | None => name,
        Some(end) => name[..end].to_owned(),
    }
}

pub(crate) fn first_upper(text: &str) -> String {
    let mut text = text.to_owned();
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

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
