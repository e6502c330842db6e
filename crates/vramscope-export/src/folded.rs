//! Folded stacks, one line per stack: `outermost;...;innermost bytes`, the input format of flame graph tools.

use std::io::{BufWriter, Write};

use vramscope_analysis::{By, HolderKey, NodeKind, Origin, holders_at};

use crate::error::ExportError;
use crate::labels::{Labels, NO_STACK, one_frame};
use crate::source::{Source, moment};

/// The number of written lines, and the sum of their bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Folded {
    pub(crate) lines: u64,
    pub(crate) bytes: u64,
}

/// Writes the allocated bytes after event `at`, or at the peak.
///
/// Memory that was live before recording is under a separate root frame, as in the report's tree. With several devices, each device has a
/// root frame.
pub(crate) fn write(source: &Source<'_>, at: Option<usize>, out: impl Write) -> Result<Folded, ExportError> {
    let mut out = BufWriter::new(out);
    let mut labels = Labels::new(source.names());
    let mut written = Folded::default();
    for history in source.histories() {
        for holder in holders_at(&history, source.frames, moment(&history, at), By::Stack) {
            if source.devices.len() > 1 {
                write!(out, "{};", source.trace.device_name(history.device().device))?;
            }
            let before = match holder.origin {
                None | Some(Origin::Recorded) => None,
                Some(Origin::EndState) => Some(NodeKind::BeforeRecording),
                Some(Origin::FreeOnly) => Some(NodeKind::BeforeRecordingFreed),
            };
            if let Some(kind) = before {
                write!(out, "{};", one_frame(&labels.names.node(kind)))?;
            }
            match holder.key {
                HolderKey::Stack(stack) => writeln!(out, "{} {}", labels.stack(stack), holder.bytes)?,
                _ => writeln!(out, "{NO_STACK} {}", holder.bytes)?,
            }
            written.lines += 1;
            written.bytes = written.bytes.saturating_add(holder.bytes);
        }
    }
    out.flush()?;
    Ok(written)
}

#[cfg(test)]
mod tests {
    use crate::{ExportFormat, testing};

    #[test]
    fn a_stack_a_line_and_a_device_at_the_root() {
        let text = testing::text(&testing::two_devices(), ExportFormat::Folded);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        // 1000 and 2000 bytes are live together, in blocks of 1024 and 2048.
        assert!(lines[0].starts_with("device 0;train.py:70 main;train.py:7 a,b\"\\<&>\\u{1b}[31m"), "{text}");
        assert!(lines[0].ends_with("'x'_12 3072"), "{text}");
        assert_eq!(lines[1], "device 1;train.py:70 main 512");
    }
}
