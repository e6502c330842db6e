//! The checking mode: every block is compared with all blocks in use, and with the last uses of its memory, without the pool's own tables.

use std::collections::BTreeMap;

use vramscope::allocator::{Device, EventId};

use super::device::LazyDevice;

/// Number of freed ranges that are kept before completed ones are looked for.
const MANY: usize = 1024;

/// The blocks of one GPU that the program may use.
#[derive(Default)]
pub(super) struct Checks {
    /// Allocated blocks by address: their sizes and the other streams that use them.
    live: BTreeMap<u64, (u64, Vec<u64>)>,
    /// Freed blocks that another stream used, with an event on that stream: first address, address after the last, event.
    waiting: Vec<(u64, u64, EventId)>,
}

impl Checks {
    /// Adds a block that the pool gave to a stream. Returns what is wrong with it.
    pub(super) fn allocated(
        &mut self,
        device: &LazyDevice,
        start: u64,
        size: u64,
        stream: u64,
    ) -> Result<(), String> {
        let end = start.saturating_add(size);
        let before = self.live.range(..end).next_back();
        if let Some((&other, &(bytes, _))) = before.filter(|&(&other, &(bytes, _))| other + bytes > start) {
            return Err(format!(
                "the block at {start:#x} of {size} bytes overlaps {other:#x} of {bytes} bytes"
            ));
        }
        let overlaps = |&(from, to, _): &(u64, u64, EventId)| from < end && start < to;
        for index in (0..self.waiting.len()).rev() {
            if overlaps(&self.waiting[index]) {
                let (_, _, event) = self.waiting.swap_remove(index);
                if !device.event_done(event).unwrap_or(true) {
                    return Err(format!("another stream still uses the block at {start:#x} of {size} bytes"));
                }
            }
        }
        let order = device.order().map(|mut order| order.allocated(start, size, stream));
        if let Some(Err(other)) = order {
            return Err(format!(
                "stream {stream:#x} got {start:#x} of {size} bytes without waiting for stream {other:#x}, which used it last"
            ));
        }
        self.live.insert(start, (size, Vec::new()));
        Ok(())
    }

    /// Records that another stream uses a block.
    pub(super) fn used_by(&mut self, address: u64, stream: u64) {
        if let Some((_, streams)) = self.live.get_mut(&address) {
            streams.push(stream);
        }
    }

    /// Removes a block of a stream before the pool reuses it. While a stream is captured (`capturing`), no event can be recorded.
    pub(super) fn freed(&mut self, device: &LazyDevice, address: u64, stream: u64, capturing: bool) {
        let Some((size, streams)) = self.live.remove(&address) else { return };
        if let Some(mut order) = device.order() {
            order.freed(address, size, stream);
        }
        for stream in streams.into_iter().filter(|_| !capturing) {
            if let Ok(event) = device.record_event(stream) {
                self.waiting.push((address, address + size, event));
            }
        }
        if self.waiting.len() > MANY && !capturing {
            self.waiting.retain(|&(_, _, event)| !device.event_done(event).unwrap_or(true));
        }
    }
}
