//! The table of events, one row each.

use vramscope_analysis::{Counters, History};
use vramscope_trace::Action;

use super::{Column, ColumnKind, Sink, Times, Value, event_before};
use crate::error::ExportError;

pub(super) const COLUMNS: [Column; 23] = [
    Column::always("device", ColumnKind::Signed),
    Column::always("event", ColumnKind::Unsigned),
    Column::maybe("time_us", ColumnKind::Time),
    Column::always("action", ColumnKind::Text),
    Column::maybe("address", ColumnKind::Hex),
    Column::always("size_bytes", ColumnKind::Unsigned),
    Column::maybe("block_bytes", ColumnKind::Unsigned),
    Column::always("stream", ColumnKind::Hex),
    Column::maybe("pool", ColumnKind::Text),
    Column::maybe("allocation", ColumnKind::Unsigned),
    Column::maybe("alloc_event", ColumnKind::Unsigned),
    Column::maybe("free_event", ColumnKind::Unsigned),
    Column::maybe("lifetime_us", ColumnKind::Unsigned),
    Column::maybe("device_free_bytes", ColumnKind::Unsigned),
    Column::always("requested_bytes", ColumnKind::Unsigned),
    Column::always("allocated_bytes", ColumnKind::Unsigned),
    Column::always("active_bytes", ColumnKind::Unsigned),
    Column::always("reserved_bytes", ColumnKind::Unsigned),
    Column::maybe("compile_context", ColumnKind::Text),
    Column::maybe("user_metadata", ColumnKind::Text),
    Column::maybe("category", ColumnKind::Text),
    Column::maybe("line", ColumnKind::Text),
    Column::maybe("stack", ColumnKind::Text),
];

pub(super) fn rows(history: &History, sink: &mut dyn Sink) -> Result<u64, ExportError> {
    let times = Times::of(history);
    // Moment n + 1 follows event n, so the counters after event n are those of moment n + 1.
    let after = history.walk().skip(1);
    for (number, (event, (_, counters))) in history.device().events.iter().zip(after).enumerate() {
        let tags = history.trace().tags.get(event.tags);
        let Counters { requested, allocated, active, reserved } = counters;
        let id = history.subject_number(number);
        let subject = history.subject(number);
        let is_oom = event.action == Action::Oom;
        let named = tags.unknown_action.filter(|_| event.action == Action::Unknown);
        let row: [Value<'_>; COLUMNS.len()] = [
            Value::Signed(history.device().device),
            Value::Unsigned(number as u64),
            Value::or_null(event.time_us, Value::Signed),
            named.map_or(Value::Word(event.action.name()), Value::Text),
            if is_oom { Value::Null } else { Value::Unsigned(event.address()) },
            Value::Unsigned(event.size),
            Value::or_null(subject, |a| Value::Unsigned(a.size)),
            Value::Unsigned(tags.stream),
            Value::or_null(tags.pool, Value::Pool),
            Value::or_null(id, |id| Value::Unsigned(id as u64)),
            Value::or_null(subject, |a| event_before(a.from)),
            Value::or_null(subject, |a| event_before(a.freed)),
            Value::or_null(subject, |a| times.between(a.from, a.freed)),
            Value::or_null(event.device_free(), Value::Unsigned),
            Value::Unsigned(requested),
            Value::Unsigned(allocated),
            Value::Unsigned(active),
            Value::Unsigned(reserved),
            Value::or_null(tags.compile_context, Value::Text),
            Value::or_null(tags.user_metadata, Value::Text),
            Value::or_null(tags.category, Value::Text),
            Value::or_null(event.stack, Value::Line),
            Value::or_null(event.stack, Value::Stack),
        ];
        sink.row(&row)?;
    }
    Ok(history.device().events.len() as u64)
}
