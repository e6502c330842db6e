use super::*;

fn segment(size: u64, stream: u64, is_expandable: bool) -> HeldSegment {
    HeldSegment { size, stream, pool: None, kind: SegmentKind::Large, is_expandable, stack: None }
}

fn block(address: u64, size: u64) -> Block {
    let state = BlockState::ActiveAllocated;
    Block {
        address,
        size,
        requested_size: size - 1,
        state,
        stack: None,
        forward_frames: None,
        user_metadata: None,
    }
}

/// Start and size of a segment, and the state and size of each of its blocks.
type Layout = (u64, u64, Vec<(char, u64)>);

fn layout(held: Held) -> Vec<Layout> {
    let mut d = DeviceTrace::default();
    held.finish(&mut d);
    let letter = |b: &Block| match b.state {
        BlockState::ActiveAllocated => 'a',
        BlockState::ActivePendingFree => 'p',
        BlockState::Inactive => 'i',
    };
    let blocks = |s| d.blocks_of(s).iter().map(|b| (letter(b), b.size)).collect();
    d.segments.iter().map(|s| (s.address, s.total_size, blocks(s))).collect()
}

#[test]
fn mapped_ranges_join_and_part() {
    let mut held = Held::default();
    held.take(200, segment(100, 0, true));
    held.take(0, segment(100, 0, true));
    held.take(100, segment(100, 0, true));
    held.take(300, segment(50, 7, true));
    held.take(350, segment(50, 7, false));
    held.allocate(block(290, 10));
    held.release(120, 30);
    assert_eq!(
        layout(held),
        [
            (0, 120, vec![('i', 120)]),
            (150, 150, vec![('i', 140), ('a', 10)]),
            (300, 50, vec![('i', 50)]),
            (350, 50, vec![('i', 50)]),
        ]
    );
}

#[test]
fn blocks_tile_their_segment_and_are_counted() {
    let mut held = Held::default();
    held.take(1000, segment(100, 0, false));
    for address in [1000, 1010, 1030, 1090] {
        held.allocate(block(address, 10));
    }
    held.request_free(1030);
    held.free(1010);
    let mut d = DeviceTrace::default();
    held.finish(&mut d);
    let s = &d.segments[0];
    assert_eq!((s.allocated_size, s.active_size, s.requested_size), (Some(20), Some(30), Some(27)));
    assert_eq!(d.blocks.iter().map(|b| b.size).collect::<Vec<_>>(), [10, 20, 10, 50, 10]);
    assert_eq!(d.blocks[3].requested_size, 0);
}

#[test]
fn newer_state_replaces_contradicting_state() {
    let mut held = Held::default();
    held.take(0, segment(100, 0, false));
    held.allocate(block(0, 60));
    held.allocate(block(40, 80));
    held.allocate(block(10, 20));
    held.allocate(block(500, 10));
    held.take(20, segment(40, 0, false));
    held.take(u64::MAX, segment(2, 0, false));
    held.take(70, segment(0, 0, false));
    held.allocate(Block { size: u64::MAX, ..block(1, 9) });
    held.free(3);
    assert_eq!(
        layout(held),
        [(0, 20, vec![('i', 20)]), (20, 40, vec![('i', 40)]), (60, 40, vec![('i', 40)])]
    );
}
