//! Who held the memory at a moment: what was live, grouped.

use std::hash::Hash;
use std::sync::Arc;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use vramscope_trace::{Category, FrameId, PoolId, StackId, StringId};

use crate::amount::Amount;
use crate::frames::{Code, Frames};
use crate::history::{Allocation, History, Origin};
use crate::layout::Layout;
use crate::moment::Moment;
use crate::purposes::Purposes;
use crate::steps::Steps;

/// What allocations are grouped by. Line, function, file and module are those of the
/// [own frame](Frames::own_frame) of the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The whole stack.
    Stack,
    /// A line of the user's code.
    Line,
    /// A function of the user's code.
    Function,
    /// A file of the user's code.
    File,
    /// The dotted path of that file, from the directory that all the user's files share.
    Module,
    /// The private pool.
    Pool,
    /// The stream.
    Stream,
    /// What it is for: parameter, gradient, activation ...; see [`Purposes`].
    Category,
    /// The `torch.nn.Module` that made it, by its path in the model; see [`Purposes`].
    Layer,
    /// The step of training or serving in which it was allocated; see [`Steps`].
    Step,
    /// The size of its block: between two powers of two.
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

    /// As a word, as on the command line.
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
    /// Bytes of the blocks of the group.
    pub bytes: u64,
    /// Bytes that were asked for in these blocks.
    pub requested: u64,
    /// The number of allocations in the group.
    pub count: u64,
    /// How its allocations are known: what was live before recording began makes groups of its own. `None`
    /// by pool, stream, category, layer, step and size, where it does not.
    pub origin: Option<Origin>,
    /// What all allocations of the group share.
    pub key: HolderKey,
    /// The stack that holds most of it; of [`holders_at`] none by pool, stream, category, layer, step and size. Of [`Origin::FreeOnly`] it
    /// is where that memory was freed.
    pub stack: Option<StackId>,
}

impl Holder {
    /// How much it holds.
    #[must_use]
    pub fn held(&self) -> Amount {
        Amount { bytes: self.bytes, requested: self.requested, count: self.count }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.requested += other.requested;
        self.count += other.count;
    }
}

/// What the allocations of a group share. Names are numbers in the tables of the trace; `Names::key` of the crate
/// `vramscope-report` makes the text, as `model.py:42 forward`.
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
    /// Compiled code, of which no file is known.
    NoFile,
    /// The dotted path of a module, as `model.attention`.
    Module(String),
    /// A private pool; `None` where it is not recorded.
    Pool(Option<PoolId>),
    /// A stream.
    Stream(u64),
    /// What it is for.
    Category(Category),
    /// The path of a `torch.nn.Module`, empty for the outermost; `None` where no module made it.
    Layer(Option<Arc<str>>),
    /// The number of a step, from 0; `None` for what was made before the first.
    Step(Option<usize>),
    /// Blocks from two to the power of this many bytes, and smaller than twice that.
    Size(u32),
}

impl HolderKey {
    /// The group of blocks of this size.
    #[must_use]
    pub fn of_size(bytes: u64) -> Self {
        Self::Size(bytes.max(1).ilog2())
    }
}

/// The groups at `moment`, largest first. Their bytes sum to the allocated bytes at that moment.
pub fn holders_at(history: &History, frames: &Frames, moment: Moment, by: By) -> Vec<Holder> {
    let layout = Layout::at(history, moment);
    group(history, frames, layout.allocated(), Some(&layout), by)
}

/// What is known of the allocations of a history beside it: who asks about many moments finds it out once. Allocations are told by their
/// numbers in [`History::allocations`].
pub trait Known {
    /// The private pool.
    fn pool(&self, allocation: usize) -> Option<PoolId>;
    /// What it is for.
    fn category(&self, allocation: usize) -> Category;
    /// The path of the module that made it.
    fn layer(&self, allocation: usize) -> Option<Arc<str>>;
    /// The steps of the program; `None` where they are not known.
    fn steps(&self) -> Option<&Steps>;
    /// A number that it shares only with allocations of the same stream, pool and module; `None` where there is none.
    fn alike(&self, _allocation: usize) -> Option<u32> {
        None
    }
}

/// Nothing is known of the allocations but what a history has: enough for groups that stacks or streams tell.
#[derive(Debug, Clone, Copy)]
pub struct NothingMore;

impl Known for NothingMore {
    fn pool(&self, _: usize) -> Option<PoolId> {
        None
    }

    fn category(&self, _: usize) -> Category {
        Category::Unknown
    }

    fn layer(&self, _: usize) -> Option<Arc<str>> {
        None
    }

    fn steps(&self) -> Option<&Steps> {
        None
    }
}

/// Some allocations in groups, largest first, each with the stack that holds most of it. They are told by their numbers in
/// [`History::allocations`].
pub fn holders_among(
    history: &History,
    frames: &Frames,
    known: &impl Known,
    allocations: impl Iterator<Item = usize>,
    by: By,
) -> Vec<Holder> {
    let key: &dyn Fn(usize) -> HolderKey = match by {
        By::Pool => &|id| HolderKey::Pool(known.pool(id)),
        By::Stream => &|id| HolderKey::Stream(history.allocations[id].stream),
        By::Category => &|id| HolderKey::Category(known.category(id)),
        By::Layer => &|id| HolderKey::Layer(known.layer(id)),
        By::Step => {
            &|id| HolderKey::Step(known.steps().and_then(|steps| steps.made_in(&history.allocations[id])))
        }
        By::Size => &|id| HolderKey::of_size(history.allocations[id].size),
        By::Stack | By::Line | By::Function | By::File | By::Module => {
            return group(history, frames, allocations.map(|id| &history.allocations[id]), None, by);
        }
    };
    // By stack first, so that the first part of a group is of the stack that holds most.
    let mut index: HashMap<(HolderKey, Option<StackId>), usize> = HashMap::new();
    let mut parts: Vec<Holder> = Vec::new();
    for id in allocations {
        let part = Holder::of(&history.allocations[id], None, key(id));
        join(&mut index, &mut parts, (part.key.clone(), part.stack), part);
    }
    sort(&mut parts);
    gather(parts.into_iter())
}

/// Groups some allocations, largest group first. Pools that were not recorded are those of `layout`.
pub(crate) fn group<'h>(
    history: &'h History,
    frames: &Frames,
    allocations: impl Iterator<Item = &'h Allocation>,
    layout: Option<&Layout<'_>>,
    by: By,
) -> Vec<Holder> {
    match by {
        By::Pool => {
            let recorded = |a: &Allocation| history.trace().tags.get(a.tags?).pool;
            let around = |a: &Allocation| layout?.range_around(a.address)?.pool;
            gather(allocations.map(|a| {
                let pool = recorded(a).or_else(|| around(a));
                Holder { stack: None, ..Holder::of(a, None, HolderKey::Pool(pool)) }
            }))
        }
        By::Stream => gather(
            allocations.map(|a| Holder { stack: None, ..Holder::of(a, None, HolderKey::Stream(a.stream)) }),
        ),
        By::Size => gather(
            allocations.map(|a| Holder { stack: None, ..Holder::of(a, None, HolderKey::of_size(a.size)) }),
        ),
        By::Category | By::Layer => by_purpose(&Purposes::of(history), allocations, by),
        By::Step => by_step(&Steps::of(history, &Purposes::of(history)), allocations),
        By::Stack => by_stack(history, allocations),
        // Few stacks stand behind many allocations, and keys are dear: sums come first.
        By::Line | By::Function | By::File => gather(by_stack(history, allocations).into_iter().map(|h| {
            let key = code_key(history, frames, h.stack, by);
            Holder { key, ..h }
        })),
        By::Module => by_module(history, frames, by_stack(history, allocations)),
    }
}

/// Groups by what allocations are for, or by the module that made them, as `purposes` say.
pub(crate) fn by_purpose<'h>(
    purposes: &Purposes,
    allocations: impl Iterator<Item = &'h Allocation>,
    by: By,
) -> Vec<Holder> {
    gather(allocations.map(|a| {
        let key = match by {
            By::Layer => HolderKey::Layer(purposes.layer(a).cloned()),
            _ => HolderKey::Category(purposes.category(a)),
        };
        Holder { stack: None, ..Holder::of(a, None, key) }
    }))
}

/// Groups by the step in which allocations were made.
pub(crate) fn by_step<'h>(steps: &Steps, allocations: impl Iterator<Item = &'h Allocation>) -> Vec<Holder> {
    gather(
        allocations.map(|a| Holder { stack: None, ..Holder::of(a, None, HolderKey::Step(steps.made_in(a))) }),
    )
}

/// Groups what is grouped by stack. A path may be long, and many lines share it: until the end a module is one of its
/// frames, and the path of each file is made once.
fn by_module(history: &History, frames: &Frames, stacks: Vec<Holder>) -> Vec<Holder> {
    let mut keys = Keys::of(history, frames, By::Module);
    let parts = stacks.into_iter().map(|h| Holder { key: keys.key(h.stack), ..h });
    let mut groups = gather(parts);
    groups.iter_mut().for_each(|group| keys.finish(&mut group.key));
    sort(&mut groups);
    groups
}

/// What allocations share by stack, line, function, file or module: found out from their stacks.
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

    /// What allocations with this stack share. Until [`finish`](Self::finish) a module is one of its frames.
    pub(crate) fn key(&mut self, stack: Option<StackId>) -> HolderKey {
        let Self { history, frames, by, .. } = *self;
        match code_key(history, frames, stack, by) {
            HolderKey::Line(id) if by == By::Module => {
                let file = history.trace().frames.get(id).filename;
                // A path is shortened by whose code it is.
                let path = self.of_file.entry((file, frames.code(id) == Code::User));
                let of_module = &mut self.of_module;
                HolderKey::Line(
                    *path.or_insert_with(|| *of_module.entry(module(history, frames, id)).or_insert(id)),
                )
            }
            key => key,
        }
    }

    /// Gives a key its last form.
    pub(crate) fn finish(&self, key: &mut HolderKey) {
        if let (By::Module, &mut HolderKey::Line(id)) = (self.by, &mut *key) {
            *key = HolderKey::Module(module(self.history, self.frames, id));
        }
    }
}

/// The dotted path of a frame's file.
fn module(history: &History, frames: &Frames, id: FrameId) -> String {
    let path = frames.short_path(history.trace(), id);
    let path = path.strip_suffix(".py").unwrap_or(&path);
    let path = path.strip_suffix("/__init__").unwrap_or(path);
    path.trim_start_matches('/').replace('/', ".")
}

fn by_stack<'h>(history: &'h History, allocations: impl Iterator<Item = &'h Allocation>) -> Vec<Holder> {
    gather(allocations.map(|a| {
        let stack = history.stack_of(a);
        let key = stack.map_or(HolderKey::NoStack, HolderKey::Stack);
        Holder { stack, ..Holder::of(a, Some(a.origin), key) }
    }))
}

/// What allocations with this stack share, by stack, line, function, file or module; by anything else no stack tells it.
pub fn stack_key(history: &History, frames: &Frames, stack: Option<StackId>, by: By) -> HolderKey {
    let stack = stack.filter(|&stack| !history.trace().stacks.get(stack).is_empty());
    match code_key(history, frames, stack, by) {
        HolderKey::Line(frame) => frame_key(history, frames, frame, by),
        key => key,
    }
}

/// What allocations share whose stack is named by this frame, by line, function, file or module.
pub fn frame_key(history: &History, frames: &Frames, frame: FrameId, by: By) -> HolderKey {
    match named_by(history, frame, by) {
        HolderKey::Line(frame) if by == By::Module => HolderKey::Module(module(history, frames, frame)),
        key => key,
    }
}

/// Adds up the parts of each group; its stack is that of its first part.
fn gather(parts: impl Iterator<Item = Holder>) -> Vec<Holder> {
    let mut index: HashMap<(Option<Origin>, HolderKey), usize> = HashMap::new();
    let mut groups: Vec<Holder> = Vec::new();
    for part in parts {
        join(&mut index, &mut groups, (part.origin, part.key.clone()), part);
    }
    sort(&mut groups);
    groups
}

/// Adds a part to the group that the index has for it, or makes it one.
fn join<K: Hash + Eq>(index: &mut HashMap<K, usize>, groups: &mut Vec<Holder>, key: K, part: Holder) {
    match index.entry(key) {
        Entry::Occupied(at) => groups[*at.get()].add(&part),
        Entry::Vacant(at) => {
            at.insert(groups.len());
            groups.push(part);
        }
    }
}

/// Puts the groups in order, those with the most bytes first.
fn sort(groups: &mut [Holder]) {
    groups.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| (a.origin, &a.key).cmp(&(b.origin, &b.key))));
}

impl Holder {
    /// A group that holds one allocation.
    fn of(a: &Allocation, origin: Option<Origin>, key: HolderKey) -> Self {
        Self { bytes: a.size, requested: a.requested, count: 1, origin, key, stack: a.stack }
    }
}

/// What allocations with this stack share by stack, line, function or file.
pub(crate) fn code_key(history: &History, frames: &Frames, stack: Option<StackId>, by: By) -> HolderKey {
    if by == By::Stack {
        return stack.map_or(HolderKey::NoStack, HolderKey::Stack);
    }
    let own = stack.and_then(|s| frames.own_frame(history.trace(), s));
    own.map_or(HolderKey::NoStack, |frame| named_by(history, frame, by))
}

/// What allocations share whose stack is named by this frame. A module is one of its frames, for its path is long.
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

/// Whether the name of a file says something: compiled code without debug information has none.
fn is_file(name: &str) -> bool {
    !matches!(name, "" | "??")
}
