//! Exports of Nsight Systems in pages of all sizes, written by SQLite itself, if `python3` is installed.

use std::process::Command;

use vramscope_trace::Action;

use crate::read;

#[test]
fn pages_of_every_size_have_the_same_rows() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("export.sqlite");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/formats/nsys.py");
    for page_size in [512, 1024, 4096, 65536] {
        let written = Command::new("python3")
            .arg(script)
            .arg(&file)
            .args([page_size.to_string(), "3000".to_owned()])
            .status();
        if written.is_err() {
            vramscope_testing::skip("python", "there is no `python3`");
            return;
        }
        assert!(written.unwrap().success());
        let recording = read(&std::fs::read(&file).unwrap()).unwrap();
        let events = &recording.trace.devices[0].events;
        let count = |action| events.actions().iter().filter(|&&of| of == action).count();
        assert_eq!((count(Action::Alloc), count(Action::Free)), (3002, 3000), "{page_size}");
        let sizes: u64 = events.iter().filter(|e| e.action == Action::Free).map(|e| e.size).sum();
        assert_eq!(sizes, (0..3000).map(|step| 1000 + step).sum::<u64>());
        // The memory of the pool, and two allocations outside of it.
        let reserved = |actions: [Action; 2]| -> u64 {
            events.iter().filter(|e| actions.contains(&e.action)).map(|e| e.size).sum()
        };
        let all = reserved([Action::SegmentAlloc, Action::SegmentMap]);
        assert_eq!(all - reserved([Action::SegmentFree, Action::SegmentUnmap]), (1 << 20) + 512);
        let stacks = events.iter().filter(|e| e.stack.is_some()).count();
        assert_eq!(stacks, events.len());
    }
}
