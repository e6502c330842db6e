//! Recorded categories of allocations.

use std::sync::Arc;

use hashbrown::HashMap;
use vramscope_trace::{Category, Phase, Purpose, StringId, Trace};

use crate::history::{History, Origin, RecordedAllocation};

/// The recorded properties of a device's allocations, from the texts that the Python package writes ([`Purpose`]) or from the
/// categories of PyTorch's profiler.
#[derive(Debug, Default)]
pub(super) struct Tags {
    /// By [`TagsId`](vramscope_trace::TagsId).
    of_tags: Vec<Known>,
    /// By address, for allocations that were live before recording began.
    of_blocks: HashMap<u64, Known>,
}

/// The recorded properties of an allocation.
#[derive(Debug, Clone, Default)]
struct Known {
    category: Option<Category>,
    phase: Option<Phase>,
    layer: Option<Arc<str>>,
}

impl Tags {
    /// Reads the recorded properties for the device of `history`.
    pub(super) fn of(history: &History) -> Self {
        let trace = history.trace();
        let mut texts = Texts { trace, layers: HashMap::new() };
        let of_tags = trace.tags.iter().map(|t| {
            let known = texts.known(t.user_metadata);
            let profilers = t.category.and_then(|name| Category::named(trace.strings.get(name)));
            Known { category: known.category.or(profilers), ..known }
        });
        let of_tags = of_tags.collect();
        let blocks = history.device().recorded_blocks().filter(|b| b.user_metadata.is_some());
        let of_blocks = blocks.map(|b| (b.address, texts.known(b.user_metadata))).collect();
        Self { of_tags, of_blocks }
    }

    /// Returns the recorded category of `allocation`.
    pub(super) fn category(&self, allocation: &RecordedAllocation) -> Option<Category> {
        self.known(allocation)?.category
    }

    /// Returns the path of the module that made `allocation`; empty for the outermost module.
    pub(super) fn layer(&self, allocation: &RecordedAllocation) -> Option<&Arc<str>> {
        self.known(allocation)?.layer.as_ref()
    }

    /// Returns the phase of a training step in which `allocation` was made.
    pub(super) fn phase(&self, allocation: &RecordedAllocation) -> Option<Phase> {
        self.known(allocation)?.phase
    }

    fn known(&self, allocation: &RecordedAllocation) -> Option<&Known> {
        match (allocation.origin, allocation.tags) {
            (Origin::Recorded, Some(tags)) => self.of_tags.get(tags.index()),
            (Origin::EndState, _) => self.of_blocks.get(&allocation.address),
            _ => None,
        }
    }
}

/// The parsed texts of a recording; each path is stored once.
struct Texts<'t> {
    trace: &'t Trace,
    layers: HashMap<&'t str, Arc<str>>,
}

impl Texts<'_> {
    fn known(&mut self, metadata: Option<StringId>) -> Known {
        let Some(metadata) = metadata else { return Known::default() };
        let purpose = Purpose::parse(self.trace.strings.get(metadata));
        let layer = purpose.module.map(|path| self.layers.entry(path).or_insert_with(|| path.into()).clone());
        Known { category: purpose.category, phase: purpose.phase, layer }
    }
}
