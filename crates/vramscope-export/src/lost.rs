//! The parts of a recording that an export leaves out.

use hashbrown::HashSet;
use vramscope_trace::{Action, DeviceTrace, FxNode, NO_COMPILE_CONTEXT, Trace};

use crate::format::ExportFormat;
use crate::source::Source;

/// Returns what a file of `format` lacks of this recording, as phrases. Of the formats that vramscope reads back (pickle and log), these are
/// parts that the recording has. Other formats have one phrase for all recordings.
pub fn lost(source: &Source<'_>, format: ExportFormat) -> Vec<&'static str> {
    match format {
        ExportFormat::Pickle => common(source).collect(),
        ExportFormat::Log => common(source).chain(log(source)).collect(),
        ExportFormat::Chrome => vec![
            "settings of the allocator, pools of segments, stacks of frees and of segments; vramscope does not read this format back",
        ],
        ExportFormat::Pprof | ExportFormat::Folded | ExportFormat::Flamegraph => vec![
            "all but the memory allocated at one event: no other events, times, addresses or segments; vramscope does not read this format back",
        ],
        ExportFormat::Csv | ExportFormat::Parquet => vec![
            "all but one table: no settings of the allocator, annotated regions or other tables; vramscope does not read this format back",
        ],
    }
}

fn present(parts: impl IntoIterator<Item = (bool, &'static str)>) -> impl Iterator<Item = &'static str> {
    parts.into_iter().filter(|(is_there, _)| *is_there).map(|(_, name)| name)
}

fn common(source: &Source<'_>) -> impl Iterator<Item = &'static str> {
    let trace = source.trace;
    present([
        (source.devices.len() < trace.devices.len(), "other devices"),
        (trace.process.is_some(), "memory of other libraries, and readings of the driver"),
        (trace.accesses.is_some(), "accesses of allocations"),
        (trace.operators.is_some(), "operators and kernels"),
    ])
}

fn log(source: &Source<'_>) -> impl Iterator<Item = &'static str> {
    let trace = &**source.trace;
    let any_device = |has: fn(&DeviceTrace) -> bool| source.devices().any(has);
    let tags = || trace.tags.iter();
    let is_region = |name| trace.strings.get(name) != NO_COMPILE_CONTEXT;
    present([
        (tags().any(|t| t.compile_context.is_some_and(is_region)), "names of compiled regions"),
        (tags().any(|t| t.category.is_some()), "categories"),
        (tags().any(|t| t.internal_metadata.is_some()), "notes of the allocator"),
        (has_forward_frames(trace), "stacks of forward passes"),
        (trace.frames.iter().any(|(_, frame)| frame.fx != FxNode::default()), "FX nodes of frames"),
        (any_device(|d| d.overflowed == Some(true)), "the statement that the ring buffer dropped events"),
        (any_device(|d| d.max_entries.is_some()), "capacity of the ring buffer"),
        (any_device(|d| d.total_bytes.is_some()), "size of the device"),
        (trace.annotations.iter().flatten().any(|a| a.time_us.is_none()), "annotated regions without a time"),
        (any_device(has_older_texts), "texts of blocks that were live before recording"),
    ])
}

/// Whether a block without an allocation event has user metadata.
fn has_older_texts(device: &DeviceTrace) -> bool {
    let mut noted = device.blocks.iter().filter(|b| b.user_metadata.is_some()).peekable();
    if noted.peek().is_none() {
        return false;
    }
    let events = device.events.iter().filter(|e| e.action == Action::Alloc);
    let allocated: HashSet<u64> = events.map(|e| e.address()).collect();
    noted.any(|b| !allocated.contains(&b.address))
}

fn has_forward_frames(trace: &Trace) -> bool {
    let of_blocks = |d: &DeviceTrace| {
        d.blocks.iter().any(|b| b.forward_frames.is_some())
            || d.segments.iter().any(|s| s.forward_frames.is_some())
    };
    trace.tags.iter().any(|t| t.forward_frames.is_some()) || trace.devices.iter().any(of_blocks)
}

#[cfg(test)]
mod tests {
    use vramscope_analysis::Frames;
    use vramscope_trace::Trace;

    use super::*;
    use crate::testing;

    fn lost_of(trace: Trace, format: ExportFormat) -> Vec<&'static str> {
        let trace = std::sync::Arc::new(trace);
        let frames = Frames::of(&trace);
        lost(&Source { trace: &trace, frames: &frames, devices: (0..trace.devices.len()).collect() }, format)
    }

    #[test]
    fn only_parts_that_the_recording_has_are_lost() {
        let mut trace = (*testing::two_devices()).clone();
        assert!(lost_of(trace.clone(), ExportFormat::Pickle).is_empty());
        assert!(lost_of(trace.clone(), ExportFormat::Log).is_empty());
        trace.process = Some(Default::default());
        trace.devices[0].total_bytes = Some(1 << 30);
        trace.operators = Some([0].into());
        let others = ["memory of other libraries, and readings of the driver", "operators and kernels"];
        assert_eq!(lost_of(trace.clone(), ExportFormat::Pickle), others);
        assert_eq!(
            lost_of(trace.clone(), ExportFormat::Log),
            [&others[..], &["size of the device"]].concat()
        );
        let formulas = (*testing::formulas()).clone();
        assert_eq!(lost_of(formulas, ExportFormat::Log), ["names of compiled regions", "categories"]);
        for format in ExportFormat::ALL {
            let is_read = matches!(format, ExportFormat::Pickle | ExportFormat::Log);
            assert_eq!(lost_of((*testing::two_devices()).clone(), format).is_empty(), is_read);
        }
    }
}
