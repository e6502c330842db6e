//! Reads any bytes and runs every query, the timeline, every report and every export. A trace must be equal after a write and a read.
#![no_main]

#[path = "../questions/mod.rs"]
mod questions;
#[path = "../questions/samples.rs"]
mod samples;

use libfuzzer_sys::fuzz_target;
use vramscope::analysis::{Alignment, Axis};
use vramscope::prelude::*;
use vramscope::trace::OperatorTrace;
use vramscope::trace::formats::{Opened, Reader, write_operators};

fuzz_target!(|bytes: &[u8]| check(bytes));

/// Reads `bytes` and runs every query on the recording or the log of samples.
fn check(bytes: &[u8]) {
    let operators = Reader::new(bytes).read_operators().ok();
    operators.iter().for_each(written);
    match Reader::new(bytes).read_any() {
        Ok(Opened::Recording(recording)) if operators.is_some() => {
            questions::ask(&recording);
            // The trace is of the run that it is itself a recording of.
            operators.iter().for_each(|trace| align(&recording, trace));
        }
        Ok(Opened::Recording(recording)) => questions::ask(&recording),
        Ok(Opened::Samples { log, .. }) => samples::ask(&log),
        Err(_) => {}
    }
}

/// Writes a trace, and reads it again.
fn written(trace: &OperatorTrace) {
    let mut bytes = Vec::new();
    write_operators(trace, &mut bytes).unwrap();
    let again = Reader::new(&bytes[..]).read_operators().unwrap();
    let spans = |trace: &OperatorTrace| trace.lanes.iter().map(|lane| lane.spans.len()).sum::<usize>();
    assert_eq!((spans(&again), again.memory.len()), (spans(trace), trace.memory.len()));
}

/// Aligns a trace with a recording, and asks for the memory of its operators.
fn align(recording: &Recording, trace: &OperatorTrace) {
    let histories: Vec<_> =
        (0..recording.trace.devices.len()).map(|position| History::of(&recording.trace, position)).collect();
    let Ok(aligned) = Alignment::of(&histories.iter().collect::<Vec<_>>(), trace) else { return };
    assert!(aligned.matched <= trace.memory.len());
    for (clock, history) in aligned.clocks.iter().zip(&histories) {
        for span in trace.lanes.iter().flat_map(|lane| lane.spans.iter().take(100)) {
            let memory = clock.memory(history, (span.start_ns, span.end_ns), None);
            assert!(memory.kept_bytes <= memory.bytes && memory.kept_count <= memory.count);
            for axis in [Axis::Events, Axis::Time] {
                let ends = [span.start_ns, span.end_ns].map(|ns| clock.position(axis, ns));
                assert!(ends[0] <= ends[1], "{ends:?}");
                for at in ends.into_iter().flatten() {
                    clock.time_at(axis, at);
                }
            }
        }
    }
}
