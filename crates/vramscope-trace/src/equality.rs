//! Equality of traces by content, independent of their ids.

use crate::annotations::Annotation;
use crate::end_state::{Block, Segment};
use crate::events::{Event, Tags};
use crate::ids::{FrameId, StackId, StringId, StringListId};
use crate::process::{DriverEvent, ProcessEvents};
use crate::stacks::{Frame, FxNode};
use crate::trace::{DeviceTrace, Trace};

impl PartialEq for Trace {
    fn eq(&self, other: &Self) -> bool {
        let ids = Translation::new(self, other);
        let devices = |a: &[DeviceTrace], b: &[DeviceTrace]| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| ids.device(a, b))
        };
        let annotations = |a: &Vec<Annotation>, b: &Vec<Annotation>| {
            let same = |(a, b): (&Annotation, &Annotation)| {
                ids.string(a.name) == Some(b.name) && *a == Annotation { name: a.name, ..*b }
            };
            a.len() == b.len() && a.iter().zip(b).all(same)
        };
        let calls = |a: &ProcessEvents, b: &ProcessEvents| {
            let same = |(a, b): (&DriverEvent, &DriverEvent)| {
                ids.string(a.library) == Some(b.library)
                    && ids.stack_or_none(a.stack, b.stack)
                    && *a == DriverEvent { library: a.library, stack: a.stack, ..*b }
            };
            (&a.readings, &a.host, &a.cut) == (&b.readings, &b.host, &b.cut)
                && a.events.len() == b.events.len()
                && a.events.iter().zip(&b.events).all(same)
        };
        self.settings == other.settings
            && self.accesses == other.accesses
            && match (&self.process, &other.process) {
                (Some(a), Some(b)) => calls(a, b),
                (a, b) => a.is_none() && b.is_none(),
            }
            && devices(&self.devices, &other.devices)
            && (self.kind, self.records_host, self.ends_early)
                == (other.kind, other.records_host, other.ends_early)
            && match (&self.annotations, &other.annotations) {
                (Some(a), Some(b)) => annotations(a, b),
                (a, b) => a.is_none() && b.is_none(),
            }
    }
}

/// Maps ids of one trace to the ids of equal entries in another trace, if they exist.
struct Translation<'t> {
    from: &'t Trace,
    to: &'t Trace,
    strings: Vec<Option<StringId>>,
    stacks: Vec<Option<StackId>>,
    tags: Vec<Option<Tags>>,
}

impl<'t> Translation<'t> {
    fn new(from: &'t Trace, to: &'t Trace) -> Self {
        let strings = from.strings.iter().map(|s| to.strings.find(s)).collect();
        let mut this = Self { from, to, strings, stacks: Vec::new(), tags: Vec::new() };
        let frames: Vec<Option<FrameId>> =
            from.frames.iter().map(|(_, f)| this.frame(f).and_then(|f| to.frames.find(f))).collect();
        let stack = |(_, s): (StackId, &[FrameId])| {
            let frames: Option<Vec<FrameId>> = s.iter().map(|f| frames[f.index()]).collect();
            to.stacks.find(&frames?)
        };
        this.stacks = from.stacks.iter().map(stack).collect();
        this.tags = from.tags.iter().map(|t| this.tags(t)).collect();
        this
    }

    fn string(&self, id: StringId) -> Option<StringId> {
        self.strings[id.index()]
    }

    /// Translates an optional string: `Some(None)` for no string, `None` for a string without a counterpart.
    fn optional(&self, id: Option<StringId>) -> Option<Option<StringId>> {
        id.map_or(Some(None), |id| self.string(id).map(Some))
    }

    fn frame(&self, f: Frame) -> Option<Frame> {
        let fx = FxNode {
            op: self.optional(f.fx.op)?,
            name: self.optional(f.fx.name)?,
            target: self.optional(f.fx.target)?,
            original_trace: self.optional(f.fx.original_trace)?,
        };
        Some(Frame { name: self.string(f.name)?, filename: self.string(f.filename)?, line: f.line, fx })
    }

    /// Returns the tags with translated strings. [`lists`](Self::lists) compares `forward_frames`.
    fn tags(&self, t: Tags) -> Option<Tags> {
        Some(Tags {
            compile_context: self.optional(t.compile_context)?,
            user_metadata: self.optional(t.user_metadata)?,
            internal_metadata: self.optional(t.internal_metadata)?,
            category: self.optional(t.category)?,
            unknown_action: self.optional(t.unknown_action)?,
            ..t
        })
    }

    fn stack(&self, a: Option<StackId>, b: Option<StackId>) -> bool {
        match (a, b) {
            (Some(a), Some(b)) => self.stacks[a.index()] == Some(b),
            (a, b) => a.is_none() && b.is_none(),
        }
    }

    /// Like [`stack`](Self::stack), but a missing stack equals an empty one. Segments and blocks need this: their `frames` are always
    /// written, and releases before that only had empty ones.
    fn stack_or_none(&self, a: Option<StackId>, b: Option<StackId>) -> bool {
        let a = a.filter(|&a| !self.from.stacks.get(a).is_empty());
        let b = b.filter(|&b| !self.to.stacks.get(b).is_empty());
        self.stack(a, b)
    }

    fn lists(&self, a: Option<StringListId>, b: Option<StringListId>) -> bool {
        match (a, b) {
            (Some(a), Some(b)) => {
                let (a, b) = (self.from.string_lists.get(a), self.to.string_lists.get(b));
                a.len() == b.len() && a.iter().zip(b).all(|(&a, &b)| self.string(a) == Some(b))
            }
            (a, b) => a.is_none() && b.is_none(),
        }
    }

    fn device(&self, a: &DeviceTrace, b: &DeviceTrace) -> bool {
        (a.device, a.overflowed, a.max_entries, a.total_bytes, &a.gap)
            == (b.device, b.overflowed, b.max_entries, b.total_bytes, &b.gap)
            && a.events.len() == b.events.len()
            && a.segments.len() == b.segments.len()
            && a.blocks.len() == b.blocks.len()
            && a.events.iter().zip(b.events.iter()).all(|(a, b)| self.event(a, b))
            && a.segments.iter().zip(&b.segments).all(|(a, b)| self.segment(a, b))
            && a.blocks.iter().zip(&b.blocks).all(|(a, b)| self.block(a, b))
            && match (&a.start_blocks, &b.start_blocks) {
                (Some(a), Some(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.block(a, b)),
                (a, b) => a.is_none() && b.is_none(),
            }
    }

    fn event(&self, a: Event, b: Event) -> bool {
        let Some(tags) = self.tags[a.tags.index()] else { return false };
        let others = self.to.tags.get(b.tags);
        self.stack(a.stack, b.stack)
            && self.lists(tags.forward_frames, others.forward_frames)
            && tags == Tags { forward_frames: tags.forward_frames, ..others }
            && a == Event { stack: a.stack, tags: a.tags, ..b }
    }

    fn segment(&self, a: &Segment, b: &Segment) -> bool {
        self.stack_or_none(a.stack, b.stack)
            && self.lists(a.forward_frames, b.forward_frames)
            && *a == Segment { stack: a.stack, forward_frames: a.forward_frames, ..b.clone() }
    }

    fn block(&self, a: &Block, b: &Block) -> bool {
        self.stack_or_none(a.stack, b.stack)
            && self.lists(a.forward_frames, b.forward_frames)
            && self.optional(a.user_metadata) == Some(b.user_metadata)
            && *a
                == Block {
                    stack: a.stack,
                    forward_frames: a.forward_frames,
                    user_metadata: a.user_metadata,
                    ..*b
                }
    }
}
