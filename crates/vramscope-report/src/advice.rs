//! Advice texts: how to make a better recording, in the API of the recorder, and how to act on a report, in the terms of the program
//! that shows it.

use vramscope_analysis::{Recorder, Unknown};

/// Names of the options, buttons or functions by which a user follows the advice of a report. Each text fits into a sentence.
///
/// The default names the types of this library.
///
/// ```
/// use vramscope_report::Advice;
///
/// let advice = Advice { replay: "the button \"Replay\"", ..Advice::default() };
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advice {
    /// How to see the allocations that are live at an event other than the peak.
    pub any_moment: &'static str,
    /// How to compare settings and device sizes, and to see the first event that a replay does not reproduce.
    pub replay: &'static str,
    /// How to set the device size, including related options.
    pub capacity: &'static str,
    /// How to set the device size only.
    pub capacity_alone: &'static str,
    /// How to set the device bytes that the allocator cannot use (contexts, other processes).
    pub overhead: &'static str,
    /// How to choose the PyTorch release whose rules the replay follows.
    pub release: &'static str,
    /// How to choose one device.
    pub device: &'static str,
    /// How to make a check fail if a request for memory failed.
    pub no_oom: &'static str,
    /// Prefix of an option, as `--` in `--max-peak 40GiB`. If it is empty, `_` stands for `-`.
    pub option_prefix: &'static str,
}

impl Advice {
    /// Advice for programs that use the libraries directly.
    pub const LIBRARY: Self = Self {
        any_moment: "`Options::at`",
        replay: "`DeviceReplay`",
        capacity: "`ReplayOptions::capacity`",
        capacity_alone: "`ReplayOptions::capacity`",
        overhead: "`Capacity::overhead`",
        release: "`ReplayOptions::release`",
        device: "`DeviceHistory::history`",
        no_oom: "`Budget::NoOoms`",
        option_prefix: "",
    };
}

impl Advice {
    /// An option as the reader writes it: `--max-peak` or `max_peak`.
    #[must_use]
    pub fn option(&self, name: &str) -> String {
        match self.option_prefix {
            "" => name.replace('-', "_"),
            prefix => format!("{prefix}{name}"),
        }
    }
}

impl Default for Advice {
    fn default() -> Self {
        Self::LIBRARY
    }
}

/// The call that starts recording.
pub(crate) fn record(recorder: Recorder) -> &'static str {
    match recorder {
        Recorder::Torch => "`torch.cuda.memory._record_memory_history()`",
        Recorder::Pool => "`MemoryPool::record_memory_history`",
        Recorder::Process => "`vramscope run`",
        Recorder::Other => "the recorder of that tool",
    }
}

/// How to record stacks.
pub(crate) fn stacks(recorder: Recorder) -> &'static str {
    match recorder {
        Recorder::Torch => "call `_record_memory_history` with its default `context`",
        Recorder::Pool => {
            "call `MemoryPool::record_memory_history` with the `context` of `HistoryOptions::default()`"
        }
        Recorder::Process => "run the program with CPython 3.11, 3.12 or 3.13",
        Recorder::Other => "record with stacks, if that tool can",
    }
}

/// How to keep the oldest events; completes "record with".
pub(crate) fn larger(recorder: Recorder) -> &'static str {
    match recorder {
        Recorder::Torch => "a larger `max_entries`",
        Recorder::Pool => "a larger `HistoryOptions::max_entries`, or with `stream_to`",
        Recorder::Process => "`vramscope run` from the start of the program, and a larger `--keep`",
        Recorder::Other => "that tool from the start of the program",
    }
}

/// What happened to the oldest events in a ring buffer or a cut log. `is_certain` if the file records that they were dropped.
pub(crate) fn dropped(is_certain: bool) -> &'static str {
    if is_certain {
        "the oldest events were dropped"
    } else {
        "the ring buffer probably dropped the oldest events"
    }
}

/// What to do if it is unknown whether a budget is kept.
pub(crate) fn remedy(why: Unknown, recorder: Recorder, advice: &Advice) -> String {
    match why {
        Unknown::NoHistory | Unknown::NoBaselineHistory => {
            format!("Call {} before the code to measure.", record(recorder))
        }
        Unknown::NoStacks => match recorder {
            Recorder::Torch => "Call `torch.cuda.memory._record_memory_history()` with its default `context`, and a `max_entries` that is large enough for the run.".to_owned(),
            Recorder::Pool | Recorder::Process | Recorder::Other => format!("To record stacks, {}.", stacks(recorder)),
        },
        Unknown::NoCategories => match recorder {
            Recorder::Torch => "Record with stacks, or with `vramscope.torch.record`, which records the category of each block.".to_owned(),
            Recorder::Pool => "The pool does not record categories.".to_owned(),
            Recorder::Process => "A log does not have categories; `vramscope run --history` records them.".to_owned(),
            Recorder::Other => "The format does not have categories.".to_owned(),
        },
        Unknown::NoBaseline => {
            format!("Record a baseline on the same devices, or choose one with {}.", advice.device)
        }
        Unknown::EventsDropped => format!("Record the run again with {}.", larger(recorder)),
        Unknown::BaselineEventsDropped => "Record the baseline again with a larger `max_entries`.".to_owned(),
        Unknown::NoFailedRequests => {
            "Check the exit code of the program, or record it with `vramscope run`.".to_owned()
        }
        Unknown::Damaged | Unknown::Contradictions => {
            "Copy the file again from where it was written, or record the run again.".to_owned()
        }
        Unknown::EndsEarly => {
            "The program was killed or is still running. Record a run that ends, and check its exit code.".to_owned()
        }
        Unknown::CountedMore => format!("Record the run again with {}.", larger(recorder)),
        Unknown::UnknownEvents => "Check the exit code of the program, or update vramscope.".to_owned(),
        Unknown::BaselineIncomplete => "Copy or record the baseline again.".to_owned(),
        Unknown::NoSegments => {
            format!("Set a limit on allocated bytes instead, with {}.", advice.option("max-peak"))
        }
    }
}

/// `text` with its first letter in upper case.
pub(crate) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
