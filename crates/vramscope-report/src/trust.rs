//! The limitations of the numbers of a recording and of its replay, for all report formats and the page.

use vramscope_analysis::{DeviceReplay, Quality, Recorder};

use crate::advice::{Advice, dropped, larger, sentence};
use crate::doubts::{doubts, not_recorded, replay_doubts};

/// The limitations of the numbers of a recorded device.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trust {
    /// Whether all numbers are exact.
    pub is_exact: bool,
    /// A short title for the limitations.
    pub title: &'static str,
    /// The limitations, one sentence each; empty if all numbers are exact.
    pub doubts: Vec<String>,
    /// Whether a replay under the recorded settings reproduced the recording, in a sentence.
    pub replay: &'static str,
    /// States that the oldest events were dropped, and how to record them; `None` if none was dropped.
    pub dropped: Option<String>,
}

impl Trust {
    /// The limitations for this quality. `overflowed` if the recording states that its ring buffer dropped events.
    pub fn of(q: &Quality, overflowed: bool, recorder: Recorder, advice: &Advice) -> Self {
        let doubts = doubts(q, advice);
        let is_exact = q.sizes_exact() && doubts.is_empty();
        Self {
            is_exact,
            title: if is_exact { "The numbers are exact" } else { "Some numbers may not be exact" },
            doubts,
            replay: match q.reproduced {
                Some(true) => {
                    "A replay under the recorded settings reproduces every segment of the recording."
                }
                Some(false) => "A replay under the recorded settings does not reproduce the recording.",
                None => "All block sizes follow from the layout; no replay was needed.",
            },
            dropped: q.probably_overflowed.then(|| {
                let (dropped, larger) = (sentence(dropped(overflowed)), larger(recorder));
                format!("{dropped}: record with {larger} to see them.")
            }),
        }
    }
}

/// The limitations of the numbers of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplayTrust {
    /// A short title for the limitations.
    pub title: &'static str,
    /// What the replay reproduced; `None` if it did not reproduce the recording, or reproduction was not requested.
    pub reproduced: Option<&'static str>,
    /// The limitations, one sentence each; empty if all numbers are exact.
    pub doubts: Vec<String>,
    /// Further limitations, which apply only to settings other than the recorded ones.
    pub what_if_doubts: Vec<String>,
}

impl ReplayTrust {
    /// The limitations of `replay`. `overflowed` if the recording states that its ring buffer dropped events.
    pub fn of(replay: &DeviceReplay, overflowed: bool, advice: &Advice) -> Self {
        let (of_all, what_if_doubts) = replay_doubts(replay, overflowed, advice);
        let doubts: Vec<String> = unchecked(replay).into_iter().chain(of_all).collect();
        let reproduced = (replay.reproduced == Some(true)).then_some(if replay.compared_end {
            "Under the recorded settings, the replay reproduces every address, every segment event and the layout at the end."
        } else {
            "Under the recorded settings, the replay reproduces every address and every segment event. The layout at the end could not be compared."
        });
        let title = match (reproduced, doubts.is_empty() && what_if_doubts.is_empty()) {
            (Some(_), _) => "Exact: the replay reproduces the recording",
            (None, false) => "Approximate",
            (None, true) => "Limitations",
        };
        Self { title, reproduced, doubts, what_if_doubts }
    }
}

/// A limitation of the comparison with the recording, because of missing events.
fn unchecked(replay: &DeviceReplay) -> Option<String> {
    if replay.reproduced.is_some() || replay.skipped.is_empty() {
        return None;
    }
    let checked = if replay.is_unchecked {
        "Because of that, the replay cannot be compared with the recording; it follows the allocator's rules alone."
    } else {
        "The replay reproduces every recorded address; the times at which segments were reserved or released are inferred."
    };
    Some(format!("{} {checked}", not_recorded(replay.skipped)))
}
