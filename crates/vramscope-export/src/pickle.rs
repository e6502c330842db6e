//! PyTorch snapshots, written by `vramscope-trace`.

use std::io::Write;

use vramscope_trace::{Trace, formats};

use crate::error::ExportError;
use crate::source::Source;

/// Writes the recording, and returns the number of events.
///
/// If devices are left out, their segments and annotations and the pinned host memory are left out too.
pub(crate) fn write(source: &Source<'_>, out: impl Write) -> Result<u64, ExportError> {
    let whole = source.trace;
    if source.devices.len() == whole.devices.len() {
        formats::write_pickle(whole, out)?;
        return Ok(whole.devices.iter().map(|d| d.events.len() as u64).sum());
    }
    let is_kept = |device: i64| device < 0 || source.devices().any(|d| d.device == device);
    let annotations = whole.annotations.as_ref();
    let part = Trace {
        process: None,
        accesses: None,
        operators: None,
        ends_early: whole.ends_early,
        devices: source.devices().cloned().collect(),
        kind: whole.kind,
        records_host: false,
        annotations: annotations.map(|a| a.iter().filter(|a| is_kept(a.device)).copied().collect()),
        settings: whole.settings.clone(),
        strings: whole.strings.clone(),
        string_lists: whole.string_lists.clone(),
        frames: whole.frames.clone(),
        stacks: whole.stacks.clone(),
        tags: whole.tags.clone(),
    };
    formats::write_pickle(&part, out)?;
    Ok(part.devices.iter().map(|d| d.events.len() as u64).sum())
}

#[cfg(test)]
mod tests {
    use vramscope_analysis::Frames;
    use vramscope_trace::formats;

    use crate::{ExportFormat, ExportOptions, Source, testing, write};

    #[test]
    fn an_exported_pickle_reads_back_as_the_same_trace() {
        let trace = testing::two_devices();
        let (pickle, written) = testing::export(&trace, ExportFormat::Pickle, &ExportOptions::default());
        assert_eq!(written.rows, 8);
        assert!(formats::read(&pickle[..]).unwrap().trace == trace);
    }

    #[test]
    fn one_device_alone_keeps_its_number() {
        let trace = testing::two_devices();
        let frames = Frames::of(&trace);
        let source = Source { trace: &trace, frames: &frames, devices: vec![1] };
        let mut pickle = Vec::new();
        let written = write(&source, ExportFormat::Pickle, &ExportOptions::default(), &mut pickle).unwrap();
        assert_eq!(written.rows, 1);
        let read = formats::read(&pickle[..]).unwrap().trace;
        assert_eq!((read.devices[0].events.len(), read.devices[1].events.len()), (0, 1));
        assert!(read.devices[0].segments.is_empty());
        assert_eq!(read.annotations.as_ref().map(Vec::len), Some(0));
    }

    #[test]
    fn an_export_of_all_devices_keeps_the_annotations_of_unknown_devices() {
        let alloc = serde_json::json!({"action": "alloc", "addr": 512, "size": 9, "stream": 0});
        let trace = testing::read(&serde_json::json!({"segments": [], "device_traces": [[alloc]],
            "external_annotations": [{"stage": "START", "name": "a", "device": 5, "time_us": 1}]}));
        let (pickle, _) = testing::export(&trace, ExportFormat::Pickle, &ExportOptions::default());
        let read = formats::read(&pickle[..]).unwrap().trace;
        assert_eq!(read.annotations.as_ref().map(Vec::len), Some(1));
    }
}
