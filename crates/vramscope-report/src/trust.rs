//! How far the numbers of a recording and of its replay can be trusted: what every form of report and the page say of it.

use vramscope_analysis::{DeviceReplay, Quality, Recorder};

use crate::advice::{Advice, dropped, larger, sentence};
use crate::doubts::{doubts, not_recorded, replay_doubts};

/// How far the numbers of a recorded device can be trusted, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trust {
    /// Whether all numbers are exact.
    pub is_exact: bool,
    /// The same in a few words, as the title of what follows.
    pub title: &'static str,
    /// Why numbers may not be exact, a sentence each; empty where they are exact.
    pub doubts: Vec<String>,
    /// Whether a replay under the recorded settings gave what was recorded, in a sentence.
    pub replay: &'static str,
    /// That the oldest events were dropped, and how to record them, in a sentence; `None` where none was dropped.
    pub dropped: Option<String>,
}

impl Trust {
    /// How far the numbers can be trusted that have this quality. `overflowed` says that the recording itself tells of events
    /// that its ring buffer dropped.
    pub fn of(q: &Quality, overflowed: bool, recorder: Recorder, advice: &Advice) -> Self {
        let doubts = doubts(q, advice);
        let is_exact = q.sizes_exact() && doubts.is_empty();
        Self {
            is_exact,
            title: if is_exact { "The numbers are exact" } else { "Some numbers may not be exact" },
            doubts,
            replay: match q.reproduced {
                Some(true) => "A replay under the recorded settings gives every segment of the recording.",
                Some(false) => "A replay under the recorded settings does not give the recording.",
                None => "The layout told every size; no replay was needed.",
            },
            dropped: q.probably_overflowed.then(|| {
                let (dropped, larger) = (sentence(dropped(overflowed)), larger(recorder));
                format!("{dropped}: record with {larger} to see them.")
            }),
        }
    }
}

/// How far the numbers of a replay can be trusted, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplayTrust {
    /// The verdict in a few words, as the title of what follows.
    pub title: &'static str,
    /// What the replay reproduced, in sentences; `None` where it did not reproduce the recording, or that was not asked.
    pub reproduced: Option<&'static str>,
    /// Why its numbers may not be exact, a sentence each; empty where they are exact.
    pub doubts: Vec<String>,
    /// Further reasons, which hold only for settings other than the recorded ones.
    pub what_if_doubts: Vec<String>,
}

impl ReplayTrust {
    /// How far the numbers of `replay` can be trusted. `overflowed` says that the recording itself tells of events that its
    /// ring buffer dropped.
    pub fn of(replay: &DeviceReplay, overflowed: bool, advice: &Advice) -> Self {
        let (of_all, what_if_doubts) = replay_doubts(replay, overflowed, advice);
        let doubts: Vec<String> = unchecked(replay).into_iter().chain(of_all).collect();
        let reproduced = (replay.reproduced == Some(true)).then_some(if replay.compared_end {
            "Under its own settings the replay gives every address, every segment event and the layout at the end as they were recorded."
        } else {
            "Under its own settings the replay gives every address and every segment event as they were recorded. The layout at the end could not be compared."
        });
        let title = match (reproduced, doubts.is_empty() && what_if_doubts.is_empty()) {
            (Some(_), _) => "Exact: the replay reproduces the recording",
            (None, false) => "Approximate",
            (None, true) => "How far to trust it",
        };
        Self { title, reproduced, doubts, what_if_doubts }
    }
}

/// What could not be checked for want of events, in sentences.
fn unchecked(replay: &DeviceReplay) -> Option<String> {
    if replay.reproduced.is_some() || replay.skipped.is_empty() {
        return None;
    }
    let checked = if replay.is_unchecked {
        "Whether the replay reproduces the recording cannot be checked; its requests were followed by the allocator's rules alone."
    } else {
        "The replay gives every recorded address; which segments were taken or given back when is inferred."
    };
    Some(format!("{} {checked}", not_recorded(replay.skipped)))
}
