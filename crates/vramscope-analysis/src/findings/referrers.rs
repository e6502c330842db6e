//! Tensors whose referrers the program named when it took the snapshot.

use std::cmp::Reverse;

use vramscope_trace::{StringId, TensorNote};

use crate::history::{History, Moment, Origin, RecordedAllocation};

/// An allocation with a tensor to which Python objects referred at the snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReferredTensor {
    /// The index of the allocation in [`History::allocations`].
    pub allocation: usize,
    /// The allocation itself.
    pub of: RecordedAllocation,
    /// The text of its [`TensorNote`].
    pub text: StringId,
}

/// Returns the text with the [`TensorNote`] of an allocation, if the program described it.
pub fn tensor_text(history: &History, a: &RecordedAllocation) -> Option<StringId> {
    let trace = history.trace();
    let text = match (a.origin, a.tags) {
        (Origin::Recorded, Some(tags)) => trace.tags.get(tags).user_metadata,
        (Origin::EndState, _) => {
            let at = history.device().recorded_blocks().filter(|b| b.address == a.address);
            at.last().and_then(|b| b.user_metadata)
        }
        _ => None,
    }?;
    TensorNote::parse(trace.strings.get(text)).map(|_| text)
}

/// Returns the tensors with known referrers, most bytes first. With `at`, only those that are allocated at that moment.
pub fn referred_tensors(
    history: &History,
    at: Option<Moment>,
    takes: impl Fn(&RecordedAllocation) -> bool,
) -> Vec<ReferredTensor> {
    let trace = history.trace();
    let is_referred = |text: StringId| {
        TensorNote::parse(trace.strings.get(text)).is_some_and(|note| !note.referrers.is_empty())
    };
    // Few texts have notes, and most recordings none.
    let of_tags: Vec<bool> =
        trace.tags.iter().map(|tags| tags.user_metadata.is_some_and(is_referred)).collect();
    let mut blocks = history.device().recorded_blocks();
    if !of_tags.contains(&true) && !blocks.any(|b| b.user_metadata.is_some_and(is_referred)) {
        return Vec::new();
    }
    let all = history.allocations.iter().enumerate();
    let may_be = |a: &RecordedAllocation| match a.origin {
        Origin::Recorded => a.tags.is_some_and(|tags| of_tags.get(tags.index()) == Some(&true)),
        _ => a.origin == Origin::EndState,
    };
    let among = all.filter(|(_, a)| may_be(a) && at.is_none_or(|at| a.is_allocated_at(at)) && takes(a));
    let mut found: Vec<ReferredTensor> = among
        .filter_map(|(allocation, a)| {
            let text = tensor_text(history, a).filter(|&text| is_referred(text))?;
            Some(ReferredTensor { allocation, of: *a, text })
        })
        .collect();
    found.sort_by_key(|tensor| (Reverse(tensor.of.size), tensor.allocation));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::When;

    fn history() -> History {
        let note = |name: &str, referrers: &str| {
            format!("own\nvramscope-tensor:dtype=int8;shape=(9,);name={name}{referrers}")
        };
        let event = |action: &str, at: u64, size: u64, text: &str| serde_json::json!({"action": action, "addr": at << 30, "size": size, "stream": 0, "user_metadata": text});
        let referrer = "\nvramscope-referrer:main (a.py:1): kept";
        let block = serde_json::json!({"address": 9_u64 << 30, "size": 512, "requested_size": 512, "state": "active_allocated",
            "frames": [], "user_metadata": note("older", referrer)});
        let snapshot = serde_json::json!({
            "segments": [{"device": 0, "address": 9_u64 << 30, "total_size": 512, "stream": 0, "segment_type": "small",
                "allocated_size": 512, "active_size": 512, "blocks": [block]}],
            "device_traces": [[
                event("alloc", 1, 1024, &note("small", referrer)),
                event("alloc", 2, 4096, &note("large", referrer)),
                event("alloc", 3, 8192, &note("alone", "")),
                event("alloc", 4, 8192, "own"),
                event("free_completed", 2, 4096, ""),
            ]],
        });
        let recording = vramscope_trace::formats::read(snapshot.to_string().as_bytes()).unwrap();
        History::replayed(&recording.trace, 0)
    }

    fn names(history: &History, at: Option<When>) -> Vec<String> {
        let at = at.map(|at| history.moment(at));
        let found = referred_tensors(history, at, |_| true);
        let name = |t: &ReferredTensor| {
            TensorNote::parse(history.trace().strings.get(t.text)).unwrap().name.to_owned()
        };
        found.iter().map(name).collect()
    }

    #[test]
    fn referred_tensors_come_by_size_and_by_moment() {
        let history = history();
        assert_eq!(names(&history, None), ["large", "small", "older"]);
        assert_eq!(names(&history, Some(When::End)), ["small", "older"]);
        let texts: Vec<bool> =
            history.allocations.iter().map(|a| tensor_text(&history, a).is_some()).collect();
        assert_eq!(texts.iter().filter(|has| **has).count(), 4);
    }
}
