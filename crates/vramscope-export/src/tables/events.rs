//! The table of events, one row each.

use vramscope_analysis::{Counters, History};
use vramscope_trace::Action;

use super::{Column, Kind, Sink, Times, Value, event_before};
use crate::error::ExportError;

pub(super) const COLUMNS: [Column; 23] = [
    Column::always("device", Kind::Signed),
    Column::always("event", Kind::Unsigned),
    Column::maybe("time_us", Kind::Time),
    Column::always("action", Kind::Text),
    Column::maybe("address", Kind::Hex),
    Column::always("size_bytes", Kind::Unsigned),
    Column::maybe("block_bytes", Kind::Unsigned),
    Column::always("stream", Kind::Hex),
    Column::maybe("pool", Kind::Text),
    Column::maybe("allocation", Kind::Unsigned),
    Column::maybe("alloc_event", Kind::Unsigned),
    Column::maybe("free_event", Kind::Unsigned),
    Column::maybe("lifetime_us", Kind::Unsigned),
    Column::maybe("device_free_bytes", Kind::Unsigned),
    Column::always("requested_bytes", Kind::Unsigned),
    Column::always("allocated_bytes", Kind::Unsigned),
    Column::always("active_bytes", Kind::Unsigned),
    Column::always("reserved_bytes", Kind::Unsigned),
    Column::maybe("compile_context", Kind::Text),
    Column::maybe("user_metadata", Kind::Text),
    Column::maybe("category", Kind::Text),
    Column::maybe("line", Kind::Text),
    Column::maybe("stack", Kind::Text),
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
