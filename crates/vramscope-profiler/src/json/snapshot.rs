//! A snapshot as JSON.

use std::convert::Infallible;
use std::str::FromStr;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use vramscope_allocator::SourceFrame;

use super::{microseconds, seconds};
use crate::snapshot::{MemorySnapshot, Operation};

/// gpumemprof's keys in its order, then ours.
#[derive(Serialize, Deserialize)]
struct SnapshotKeys {
    timestamp: f64,
    allocated_memory: Option<u64>,
    reserved_memory: Option<u64>,
    max_memory_allocated: Option<u64>,
    max_memory_reserved: Option<u64>,
    active_memory: Option<u64>,
    inactive_memory: Option<u64>,
    cpu_memory: Option<u64>,
    device_id: Option<i32>,
    operation: Option<String>,
    /// In Python's format, outermost frame first.
    stack_trace: Option<String>,
    requested_memory: Option<u64>,
    device_used_memory: Option<u64>,
    /// The same frames as objects, innermost first.
    #[serde(skip_serializing_if = "Option::is_none")]
    stack_frames: Option<Vec<FrameKeys>>,
}

#[derive(Serialize, Deserialize)]
struct FrameKeys {
    filename: String,
    line: u32,
    name: String,
}

impl Serialize for MemorySnapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let stack = self.stack_trace.as_deref();
        let frame = |f: &SourceFrame| FrameKeys {
            filename: f.filename.as_ref().to_owned(),
            line: f.line,
            name: f.name.as_ref().to_owned(),
        };
        SnapshotKeys {
            timestamp: seconds(self.timestamp_us),
            allocated_memory: self.allocated_memory,
            reserved_memory: self.reserved_memory,
            max_memory_allocated: self.max_memory_allocated,
            max_memory_reserved: self.max_memory_reserved,
            active_memory: self.active_memory,
            inactive_memory: self.inactive_memory,
            cpu_memory: self.cpu_memory,
            device_id: self.device_id,
            operation: Some(self.operation.to_string()).filter(|words| !words.is_empty()),
            stack_trace: stack.map(as_python_writes),
            requested_memory: self.requested_memory,
            device_used_memory: self.device_used_memory,
            stack_frames: stack.map(|frames| frames.iter().map(frame).collect()),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for MemorySnapshot {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = SnapshotKeys::deserialize(deserializer)?;
        let no_time = || D::Error::custom(format_args!("timestamp is out of range: {} s", read.timestamp));
        let frames = read
            .stack_frames
            .map(|frames| frames.iter().map(|f| SourceFrame::new(&f.filename, f.line, &f.name)).collect());
        let Ok(operation) = read.operation.unwrap_or_default().parse();
        Ok(Self {
            timestamp_us: microseconds(read.timestamp).ok_or_else(no_time)?,
            allocated_memory: read.allocated_memory,
            reserved_memory: read.reserved_memory,
            max_memory_allocated: read.max_memory_allocated,
            max_memory_reserved: read.max_memory_reserved,
            active_memory: read.active_memory,
            inactive_memory: read.inactive_memory,
            requested_memory: read.requested_memory,
            device_used_memory: read.device_used_memory,
            cpu_memory: read.cpu_memory,
            device_id: read.device_id,
            operation,
            stack_trace: frames.or_else(|| read.stack_trace.as_deref().map(from_python)),
        })
    }
}

impl FromStr for Operation {
    type Err = Infallible;

    /// Parses the output of [`Display`](std::fmt::Display); any other text is [`Operation::Other`].
    fn from_str(words: &str) -> Result<Self, Infallible> {
        let of = |prefix: &str| words.strip_prefix(prefix).map(Arc::from);
        Ok(match words {
            "baseline" => Self::Baseline,
            "monitor" => Self::Monitor,
            "now" => Self::Now,
            _ => of("before_")
                .map(Self::Before)
                .or_else(|| of("peak_").map(Self::Peak))
                .or_else(|| of("after_").map(Self::After))
                .unwrap_or_else(|| Self::Other(words.into())),
        })
    }
}

/// Formats frames as Python's `traceback.format_stack()`, without source lines.
fn as_python_writes(frames: &[SourceFrame]) -> String {
    let line = |f: &SourceFrame| format!("  File \"{}\", line {}, in {}\n", f.filename, f.line, f.name);
    frames.iter().rev().map(line).collect()
}

/// Parses the frames in the output of Python's `traceback.format_stack()`. Source lines between them are skipped.
fn from_python(text: &str) -> Arc<[SourceFrame]> {
    let frame = |line: &str| {
        let (filename, rest) = line.trim_start().strip_prefix("File \"")?.rsplit_once("\", line ")?;
        let (line, name) = rest.split_once(", in ")?;
        Some(SourceFrame::new(filename, line.parse().ok()?, name))
    };
    let mut frames: Vec<SourceFrame> = text.lines().filter_map(frame).collect();
    frames.reverse();
    frames.into()
}
