//! What the histories of a pool's devices share.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use hashbrown::HashMap;
use vramscope_trace::Stage;

use super::{Stream, StreamItem};
use crate::device::Process;
use crate::stacks::{StackStore, Symbols};
use vramscope_basics::lock;

/// What the histories of a pool's devices share.
#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) stacks: StackStore,
    /// Looked up when a snapshot is made.
    pub(crate) symbols: Mutex<Symbols>,
    pub(crate) texts: Texts,
    regions: Mutex<Regions>,
    process: Process,
}

/// One end of a region.
#[derive(Debug, Clone)]
pub(crate) struct RegionEntry {
    pub(crate) stage: Stage,
    pub(crate) name: Arc<str>,
    pub(crate) device_id: i32,
    pub(crate) time_us: i64,
}

#[derive(Default)]
struct Regions {
    entries: VecDeque<RegionEntry>,
    /// 0 while nothing is recorded.
    max_entries: usize,
    /// The devices' histories keep it open.
    stream: Weak<Stream>,
}

impl Recorder {
    /// Begins or ends the recording of regions.
    pub(crate) fn set_regions(&self, max_entries: usize, clear: bool, stream: Weak<Stream>) {
        let mut regions = lock(&self.regions);
        if max_entries == 0 || clear {
            regions.entries = VecDeque::new();
        }
        regions.max_entries = max_entries;
        regions.stream = stream;
    }

    /// A region begins or ends.
    pub(crate) fn region(&self, stage: Stage, name: &Arc<str>, device_id: i32) {
        if !self.process.is_this() {
            return;
        }
        let mut regions = lock(&self.regions);
        if regions.max_entries == 0 {
            return;
        }
        let entry = RegionEntry { stage, name: Arc::clone(name), device_id, time_us: now_us() };
        if let Some(stream) = regions.stream.upgrade() {
            stream.push(StreamItem::Region(entry.clone()));
        }
        if regions.entries.len() >= regions.max_entries {
            regions.entries.pop_front();
        }
        regions.entries.push_back(entry);
    }

    pub(crate) fn regions(&self) -> Vec<RegionEntry> {
        lock(&self.regions).entries.iter().cloned().collect()
    }
}

/// A text in [`Texts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TextKey(u32);

/// Texts that events carry, each once.
#[derive(Default)]
pub(crate) struct Texts {
    held: Mutex<HeldTexts>,
}

#[derive(Default)]
struct HeldTexts {
    texts: Vec<Arc<str>>,
    index: HashMap<Arc<str>, TextKey>,
}

impl Texts {
    pub(crate) fn intern(&self, text: &Arc<str>) -> TextKey {
        let HeldTexts { texts, index } = &mut *lock(&self.held);
        *index.entry_ref(text).or_insert_with(|| {
            texts.push(Arc::clone(text));
            TextKey(texts.len() as u32 - 1)
        })
    }

    pub(crate) fn get(&self, key: TextKey) -> Arc<str> {
        Arc::clone(&lock(&self.held).texts[key.0 as usize])
    }
}

/// Microseconds since the Unix epoch; never less than the time before, though the system's clock is set.
pub(crate) fn now_us() -> i64 {
    static START: OnceLock<(Instant, i64)> = OnceLock::new();
    let &(start, us) = START.get_or_init(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        (Instant::now(), since.as_micros() as i64)
    });
    us + start.elapsed().as_micros() as i64
}
