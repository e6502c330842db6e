use super::*;
use crate::formats::read;

/// Written by `tests/formats/nsys.py` with pages of 512 bytes, so that tables have several and a text has overflow pages.
const EXPORT: &[u8] = include_bytes!("../../../../../../fuzz/corpus/read/nsys");

#[test]
fn rows_are_events_in_the_order_of_time() {
    let recording = read(EXPORT).unwrap();
    let trace = &recording.trace;
    assert_eq!((recording.format, trace.other_allocator()), (Format::Nsys, Some(OtherAllocator::Nsys)));
    let events = |device: usize| -> Vec<_> {
        let events = trace.devices[device].events.iter();
        events.map(|e| (e.action, e.address(), e.size, e.time_us.unwrap() - 1_790_000_000_000_000)).collect()
    };
    let device = events(0);
    let (pool, elsewhere) = (32 << 20, 1 << 62);
    assert_eq!(
        device[..8],
        [
            (Action::SegmentAlloc, 0x7f00_0000_0000, 1 << 20, 1),
            (Action::Alloc, 0x7f00_0000_0000, 1 << 20, 1),
            (Action::SegmentAlloc, 0x7f20_0000_0000, 512, 1),
            (Action::Alloc, 0x7f20_0000_0000, 512, 1),
            (Action::SegmentMap, 0x7f10_0000_0000, 1000, 7),
            (Action::SegmentMap, elsewhere, pool - 1000, 7),
            (Action::Alloc, 0x7f10_0000_0000, 1000, 7),
            (Action::Free, 0x7f10_0000_0000, 1000, 9),
        ]
    );
    let blocks = device.iter().filter(|(action, ..)| matches!(action, Action::Alloc | Action::Free));
    assert_eq!(blocks.count(), 14);
    // The trim of the pool.
    let trimmed: Vec<_> = device.iter().rev().take_while(|e| e.0 == Action::SegmentUnmap).collect();
    assert_eq!(trimmed.iter().map(|(_, _, size, _)| size).sum::<u64>(), pool);
    assert_eq!(events(1), [(Action::Alloc, 0x7f00_0000_0000, 777, 6)]);
    assert_eq!((trace.devices[2].device, events(2)), (-1, vec![(Action::Alloc, 0x7e00_0000_0000, 4096, 3)]));
    let others = recording.notices.unknown_actions.get("event of another process on the same device");
    assert_eq!(others, Some(&1));
}

#[test]
fn calls_and_backtraces_are_stacks() {
    let trace = read(EXPORT).unwrap().trace;
    let stack = |event: usize| -> Vec<_> {
        let stack = trace.devices[0].events.get(event).stack.unwrap();
        let frames = trace.stacks.get(stack).iter().map(|&frame| trace.frames.get(frame));
        frames
            .map(|f| (trace.strings.get(f.name).to_owned(), trace.strings.get(f.filename).to_owned()))
            .collect()
    };
    let long = format!("void kernel<{}int>()", "std::tuple<int>, ".repeat(60));
    let frames =
        [("cudaMalloc", "??"), (long.as_str(), "/opt/app/train"), ("train_step()", "/opt/app/train")];
    assert_eq!(stack(1), frames.map(|(name, file)| (name.to_owned(), file.to_owned())));
    assert_eq!(stack(7), [("cudaFree".to_owned(), "??".to_owned())]);
    let tags = |event: usize| trace.tags.get(trace.devices[0].events.get(event).tags);
    let category = tags(3).category.map(|id| trace.strings.get(id));
    assert_eq!((tags(6).stream, category), (7, Some("Device Static")));
    assert_eq!(
        ["cudaMalloc_v3020", "cuMemAlloc_v2", "a_vb", "f"].map(without_version),
        ["cudaMalloc", "cuMemAlloc", "a_vb", "f"]
    );
}

#[test]
fn a_database_of_something_else_is_refused() {
    let mut other = EXPORT.to_vec();
    for at in 0..other.len() - EVENTS.len() {
        if other[at..].starts_with(EVENTS.as_bytes()) {
            other[at] = b'X';
        }
    }
    let message = read(&other[..]).unwrap_err().to_string();
    assert!(message.contains("without the table CUDA_GPU_MEMORY_USAGE_EVENTS; profile with"), "{message}");
}

/// Many bytes changed, and the file cut in many places.
#[test]
fn damaged_databases_end_in_a_trace_or_an_error() {
    let mut refused = 0;
    for at in (16..EXPORT.len()).step_by(5) {
        for byte in [0, 0xff] {
            let mut changed = EXPORT.to_vec();
            changed[at] = byte;
            refused += usize::from(read(&changed[..]).is_err());
        }
    }
    assert!(refused > 100, "{refused}");
    for length in (17..EXPORT.len()).step_by(13) {
        let _ = read(&EXPORT[..length]);
    }
}

/// Without its column of kinds, memory of the host would be the device's, and the other way round.
#[test]
fn a_damaged_statement_is_refused() {
    let mut changed = EXPORT.to_vec();
    let at = (0..changed.len()).find(|&at| changed[at..].starts_with(b"memKind")).unwrap();
    changed[at..at + 7].fill(0);
    let message = read(&changed[..]).unwrap_err().to_string();
    assert!(message.contains("a damaged statement of an SQLite table"), "{message}");
}

#[test]
fn a_page_that_contains_itself_is_refused() {
    // The root of the schema, with itself as its right-most child.
    let mut changed = EXPORT.to_vec();
    (changed[100], changed[103], changed[104]) = (5, 0, 0);
    changed[108..112].copy_from_slice(&1u32.to_be_bytes());
    let message = read(&changed[..]).unwrap_err().to_string();
    assert!(message.contains("a page of an SQLite table that contains itself"), "{message}");
}
