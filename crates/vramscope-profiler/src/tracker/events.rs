//! Events of a tracker, and the rows of a log: events and samples.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

use serde::{Serialize, Serializer};
use vramscope_basics::units::bytes;
use vramscope_report::{Shown, harmless_cell, write_json_line};

use super::phase_scope::{PhaseScope, PhasedSample, innermost};
use super::thresholds::Alert;
use crate::monitor::Sample;
use crate::source::{Counts, Tick};

/// An event of a tracker.
#[derive(Debug, Clone, PartialEq)]
pub struct TrackerEvent {
    /// The time of the event, in microseconds since the Unix epoch.
    pub time_us: i64,
    /// The kind of event.
    pub kind: EventKind,
}

/// The kinds of a tracker's events.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum EventKind {
    /// Tracking started; the name of the source.
    Start(String),
    /// Tracking stopped.
    Stop,
    /// The source no longer exists; the error message.
    Gone(String),
    /// The source cannot be read; the error message. There is one such event until it can be read again.
    Error(String),
    /// A threshold was crossed.
    Alert(Alert),
    /// A threshold's alert ended.
    Cleared(Alert),
    /// Requests failed because memory ran out; their number since the previous sample.
    OutOfMemory(u64),
    /// The allocator released its whole cache to serve requests; the number of times since the previous sample.
    Retry(u64),
    /// The watchdog released cached memory.
    Cleanup {
        /// Reserved bytes before.
        before: u64,
        /// Reserved bytes after.
        after: u64,
    },
    /// The program entered a phase.
    PhaseEnter(Arc<PhaseScope>),
    /// The program left a phase.
    PhaseExit(Arc<PhaseScope>),
}

/// The format of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Comma-separated values with a header.
    Csv,
    /// One JSON object per line. Keys without a value are left out.
    JsonLines,
}

/// A row of a log: an event or a sample. Unknown numbers are left out.
#[derive(Debug, Clone, Copy)]
pub(super) enum Row<'r> {
    Event(&'r TrackerEvent),
    Sample(&'r PhasedSample),
}

/// A value in a column.
#[derive(Serialize)]
#[serde(untagged)]
enum Cell {
    Nothing,
    Flag(bool),
    Time(i64),
    Number(u64),
    Value(f64),
    Text(String),
}

impl From<Option<u64>> for Cell {
    fn from(number: Option<u64>) -> Self {
        number.map_or(Self::Nothing, Self::Number)
    }
}

impl Cell {
    /// Formats the value for a table. Text may come from elsewhere, so it is made harmless to terminals and spreadsheets.
    fn of_table(&self) -> String {
        match self {
            Self::Nothing => String::new(),
            Self::Flag(flag) => flag.to_string(),
            Self::Time(time) => time.to_string(),
            Self::Number(number) => number.to_string(),
            Self::Value(value) => value.to_string(),
            Self::Text(text) => harmless_cell(&Shown::of(text)).into_owned(),
        }
    }
}

/// The columns of a row by name; serialized as an object of the columns with a value.
struct KnownColumns([(&'static str, Cell); COLUMNS]);

impl Serialize for KnownColumns {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let known = self.0.iter().filter(|(_, cell)| !matches!(cell, Cell::Nothing));
        to.collect_map(known.map(|(name, cell)| (name, cell)))
    }
}

const COLUMNS: usize = 27;

impl Row<'_> {
    fn time_us(&self) -> i64 {
        match self {
            Self::Event(event) => event.time_us,
            Self::Sample(seen) => seen.sample.time_us,
        }
    }

    /// Returns the columns of this row by name. Only this function defines the format of a log.
    fn cells(&self) -> [(&'static str, Cell); COLUMNS] {
        let nothing = Sample { time_us: 0, tick: Tick::default(), missed: 0 };
        let (event, sample) = match self {
            Self::Event(event) => (Some(*event), event.alert().map_or(&nothing, |alert| &alert.sample)),
            Self::Sample(seen) => (None, &seen.sample),
        };
        let alert = event.and_then(TrackerEvent::alert);
        let Tick { now, high, high_is_exact } = sample.tick;
        let is_sample = matches!(self, Self::Sample(_));
        let count = |of: fn(&Counts) -> u64| Cell::from(now.counts.as_ref().map(of));
        [
            ("time_us", Cell::Time(self.time_us())),
            ("event", Cell::Text(event.map_or("sample", |e| e.kind.name()).to_owned())),
            ("severity", alert.map_or(Cell::Nothing, |a| Cell::Text(a.threshold.severity.to_string()))),
            ("value", alert.map_or(Cell::Nothing, |a| Cell::Value(a.value))),
            ("message", event.map_or(Cell::Nothing, |e| Cell::Text(e.kind.to_string()))),
            ("requested_bytes", now.requested.into()),
            ("allocated_bytes", now.allocated.into()),
            ("active_bytes", now.active.into()),
            ("reserved_bytes", now.reserved.into()),
            ("device_used_bytes", now.device_used.into()),
            ("device_total_bytes", now.device_total.into()),
            (
                "device_source",
                now.device_source.map_or(Cell::Nothing, |source| Cell::Text(source.name().to_owned())),
            ),
            ("process_used_bytes", now.process_used.into()),
            ("cpu_bytes", now.cpu.into()),
            ("high_allocated_bytes", high.allocated.into()),
            ("high_reserved_bytes", high.reserved.into()),
            ("high_device_used_bytes", high.device_used.into()),
            ("high_is_exact", if is_sample { Cell::Flag(high_is_exact) } else { Cell::Nothing }),
            ("num_allocations", count(|c| c.num_allocations)),
            ("num_frees", count(|c| c.num_frees)),
            ("num_alloc_retries", count(|c| c.num_alloc_retries)),
            ("num_ooms", count(|c| c.num_ooms)),
            ("missed_ticks", if is_sample { Cell::Number(sample.missed) } else { Cell::Nothing }),
            ("phase", self.phase()),
            ("phase_scope", self.scope(|phase| Some(phase.scope_id).into())),
            ("phase_parent_scope", self.scope(|phase| phase.parent_scope_id.into())),
            ("thread", self.scope(|phase| Cell::Text(phase.thread.as_ref().to_owned()))),
        ]
    }

    /// Returns the path of the phase that begins or ends; for a sample, the paths of each thread's innermost phase.
    fn phase(&self) -> Cell {
        match self {
            Self::Event(_) => self.scope(|phase| Cell::Text(phase.to_string())),
            Self::Sample(seen) if seen.phases.is_empty() => Cell::Nothing,
            Self::Sample(seen) => {
                let paths: Vec<String> = innermost(&seen.phases).map(|phase| phase.to_string()).collect();
                Cell::Text(paths.join(" | "))
            }
        }
    }

    /// Returns a value of the phase that begins or ends; nothing for other rows.
    fn scope(&self, of: impl Fn(&PhaseScope) -> Cell) -> Cell {
        match self {
            Self::Event(TrackerEvent {
                kind: EventKind::PhaseEnter(phase) | EventKind::PhaseExit(phase),
                ..
            }) => of(phase),
            _ => Cell::Nothing,
        }
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        write_json_line(out, &KnownColumns(self.cells()))
    }

    fn write_csv(&self, out: &mut dyn Write) -> io::Result<()> {
        write_record(out, &self.cells().map(|(_, cell)| cell.of_table()))
    }

    pub(super) fn write(&self, format: LogFormat, out: &mut dyn Write) -> io::Result<()> {
        match format {
            LogFormat::Csv => self.write_csv(out),
            LogFormat::JsonLines => self.write_json(out),
        }
    }
}

fn write_record(out: &mut dyn Write, record: &[impl AsRef<[u8]>]) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(record)?;
    csv.flush()
}

/// Writes the header of a log, which only CSV has.
pub(super) fn write_header(format: LogFormat, out: &mut dyn Write) -> io::Result<()> {
    if format == LogFormat::JsonLines {
        return Ok(());
    }
    let any = TrackerEvent { time_us: 0, kind: EventKind::Stop };
    write_record(out, &Row::Event(&any).cells().map(|(name, _)| name))
}

/// Writes events and samples in time order.
pub(super) fn write_log(
    events: &VecDeque<TrackerEvent>,
    samples: &VecDeque<PhasedSample>,
    format: LogFormat,
    out: &mut dyn Write,
) -> io::Result<()> {
    write_header(format, out)?;
    let mut rows: Vec<Row<'_>> =
        samples.iter().map(Row::Sample).chain(events.iter().map(Row::Event)).collect();
    // The sort is stable: an event follows the sample of the same time, in which it was found.
    rows.sort_by_key(Row::time_us);
    rows.iter().try_for_each(|row| row.write(format, out))?;
    out.flush()
}

impl TrackerEvent {
    fn alert(&self) -> Option<&Alert> {
        match &self.kind {
            EventKind::Alert(alert) | EventKind::Cleared(alert) => Some(alert),
            _ => None,
        }
    }
}

impl EventKind {
    /// Returns the kind's name in logs, such as `start` or `alert`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Start(_) => "start",
            Self::Stop => "stop",
            Self::Gone(_) => "gone",
            Self::Error(_) => "error",
            Self::Alert(_) => "alert",
            Self::Cleared(_) => "cleared",
            Self::OutOfMemory(_) => "oom",
            Self::Retry(_) => "retry",
            Self::Cleanup { .. } => "cleanup",
            Self::PhaseEnter(_) => "phase_enter",
            Self::PhaseExit(_) => "phase_exit",
        }
    }
}

impl fmt::Display for EventKind {
    /// Formats the message in logs; empty for `stop`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(text) | Self::Gone(text) | Self::Error(text) => f.write_str(text),
            Self::PhaseEnter(phase) | Self::PhaseExit(phase) => phase.fmt(f),
            Self::Stop => Ok(()),
            Self::Alert(alert) => alert.fmt(f),
            Self::Cleared(alert) => write!(f, "ended: {alert}"),
            Self::OutOfMemory(1) => f.write_str("a request failed because memory ran out"),
            Self::OutOfMemory(n) => write!(f, "{n} requests failed because memory ran out"),
            Self::Retry(1) => f.write_str("the allocator released its cache to serve a request"),
            Self::Retry(n) => write!(f, "the allocator released its cache {n} times to serve requests"),
            Self::Cleanup { before, after } => {
                let freed = bytes(before.saturating_sub(*after));
                write!(f, "the watchdog released {freed} of cached memory")
            }
        }
    }
}
