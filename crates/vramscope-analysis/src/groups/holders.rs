//! Holders: the live allocations at a moment, in groups.

use std::hash::Hash;
use std::sync::Arc;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use vramscope_trace::{Category, FrameId, PoolId, StackId, StringId};

use super::amount::Amount;
use crate::categories::AllocationCategories;
use crate::history::{Allocation, History, Layout, Moment, Origin};
use crate::stacks::{Code, Frames};
use crate::steps::Steps;

/// The property by which allocations are grouped. Line, function, file and module come from the [own frame](Frames::own_frame) of
/// the stack.
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
    /// The dotted path of the file, starting at the common directory of all user files.
    Module,
    /// The private pool.
    Pool,
    /// The stream.
    Stream,
    /// The category: parameter, gradient, activation ...; see [`AllocationCategories`].
    Category,
    /// The `torch.nn.Module` that made the allocation, by its path in the model; see [`AllocationCategories`].
    Layer,
    /// The training or serving step in which the allocation was made; see [`Steps`].
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
    /// The stack that holds most bytes of the group. From [`holders_at`], `None` when grouped by pool, stream, category, layer,
    /// step or size. For [`Origin::FreeOnly`], the stack that freed the memory.
    pub stack: Option<StackId>,
}

impl Holder {
    /// Returns the bytes and number of allocations of the group.
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

/// Returns the groups at `moment`, largest first. Their bytes add up to the allocated bytes at that moment.
pub fn holders_at(history: &History, frames: &Frames, moment: Moment, by: By) -> Vec<Holder> {
    let layout = Layout::at(history, moment);
    group(history, frames, layout.allocated(), Some(&layout), by)
}

/// Sums the recorded allocations of the whole run that `takes` accepts, by group, most bytes first. `bytes`, `requested` and
/// `count` are totals over time; the allocations need not be live at the same time.
pub(crate) fn churn(
    history: &History,
    frames: &Frames,
    by: By,
    takes: impl Fn(&&Allocation) -> bool,
) -> Vec<Holder> {
    let recorded = history.recorded().filter(takes);
    group(history, frames, recorded, None, by)
}

/// Properties of a history's allocations beyond the history itself, precomputed once for queries at many moments. Allocations are
/// given by their index in [`History::allocations`].
pub trait AllocationProperties {
    /// Returns the private pool.
    fn pool(&self, allocation: usize) -> Option<PoolId>;
    /// Returns the category.
    fn category(&self, allocation: usize) -> Category;
    /// Returns the path of the module that made the allocation.
    fn layer(&self, allocation: usize) -> Option<Arc<str>>;
    /// Returns the steps of the program; `None` if unknown.
    fn steps(&self) -> Option<&Steps>;
    /// Returns a number that the allocation shares only with allocations of the same stream, pool and module, if there is one.
    fn alike(&self, _allocation: usize) -> Option<u32> {
        None
    }
}

/// No properties beyond the history; enough for grouping by stack or stream.
#[derive(Debug, Clone, Copy)]
pub struct NoProperties;

impl AllocationProperties for NoProperties {
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

/// Groups some allocations, largest group first, each with the stack that holds most of its bytes. Allocations are given by their
/// index in [`History::allocations`].
pub fn holders_among(
    history: &History,
    frames: &Frames,
    known: &impl AllocationProperties,
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
    // By stack first, so that the first part of each group has the stack that holds most.
    let mut index: HashMap<(HolderKey, Option<StackId>), usize> = HashMap::new();
    let mut parts: Vec<Holder> = Vec::new();
    for id in allocations {
        let part = Holder::of(&history.allocations[id], None, key(id));
        join(&mut index, &mut parts, (part.key.clone(), part.stack), part);
    }
    sort(&mut parts);
    gather(parts.into_iter())
}

/// Groups some allocations, largest group first. Pools that were not recorded come from `layout`.
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
            by_key(allocations, |a| HolderKey::Pool(recorded(a).or_else(|| around(a))))
        }
        By::Stream => by_key(allocations, |a| HolderKey::Stream(a.stream)),
        By::Size => by_key(allocations, |a| HolderKey::of_size(a.size)),
        By::Category | By::Layer => by_category(&AllocationCategories::of(history), allocations, by),
        By::Step => by_step(&Steps::of(history, &AllocationCategories::of(history)), allocations),
        By::Stack => by_stack(history, allocations),
        // Many allocations share few stacks and keys are expensive to compute, so sums come first.
        By::Line | By::Function | By::File => gather(by_stack(history, allocations).into_iter().map(|h| {
            let key = code_key(history, frames, h.stack, by);
            Holder { key, ..h }
        })),
        By::Module => by_module(history, frames, by_stack(history, allocations)),
    }
}

/// Groups by category or by module, according to `categories`.
pub(crate) fn by_category<'h>(
    categories: &AllocationCategories,
    allocations: impl Iterator<Item = &'h Allocation>,
    by: By,
) -> Vec<Holder> {
    by_key(allocations, |a| match by {
        By::Layer => HolderKey::Layer(categories.layer(a).cloned()),
        _ => HolderKey::Category(categories.category(a)),
    })
}

/// Groups by the step in which allocations were made.
pub(crate) fn by_step<'h>(steps: &Steps, allocations: impl Iterator<Item = &'h Allocation>) -> Vec<Holder> {
    by_key(allocations, |a| HolderKey::Step(steps.made_in(a)))
}

/// Groups by a key that does not depend on the stack.
fn by_key<'h>(
    allocations: impl Iterator<Item = &'h Allocation>,
    key: impl Fn(&Allocation) -> HolderKey,
) -> Vec<Holder> {
    gather(allocations.map(|a| Holder { stack: None, ..Holder::of(a, None, key(a)) }))
}

/// Groups stacks by module. Module paths are long and shared by many lines. So a frame stands for the module until the end, and
/// each path is computed once.
fn by_module(history: &History, frames: &Frames, stacks: Vec<Holder>) -> Vec<Holder> {
    let mut keys = Keys::of(history, frames, By::Module);
    let parts = stacks.into_iter().map(|h| Holder { key: keys.key(h.stack), ..h });
    let mut groups = gather(parts);
    groups.iter_mut().for_each(|group| keys.finish(&mut group.key));
    sort(&mut groups);
    groups
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

fn by_stack<'h>(history: &'h History, allocations: impl Iterator<Item = &'h Allocation>) -> Vec<Holder> {
    gather(allocations.map(|a| {
        let stack = history.stack_of(a);
        let key = stack.map_or(HolderKey::NoStack, HolderKey::Stack);
        Holder { stack, ..Holder::of(a, Some(a.origin), key) }
    }))
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

/// Sums the parts of each group. The group's stack is that of its first part.
fn gather(parts: impl Iterator<Item = Holder>) -> Vec<Holder> {
    let mut index: HashMap<(Option<Origin>, HolderKey), usize> = HashMap::new();
    let mut groups: Vec<Holder> = Vec::new();
    for part in parts {
        join(&mut index, &mut groups, (part.origin, part.key.clone()), part);
    }
    sort(&mut groups);
    groups
}

/// Adds a part to its group in the index, or adds it as a new group.
fn join<K: Hash + Eq>(index: &mut HashMap<K, usize>, groups: &mut Vec<Holder>, key: K, part: Holder) {
    match index.entry(key) {
        Entry::Occupied(at) => groups[*at.get()].add(&part),
        Entry::Vacant(at) => {
            at.insert(groups.len());
            groups.push(part);
        }
    }
}

/// Sorts the groups by bytes, largest first.
fn sort(groups: &mut [Holder]) {
    groups.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| (a.origin, &a.key).cmp(&(b.origin, &b.key))));
}

impl Holder {
    /// A group of one allocation.
    fn of(a: &Allocation, origin: Option<Origin>, key: HolderKey) -> Self {
        Self { bytes: a.size, requested: a.requested, count: 1, origin, key, stack: a.stack }
    }
}

/// Returns the key of allocations with this stack, grouped by stack, line, function or file.
pub(crate) fn code_key(history: &History, frames: &Frames, stack: Option<StackId>, by: By) -> HolderKey {
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
