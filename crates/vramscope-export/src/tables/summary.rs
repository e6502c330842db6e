//! The table of summaries, one row per recording, including unreadable ones.

use vramscope_fleet::{Oom, RankRow, RankSummary};
use vramscope_report::Shown;

use super::{Column, ColumnKind, Sink, Value};
use crate::error::ExportError;

/// A column, and the source of its values.
struct Field {
    column: Column,
    value: for<'t> fn(&'t RankRowSource<'t>) -> Value<'t>,
}

const fn f(
    name: &'static str,
    kind: ColumnKind,
    value: for<'t> fn(&'t RankRowSource<'t>) -> Value<'t>,
) -> Field {
    Field { column: Column::maybe(name, kind), value }
}

const U: ColumnKind = ColumnKind::Unsigned;

const FIELDS: [Field; 48] = [
    f("tp", U, |t| t.group("tp")),
    f("pp", U, |t| t.group("pp")),
    f("dp", U, |t| t.group("dp")),
    f("ep", U, |t| t.group("ep")),
    f("cp", U, |t| t.group("cp")),
    f("error", ColumnKind::Text, |t| text(t.error.as_deref())),
    f("format", ColumnKind::Text, |t| text(t.of(|s| s.format.as_str()))),
    f("device", ColumnKind::Signed, |t| signed(t.of(|s| s.device))),
    f("other_devices", U, |t| count(t.of(|s| s.other_devices.len()))),
    f("events", U, |t| count(t.of(|s| s.events))),
    f("begin_us", ColumnKind::Time, |t| signed(t.and(|s| s.begin_us))),
    f("end_us", ColumnKind::Time, |t| signed(t.and(|s| s.end_us))),
    f("peak_allocated_bytes", U, |t| bytes(t.of(|s| s.peak_allocated.bytes))),
    f("peak_allocated_event", U, |t| count(t.and(|s| s.peak_allocated.event))),
    f("peak_allocated_time_us", ColumnKind::Time, |t| signed(t.and(|s| s.peak_allocated.time_us))),
    f("peak_reserved_bytes", U, |t| bytes(t.of(|s| s.peak_reserved.bytes))),
    f("peak_reserved_event", U, |t| count(t.and(|s| s.peak_reserved.event))),
    f("peak_reserved_time_us", ColumnKind::Time, |t| signed(t.and(|s| s.peak_reserved.time_us))),
    f("preexisting_bytes", U, |t| bytes(t.of(|s| s.preexisting_bytes))),
    f("capacity_bytes", U, |t| bytes(t.and(|s| s.capacity_bytes))),
    f("ooms", U, |t| count(t.of(|s| s.ooms))),
    f("oom_event", U, |t| count(t.oom().map(|oom| oom.event))),
    f("oom_time_us", ColumnKind::Time, |t| signed(t.oom().and_then(|oom| oom.time_us))),
    f("oom_requested_bytes", U, |t| bytes(t.oom().map(|oom| oom.requested_bytes))),
    f("oom_device_free_bytes", U, |t| bytes(t.oom().map(|oom| oom.device_free_bytes))),
    f("oom_allocated_bytes", U, |t| bytes(t.oom().map(|oom| oom.allocated_bytes))),
    f("oom_reserved_bytes", U, |t| bytes(t.oom().map(|oom| oom.reserved_bytes))),
    f("oom_line", ColumnKind::Text, |t| text(t.oom().and_then(|oom| oom.line.as_deref()))),
    f("oom_verdict", ColumnKind::Text, |t| text(t.oom_verdict.as_deref())),
    f("top_line", ColumnKind::Text, |t| text(t.and(|s| s.lines.top.first()).map(|line| line.name.as_str()))),
    f("top_line_bytes", U, |t| bytes(t.and(|s| s.lines.top.first()).map(|line| line.bytes))),
    f("top_category", ColumnKind::Text, |t| {
        text(t.and(|s| s.categories.top.first()).map(|of| of.name.as_str()))
    }),
    f("top_category_bytes", U, |t| bytes(t.and(|s| s.categories.top.first()).map(|of| of.bytes))),
    f("leaks", U, |t| count(t.of(|s| s.leaks.len() + s.more_leaks))),
    f("leak_line", ColumnKind::Text, |t| text(t.and(|s| s.leaks.first()).map(|leak| leak.name.as_str()))),
    f("leak_kept_bytes", U, |t| bytes(t.and(|s| s.leaks.first()).map(|leak| leak.kept_bytes))),
    f("leak_bytes_a_step", U, |t| bytes(t.and(|s| s.leaks.first()?.bytes_a_step))),
    f("internal_bytes_at_peak", U, |t| bytes(t.and(|s| s.fragmentation_at_peak).map(|f| f.internal_bytes))),
    f("external_bytes_at_peak", U, |t| bytes(t.and(|s| s.fragmentation_at_peak).map(|f| f.external_bytes))),
    f("unusable_bytes_at_peak", U, |t| bytes(t.and(|s| s.fragmentation_at_peak).map(|f| f.unusable_bytes))),
    f("steps", U, |t| count(t.and(|s| s.steps).map(|steps| steps.count))),
    f("step_us", ColumnKind::Signed, |t| signed(t.and(|s| s.steps?.typical_us))),
    f("step_peak_bytes", U, |t| bytes(t.and(|s| s.steps).map(|steps| steps.typical_peak_bytes))),
    f("release", ColumnKind::Text, |t| text(t.of(|s| s.release.as_str()))),
    f("settings", ColumnKind::Text, |t| text(t.settings.as_deref())),
    f("is_exact", ColumnKind::Bool, |t| Value::or_null(t.of(RankSummary::is_exact), Value::Bool)),
    f("events_dropped", ColumnKind::Bool, |t| Value::or_null(t.of(RankSummary::events_dropped), Value::Bool)),
    f("summary", ColumnKind::Text, |t| text(t.whole.as_deref())),
];

pub(crate) const COLUMNS: [Column; FIELDS.len()] = {
    let mut columns = [FIELDS[0].column; FIELDS.len()];
    let mut at = 0;
    while at < FIELDS.len() {
        columns[at] = FIELDS[at].column;
        at += 1;
    }
    columns
};

/// The data of a recording's row: all columns except the error are empty if the recording could not be read.
struct RankRowSource<'r> {
    row: &'r RankRow,
    summary: Option<&'r RankSummary>,
    error: Option<Shown>,
    /// The verdict on the first failed request, in a sentence.
    oom_verdict: Option<String>,
    /// The allocator settings, as in `PYTORCH_CUDA_ALLOC_CONF`.
    settings: Option<String>,
    /// The whole summary as JSON, if requested.
    whole: Option<String>,
}

impl<'r> RankRowSource<'r> {
    fn of<T>(&self, value: impl FnOnce(&'r RankSummary) -> T) -> Option<T> {
        self.summary.map(value)
    }

    fn and<T>(&self, value: impl FnOnce(&'r RankSummary) -> Option<T>) -> Option<T> {
        self.summary.and_then(value)
    }

    fn oom(&self) -> Option<&'r Oom> {
        self.summary?.oom.as_ref()
    }

    fn group(&self, name: &str) -> Value<'static> {
        Value::or_null(self.row.rank.groups.get(name), |&number| Value::Unsigned(number))
    }
}

fn text(text: Option<&str>) -> Value<'_> {
    Value::or_null(text, Value::Shown)
}

fn signed(number: Option<i64>) -> Value<'static> {
    Value::or_null(number, Value::Signed)
}

fn bytes(bytes: Option<u64>) -> Value<'static> {
    Value::or_null(bytes, Value::Unsigned)
}

fn count(count: Option<usize>) -> Value<'static> {
    Value::or_null(count, |count| Value::Unsigned(count as u64))
}

/// Writes the row of a recording.
pub(crate) fn row(row: &RankRow, sink: &mut dyn Sink) -> Result<(), ExportError> {
    let summary = row.summary.as_deref().ok();
    let is_wanted = |name| COLUMNS.iter().position(|c| c.name == name).is_some_and(|at| sink.wants(at));
    let whole = summary.filter(|_| is_wanted("summary")).map(serde_json::to_string).transpose();
    let whole = whole.map_err(std::io::Error::from)?;
    let error = row.summary.as_ref().err().map(|e| Shown::of(e));
    let settings = summary.and_then(|s| s.settings.as_ref()).map(|settings| {
        let settings = settings.iter().map(|(name, value)| format!("{name}:{value}"));
        settings.collect::<Vec<_>>().join(",")
    });
    let oom_verdict = summary.and_then(|s| Some(s.oom.as_ref()?.verdict()));
    let told = RankRowSource { row, summary, error, oom_verdict, settings, whole };
    sink.row(&FIELDS.each_ref().map(|field| (field.value)(&told)))
}
