//! The groupings, the groups, and their keys.

use std::sync::Arc;

use hashbrown::HashMap;
use serde::Deserialize;
use vramscope_trace::{Category, FrameId, PoolId, StackId, StringId};

use super::amount::Amount;
use crate::history::{History, Origin};
use crate::stacks::{Code, Frames};

/// The property by which allocations are grouped. Line, function, file and module come from the [own frame](Frames::own_frame) of
/// the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// The whole stack.
    Stack,
    /// A line of the user's code.
    Line,
    /// A function of the user's code.
    Function,
    /// A file of the user's code.
    File,
    /// The dotted path of the file, starting at the common directory of all user files.
    Module,
    /// The private pool.
    Pool,
    /// The stream.
    Stream,
    /// The category: parameter, gradient, activation ...; see [`AllocationCategories`](crate::AllocationCategories).
    Category,
    /// The `torch.nn.Module` that made the allocation, by its path in the model; see [`AllocationCategories`](crate::AllocationCategories).
    Layer,
    /// The training or serving step in which the allocation was made; see [`Steps`](crate::Steps).
    Step,
    /// The block size, in ranges between powers of two.
    Size,
}

impl By {
    /// All groupings.
    pub const ALL: [Self; 11] = [
        Self::Stack,
        Self::Line,
        Self::Function,
        Self::File,
        Self::Module,
        Self::Pool,
        Self::Stream,
        Self::Category,
        Self::Layer,
        Self::Step,
        Self::Size,
    ];

    /// The name as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stack => "stack",
            Self::Line => "line",
            Self::Function => "function",
            Self::File => "file",
            Self::Module => "module",
            Self::Pool => "pool",
            Self::Stream => "stream",
            Self::Category => "category",
            Self::Layer => "layer",
            Self::Step => "step",
            Self::Size => "size",
        }
    }
}

/// A group of live allocations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Bytes of the group's blocks.
    pub bytes: u64,
    /// Requested bytes of these blocks.
    pub requested: u64,
    /// The number of allocations in the group.
    pub count: u64,
    /// The origin of the group's allocations: memory that was live before recording began forms separate groups. `None` when
    /// grouped by pool, stream, category, layer, step or size, which do not separate origins.
    pub origin: Option<Origin>,
    /// The property that all allocations of the group share.
    pub key: HolderKey,
    /// The stack that holds most bytes of the group. From [`holders_at`](crate::holders_at), `None` when grouped by pool, stream, category, layer,
    /// step or size. For [`Origin::FreeOnly`], the stack that freed the memory.
    pub stack: Option<StackId>,
}

impl Holder {
    /// Returns the bytes and number of allocations of the group.
    #[must_use]
    pub fn held(&self) -> Amount {
        Amount { bytes: self.bytes, requested: self.requested, count: self.count }
    }

    pub(crate) fn add(&mut self, held: Amount) {
        self.bytes += held.bytes;
        self.requested += held.requested;
        self.count += held.count;
    }
}

/// The property that the allocations of a group share. Names are ids in the trace's tables; `Names::key` of the crate
/// `vramscope-report` turns them into text such as `model.py:42 forward`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HolderKey {
    /// No stack was captured, or it is empty.
    NoStack,
    /// The whole stack.
    Stack(StackId),
    /// The line of this frame.
    Line(FrameId),
    /// The file and the name of a function.
    Function(StringId, StringId),
    /// A file.
    File(StringId),
    /// Compiled code whose file is unknown.
    NoFile,
    /// The dotted path of a module, such as `model.attention`.
    Module(String),
    /// A private pool; `None` if not recorded.
    Pool(Option<PoolId>),
    /// A stream.
    Stream(u64),
    /// A category.
    Category(Category),
    /// The path of a `torch.nn.Module`, empty for the outermost; `None` if no module made the allocation.
    Layer(Option<Arc<str>>),
    /// The index of a step; `None` for allocations made before the first step.
    Step(Option<usize>),
    /// Blocks with a size from 2^n bytes up to, but not including, 2^(n+1) bytes.
    Size(u32),
}

impl HolderKey {
    /// Returns the group of blocks of this size.
    #[must_use]
    pub fn of_size(bytes: u64) -> Self {
        Self::Size(bytes.max(1).ilog2())
    }
}

/// Computes the key of stacks by stack, line, function, file or module.
pub(crate) struct Keys<'h> {
    history: &'h History,
    frames: &'h Frames,
    by: By,
    of_file: HashMap<(StringId, bool), FrameId>,
    of_module: HashMap<String, FrameId>,
}

impl<'h> Keys<'h> {
    pub(crate) fn of(history: &'h History, frames: &'h Frames, by: By) -> Self {
        Self { history, frames, by, of_file: HashMap::new(), of_module: HashMap::new() }
    }

    /// Returns the key of allocations with this stack. Until [`finish`](Self::finish), a frame stands for a module.
    pub(crate) fn key(&mut self, stack: Option<StackId>) -> HolderKey {
        let Self { history, frames, by, .. } = *self;
        match code_key(history, frames, stack, by) {
            HolderKey::Line(id) if by == By::Module => {
                let file = history.trace().frames.get(id).filename;
                // The short path depends on the origin of the code.
                let path = self.of_file.entry((file, frames.code(id) == Code::User));
                let of_module = &mut self.of_module;
                HolderKey::Line(
                    *path.or_insert_with(|| *of_module.entry(module(history, frames, id)).or_insert(id)),
                )
            }
            key => key,
        }
    }

    /// Turns a key into its final form.
    pub(crate) fn finish(&self, key: &mut HolderKey) {
        if let (By::Module, &mut HolderKey::Line(id)) = (self.by, &mut *key) {
            *key = HolderKey::Module(module(self.history, self.frames, id));
        }
    }
}

/// Returns the dotted path of a frame's file.
fn module(history: &History, frames: &Frames, id: FrameId) -> String {
    let path = frames.short_path(history.trace(), id);
    let path = path.strip_suffix(".py").unwrap_or(&path);
    let path = path.strip_suffix("/__init__").unwrap_or(path);
    path.trim_start_matches('/').replace('/', ".")
}

/// Returns the key of allocations with this stack, grouped by stack, line, function, file or module. Other groupings do not
/// depend on the stack.
pub fn stack_key(history: &History, frames: &Frames, stack: Option<StackId>, by: By) -> HolderKey {
    let stack = stack.filter(|&stack| !history.trace().stacks.get(stack).is_empty());
    match code_key(history, frames, stack, by) {
        HolderKey::Line(frame) => frame_key(history, frames, frame, by),
        key => key,
    }
}

/// Returns the key of allocations whose stack is named by this frame, grouped by line, function, file or module.
pub fn frame_key(history: &History, frames: &Frames, frame: FrameId, by: By) -> HolderKey {
    match named_by(history, frame, by) {
        HolderKey::Line(frame) if by == By::Module => HolderKey::Module(module(history, frames, frame)),
        key => key,
    }
}

/// Returns the key of allocations with this stack, grouped by stack, line, function or file.
fn code_key(history: &History, frames: &Frames, stack: Option<StackId>, by: By) -> HolderKey {
    if by == By::Stack {
        return stack.map_or(HolderKey::NoStack, HolderKey::Stack);
    }
    let own = stack.and_then(|s| frames.own_frame(history.trace(), s));
    own.map_or(HolderKey::NoStack, |frame| named_by(history, frame, by))
}

/// Returns the key of allocations whose stack is named by this frame. A frame stands for a module, because its path is long.
fn named_by(history: &History, id: FrameId, by: By) -> HolderKey {
    let trace = history.trace();
    let frame = trace.frames.get(id);
    match by {
        By::Function => HolderKey::Function(frame.filename, frame.name),
        By::File | By::Module if !is_file(trace.strings.get(frame.filename)) => HolderKey::NoFile,
        By::File => HolderKey::File(frame.filename),
        _ => HolderKey::Line(id),
    }
}

/// Whether the name is that of a file; compiled code without debug information has none.
fn is_file(name: &str) -> bool {
    !matches!(name, "" | "??")
}
