//! Who held the memory at a moment: what was live, grouped.

use hashbrown::HashMap;
use vramscope_trace::{FrameId, PoolId, StackId, StringId};

use crate::frames::Frames;
use crate::history::{Allocation, History, Origin};
use crate::layout::Layout;
use crate::moment::Moment;

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
}

/// A group of live allocations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Bytes of their blocks.
    pub bytes: u64,
    /// Bytes that were asked for.
    pub requested: u64,
    /// How many there are.
    pub count: u64,
    /// How its allocations are known: what was live before recording began makes groups of its own. `None`
    /// by pool and by stream, where it does not.
    pub origin: Option<Origin>,
    /// What they share.
    pub key: HolderKey,
    /// The stack of their largest allocation. Of [`Origin::FreeOnly`] it is where that one was freed.
    pub stack: Option<StackId>,
}

/// What the allocations of a group share.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HolderKey {
    /// No stack was captured, or it is empty.
    NoStack,
    /// The whole stack.
    Stack(StackId),
    /// The line of this frame.
    Line(FrameId),
    /// File and name of a function.
    Function(StringId, StringId),
    /// A file.
    File(StringId),
    /// A dotted path.
    Module(String),
    /// A private pool; `None` where it is not recorded.
    Pool(Option<PoolId>),
    /// A stream.
    Stream(u64),
}

/// The groups at `moment`, largest first. Their bytes sum to the allocated bytes at that moment.
pub fn holders_at(history: &History<'_>, frames: &Frames, moment: Moment, by: By) -> Vec<Holder> {
    group(history, frames, history.allocated_at(moment), moment, by)
}

/// Groups some allocations, largest group first; pools are those of the layout at `moment`.
pub(crate) fn group<'h>(
    history: &'h History<'_>,
    frames: &Frames,
    allocations: impl Iterator<Item = &'h Allocation>,
    moment: Moment,
    by: By,
) -> Vec<Holder> {
    let keys = Keys::new(history, frames, moment, by);
    let by_code = !matches!(by, By::Pool | By::Stream);
    let mut groups: HashMap<(Option<Origin>, HolderKey), (Holder, u64)> = HashMap::new();
    // One entry a stack first: keys are dearer than sums.
    let mut last: Option<((Origin, Option<StackId>), (Option<Origin>, HolderKey))> = None;
    for a in allocations {
        let cheap = (a.origin, a.stack);
        let key = match &last {
            Some((same, key)) if *same == cheap && by_code => key.clone(),
            _ => (Some(a.origin).filter(|_| by_code), keys.of(a)),
        };
        last = Some((cheap, key.clone()));
        let (holder, largest) = groups.entry(key).or_insert_with_key(|(origin, key)| {
            let new = Holder {
                bytes: 0,
                requested: 0,
                count: 0,
                origin: *origin,
                key: key.clone(),
                stack: a.stack,
            };
            (new, 0)
        });
        holder.bytes += a.size;
        holder.requested += a.requested;
        holder.count += 1;
        if a.size > *largest {
            *largest = a.size;
            holder.stack = a.stack;
        }
    }
    let mut out: Vec<Holder> = groups.into_values().map(|(holder, _)| holder).collect();
    out.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| (a.origin, &a.key).cmp(&(b.origin, &b.key))));
    out
}

/// Makes the key of an allocation.
struct Keys<'h, 't> {
    history: &'h History<'t>,
    frames: &'h Frames,
    by: By,
    layout: Option<Layout<'h>>,
}

impl<'h, 't> Keys<'h, 't> {
    fn new(history: &'h History<'t>, frames: &'h Frames, moment: Moment, by: By) -> Self {
        let layout = (by == By::Pool).then(|| Layout::at(history, moment));
        Self { history, frames, by, layout }
    }

    fn of(&self, a: &Allocation) -> HolderKey {
        let trace = self.history.trace;
        match self.by {
            By::Pool => return HolderKey::Pool(self.pool(a)),
            By::Stream => return HolderKey::Stream(a.stream),
            By::Stack => {
                let stack = a.stack.filter(|&s| !trace.stacks.get(s).is_empty());
                return stack.map_or(HolderKey::NoStack, HolderKey::Stack);
            }
            By::Line | By::Function | By::File | By::Module => {}
        }
        let Some(id) = a.stack.and_then(|s| self.frames.own_frame(trace, s)) else {
            return HolderKey::NoStack;
        };
        let frame = trace.frames.get(id);
        match self.by {
            By::Function => HolderKey::Function(frame.filename, frame.name),
            By::File => HolderKey::File(frame.filename),
            By::Module => HolderKey::Module(self.module(id)),
            _ => HolderKey::Line(id),
        }
    }

    fn pool(&self, a: &Allocation) -> Option<PoolId> {
        let recorded = a.tags.and_then(|t| self.history.trace.tags.get(t).pool);
        recorded.or_else(|| self.layout.as_ref()?.range_around(a.address)?.pool)
    }

    fn module(&self, id: FrameId) -> String {
        let path = self.frames.short_path(self.history.trace, id);
        let path = path.strip_suffix(".py").unwrap_or(&path);
        let path = path.strip_suffix("/__init__").unwrap_or(path);
        path.trim_start_matches('/').replace('/', ".")
    }
}
