//! [`TextCache`]: a cache of texts in bounded memory.

use std::hash::Hash;
use std::rc::Rc;

use hashbrown::HashMap;

/// Limit on the bytes of a cache.
const ROOM: usize = 32 << 20;

/// Approximate bytes of an entry in addition to its text.
const OVERHEAD: usize = 64;

/// Texts by key. If the cache exceeds [`ROOM`] bytes, all entries are dropped and rebuilt on demand.
pub(crate) struct TextCache<K> {
    texts: HashMap<K, Rc<str>>,
    bytes: usize,
}

impl<K: Hash + Eq> TextCache<K> {
    pub(crate) fn new() -> Self {
        Self { texts: HashMap::new(), bytes: 0 }
    }

    /// Returns the text of `key`; `None` if it is not cached.
    pub(crate) fn get(&self, key: &K) -> Option<Rc<str>> {
        self.texts.get(key).cloned()
    }

    /// Adds the text of `key`, and returns it.
    pub(crate) fn keep(&mut self, key: K, text: impl Into<Rc<str>>) -> Rc<str> {
        let text = text.into();
        self.bytes += text.len() + OVERHEAD;
        if self.bytes > ROOM {
            self.texts.clear();
            self.bytes = text.len() + OVERHEAD;
        }
        self.texts.insert(key, text.clone());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_cache_never_exceeds_its_size() {
        let mut kept = TextCache::new();
        let text = "x".repeat(1 << 20);
        for key in 0..100 {
            kept.keep(key, text.as_str());
            assert_eq!(kept.get(&key).as_deref(), Some(text.as_str()));
            assert!(kept.texts.values().map(|t| t.len()).sum::<usize>() <= ROOM);
        }
        assert!(kept.texts.len() > 1);
    }
}
