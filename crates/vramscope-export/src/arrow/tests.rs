use arrow_array::Array as _;
use arrow_array::cast::AsArray as _;
use arrow_array::types::{TimestampMicrosecondType, UInt64Type};
use vramscope_analysis::Frames;

use super::*;
use crate::testing;

#[test]
fn an_arrow_table_has_types_and_stores_each_text_once() {
    let trace = testing::two_devices();
    let frames = Frames::of(&trace);
    let names = Names { trace: &trace, frames: &frames };
    let histories: Vec<_> =
        (0..trace.devices.len()).map(|position| History::replayed(&trace, position)).collect();
    for table in Table::ALL {
        let batch = arrow_table(names, &histories, table, &Cancel::default()).unwrap();
        assert_eq!(batch.num_columns(), table.columns().len());
        for (column, array) in table.columns().iter().zip(batch.columns()) {
            assert!(!column.required || array.null_count() == 0, "{}", column.name);
            if column.kind == ColumnKind::Text {
                let values = array.as_dictionary::<Int32Type>().values().clone();
                let texts: Vec<_> = values.as_string::<i32>().iter().collect();
                assert!(texts.iter().enumerate().all(|(i, t)| !texts[..i].contains(t)), "{texts:?}");
            }
        }
    }
    let events = arrow_table(names, &histories, Table::Events, &Cancel::default()).unwrap();
    let of = |name: &str| events.column_by_name(name).unwrap();
    assert_eq!(of("time_us").as_primitive::<TimestampMicrosecondType>().value(1), 10);
    assert_eq!(of("address").as_primitive::<UInt64Type>().value(1), 0x20_0000);
    assert_eq!(of("block_bytes").as_primitive::<UInt64Type>().value(1), 1024);
    assert!(of("device_free_bytes").is_null(1));
}

/// Batches equal the whole table for any columns, and end after a break.
#[test]
fn batches_are_the_table_in_pieces() {
    let trace = testing::two_devices();
    let frames = Frames::of(&trace);
    let names = Names { trace: &trace, frames: &frames };
    let histories: Vec<_> =
        (0..trace.devices.len()).map(|position| History::replayed(&trace, position)).collect();
    for table in Table::ALL {
        let whole = arrow_table(names, &histories, table, &Cancel::default()).unwrap();
        let last = table.columns().len() - 1;
        for columns in [vec![], vec![0], vec![last, 1]] {
            let expected = whole.project(&columns).unwrap();
            let mut rows = 0;
            arrow_batches(names, &histories, table, &columns, 2, &mut |batch| {
                assert!(batch.num_rows() <= 2 && batch.schema() == arrow_schema(table, &columns));
                for (ours, theirs) in batch.columns().iter().zip(expected.columns()) {
                    for row in 0..batch.num_rows() {
                        let there = theirs.slice(rows + row, 1);
                        assert_eq!(texts(&ours.slice(row, 1)), texts(&there));
                    }
                }
                rows += batch.num_rows();
                ControlFlow::Continue(())
            })
            .unwrap();
            assert_eq!(rows, whole.num_rows());
        }
        let mut batches = 0;
        arrow_batches(names, &histories, table, &[0], 1, &mut |_| {
            batches += 1;
            ControlFlow::Break(())
        })
        .unwrap();
        assert_eq!(batches, 1);
    }
}

/// Returns a value as text, independent of its number in the dictionary.
fn texts(array: &ArrayRef) -> String {
    match array.as_any_dictionary_opt() {
        _ if array.is_null(0) => "null".to_owned(),
        Some(texts) => {
            let number = array.as_dictionary::<Int32Type>().keys().value(0);
            texts.values().as_string::<i32>().value(number as usize).to_owned()
        }
        None => format!("{array:?}"),
    }
}

#[test]
fn holders_sum_to_what_is_allocated() {
    let trace = testing::two_devices();
    let frames = Frames::of(&trace);
    let names = Names { trace: &trace, frames: &frames };
    let history = History::replayed(&trace, 0);
    let batch = arrow_holders(names, [&history], None, By::Line, &Cancel::default()).unwrap();
    let bytes = batch.column_by_name("bytes").unwrap().as_primitive::<UInt64Type>();
    assert_eq!(bytes.iter().flatten().sum::<u64>(), history.peaks().allocated.bytes);
}

#[test]
fn a_cancelled_table_is_not_written() {
    let trace = testing::two_devices();
    let frames = Frames::of(&trace);
    let cancel = Cancel::default();
    cancel.cancel();
    let history = History::replayed(&trace, 0);
    let names = Names { trace: &trace, frames: &frames };
    let made = arrow_table(names, [&history], Table::Events, &cancel);
    assert!(matches!(made, Err(ExportError::Cancelled)));
}
