//! All facts about one allocation.

use serde::Serialize;
use vramscope_analysis::{Moment, tensor_text};
use vramscope_trace::{StackId, TensorNote};

use crate::SessionError;
use crate::questions::device::OpenDevice;
use crate::questions::tables::origin;

/// All facts about one allocation.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Allocation<'r> {
    pub(crate) id: usize,
    pub(crate) address: u64,
    /// The number of earlier allocations at the same address.
    pub(crate) version: u32,
    pub(crate) requested: u64,
    /// The bytes of its block.
    pub(crate) bytes: u64,
    /// The moment after the allocation; 0 if it was live before recording.
    pub(crate) from: usize,
    /// The moment after its free.
    pub(crate) freed: Option<usize>,
    /// The moment after its memory became available again. It is later than `freed` if other streams still used the memory.
    pub(crate) to: Option<usize>,
    pub(crate) from_us: Option<i64>,
    pub(crate) freed_us: Option<i64>,
    pub(crate) to_us: Option<i64>,
    pub(crate) stack: Option<usize>,
    pub(crate) free_stack: Option<usize>,
    /// The forward pass of this backward allocation, if anomaly mode recorded it: lines of text, outermost call first.
    pub(crate) forward: Vec<&'r str>,
    pub(crate) tags: u32,
    /// A position in the device's `purposes`.
    pub(crate) purpose: u8,
    /// A position in `ORIGINS`.
    pub(crate) origin: u8,
    pub(crate) size_inferred: bool,
    /// Allocated bytes right after the allocation.
    pub(crate) total: u64,
    /// Null if its accesses are unknown.
    pub(crate) uses: Option<Uses>,
    /// Null if the program did not describe it.
    pub(crate) tensor: Option<Tensor<'r>>,
}

/// The tensor in an allocation, as the program described it at the snapshot.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Tensor<'r> {
    /// The name of a parameter, a gradient or an optimizer state; empty for other tensors.
    pub(crate) name: &'r str,
    pub(crate) dtype: &'r str,
    pub(crate) shape: &'r str,
    /// Chains of references from a variable to the tensor.
    pub(crate) referrers: Vec<&'r str>,
}

/// The accesses of an allocation by kernels, libraries and copies.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Uses {
    pub(crate) count: u64,
    /// The moments of the first and the last access; null without any.
    pub(crate) first: Option<usize>,
    pub(crate) last: Option<usize>,
    pub(crate) first_us: Option<i64>,
    pub(crate) last_us: Option<i64>,
    /// The moments of the two consecutive accesses with the most events between them; null for fewer than two accesses.
    pub(crate) longest_idle: Option<[usize; 2]>,
    /// Microseconds between the two.
    pub(crate) longest_idle_us: Option<i64>,
}

impl OpenDevice {
    pub(crate) fn allocation(&self, id: usize) -> Result<Allocation<'_>, SessionError> {
        let history = self.history();
        let Some(a) = history.allocations.get(id) else {
            return Err(SessionError::Argument(format!("no allocation {id}")));
        };
        let time = |m: Moment| self.timeline.time_of(m);
        let end = |m: Moment| Some(m).filter(|&m| m != Moment::NEVER);
        let freed = end(a.freed);
        let in_end_state = || {
            let block =
                history.device().blocks.iter().find(|b| b.address == a.address && a.to == Moment::NEVER)?;
            block.forward_frames
        };
        let trace = history.trace();
        let forward = a.tags.and_then(|tags| trace.tags.get(tags).forward_frames).or_else(in_end_state);
        let free_event = freed.and_then(Moment::event).filter(|&e| history.subject_number(e) == Some(id));
        let free_event = free_event.filter(|_| history.has_stacks_of_frees());
        Ok(Allocation {
            id,
            address: a.address,
            version: self.versions()[id],
            requested: a.requested,
            bytes: a.size,
            from: a.from.index(),
            freed: freed.map(Moment::index),
            to: end(a.to).map(Moment::index),
            from_us: time(a.from),
            freed_us: freed.and_then(time),
            to_us: end(a.to).and_then(time),
            stack: a.stack.map(StackId::index),
            free_stack: free_event.and_then(|e| history.device().events.get(e).stack).map(StackId::index),
            forward: forward
                .map_or(&[][..], |lines| trace.string_lists.get(lines))
                .iter()
                .map(|&line| trace.strings.get(line))
                .collect(),
            tags: self.tags.allocations[id],
            purpose: self.purposes().allocations[id],
            origin: origin(a.origin),
            size_inferred: a.size_inferred,
            total: self.timeline.counters_at(a.from).allocated,
            uses: vramscope_analysis::Uses::of(history, a).map(|uses| self.uses(uses)),
            tensor: tensor_text(history, a)
                .and_then(|text| TensorNote::parse(trace.strings.get(text)))
                .map(|TensorNote { name, dtype, shape, referrers }| Tensor { name, dtype, shape, referrers }),
        })
    }

    /// Converts the uses of an allocation, `None` without any, for an answer.
    fn uses(&self, uses: Option<vramscope_analysis::Uses>) -> Uses {
        let time = |m: Moment| self.timeline.time_of(m);
        let rest = uses.filter(|uses| uses.count > 1).map(|uses| uses.longest_idle);
        Uses {
            count: uses.map_or(0, |uses| uses.count),
            first: uses.map(|uses| uses.first.index()),
            last: uses.map(|uses| uses.last.index()),
            first_us: uses.and_then(|uses| time(uses.first)),
            last_us: uses.and_then(|uses| time(uses.last)),
            longest_idle: rest.map(|(from, to)| [from.index(), to.index()]),
            longest_idle_us: rest.and_then(|(from, to)| Some(time(to)?.saturating_sub(time(from)?))),
        }
    }
}
