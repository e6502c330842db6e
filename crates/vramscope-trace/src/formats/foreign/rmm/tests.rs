use super::*;
use crate::formats::read;

const LOG: &str = "Thread,Time,Action,Pointer,Size,Stream
1,23:59:59.000001,allocate,0x10012400000,1048576,0
1,23:59:59.5,allocate,0x10012500000,256,0x55d1
2,00:00:01.000000,free,0x10012400000,1048576,0
2,00:00:02.000000,allocate failure,(nil),99,0
";

#[test]
fn rows_are_events() {
    let recording = read(LOG.as_bytes()).unwrap();
    let trace = &recording.trace;
    assert_eq!((recording.format, trace.other_allocator()), (Format::Rmm, Some(OtherAllocator::Rmm)));
    let events: Vec<_> = trace.devices[0]
        .events
        .iter()
        .map(|e| (e.action, e.address(), e.size, e.time_us.unwrap(), trace.tags.get(e.tags).stream))
        .collect();
    let midnight = DAY_US;
    assert_eq!(
        events,
        [
            (Action::Alloc, 0x100_1240_0000, 1 << 20, midnight - 999_999, 0),
            (Action::Alloc, 0x100_1250_0000, 256, midnight - 500_000, 0x55d1),
            (Action::Free, 0x100_1240_0000, 1 << 20, midnight + 1_000_000, 0),
            (Action::Unknown, 0, 99, midnight + 2_000_000, 0),
        ]
    );
    assert_eq!(recording.notices.unknown_actions.get("allocate failure"), Some(&1));
}

#[test]
fn a_cut_row_and_a_wrong_row_are_noted() {
    let cut = read(&LOG.as_bytes()[..LOG.len() - 20]).unwrap();
    assert_eq!(cut.trace.devices[0].events.len(), 3);
    assert!(cut.notices.cut_off_bytes > 0 && cut.trace.ends_early);
    for wrong in ["free,xyz", "free,\"0x10012400000", "free,0x1001,2400000", "fr3e,0x10012400000"] {
        let wrong = read(LOG.replace("free,0x10012400000", wrong).as_bytes()).unwrap();
        let device = &wrong.trace.devices[0];
        assert_eq!((device.events.len(), &device.gap, wrong.trace.ends_early), (3, &Some(2..2), false));
        let damage = wrong.notices.to_string();
        assert!(damage.contains("the file is damaged at byte 137: "), "{damage}");
    }
    let message = read(LOG.replace("0x", "y").replace("nil", "y").as_bytes()).unwrap_err().to_string();
    assert!(message.starts_with("byte 39: no row is an event of RMM; the file is damaged"), "{message}");
}

#[test]
fn times() {
    let time = |text: &str| Clock::default().time_us(text);
    assert_eq!(time("00:00:00.25"), Some(250_000));
    assert_eq!(time("1634567890.123456"), Some(1_634_567_890_123_456));
    assert_eq!(["24:00:00", "1:99:00", "x", "", "1:2"].map(time), [None; 5]);
}
