use super::*;

const A: u64 = 0x10;
const B: u64 = 0x20;

fn freed_on_a() -> StreamOrder {
    let mut order = StreamOrder::default();
    assert_eq!(order.allocated(0, 100, A), Ok(()));
    order.freed(0, 100, A);
    order
}

#[test]
fn a_stream_may_use_its_own_memory_again() {
    let mut order = freed_on_a();
    assert_eq!(order.allocated(50, 100, A), Ok(()));
}

#[test]
fn another_stream_waits_for_an_event_after_the_free() {
    let mut order = freed_on_a();
    assert_eq!(order.allocated(99, 10, B), Err(A));

    let mut order = StreamOrder::default();
    order.recorded(EventId(1), A);
    order.freed(0, 100, A);
    order.waits(B, EventId(1));
    assert_eq!(order.allocated(0, 10, B), Err(A), "the event is from before the free");

    let mut order = freed_on_a();
    order.recorded(EventId(1), A);
    order.waits(B, EventId(1));
    assert_eq!(order.allocated(0, 10, B), Ok(()));
    assert_eq!(order.allocated(10, 90, 0x30), Err(A), "a third stream has to wait too");
}

#[test]
fn complete_work_needs_no_wait() {
    let mut order = freed_on_a();
    order.recorded(EventId(1), A);
    order.finished(EventId(1));
    assert_eq!(order.allocated(0, 10, B), Ok(()));
    order.freed(0, 10, B);
    order.recorded(EventId(2), A);
    order.all_finished();
    assert_eq!(order.allocated(0, 10, A), Ok(()));
    let mut order = freed_on_a();
    order.released(0, 50);
    assert_eq!(order.allocated(0, 50, B), Ok(()));
    assert_eq!(order.allocated(50, 50, B), Err(A));
}
