use std::sync::Arc;

use vramscope_trace::{Accesses, AllocationAccesses};

use crate::{ExportFormat, ExportOptions, Table, testing};

fn table(table: Table) -> Vec<Vec<String>> {
    let options = ExportOptions { table, ..ExportOptions::default() };
    let (bytes, written) = testing::export(&testing::two_devices(), ExportFormat::Csv, &options);
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(&bytes[..]);
    let rows: Vec<Vec<String>> =
        reader.records().map(|r| r.unwrap().iter().map(str::to_owned).collect()).collect();
    assert_eq!(written.rows as usize, rows.len() - 1);
    assert_eq!(rows[0], table.columns().iter().map(|c| c.name).collect::<Vec<_>>());
    rows
}

#[test]
fn every_event_is_a_row() {
    let rows = table(Table::Events);
    assert_eq!(rows.len(), 9);
    assert_eq!(
        rows[2][..18],
        [
            "0", "1", "10", "alloc", "0x200000", "1000", "1024", "0x0", "0:0", "0", "1", "3", "20", "",
            "1000", "1024", "1024", "2097152"
        ]
    );
    assert_eq!(rows[2][19], "a;b\"\\<&>\\u{1b}[31m\\u{a}=1+1, 'x' 12");
    assert_eq!(rows[2][22], "train.py:70 main;train.py:7 a,b\"\\<&>\\u{1b}[31m\\u{a}=1+1, 'x'_12");
    // An out-of-memory event has no address. The recording stores the free bytes of the device in its place.
    assert_eq!(rows[6][3..7], ["oom", "", "1073741824", ""]);
    assert_eq!(rows[6][13], "4096");
}

/// Tests cells as split by spreadsheets at commas, and at semicolons.
#[test]
fn no_cell_is_a_formula() {
    let trace = testing::formulas();
    for table in Table::ALL {
        let options = ExportOptions { table, ..ExportOptions::default() };
        let (bytes, _) = testing::export(&trace, ExportFormat::Csv, &options);
        for delimiter in [b',', b';'] {
            let mut reader = csv::ReaderBuilder::new();
            let mut reader =
                reader.has_headers(false).flexible(true).delimiter(delimiter).from_reader(&bytes[..]);
            for cell in
                reader.records().flat_map(|r| r.unwrap().iter().map(str::to_owned).collect::<Vec<_>>())
            {
                let is_formula = cell.trim_start().starts_with(['=', '+', '-', '@']);
                assert!(!is_formula || cell.trim().parse::<f64>().is_ok(), "{cell:?}");
            }
        }
    }
    let (bytes, _) = testing::export(&trace, ExportFormat::Csv, &ExportOptions::default());
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.contains("'=cmd|'/c calc'!A0") && text.contains(",-1.5,"), "{text}");
}

/// Without recorded accesses they are unknown; with them, an allocation without an access has none.
#[test]
fn an_allocation_has_its_accesses() {
    let mut trace = testing::two_devices();
    let longest_idle = (2, 3);
    let of = AllocationAccesses { device: 0, allocation: 1, first: 2, last: 4, count: 5, longest_idle };
    let accesses = Accesses { allocations: vec![of], launches: 9, unknown_launches: 0 };
    Arc::make_mut(&mut trace).accesses = Some(accesses);
    let options = ExportOptions { table: Table::Allocations, ..ExportOptions::default() };
    let (bytes, _) = testing::export(&trace, ExportFormat::Csv, &options);
    let mut reader = csv::Reader::from_reader(&bytes[..]);
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let columns = |row: usize| rows[row].iter().skip(14).take(5).collect::<Vec<_>>();
    assert_eq!((&rows[0][7], columns(0)), ("1", vec!["5", "2", "4", "2", "3"]));
    assert_eq!((&rows[1][7], columns(1)), ("2", vec!["0", "", "", "", ""]));
}

/// A stack whose text has 40 KB, which many events share.
#[test]
fn a_long_stack_takes_little_room_for_each_of_many_events() {
    let (depth, events) = (20_000, 2000);
    let trace = testing::deep_stack_of_many(depth, events);
    let (bytes, written) = testing::export(&trace, ExportFormat::Csv, &ExportOptions::default());
    assert_eq!(written.rows, events);
    assert!(bytes.len() < (16 << 20) + events as usize * (9 << 10), "{}", bytes.len());
    let mut reader = csv::Reader::from_reader(&bytes[..]);
    let stacks: Vec<String> =
        reader.records().map(|row| row.unwrap().iter().next_back().unwrap().to_owned()).collect();
    let (first, last) = (&stacks[0], &stacks[stacks.len() - 1]);
    assert!(first.len() > 32 << 10 && last.len() > 7 << 10, "{} {}", first.len(), last.len());
    // Both end with the innermost frames.
    let innermost = &last[last.find(");").unwrap() + 2..];
    assert!(first.ends_with(innermost) && last.contains(" more frames);"), "{}", &last[..60]);
}

#[test]
fn every_allocation_and_segment_is_a_row() {
    let rows = table(Table::Allocations);
    assert_eq!(rows.len(), 4);
    assert_eq!(
        rows[1][..21],
        [
            "0", "0", "0x200000", "1000", "1024", "false", "recorded", "1", "3", "4", "10", "30", "40", "20",
            "", "", "", "", "", "0x0", "0:0"
        ]
    );
    assert_eq!(rows[2][7..14], ["2", "", "", "20", "", "", ""]);
    let rows = table(Table::Segments);
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[1][..11], ["0", "0x200000", "2097152", "false", "0", "", "10", "", "", "0x0", "small"]);
}
