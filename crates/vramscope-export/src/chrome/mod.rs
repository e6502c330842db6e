//! The Trace Event Format of Chrome and Perfetto, as JSON.
//!
//! Each device is a process. It has counters of bytes, an asynchronous slice for the lifetime of each allocation and each segment, slices
//! for regions, and instants for out-of-memory failures. Whole stacks are written once, in `stackFrames`; `args` contains the user's
//! frames.

mod clock;
mod lanes;
mod record;
mod stack_frames;

use std::io::{self, BufWriter, Write};

use serde::Serialize;
use vramscope_analysis::{Counters, History, Moment, RecordedAllocation, ReservedRange, region_runs};
use vramscope_trace::{Action, StackId};

use crate::error::ExportError;
use crate::labels::{self, Labels};
use crate::source::Source;
use crate::tables::allocations::origin;
use clock::{Clock, Times};
use record::{AllocationArgs, CounterArgs, InstantArgs, NameArgs, Record, SegmentArgs, SortArgs};
use stack_frames::StackFrames;

/// Writes a trace; returns the number of trace events.
pub(crate) fn write(source: &Source<'_>, out: impl Write) -> Result<u64, ExportError> {
    let clock = Clock::of(source);
    let mut writer = Writer {
        out: BufWriter::new(out),
        events: 0,
        next_id: 0,
        clock,
        labels: Labels::new(source.names()),
        stacks: StackFrames::default(),
    };
    writer.out.write_all(b"{\"displayTimeUnit\":\"ms\",\"otherData\":")?;
    to_json(&mut writer.out, &clock.metadata())?;
    writer.out.write_all(b",\"traceEvents\":[")?;
    for history in source.histories() {
        writer.device(&history)?;
    }
    writer.out.write_all(b"\n],\"stackFrames\":")?;
    writer.stacks.write(&mut writer.out, &mut writer.labels)?;
    writer.out.write_all(b"}\n")?;
    writer.out.flush()?;
    Ok(writer.events)
}

/// The thread number of events without a lane.
const EVENTS: u64 = 1;

/// The thread number of the first lane of regions.
const REGIONS: u64 = 2;

struct Writer<'r, W: Write> {
    out: BufWriter<W>,
    events: u64,
    /// The number of slices so far, used for unique ids.
    next_id: u64,
    clock: Clock,
    labels: Labels<'r>,
    stacks: StackFrames,
}

impl<W: Write> Writer<'_, W> {
    fn device(&mut self, history: &History) -> Result<(), ExportError> {
        let device = history.device().device;
        // Process numbers start at 1, because some viewers show process 0 as idle.
        let pid = device.saturating_add(1);
        let times = self.clock.times(history.device());
        self.name("process_name", pid, None, &history.trace().device_name(device))?;
        let sort = SortArgs { sort_index: device };
        self.put(&Record { args: Some(sort), ..Record::new("M", "process_sort_index", pid, 0) })?;
        self.name("thread_name", pid, Some(EVENTS), "events")?;
        self.regions(history, pid)?;
        self.counters(history, pid, &times)?;
        for segment in &history.reserved {
            self.segment(segment, pid, &times)?;
        }
        for a in &history.allocations {
            self.allocation(history, a, pid, &times)?;
        }
        self.instants(history, pid, &times)
    }

    fn name(&mut self, what: &'static str, pid: i64, tid: Option<u64>, name: &str) -> io::Result<()> {
        self.put(&Record { tid, args: Some(NameArgs { name }), ..Record::new("M", what, pid, 0) })
    }

    fn regions(&mut self, history: &History, pid: i64) -> io::Result<()> {
        if !self.clock.is_recorded() {
            return Ok(());
        }
        let trace = history.trace();
        let placed = lanes::place(region_runs(trace, history.device()));
        let lanes = placed.iter().filter_map(|(lane, _)| *lane).max().map_or(0, |last| last + 1);
        for lane in 0..lanes {
            let name = if lane == 0 { "regions".to_owned() } else { format!("regions {}", lane + 1) };
            self.name("thread_name", pid, Some(REGIONS + lane as u64), &name)?;
        }
        for (lane, run) in placed {
            let name = self.labels.text(run.name);
            let [start, end] = [run.start_us, run.end_us].map(|t| self.clock.since_origin(t));
            let Some(lane) = lane else {
                self.slice("region", &name, pid, (start, end), None, None::<()>)?;
                continue;
            };
            self.put(&Record::<()> {
                tid: Some(REGIONS + lane as u64),
                cat: Some("region"),
                dur: Some(end.saturating_sub(start).max(0)),
                ..Record::new("X", &name, pid, start)
            })?;
        }
        Ok(())
    }

    /// Writes one counter per kind of bytes, with a value at each change.
    fn counters(&mut self, history: &History, pid: i64, times: &Times) -> io::Result<()> {
        let of = |c: &Counters| {
            [
                ("requested bytes", c.requested),
                ("allocated bytes", c.allocated),
                ("active bytes", c.active),
                ("reserved bytes", c.reserved),
            ]
        };
        let mut before: Option<Counters> = None;
        for (moment, now) in history.walk() {
            let changed = of(&now).into_iter().zip(before.as_ref().map_or([None; 4], |b| of(b).map(Some)));
            for ((name, bytes), _) in changed.filter(|&(now, before)| Some(now) != before) {
                let args = Some(CounterArgs { bytes });
                self.put(&Record { args, ..Record::new("C", name, pid, times.at(moment)) })?;
            }
            before = Some(now);
        }
        Ok(())
    }

    fn segment(&mut self, r: &ReservedRange, pid: i64, times: &Times) -> io::Result<()> {
        let name = if r.expandable {
            format!("{} mapped range", r.kind.name())
        } else {
            format!("{} segment", r.kind.name())
        };
        let stack = r.stack.map(|s| self.labels.users_stack(s));
        let args = SegmentArgs {
            bytes: r.size,
            address: hex(r.address),
            stream: hex(r.stream),
            pool: r.pool.map(labels::pool),
            alloc_event: r.from.event(),
            free_event: event(r.to),
            stack: stack.as_deref(),
        };
        self.slice("segment", &name, pid, (times.at(r.from), times.at(r.to)), r.stack, Some(args))
    }

    fn allocation(
        &mut self,
        history: &History,
        a: &RecordedAllocation,
        pid: i64,
        times: &Times,
    ) -> io::Result<()> {
        let tags = a.tags.map(|t| history.trace().tags.get(t));
        let name = self.labels.own_frame(a.stack);
        let stack = a.stack.map(|s| self.labels.users_stack(s));
        let user_metadata = tags.and_then(|t| t.user_metadata).map(|id| self.labels.text(id));
        let args = AllocationArgs {
            requested_bytes: a.requested,
            block_bytes: a.size,
            address: hex(a.address),
            stream: hex(a.stream),
            pool: tags.and_then(|t| t.pool).map(labels::pool),
            origin: origin(a.origin),
            alloc_event: a.from.event(),
            free_event: event(a.freed),
            available_event: event(a.to),
            user_metadata: user_metadata.as_deref().filter(|text| !text.is_empty()),
            stack: stack.as_deref(),
        };
        self.slice("allocation", &name, pid, (times.at(a.from), times.at(a.freed)), a.stack, Some(args))
    }

    /// Writes an asynchronous slice from one time to another.
    fn slice(
        &mut self,
        cat: &'static str,
        name: &str,
        pid: i64,
        (from, to): (i64, i64),
        stack: Option<StackId>,
        args: Option<impl Serialize>,
    ) -> io::Result<()> {
        let id = Some(hex(self.next_id));
        self.next_id += 1;
        let sf = stack.and_then(|s| self.stacks.of(self.labels.names.trace, s));
        let record = Record { cat: Some(cat), id: id.clone(), sf, args, ..Record::new("b", name, pid, from) };
        self.put(&record)?;
        self.put(&Record::<()> { cat: Some(cat), id, ..Record::new("e", name, pid, to.max(from)) })
    }

    /// Writes events that belong to no allocation and no segment as instants: out of memory, snapshots, annotations.
    fn instants(&mut self, history: &History, pid: i64, times: &Times) -> Result<(), ExportError> {
        let trace = history.trace();
        for (number, &action) in history.device().events.actions().iter().enumerate() {
            let (Action::Oom | Action::Snapshot | Action::Annotate | Action::UserDefined | Action::Unknown) =
                action
            else {
                continue;
            };
            let e = history.device().events.get(number);
            let tags = trace.tags.get(e.tags);
            let mut text = |id| self.labels.text(id);
            let unknown = tags.unknown_action.filter(|_| action == Action::Unknown).map(&mut text);
            let metadata = tags.user_metadata.map(text).filter(|t| !t.is_empty());
            let is_oom = action == Action::Oom;
            let stack = e.stack.map(|s| self.labels.users_stack(s));
            let args = InstantArgs {
                event: number,
                size_bytes: e.size,
                address: (!is_oom).then(|| hex(e.address())),
                device_free_bytes: e.device_free(),
                stream: hex(tags.stream),
                user_metadata: metadata.as_deref(),
                stack: stack.as_deref(),
            };
            let name = match action {
                Action::Oom => "out of memory",
                _ => unknown.as_deref().unwrap_or(action.name()),
            };
            let sf = e.stack.and_then(|s| self.stacks.of(trace, s));
            let ts = times.at(Moment::after(number));
            let instant = Record::new("i", name, pid, ts);
            self.put(&Record {
                tid: Some(EVENTS),
                cat: Some("event"),
                s: Some("p"),
                sf,
                args: Some(args),
                ..instant
            })?;
        }
        Ok(())
    }

    fn put<A: Serialize>(&mut self, record: &Record<'_, A>) -> io::Result<()> {
        self.out.write_all(if self.events == 0 { b"\n" } else { b",\n" })?;
        self.events += 1;
        to_json(&mut self.out, record)
    }
}

fn to_json(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(out, value).map_err(io::Error::from)
}

/// Returns the index of the event that ends a lifetime; `None` if it lasts to the end.
fn event(moment: Moment) -> Option<usize> {
    moment.event().filter(|_| moment != Moment::NEVER)
}

/// Returns a 64-bit number as text, because JavaScript would round it.
fn hex(n: u64) -> String {
    format!("{n:#x}")
}

#[cfg(test)]
mod tests;
