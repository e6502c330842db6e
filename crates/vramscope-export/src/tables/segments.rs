//! The table of segments, one row per range reserved from the device.

use vramscope_analysis::{History, Moment};

use super::{Column, ColumnKind, Sink, Times, Value, event_before};
use crate::error::ExportError;

pub(super) const COLUMNS: [Column; 15] = [
    Column::always("device", ColumnKind::Signed),
    Column::always("address", ColumnKind::Hex),
    Column::always("size_bytes", ColumnKind::Unsigned),
    Column::always("before_recording", ColumnKind::Bool),
    Column::maybe("alloc_event", ColumnKind::Unsigned),
    Column::maybe("free_event", ColumnKind::Unsigned),
    Column::maybe("alloc_time_us", ColumnKind::Time),
    Column::maybe("free_time_us", ColumnKind::Time),
    Column::maybe("lifetime_us", ColumnKind::Unsigned),
    Column::always("stream", ColumnKind::Hex),
    Column::always("kind", ColumnKind::Text),
    Column::maybe("pool", ColumnKind::Text),
    Column::always("expandable", ColumnKind::Bool),
    Column::maybe("line", ColumnKind::Text),
    Column::maybe("stack", ColumnKind::Text),
];

pub(super) fn rows(history: &History, sink: &mut dyn Sink) -> Result<u64, ExportError> {
    let times = Times::of(history);
    for r in &history.reserved {
        let row: [Value<'_>; COLUMNS.len()] = [
            Value::Signed(history.device().device),
            Value::Unsigned(r.address),
            Value::Unsigned(r.size),
            Value::Bool(r.from == Moment::START),
            event_before(r.from),
            event_before(r.to),
            times.value(r.from),
            times.value(r.to),
            times.between(r.from, r.to),
            Value::Unsigned(r.stream),
            Value::Word(r.kind.name()),
            Value::or_null(r.pool, Value::Pool),
            Value::Bool(r.expandable),
            Value::or_null(r.stack, Value::Line),
            Value::or_null(r.stack, Value::Stack),
        ];
        sink.row(&row)?;
    }
    Ok(history.reserved.len() as u64)
}
