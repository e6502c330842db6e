//! A Chrome trace of `torch.profiler` with `profile_memory=True`, as `export_chrome_trace` writes it.
//!
//! Each `[memory]` event is an allocation or a free. Its stack are the operators and the Python functions of its thread that had begun and
//! not ended. Annotations of the user are regions. Reserved bytes are in the file as a total only, so segments are unknown.

mod launches;
mod rows;
mod timed;
mod writing;

use std::collections::BTreeMap;

use super::super::window::Window;
use super::super::{Contents, Format, FormatReader};
use super::Builder;
use crate::annotations::{Annotation, Stage};
use crate::devices::{DeviceKind, OtherAllocator};
use crate::error::ReadError;
use crate::events::{Action, Event, Tags};
use crate::ids::{FrameId, StringId};
use rows::{Row, Sink};

pub(in crate::formats) use timed::read_operators;
pub use writing::write_operators;

/// The reader of traces of `torch.profiler`.
#[derive(Debug)]
pub(in crate::formats) struct TorchProfiler;

/// Maximum number of frames of a stack; the innermost remain.
const DEEPEST: usize = 256;

impl FormatReader for TorchProfiler {
    /// The caller recognizes it by its keys, because all JSON begins alike.
    fn takes(&self, _: &[u8]) -> bool {
        false
    }

    fn read(&self, stream: Window<'_>) -> Result<Contents, ReadError> {
        let mut gather = Gather::new(stream.most_memory());
        let (read, bytes) = rows::read(stream, &mut gather);
        read.map_err(rows::Stopped::of_a_recording)?;
        gather.finish(bytes)
    }
}

/// An allocation or a free.
struct Memory {
    thread: i64,
    /// Microseconds since the trace's base time.
    at: f64,
    device: i64,
    address: u64,
    bytes: i64,
    /// Allocated bytes of the device after the event, as PyTorch counts them.
    total: Option<i64>,
}

/// The difference between PyTorch's count of a device and the sum of its events, after the first and after the last event. It is the same
/// if no event is missing.
#[derive(Default)]
struct Counts {
    sum: i128,
    first: Option<i128>,
    last: Option<i128>,
}

impl Counts {
    fn add(&mut self, bytes: i64, total: i64) {
        self.sum += i128::from(bytes);
        self.last = Some(i128::from(total) - self.sum);
        self.first = self.first.or(self.last);
    }
}

/// An operator or a Python function.
struct Slice {
    thread: i64,
    begin: f64,
    end: f64,
    frame: FrameId,
}

/// The events of a trace.
#[derive(Default)]
struct Gather {
    builder: Builder,
    memory: Vec<Memory>,
    slices: Vec<Slice>,
    regions: Vec<(f64, Stage, StringId)>,
    base_us: i64,
    kind: DeviceKind,
    /// Number of events so far.
    events: u64,
}

impl Gather {
    fn new(most_memory: u64) -> Self {
        Self { builder: Builder::new(most_memory), ..Self::default() }
    }

    fn waiting(&self) -> usize {
        // Vectors grow by doubling.
        2 * (self.memory.len() * size_of::<Memory>()
            + self.slices.len() * size_of::<Slice>()
            + self.regions.len() * (size_of::<(f64, Stage, StringId)>() + size_of::<Annotation>()))
    }

    fn finish(mut self, read: u64) -> Result<Contents, ReadError> {
        if self.memory.is_empty() {
            return Err(ReadError::OtherFile {
                what: "a trace of `torch.profiler` without memory events".to_owned(),
                remedy: "record with `profile(profile_memory=True)`, or give the file that `torch.cuda.memory._dump_snapshot` wrote",
            });
        }
        let waiting = self.waiting();
        self.builder.check_memory(waiting, read)?;
        // Files are in order of threads, not of time. Sorting is stable, so events of one time keep their order.
        self.slices.sort_by(|a, b| {
            a.thread.cmp(&b.thread).then(a.begin.total_cmp(&b.begin)).then(b.end.total_cmp(&a.end))
        });
        self.memory.sort_by(|a, b| a.thread.cmp(&b.thread).then(a.at.total_cmp(&b.at)));
        let mut events = Vec::with_capacity(self.memory.len());
        let mut open: Vec<&Slice> = Vec::new();
        let (mut next, mut frames) = (self.slices.iter().peekable(), Vec::new());
        for (i, memory) in self.memory.iter().enumerate() {
            while let Some(slice) = next.next_if(|s| (s.thread, s.begin) <= (memory.thread, memory.at)) {
                while open.last().is_some_and(|top| top.thread != slice.thread || top.end <= slice.begin) {
                    open.pop();
                }
                open.push(slice);
            }
            while open.last().is_some_and(|top| top.thread != memory.thread || top.end < memory.at) {
                open.pop();
            }
            frames.clear();
            frames.extend(open.iter().rev().take(DEEPEST).map(|slice| slice.frame));
            let stack = if frames.is_empty() { None } else { Some(self.builder.stack(&frames)?) };
            events.push((memory, stack));
            if i.is_multiple_of(1024) {
                self.builder.check_memory(waiting + i * 48, read)?;
            }
        }
        events.sort_by(|(a, _), (b, _)| a.at.total_cmp(&b.at));
        let tags = self.builder.tags(Tags::default())?;
        let base_us = self.base_us;
        let time_us = |at: f64| base_us.saturating_add(at as i64);
        let mut counts: BTreeMap<i64, Counts> = BTreeMap::new();
        for (memory, stack) in events {
            // PyTorch counts the memory of the host without a lock.
            if let Some(total) = memory.total.filter(|_| memory.device >= 0) {
                self.builder.count(memory.device, u64::try_from(total).unwrap_or(0));
                counts.entry(memory.device).or_default().add(memory.bytes, total);
            }
            let action = match memory.bytes {
                0 => continue,
                1.. => Action::Alloc,
                _ => Action::Free,
            };
            let event = Event {
                action,
                address_or_free: memory.address,
                size: memory.bytes.unsigned_abs(),
                time_us: Some(time_us(memory.at)),
                stack,
                tags,
            };
            self.builder.push(memory.device, event, read)?;
        }
        if counts.values().any(|counts| counts.first != counts.last) {
            // The times of the missing events are unknown.
            self.builder.lose_anywhere(read);
        }
        self.regions.sort_by(|a, b| a.0.total_cmp(&b.0));
        let regions = self.regions.iter();
        self.builder.trace.annotations = Some(
            regions
                .map(|&(at, stage, name)| Annotation { stage, name, device: -1, time_us: Some(time_us(at)) })
                .collect(),
        );
        self.builder.check_memory(0, read)?;
        Ok(self.builder.finish(OtherAllocator::TorchProfiler, self.kind, Format::TorchProfiler))
    }
}

impl Sink for Gather {
    fn base(&mut self, ns: i64) {
        self.base_us = ns / 1000;
    }

    fn row(&mut self, row: Row) -> Result<(), ReadError> {
        self.events += 1;
        if self.events.is_multiple_of(1024) {
            // An event has at least 40 bytes.
            self.builder.check_memory(self.waiting(), self.events * 40)?;
        }
        let is_finite = row.ts.is_finite() && row.dur.is_finite() && row.ts.abs() < 1e17;
        if !is_finite {
            return Ok(());
        }
        let begin = row.ts;
        let end = begin + row.dur.max(0.0);
        match (&*row.name, &*row.cat) {
            ("[memory]", _) => {
                let args = row.args.unwrap_or_default();
                let (Some(bytes), Some(kind)) = (args.bytes.0, args.device_type.0) else { return Ok(()) };
                // Numbers of `c10::DeviceType`.
                let device = if kind == 0 { -1 } else { args.memory_device.0.unwrap_or(0).max(0) };
                self.kind = match kind {
                    6 => DeviceKind::Rocm,
                    12 => DeviceKind::Xpu,
                    20 => DeviceKind::Npu,
                    _ => self.kind,
                };
                self.memory.push(Memory {
                    thread: row.tid.0.unwrap_or(0),
                    at: begin,
                    device,
                    address: args.address.0.unwrap_or(0).cast_unsigned(),
                    bytes,
                    total: args.total.0,
                });
            }
            (name, "python_function" | "cpu_op") => {
                let (file, line, name) = super::memscope::frame(name);
                let frame = self.builder.frame(name, file, line)?;
                self.slices.push(Slice { thread: row.tid.0.unwrap_or(0), begin, end, frame });
            }
            (name, "user_annotation") => {
                let name = self.builder.string(name)?;
                self.regions.extend([(begin, Stage::Start, name), (end, Stage::End, name)]);
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
