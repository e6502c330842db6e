use super::*;
use crate::events::{Tags, TagsTable};

const POOL: Option<PoolName> = Some((0, 5));

fn event(address_or_free: u64, size: u64) -> Event {
    let tags = TagsTable::default().intern(Tags::default()).unwrap();
    Event { action: Action::Alloc, address_or_free, size, time_us: None, stack: None, tags }
}

/// The reserved bytes of some devices.
struct Reserved {
    pools: Pools,
    events: Vec<Event>,
    bytes: u64,
}

impl Reserved {
    fn new() -> Self {
        Self { pools: Pools::of(HashSet::from([0])), events: Vec::new(), bytes: 0 }
    }

    /// Returns the sum after `change`, in which no range may be reserved twice or released twice.
    fn after(&mut self, change: impl FnOnce(&mut Pools, &mut Vec<Event>)) -> u64 {
        let from = self.events.len();
        change(&mut self.pools, &mut self.events);
        for e in &self.events[from..] {
            match e.action {
                Action::SegmentAlloc | Action::SegmentMap => self.bytes += e.size,
                _ => self.bytes -= e.size,
            }
        }
        self.bytes
    }
}

#[test]
fn reserved_bytes_are_those_of_pools_and_of_other_allocations() {
    let mut r = Reserved::new();
    assert_eq!(r.after(|p, e| p.allocate(0, event(100, 10), POOL, Some(64), e)), 64);
    assert_eq!(r.after(|p, e| p.allocate(0, event(900, 7), None, None, e)), 71);
    assert_eq!(r.after(|p, e| p.allocate(0, event(110, 30), POOL, Some(64), e)), 71);
    // The pool shrinks, but not below its live allocations.
    assert_eq!(r.after(|p, e| p.free(0, event(100, 10), Some(30), e)), 37);
    assert_eq!(r.after(|p, e| p.resize((0, 5), 0, event(0, 0), e)), 37);
    assert_eq!(r.after(|p, e| p.free(0, event(110, 30), None, e)), 37);
    // A block at the border of memory that was used before, in a pool of unknown size.
    assert_eq!(r.after(|p, e| p.allocate(0, event(120, 40), POOL, None, e)), 37 + 20);
    assert_eq!(r.after(|p, e| p.free(0, event(900, 7), None, e)), 50);
    assert_eq!(r.after(|p, e| p.free(0, event(120, 40), Some(0), e)), 0);
    // Another device has no pool of known size.
    assert_eq!(r.after(|p, e| p.allocate(1, event(100, 10), None, None, e)), 0);
}

#[test]
fn addresses_and_sizes_at_the_limits_of_u64() {
    let mut r = Pools::of(HashSet::from([0]));
    let mut events = Vec::new();
    for (address, size) in [(u64::MAX, u64::MAX), (0, u64::MAX), (u64::MAX - 1, 9), (5, 3), (5, 8)] {
        r.allocate(0, event(address, size), POOL, Some(u64::MAX), &mut events);
        r.free(0, event(address, size), Some(0), &mut events);
        r.allocate(0, event(address, size), POOL, None, &mut events);
    }
    for (address, size) in [(5, 8), (0, 1), (u64::MAX, 1), (u64::MAX - 1, 2)] {
        r.free(0, event(address, size), Some(u64::MAX), &mut events);
    }
    assert!(!events.is_empty());
}
