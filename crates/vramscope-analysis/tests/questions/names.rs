//! Texts without end, which many frames share: what is asked of a recording looks at each of them once.

use regex::Regex;
use serde_json::json;
use vramscope_analysis::{By, Frames, HolderKey, Options, Summary};

use crate::{defaults, event, recording};

/// Frames that share a text. With one look each at all of it these tests would take hours.
const FRAMES: u32 = 60_000;

/// A recording of that many allocations, each at a line of its own of one file and function.
fn sharing(filename: &str, name: &str) -> vramscope_trace::Trace {
    // The texts are in the file once: a stack of the first allocation has both, and each line is a variant of it.
    let mut trace = {
        let mut first = event("alloc", 512, 512);
        first["frames"] = json!([{"name": name, "filename": filename, "line": 0}]);
        let others = (1..FRAMES).map(|i| event("alloc", 512 * (u64::from(i) + 1), 512));
        recording(std::iter::once(first).chain(others).collect(), Vec::new(), defaults())
    };
    let first = trace.frames.iter().next().unwrap().1;
    for line in 1..FRAMES {
        let frame = trace.frames.intern(vramscope_trace::Frame { line, ..first }).unwrap();
        trace.stacks.intern(&[frame]).unwrap();
    }
    trace
}
