//! Regions that a program names (`torch.profiler.record_function`), for all devices of a pool.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};

use vramscope_basics::lock;
use vramscope_trace::Stage;

use super::recorder::{RegionEntry, now_us};
use super::{Stream, StreamItem};
use crate::device::Process;

/// The recorded beginnings and ends of regions.
#[derive(Default)]
pub(crate) struct Regions {
    ring: Mutex<RegionRing>,
    process: Process,
}

#[derive(Default)]
struct RegionRing {
    entries: VecDeque<RegionEntry>,
    /// How many entries are kept; 0 while regions are not recorded.
    max_entries: usize,
    /// The file that is streamed to. The histories of the devices own it.
    stream: Weak<Stream>,
}

impl Regions {
    /// Begins or ends the recording of regions.
    pub(crate) fn set(&self, max_entries: usize, clear: bool, stream: Weak<Stream>) {
        let mut ring = lock(&self.ring);
        if max_entries == 0 || clear {
            ring.entries = VecDeque::new();
        }
        ring.max_entries = max_entries;
        ring.stream = stream;
    }

    /// Records that a region begins or ends, where regions are recorded.
    pub(crate) fn record(&self, stage: Stage, name: &Arc<str>, device_id: i32) {
        if !self.process.is_this() {
            return;
        }
        let mut ring = lock(&self.ring);
        if ring.max_entries == 0 {
            return;
        }
        let entry = RegionEntry { stage, name: Arc::clone(name), device_id, time_us: now_us() };
        if let Some(stream) = ring.stream.upgrade() {
            stream.push(StreamItem::Region(entry.clone()));
        }
        if ring.entries.len() >= ring.max_entries {
            ring.entries.pop_front();
        }
        ring.entries.push_back(entry);
    }

    /// The entries that are kept, oldest first.
    pub(super) fn entries(&self) -> Vec<RegionEntry> {
        lock(&self.ring).entries.iter().cloned().collect()
    }
}
