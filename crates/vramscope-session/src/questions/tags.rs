//! Tags of allocations and events: stream, pool and texts. Each device has a table of its distinct tags.

use std::collections::HashMap;

use serde::Serialize;
use vramscope_analysis::{History, Origin, RecordedAllocation, for_each_with_pool};
use vramscope_trace::{PoolId, Purpose, StringId, TensorNote};

/// Recorded properties of an allocation or event, besides numbers and the stack. Texts are positions in the device's
/// `tag_texts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Tags {
    pub(crate) stream: u64,
    /// Null if the recording has no pool ids; (0, 0) is the default pool.
    pub(crate) pool: Option<[u64; 2]>,
    /// The path of the module that made the allocation; empty for the outermost module.
    pub(crate) layer: Option<u32>,
    /// The category from PyTorch's profiler, in its own words.
    pub(crate) recorded_category: Option<u32>,
    pub(crate) compile_context: Option<u32>,
    pub(crate) user_metadata: Option<u32>,
}

/// The tag table of a device, and the entries of its allocations and reserved ranges.
#[derive(Debug, Clone)]
pub(crate) struct TagsOfDevice {
    /// First the trace's own tags, by their ids; then tags that are known only from the end state or from a segment.
    pub(crate) table: Vec<Tags>,
    /// The distinct texts of the tags.
    pub(crate) texts: Vec<Text>,
    /// The entry of each allocation of the history.
    pub(crate) allocations: Vec<u32>,
    /// The entry of each reserved range.
    pub(crate) ranges: Vec<u32>,
}

impl TagsOfDevice {
    pub(crate) fn of(history: &History) -> Self {
        let trace = history.trace();
        let mut texts = Texts { history, all: Vec::new(), numbers: HashMap::new() };
        let with_numbers = |t: vramscope_trace::Tags| Tags {
            stream: t.stream,
            pool: t.pool.map(pool_numbers),
            layer: texts.layer(t.user_metadata),
            recorded_category: texts.recorded(t.category),
            compile_context: texts.recorded(t.compile_context),
            user_metadata: texts.recorded(t.user_metadata),
        };
        let mut table = TagTable::of(trace.tags.iter().map(with_numbers).collect());
        // Only the end state has the texts of allocations that were live before recording.
        let blocks = history.device().recorded_blocks().filter_map(|b| Some((b.address, b.user_metadata?)));
        let blocks = blocks.map(|(at, text)| (at, (texts.layer(Some(text)), texts.recorded(Some(text)))));
        table.of_blocks = blocks.collect();
        let ranges = history
            .reserved
            .iter()
            .map(|r| table.entry(without_texts(r.stream, r.pool.map(pool_numbers))))
            .collect();
        let mut allocations = vec![0; history.allocations.len()];
        for_each_with_pool(history, |id, around| {
            allocations[id] = table.of_allocation(&history.allocations[id], around.map(pool_numbers));
        });
        Self { table: table.entries, texts: texts.all, allocations, ranges }
    }
}

/// A text of a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Text {
    /// The recorded text, without the lines about a tensor.
    Recorded(StringId),
    /// The module path in the recorded text.
    Layer(StringId),
}

impl Text {
    pub(crate) fn get(self, history: &History) -> &str {
        let text = |id| history.trace().strings.get(id);
        match self {
            Self::Recorded(id) => TensorNote::strip(text(id)),
            Self::Layer(id) => Purpose::parse(text(id)).module.unwrap_or_default(),
        }
    }
}

/// Texts with their indices.
struct Texts<'h> {
    history: &'h History,
    all: Vec<Text>,
    numbers: HashMap<&'h str, u32>,
}

impl Texts<'_> {
    fn recorded(&mut self, id: Option<StringId>) -> Option<u32> {
        Some(self.number(Text::Recorded(id?)))
    }

    /// The module path in a `user_metadata` text. The outermost module has the empty path.
    fn layer(&mut self, user_metadata: Option<StringId>) -> Option<u32> {
        let id = user_metadata?;
        Purpose::parse(self.history.trace().strings.get(id)).module?;
        Some(self.number(Text::Layer(id)))
    }

    fn number(&mut self, text: Text) -> u32 {
        *self.numbers.entry(text.get(self.history)).or_insert_with(|| {
            self.all.push(text);
            (self.all.len() - 1) as u32
        })
    }
}

/// Tags without texts.
fn without_texts(stream: u64, pool: Option<[u64; 2]>) -> Tags {
    Tags { stream, pool, layer: None, recorded_category: None, compile_context: None, user_metadata: None }
}

fn pool_numbers(pool: PoolId) -> [u64; 2] {
    [pool.0, pool.1]
}

struct TagTable {
    entries: Vec<Tags>,
    index: HashMap<Tags, u32>,
    /// For each block of the end state, by address: the indices of the layer and of the program's text.
    of_blocks: HashMap<u64, (Option<u32>, Option<u32>)>,
    /// The last result of [`of_allocation`](Self::of_allocation): recorded tags, the pool, and their entry.
    last: Option<(u32, [u64; 2], u32)>,
}

impl TagTable {
    fn of(entries: Vec<Tags>) -> Self {
        // Equal entries resolve to the first one.
        let index = entries.iter().enumerate().rev().map(|(i, &t)| (t, i as u32)).collect();
        Self { entries, index, of_blocks: HashMap::new(), last: None }
    }

    fn entry(&mut self, tags: Tags) -> u32 {
        let Self { entries, index, .. } = self;
        *index.entry(tags).or_insert_with_key(|tags| {
            entries.push(*tags);
            (entries.len() - 1) as u32
        })
    }

    /// The entry of an allocation: its recorded tags. Without a recorded pool, uses `around`, the pool of the surrounding
    /// segment.
    fn of_allocation(&mut self, a: &RecordedAllocation, around: Option<[u64; 2]>) -> u32 {
        let Some(recorded) = a.tags else {
            let told = (a.origin == Origin::EndState).then(|| self.of_blocks.get(&a.address).copied());
            let (layer, user_metadata) = told.flatten().unwrap_or_default();
            return self.entry(Tags { layer, user_metadata, ..without_texts(a.stream, around) });
        };
        let own = recorded.index() as u32;
        match around {
            Some(pool) if self.entries[own as usize].pool.is_none() => {
                if let Some((_, _, entry)) = self.last.filter(|last| (last.0, last.1) == (own, pool)) {
                    return entry;
                }
                let entry = self.entry(Tags { pool: around, ..self.entries[own as usize] });
                self.last = Some((own, pool, entry));
                entry
            }
            _ => own,
        }
    }
}
