//! Named regions of a program (`torch.profiler.record_function`), for all devices of a pool.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};

use vramscope_basics::lock;
use vramscope_trace::Stage;

use super::recorder::{RegionEntry, now_us};
use super::{Stream, StreamItem};
use crate::device::Process;

/// The recorded begins and ends of regions.
#[derive(Default)]
pub(crate) struct Regions {
    ring: Mutex<RegionRing>,
    process: Process,
}

#[derive(Default)]
struct RegionRing {
    entries: VecDeque<RegionEntry>,
    /// Maximum number of entries; 0 while regions are not recorded.
    max_entries: usize,
    /// The file that receives entries. The devices' histories own it.
    stream: Weak<Stream>,
}

impl Regions {
    /// Starts or stops recording of regions.
    pub(crate) fn set(&self, max_entries: usize, clear: bool, stream: Weak<Stream>) {
        let mut ring = lock(&self.ring);
        if max_entries == 0 || clear {
            ring.entries = VecDeque::new();
        }
        ring.max_entries = max_entries;
        ring.stream = stream;
    }

    /// Records the begin or the end of a region, if regions are recorded.
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

    /// Returns the kept entries, oldest first.
    pub(super) fn entries(&self) -> Vec<RegionEntry> {
        lock(&self.ring).entries.iter().cloned().collect()
    }
}
