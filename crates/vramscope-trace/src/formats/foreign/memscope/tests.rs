use super::*;
use crate::formats::read;

/// Rows as msMemScope's own tests expect them (`test_process.cpp`).
const LOG: &str = r#"ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr,Call Stack(Python),Call Stack(C)
1,SYSTEM,ACL_INIT,N/A,1000,123,1234,0,N/A,N/A,,
2,MALLOC,HAL,N/A,3000,123,1234,0,0x0000000000003000,"{allocation_id:1,addr:0x0000000000003000,size:4096}",,
3,MALLOC,PTA,N/A,4000,123,1234,0,0x0000000000003000,"{allocation_id:2,addr:0x0000000000003000,size:512,owner:PTA@model,total:4096,used:512}","train.py(12): step
train.py(40): <module>",
4,ACCESS,READ,Add,4500,123,1234,0,0x3000,"{dtype:f32}",,
5,MALLOC,HOST,N/A,5000,123,1234,host,123456,"{allocation_id:3,addr:123456,size:10}",,
6,FREE,PTA,N/A,6000,123,1234,0,0x0000000000003000,"{allocation_id:2,addr:0x0000000000003000,size:512,total:4096,used:0}",,
7,FREE,HAL,N/A,7000,123,1234,0,0x0000000000003000,"{allocation_id:1,addr:0x0000000000003000,size:4096}",,
"#;

#[test]
fn allocations_of_the_driver_are_segments() {
    let recording = read(LOG.as_bytes()).unwrap();
    let trace = &recording.trace;
    assert_eq!((recording.format, trace.kind), (Format::Memscope, DeviceKind::Npu));
    let events = |device: usize| -> Vec<_> {
        trace.devices[device].events.iter().map(|e| (e.action, e.address(), e.size, e.time_us)).collect()
    };
    assert_eq!(
        events(0),
        [
            (Action::SegmentAlloc, 0x3000, 4096, Some(3)),
            (Action::Alloc, 0x3000, 512, Some(4)),
            (Action::Free, 0x3000, 512, Some(6)),
            (Action::SegmentFree, 0x3000, 4096, Some(7)),
        ]
    );
    assert_eq!((trace.devices[1].device, events(1)), (-1, vec![(Action::Alloc, 123_456, 10, Some(5))]));
    let alloc = trace.devices[0].events.get(1);
    let category = trace.tags.get(alloc.tags).category.map(|id| trace.strings.get(id));
    assert_eq!(category, Some("PTA@model"));
    let frames = trace.stacks.get(alloc.stack.unwrap()).iter().map(|&id| trace.frames.get(id));
    let frames: Vec<_> = frames.map(|f| (trace.strings.get(f.filename), f.line)).collect();
    assert_eq!(frames, [("train.py", 12), ("train.py", 40)]);
}

/// A block's rows are written when it is freed; msMemScope's own count shows the memory in use at each.
#[test]
fn rows_are_sorted_by_time_and_counted() {
    let text = LOG.replacen("2,MALLOC,HAL,N/A,3000", "2,MALLOC,HAL,N/A,6500", 1);
    let device = &read(text.as_bytes()).unwrap().trace.devices[0];
    let times: Vec<_> = device.events.iter().map(|e| e.time_us.unwrap()).collect();
    assert_eq!((times, device.counted_peak), (vec![4, 6, 6, 7], Some(512)));
}

#[test]
fn a_wrong_row_is_damage_and_the_others_are_read() {
    for (right, wrong) in [
        ("size:512,owner", "owner"),
        ("0,0x0000000000003000,\"{allocation_id:2", "-7,0x1,\"{"),
        ("4000", "x"),
        ("3,MALLOC", "3,MALLOK"),
        ("3,MALLOC,", "3,MALLOC,\""),
        ("\"train.py", "\"\"train.py"),
        ("<module>\"", "<module>"),
    ] {
        assert!(LOG.contains(right));
        let recording = read(LOG.replacen(right, wrong, 1).as_bytes()).unwrap();
        let device = &recording.trace.devices[0];
        let at = LOG.find("3,MALLOC").unwrap() as u64;
        assert!(recording.notices.damage.places >= 1, "{wrong}");
        assert_eq!((device.events.len(), &device.gap), (3, &Some(1..1)), "{wrong}");
        assert_eq!((recording.notices.damage.first, recording.trace.ends_early), (at, false), "{wrong}");
    }
    let far = LOG.replace("1234,0,0x", "1234,5000,0x");
    assert!(read(far.as_bytes()).unwrap_err().to_string().contains("which no machine has"));
}
