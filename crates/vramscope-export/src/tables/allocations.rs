//! The table of allocations, one row each.

use vramscope_analysis::{AllocationCategories, History, Layout, Origin};

use super::{Column, ColumnKind, Sink, Times, Value, event_before};
use crate::error::ExportError;

pub(super) const COLUMNS: [Column; 26] = [
    Column::always("device", ColumnKind::Signed),
    Column::always("allocation", ColumnKind::Unsigned),
    Column::always("address", ColumnKind::Hex),
    Column::always("requested_bytes", ColumnKind::Unsigned),
    Column::always("block_bytes", ColumnKind::Unsigned),
    Column::always("block_inferred", ColumnKind::Bool),
    Column::always("origin", ColumnKind::Text),
    Column::maybe("alloc_event", ColumnKind::Unsigned),
    Column::maybe("free_event", ColumnKind::Unsigned),
    Column::maybe("available_event", ColumnKind::Unsigned),
    Column::maybe("alloc_time_us", ColumnKind::Time),
    Column::maybe("free_time_us", ColumnKind::Time),
    Column::maybe("available_time_us", ColumnKind::Time),
    Column::maybe("lifetime_us", ColumnKind::Unsigned),
    Column::maybe("accesses", ColumnKind::Unsigned),
    Column::maybe("first_access", ColumnKind::Unsigned),
    Column::maybe("last_access", ColumnKind::Unsigned),
    Column::maybe("idle_from", ColumnKind::Unsigned),
    Column::maybe("idle_until", ColumnKind::Unsigned),
    Column::always("stream", ColumnKind::Hex),
    Column::maybe("pool", ColumnKind::Text),
    Column::maybe("compile_context", ColumnKind::Text),
    Column::maybe("user_metadata", ColumnKind::Text),
    Column::always("category", ColumnKind::Text),
    Column::maybe("line", ColumnKind::Text),
    Column::maybe("stack", ColumnKind::Text),
];

/// Returns the name of an origin in the table.
pub(crate) fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Recorded => "recorded",
        Origin::EndState => "end_state",
        Origin::FreeOnly => "free_only",
    }
}

pub(super) fn rows(history: &History, sink: &mut dyn Sink) -> Result<u64, ExportError> {
    let times = Times::of(history);
    // Values that need a pass over the whole history are computed only for requested columns.
    let is_wanted = |name| COLUMNS.iter().position(|c| c.name == name).is_some_and(|c| sink.wants(c));
    let purposes = is_wanted("category").then(|| AllocationCategories::of(history));
    let end = is_wanted("pool").then(|| Layout::at(history, history.end()));
    let accesses = history.trace().accesses.as_ref();
    let device = history.device().device;
    let moment = |moment: Option<usize>| Value::or_null(moment, |moment| Value::Unsigned(moment as u64));
    for (number, a) in history.allocations.iter().enumerate() {
        let tags = a.tags.map(|t| history.trace().tags.get(t));
        // If the event has no pool, the segment of a block that is live at the end may have one.
        let at_end = || end.as_ref()?.range_around(a.address).filter(|_| a.is_active_at(history.end()))?.pool;
        // An allocation begins one moment after its event. Without the event, its accesses are unknown.
        let event = a.from.event().filter(|_| a.origin == Origin::Recorded);
        let of = accesses.zip(event).and_then(|(accesses, event)| {
            let place =
                accesses.allocations.binary_search_by_key(&(device, event), |of| (of.device, of.allocation));
            Some(&accesses.allocations[place.ok()?])
        });
        let count = Value::or_null(accesses.and(event), |_| Value::Unsigned(of.map_or(0, |of| of.count)));
        let row: [Value<'_>; COLUMNS.len()] = [
            Value::Signed(history.device().device),
            Value::Unsigned(number as u64),
            Value::Unsigned(a.address),
            Value::Unsigned(a.requested),
            Value::Unsigned(a.size),
            Value::Bool(a.size_inferred),
            Value::Word(origin(a.origin)),
            event_before(a.from),
            event_before(a.freed),
            event_before(a.to),
            times.value(a.from),
            times.value(a.freed),
            times.value(a.to),
            times.between(a.from, a.freed),
            count,
            moment(of.map(|of| of.first)),
            moment(of.map(|of| of.last)),
            moment(of.map(|of| of.longest_idle.0)),
            moment(of.map(|of| of.longest_idle.1)),
            Value::Unsigned(a.stream),
            Value::or_null(tags.and_then(|t| t.pool).or_else(at_end), Value::Pool),
            Value::or_null(tags.and_then(|t| t.compile_context), Value::Text),
            Value::or_null(tags.and_then(|t| t.user_metadata), Value::Text),
            Value::or_null(purposes.as_ref(), |p| Value::Word(p.category(a).name())),
            Value::or_null(a.stack, Value::Line),
            Value::or_null(a.stack, Value::Stack),
        ];
        sink.row(&row)?;
    }
    Ok(history.allocations.len() as u64)
}
