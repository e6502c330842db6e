//! What to do for a better recording, in the words of the program that made this one.

use vramscope_analysis::{Recorder, Unknown};

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
pub(crate) fn remedy(why: Unknown, recorder: Recorder) -> String {
    match why {
        Unknown::NoHistory | Unknown::NoBaselineHistory => {
            format!("Call {} before what is to be measured.", record(recorder))
        }
        Unknown::NoStacks => match recorder {
            Recorder::Torch => "Call `torch.cuda.memory._record_memory_history()` with its default `context`, and enough `max_entries` for the run.".to_owned(),
            Recorder::Pool => format!("To have them, {}.", stacks(recorder)),
        },
        Unknown::NoBaseline => "Record a baseline on the same devices, or choose one with `--device`.".to_owned(),
        Unknown::EventsDropped => format!("Record the run again with {}.", larger(recorder)),
        Unknown::BaselineEventsDropped => "Record the baseline again with a larger `max_entries`.".to_owned(),
    }
}

/// With a capital, as a sentence begins.
pub(crate) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
