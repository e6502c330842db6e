//! The data that the histories of a pool's devices share.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use hashbrown::HashMap;
use vramscope_trace::Stage;

use crate::stacks::{StackSource, StackStore, Symbols};
use vramscope_basics::lock;

/// The data that the histories of a pool's devices share.
#[derive(Default)]
pub(crate) struct Recorder {
    pub(super) stacks: StackStore,
    /// Resolved when a snapshot is taken.
    pub(super) symbols: Mutex<Symbols>,
    pub(super) texts: Texts,
}

impl Recorder {
    /// Sets the source of frames of another language.
    pub(crate) fn set_stack_source(&self, source: Option<Arc<dyn StackSource>>) {
        self.stacks.set_source(source);
    }
}

/// The begin or the end of a region.
#[derive(Debug, Clone)]
pub(super) struct RegionEntry {
    pub(super) stage: Stage,
    pub(super) name: Arc<str>,
    pub(super) device_id: i32,
    pub(super) time_us: i64,
}

/// A text in [`Texts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TextKey(u32);

/// The texts of events, each stored once.
#[derive(Default)]
pub(super) struct Texts {
    held: Mutex<TextTable>,
}

#[derive(Default)]
struct TextTable {
    texts: Vec<Arc<str>>,
    index: HashMap<Arc<str>, TextKey>,
}

impl Texts {
    pub(super) fn intern(&self, text: &Arc<str>) -> TextKey {
        let TextTable { texts, index } = &mut *lock(&self.held);
        *index.entry_ref(text).or_insert_with(|| {
            texts.push(Arc::clone(text));
            TextKey(texts.len() as u32 - 1)
        })
    }

    pub(super) fn get(&self, key: TextKey) -> Arc<str> {
        Arc::clone(&lock(&self.held).texts[key.0 as usize])
    }
}

/// Returns microseconds since the Unix epoch. The value never decreases, even if the system clock is set back.
pub(super) fn now_us() -> i64 {
    static START: OnceLock<(Instant, i64)> = OnceLock::new();
    let &(start, us) = START.get_or_init(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        (Instant::now(), since.as_micros() as i64)
    });
    us + start.elapsed().as_micros() as i64
}
