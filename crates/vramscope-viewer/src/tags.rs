//! What allocations and events carry beside numbers and stack, one table for each device.

use std::collections::{BTreeMap, HashMap};

use vramscope_analysis::{Allocation, Change, Changes, History, Moment, ReservedRange};
use vramscope_trace::{PoolId, StringId};

use crate::protocol::Tags;

/// The table of a device, and which entry each of its things has.
#[derive(Debug, Clone)]
pub(crate) struct TagsOfDevice {
    /// The first are the trace's own tags, by their ids; then those that only an end state or a segment tells.
    pub(crate) table: Vec<Tags>,
    /// Every text once, however many tags have it.
    pub(crate) texts: Vec<StringId>,
    /// The entry of each allocation of the history.
    pub(crate) allocations: Vec<u32>,
    /// The entry of each reserved range.
    pub(crate) ranges: Vec<u32>,
}

impl TagsOfDevice {
    pub(crate) fn of(history: &History) -> Self {
        let trace = history.trace();
        let mut texts = Vec::new();
        let mut numbers: HashMap<StringId, u32> = HashMap::new();
        let mut text = |id: Option<StringId>| {
            Some(*numbers.entry(id?).or_insert_with_key(|&id| {
                texts.push(id);
                (texts.len() - 1) as u32
            }))
        };
        let view = |t: vramscope_trace::Tags| Tags {
            stream: t.stream,
            pool: t.pool.map(array),
            category: text(t.category),
            compile_context: text(t.compile_context),
            user_metadata: text(t.user_metadata),
        };
        let mut table = Table::of(trace.tags.iter().map(view).collect());
        let ranges =
            history.reserved.iter().map(|r| table.entry(bare(r.stream, r.pool.map(array)))).collect();
        let mut allocations = vec![0; history.allocations.len()];
        each_with_pool(history, |id, around| {
            allocations[id] = table.of_allocation(&history.allocations[id], around.map(array));
        });
        Self { table: table.entries, texts, allocations, ranges }
    }
}

/// Tags without texts.
fn bare(stream: u64, pool: Option<[u64; 2]>) -> Tags {
    Tags { stream, pool, category: None, compile_context: None, user_metadata: None }
}

fn array(pool: PoolId) -> [u64; 2] {
    [pool.0, pool.1]
}

struct Table {
    entries: Vec<Tags>,
    index: HashMap<Tags, u32>,
    /// What [`of_allocation`](Self::of_allocation) looked up last: recorded tags, the pool, and their entry.
    last: Option<(u32, [u64; 2], u32)>,
}

impl Table {
    fn of(entries: Vec<Tags>) -> Self {
        // Of entries that look alike the first serves.
        let index = entries.iter().enumerate().rev().map(|(i, &t)| (t, i as u32)).collect();
        Self { entries, index, last: None }
    }

    fn entry(&mut self, tags: Tags) -> u32 {
        let Self { entries, index, .. } = self;
        *index.entry(tags).or_insert_with_key(|tags| {
            entries.push(*tags);
            (entries.len() - 1) as u32
        })
    }

    /// Recorded tags; without a pool there, that of the segment around it.
    fn of_allocation(&mut self, a: &Allocation, around: Option<[u64; 2]>) -> u32 {
        let Some(recorded) = a.tags else { return self.entry(bare(a.stream, around)) };
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

/// Tells each allocation by its number, with the pool of the range that held it when it began.
fn each_with_pool(history: &History, mut tell: impl FnMut(usize, Option<PoolId>)) {
    let ids = 0..history.allocations.len();
    if history.reserved.iter().all(|r| r.pool.is_none()) {
        return ids.for_each(|id| tell(id, None));
    }
    let ranges = history.reserved.iter().enumerate();
    let mut changes = Changes::of(ranges.map(|(number, r)| (r.from, r.to, number)));
    let mut live: BTreeMap<u64, &ReservedRange> = BTreeMap::new();
    let mut next = |id: usize| {
        let a = &history.allocations[id];
        while let Some((change, number)) = changes.next_until(a.from) {
            let range = &history.reserved[number];
            match change {
                Change::Begins => live.insert(range.address, range),
                Change::Ends => live.remove(&range.address),
            };
        }
        let below = live.range(..=a.address).next_back().map(|(_, r)| r);
        tell(id, below.filter(|r| a.address < r.end()).and_then(|r| r.pool));
    };
    // They mostly come in the order in which they began.
    if history.allocations.is_sorted_by_key(|a| a.from) {
        return ids.for_each(next);
    }
    let mut births: Vec<(Moment, usize)> = ids.map(|id| (history.allocations[id].from, id)).collect();
    births.sort_unstable();
    births.into_iter().for_each(|(_, id)| next(id));
}
