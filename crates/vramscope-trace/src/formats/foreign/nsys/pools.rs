//! The reserved bytes of CUDA's memory pools (`cudaMallocAsync`), as events of segments.
//!
//! An export has the size of a pool at its events, but not the addresses of its memory. Memory that an allocation used has the
//! allocation's addresses. Other memory of a pool gets addresses above those of all devices.

use std::collections::BTreeMap;

use hashbrown::{HashMap, HashSet};

use super::Event;
use crate::events::Action;

/// The first address of memory without a known place. Each pool has [`OF_A_POOL`] addresses from there on.
const WITHOUT_A_PLACE: u64 = 1 << 62;

/// Addresses for the memory of one pool. No device has as much.
const OF_A_POOL: u64 = 1 << 48;

/// Maximum number of pools. The memory of further ones is not counted.
const MOST_POOLS: usize = 1 << 12;

/// A pool: the number of its device, and the address that identifies it.
pub(super) type PoolName = (i64, i64);

/// The reserved memory of one pool, in bytes.
struct Pool {
    /// Size of the live allocations.
    live: u64,
    /// Memory that a freed allocation used: sizes by address.
    free: BTreeMap<u64, u64>,
    /// The sum of `free`.
    freed: u64,
    /// Size of the memory without a known place, and its first address.
    elsewhere: u64,
    elsewhere_from: u64,
}

/// The reserved memory of the devices that have pools of known size.
pub(super) struct Pools {
    devices: HashSet<i64>,
    pools: HashMap<PoolName, Pool>,
    /// The pool and the size of each live allocation, by device and address.
    live: HashMap<(i64, u64), (Option<PoolName>, u64)>,
}

impl Pools {
    /// Creates the state before the first event. Only `devices` have reserved memory.
    pub(super) fn of(devices: HashSet<i64>) -> Self {
        Self { devices, pools: HashMap::new(), live: HashMap::new() }
    }

    /// Adds an allocation of a device, after which its pool has `pool_size` bytes. Calls `each` with the events before it.
    pub(super) fn allocate(
        &mut self,
        device: i64,
        event: Event,
        pool: Option<PoolName>,
        pool_size: Option<u64>,
        each: &mut Vec<Event>,
    ) {
        if !self.devices.contains(&device) || event.size == 0 {
            return;
        }
        let (address, size) = (event.address_or_free, event.size);
        if let Some(unfreed) = self.live.insert((device, address), (pool, size)) {
            self.release(event, unfreed, each);
        }
        let Some(name) = pool else {
            each.push(Event { action: Action::SegmentAlloc, ..event });
            return;
        };
        let Some(pool) = self.pool(name) else { return };
        let new = pool.take(address, address.saturating_add(size));
        pool.live = pool.live.saturating_add(size);
        let target = pool_size.unwrap_or(pool.bytes());
        pool.shrink(target, event, each);
        each.extend(new.into_iter().map(|(address_or_free, size)| Event {
            action: Action::SegmentMap,
            address_or_free,
            size,
            ..event
        }));
        pool.grow(target, event, each);
    }

    /// Frees an allocation of a device, after which its pool has `pool_size` bytes. Adds the events after it to `each`.
    pub(super) fn free(&mut self, device: i64, event: Event, pool_size: Option<u64>, each: &mut Vec<Event>) {
        let Some(allocation) = self.live.remove(&(device, event.address_or_free)) else { return };
        self.release(event, allocation, each);
        if let ((Some(name), _), Some(size)) = (allocation, pool_size) {
            self.resize(name, size, event, each);
        }
    }

    /// Changes the size of a pool. Adds the events to `each`, with the time and the stack of `event`.
    pub(super) fn resize(&mut self, name: PoolName, size: u64, event: Event, each: &mut Vec<Event>) {
        if self.devices.contains(&name.0)
            && let Some(pool) = self.pool(name)
        {
            pool.shrink(size, event, each);
            pool.grow(size, event, each);
        }
    }

    fn release(&mut self, event: Event, (pool, size): (Option<PoolName>, u64), each: &mut Vec<Event>) {
        let address = event.address_or_free;
        match pool {
            None => each.push(Event { action: Action::SegmentFree, size, ..event }),
            Some(name) => {
                if let Some(pool) = self.pools.get_mut(&name) {
                    pool.live = pool.live.saturating_sub(size);
                    pool.free.insert(address, size);
                    pool.freed = pool.freed.saturating_add(size);
                }
            }
        }
    }

    fn pool(&mut self, name: PoolName) -> Option<&mut Pool> {
        let number = self.pools.len();
        if number == MOST_POOLS && !self.pools.contains_key(&name) {
            return None;
        }
        Some(self.pools.entry(name).or_insert_with(|| Pool {
            live: 0,
            free: BTreeMap::new(),
            freed: 0,
            elsewhere: 0,
            elsewhere_from: WITHOUT_A_PLACE + number as u64 * OF_A_POOL,
        }))
    }
}

impl Pool {
    fn bytes(&self) -> u64 {
        self.live.saturating_add(self.freed).saturating_add(self.elsewhere)
    }

    /// Takes the free memory in `from..to`. Returns the other parts of that range, as addresses and sizes.
    fn take(&mut self, from: u64, to: u64) -> Vec<(u64, u64)> {
        let (mut new, mut end) = (Vec::new(), to);
        while let Some((&start, &size)) = self.free.range(..to).next_back() {
            let last = start.saturating_add(size);
            if last <= from {
                break;
            }
            self.free.remove(&start);
            if last > to {
                self.free.insert(to, last - to);
            }
            if start < from {
                self.free.insert(start, from - start);
            }
            self.freed = self.freed.saturating_sub(last.min(to) - start.max(from));
            if last < end {
                new.push((last, end - last));
            }
            end = start.max(from).min(end);
        }
        if from < end {
            new.push((from, end - from));
        }
        new
    }

    /// Releases memory until the pool has `size` bytes, or has only live allocations.
    fn shrink(&mut self, size: u64, event: Event, each: &mut Vec<Event>) {
        let mut released = |address_or_free, size| {
            each.push(Event { action: Action::SegmentUnmap, address_or_free, size, ..event });
        };
        let cut = self.bytes().saturating_sub(size).min(self.elsewhere);
        if cut > 0 {
            self.elsewhere -= cut;
            released(self.elsewhere_from + self.elsewhere, cut);
        }
        while self.bytes() > size
            && let Some((start, length)) = self.free.pop_last()
        {
            let cut = length.min(self.bytes() - size);
            if cut < length {
                self.free.insert(start, length - cut);
            }
            self.freed = self.freed.saturating_sub(cut);
            released(start.saturating_add(length - cut), cut);
        }
    }

    /// Reserves memory without a known place until the pool has `size` bytes.
    fn grow(&mut self, size: u64, event: Event, each: &mut Vec<Event>) {
        let missing = size.saturating_sub(self.bytes()).min(OF_A_POOL - self.elsewhere);
        if missing > 0 {
            let address_or_free = self.elsewhere_from + self.elsewhere;
            each.push(Event { action: Action::SegmentMap, address_or_free, size: missing, ..event });
            self.elsewhere += missing;
        }
    }
}

#[cfg(test)]
mod tests;
