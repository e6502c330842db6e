//! Recordings as logs, the format that a program writes while it runs.

use std::io::{self, Write};

use hashbrown::HashMap;
use vramscope_analysis::{History, Moment};
use vramscope_trace::formats::log::{LogBlock, LogEvent, LogFrame, LogSegment, LogSite, LogStack, LogWriter};
use vramscope_trace::{Action, DeviceKind, DeviceTrace, FrameId, SegmentKind, StackId, Trace};

use crate::error::ExportError;
use crate::source::Source;

/// The buffer is written when it has this many bytes.
const BUFFER: usize = 4 << 20;

/// The run's number. A log that is exported twice is the same file.
const RUN: u64 = 0;

/// Writes the recording, and returns the number of events. The log begins with the segments and blocks that were live before the first
/// event, device by device.
///
/// # Errors
/// [`ExportError::NoTime`] if an event has no time, and [`ExportError::NotCuda`] for other devices than CUDA's: a log cannot express
/// either.
pub(crate) fn write(source: &Source<'_>, out: impl Write) -> Result<u64, ExportError> {
    let trace = source.trace;
    if trace.kind != DeviceKind::Cuda {
        return Err(ExportError::NotCuda);
    }
    if source.devices().any(|device| device.events.times().any(|time| time.is_none())) {
        return Err(ExportError::NoTime);
    }
    let mut log = Log {
        log: LogWriter::create_run(out, RUN)?,
        trace,
        sites: vec![None; trace.frames.len()],
        stacks: vec![None; trace.stacks.len()],
    };
    if let Some(settings) = &trace.settings {
        log.log.settings(settings);
    }
    let mut events = 0;
    for history in source.histories() {
        log.device(&history)?;
        events += history.device().events.len() as u64;
    }
    let is_kept = |device: i64| device < 0 || source.devices().any(|d| d.device == device);
    for a in trace.annotations.iter().flatten().filter(|a| is_kept(a.device)) {
        if let Some(time_us) = a.time_us {
            log.log.annotation(a.stage, trace.strings.get(a.name), a.device, time_us);
        }
        log.flush_if_full()?;
    }
    if trace.ends_early {
        log.log.flush()?;
    } else {
        log.log.finish()?;
    }
    Ok(events)
}

struct Log<'t, W> {
    log: LogWriter<W>,
    trace: &'t Trace,
    sites: Vec<Option<LogSite>>,
    stacks: Vec<Option<LogStack>>,
}

impl<W: Write> Log<'_, W> {
    fn device(&mut self, history: &History) -> io::Result<()> {
        let (device, trace) = (history.device(), self.trace);
        self.log.device(device.device);
        let (segments, blocks) = history.state_at(Moment::START);
        for s in &segments {
            let stack = self.stack(s.stack);
            self.log.segment(
                device.device,
                &LogSegment {
                    address: s.address,
                    total_size: s.total_size,
                    stream: s.stream,
                    kind: s.kind,
                    pool: s.pool,
                    is_expandable: s.is_expandable == Some(true),
                    stack,
                },
            );
            for b in blocks.get(s.blocks.clone()).unwrap_or_default().iter().filter(|b| b.state.is_active()) {
                let stack = self.stack(b.stack);
                self.log.block(&LogBlock {
                    address: b.address,
                    size: b.size,
                    requested_size: b.requested_size,
                    state: b.state,
                    stack,
                });
            }
            self.flush_if_full()?;
        }
        let kinds: HashMap<_, _> =
            history.reserved.iter().map(|r| ((r.from, r.address), (r.kind, r.pool))).collect();
        for (number, e) in device.events.iter().enumerate() {
            self.lose_at(device, number);
            let tags = trace.tags.get(e.tags);
            let text = |id| trace.strings.get(id);
            let block_size = match e.action {
                Action::Alloc => history.subject(number).map_or(0, |a| a.size).max(1),
                _ => 0,
            };
            // The end state may name the pool of a segment whose event does not.
            let (kind, pool) = match e.action {
                Action::SegmentAlloc | Action::SegmentMap => {
                    let known = kinds.get(&(Moment::after(number), e.address())).copied();
                    known.unwrap_or_else(|| (history.policy.kind_of_segment(e.size), tags.pool))
                }
                _ => (SegmentKind::Unknown, tags.pool),
            };
            let stack = self.stack(e.stack);
            self.log.event(&LogEvent {
                device: device.device,
                action: e.action,
                unknown_action: tags.unknown_action.map(text),
                address_or_free: e.address_or_free,
                size: e.size,
                block_size,
                time_us: e.time_us.unwrap_or_default(),
                stack,
                stream: tags.stream,
                pool,
                user_metadata: tags.user_metadata.map(text),
                kind,
            });
            self.flush_if_full()?;
        }
        self.lose_at(device, device.events.len());
        Ok(())
    }

    /// Marks that events of a device are missing before the one at this position.
    fn lose_at(&mut self, device: &DeviceTrace, position: usize) {
        if device.gap.as_ref().is_some_and(|gap| [gap.start, gap.end].contains(&position)) {
            self.log.lose();
        }
    }

    fn flush_if_full(&mut self) -> io::Result<()> {
        if self.log.pending() >= BUFFER { self.log.flush() } else { Ok(()) }
    }

    fn stack(&mut self, id: Option<StackId>) -> Option<LogStack> {
        let id = id?;
        if let Some(stack) = self.stacks[id.index()] {
            return Some(stack);
        }
        let frames = self.trace.stacks.get(id);
        let sites: Vec<LogSite> = frames.iter().map(|&frame| self.site(frame)).collect();
        let stack = self.log.stack(&sites);
        self.stacks[id.index()] = Some(stack);
        Some(stack)
    }

    fn site(&mut self, id: FrameId) -> LogSite {
        if let Some(site) = self.sites[id.index()] {
            return site;
        }
        let (frame, strings) = (self.trace.frames.get(id), &self.trace.strings);
        let site = self.log.site(LogFrame {
            name: strings.get(frame.name),
            filename: strings.get(frame.filename),
            line: frame.line,
        });
        self.sites[id.index()] = Some(site);
        site
    }
}

#[cfg(test)]
mod tests;
