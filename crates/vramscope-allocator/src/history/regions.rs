//! Regions: what a program says it is doing, for all devices of a pool.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};

use vramscope_basics::lock;
use vramscope_trace::Stage;

use super::recorder::{RegionEntry, now_us};
use super::{Stream, StreamItem};
use crate::device::Process;

/// Beginnings and ends of regions, as far as they are recorded.
#[derive(Default)]
pub(crate) struct Regions {
    kept: Mutex<Kept>,
    process: Process,
}

#[derive(Default)]
struct Kept {
    entries: VecDeque<RegionEntry>,
    /// 0 while nothing is recorded.
    max_entries: usize,
    /// The devices' histories keep it open.
    stream: Weak<Stream>,
}

impl Regions {
    /// Begins or ends the recording of regions.
    pub(crate) fn set(&self, max_entries: usize, clear: bool, stream: Weak<Stream>) {
        let mut kept = lock(&self.kept);
        if max_entries == 0 || clear {
            kept.entries = VecDeque::new();
        }
        kept.max_entries = max_entries;
        kept.stream = stream;
    }

    /// A region begins or ends.
    pub(crate) fn record(&self, stage: Stage, name: &Arc<str>, device_id: i32) {
        if !self.process.is_this() {
            return;
        }
        let mut kept = lock(&self.kept);
        if kept.max_entries == 0 {
            return;
        }
        let entry = RegionEntry { stage, name: Arc::clone(name), device_id, time_us: now_us() };
        if let Some(stream) = kept.stream.upgrade() {
            stream.push(StreamItem::Region(entry.clone()));
        }
        if kept.entries.len() >= kept.max_entries {
            kept.entries.pop_front();
        }
        kept.entries.push_back(entry);
    }

    /// What is kept, oldest first.
    pub(crate) fn entries(&self) -> Vec<RegionEntry> {
        lock(&self.kept).entries.iter().cloned().collect()
    }
}
