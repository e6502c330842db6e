//! What the histories of a pool's devices share.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use hashbrown::HashMap;
use vramscope_trace::Stage;

use crate::stacks::{StackStore, Symbols};
use vramscope_basics::lock;

/// What the histories of a pool's devices share.
#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) stacks: StackStore,
    /// Looked up when a snapshot is made.
    pub(crate) symbols: Mutex<Symbols>,
    pub(crate) texts: Texts,
}

/// One end of a region.
#[derive(Debug, Clone)]
pub(crate) struct RegionEntry {
    pub(crate) stage: Stage,
    pub(crate) name: Arc<str>,
    pub(crate) device_id: i32,
    pub(crate) time_us: i64,
}

/// A text in [`Texts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TextKey(u32);

/// The texts that events carry, each stored once.
#[derive(Default)]
pub(crate) struct Texts {
    held: Mutex<TextTable>,
}

#[derive(Default)]
struct TextTable {
    texts: Vec<Arc<str>>,
    index: HashMap<Arc<str>, TextKey>,
}

impl Texts {
    pub(crate) fn intern(&self, text: &Arc<str>) -> TextKey {
        let TextTable { texts, index } = &mut *lock(&self.held);
        *index.entry_ref(text).or_insert_with(|| {
            texts.push(Arc::clone(text));
            TextKey(texts.len() as u32 - 1)
        })
    }

    pub(crate) fn get(&self, key: TextKey) -> Arc<str> {
        Arc::clone(&lock(&self.held).texts[key.0 as usize])
    }
}

/// Microseconds since the Unix epoch. Never less than what was returned before, even where the system's clock was set
/// back.
pub(crate) fn now_us() -> i64 {
    static START: OnceLock<(Instant, i64)> = OnceLock::new();
    let &(start, us) = START.get_or_init(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        (Instant::now(), since.as_micros() as i64)
    });
    us + start.elapsed().as_micros() as i64
}
