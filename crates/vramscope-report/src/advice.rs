//! What to do: for a better recording, in the words of the program that made this one; with the answers, in the words of
//! the program that shows them.

use vramscope_analysis::{Recorder, Unknown};

/// How a reader does what a report advises, in the words of the program that shows it: each as it stands in a sentence.
///
/// The default names this library's own types; a program has options, buttons or functions of its own.
///
/// ```
/// use vramscope_report::Advice;
///
/// let advice = Advice { replay: "the button \"Replay\"", ..Advice::default() };
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advice {
    /// How to see what is live at a moment other than the peak.
    pub any_moment: &'static str,
    /// How to compare settings and sizes of devices, and to see where a recording is not reproduced.
    pub replay: &'static str,
    /// How to give the size of the device, with its other parts.
    pub capacity: &'static str,
    /// How to give the size of the device and nothing else.
    pub capacity_alone: &'static str,
    /// How to give the bytes of the device that the allocator cannot have, for contexts and other processes.
    pub overhead: &'static str,
    /// How to choose the release of PyTorch whose rules are followed.
    pub release: &'static str,
    /// How to choose one device.
    pub device: &'static str,
    /// How to let a check fail where a request for memory failed.
    pub no_oom: &'static str,
    /// What stands before the name of a budget where it is set, as in `--max-peak 40GiB`.
    pub budget_prefix: &'static str,
}

impl Advice {
    /// The words of a program that asks the libraries itself.
    pub const LIBRARY: Self = Self {
        any_moment: "`Options::at`",
        replay: "`DeviceReplay`",
        capacity: "`ReplayOptions::capacity`",
        capacity_alone: "`ReplayOptions::capacity`",
        overhead: "`Capacity::overhead`",
        release: "`ReplayOptions::release`",
        device: "`DeviceRecording::position`",
        no_oom: "`Budget::NoOoms`",
        budget_prefix: "",
    };
}

impl Default for Advice {
    fn default() -> Self {
        Self::LIBRARY
    }
}

/// The call that begins to record.
pub(crate) fn record(recorder: Recorder) -> &'static str {
    match recorder {
        Recorder::Torch => "`torch.cuda.memory._record_memory_history()`",
        Recorder::Pool => "`MemoryPool::record_memory_history`",
    }
}

/// How stacks are recorded.
pub(crate) fn stacks(recorder: Recorder) -> &'static str {
    match recorder {
        Recorder::Torch => "call `_record_memory_history` with its default `context`",
        Recorder::Pool => {
            "call `MemoryPool::record_memory_history` with the `context` of `HistoryOptions::default()`"
        }
    }
}

/// How no event is dropped, as what follows "record with".
pub(crate) fn larger(recorder: Recorder) -> &'static str {
    match recorder {
        Recorder::Torch => "a larger `max_entries`",
        Recorder::Pool => "a larger `HistoryOptions::max_entries`, or with `stream_to`",
    }
}

/// What becomes of the oldest events in a ring buffer; the file may say so itself.
pub(crate) fn dropped(is_certain: bool) -> &'static str {
    if is_certain {
        "the ring buffer dropped the oldest events"
    } else {
        "the ring buffer probably dropped the oldest events"
    }
}

/// What to do where it is not known whether a budget is kept.
pub(crate) fn remedy(why: Unknown, recorder: Recorder, advice: &Advice) -> String {
    match why {
        Unknown::NoHistory | Unknown::NoBaselineHistory => {
            format!("Call {} before what is to be measured.", record(recorder))
        }
        Unknown::NoStacks => match recorder {
            Recorder::Torch => "Call `torch.cuda.memory._record_memory_history()` with its default `context`, and enough `max_entries` for the run.".to_owned(),
            Recorder::Pool => format!("To have them, {}.", stacks(recorder)),
        },
        Unknown::NoCategories => match recorder {
            Recorder::Torch => "Record with stacks, or with `vramscope.torch.record`, which notes what each block is for.".to_owned(),
            Recorder::Pool => "The pool does not note it.".to_owned(),
        },
        Unknown::NoBaseline => {
            format!("Record a baseline on the same devices, or choose one with {}.", advice.device)
        }
        Unknown::EventsDropped => format!("Record the run again with {}.", larger(recorder)),
        Unknown::BaselineEventsDropped => "Record the baseline again with a larger `max_entries`.".to_owned(),
    }
}

/// With a capital, as a sentence begins.
pub(crate) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
