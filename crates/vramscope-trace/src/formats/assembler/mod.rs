//! Builds a trace from the values of a file.
//!
//! A format's reader (pickle, JSON) passes each dictionary and list to the assembler as it closes, innermost first. The assembler
//! implements the schema of a snapshot and keeps only known parts. An event goes into the columns at once; only its event index remains
//! as a [`Value`]. So no reader builds a tree, and a value with a thousand references costs a thousand numbers.

mod budget;
mod finish;
mod records;
mod value;

use std::collections::BTreeMap;

use super::keys::*;
use crate::annotations::Annotation;
use crate::devices::DeviceKind;
use crate::end_state::{Block, Segment};
use crate::error::TableFull;
use crate::events::{Action, Events, PoolId, Tags};
use crate::ids::{FrameId, StackId, StringId, StringListId, TagsId};
use crate::notices::{Notices, RecordKind};
use crate::settings::{PowerOfTwoDivisions, TorchSettings};
use crate::trace::Trace;
use value::{MOST_PLAIN, address};
pub(super) use value::{Value, known, push_element, push_joined};

/// A problem of a record, with its byte offset.
struct Problem {
    at: Option<u64>,
    what: String,
}

/// Maximum number of invalid records to remember.
const MOST_PROBLEMS: usize = 1000;

struct RawBlock {
    address: Option<u64>,
    block: Block,
    used: bool,
}

struct RawSegment {
    device: i64,
    segment: Segment,
    blocks: Value,
    at: Option<u64>,
    used: bool,
}

/// Settings whose configuration text is only copied and parsed if they belong to the snapshot.
struct RawSettings {
    recorded: TorchSettings,
    conf_text: Option<StringId>,
    /// The kind of device whose snapshots have the key of the text. `None` if there is no such key.
    kind: Option<DeviceKind>,
}

/// A former allocation of a block, in files of 2022.
#[derive(Clone, Copy)]
struct History {
    real_size: Option<u64>,
    stack: Option<StackId>,
}

#[derive(Default, Clone, Copy)]
struct Root {
    segments: Option<Value>,
    device_traces: Option<Value>,
    settings: Option<Value>,
    annotations: Option<Value>,
    host_segments: Option<Value>,
    host_traces: Option<Value>,
    overflowed: Option<Value>,
    max_entries: Option<Value>,
    total_bytes: Option<Value>,
    start_blocks: Option<Value>,
    missing_events: Option<Value>,
    ends_early: Option<Value>,
}

#[derive(Default)]
pub(super) struct Assembler {
    trace: Trace,
    notices: Notices,
    events: Events,
    blocks: Vec<RawBlock>,
    segments: Vec<RawSegment>,
    annotations: Vec<Annotation>,
    histories: Vec<History>,
    settings: Vec<RawSettings>,
    divisions: Vec<PowerOfTwoDivisions>,
    pools: Vec<PoolId>,
    pool_index: BTreeMap<PoolId, u32>,
    roots: Vec<Root>,
    /// Elements of lists without a more specific value, concatenated; list `i` ends at `list_ends[i]`.
    elements: Vec<Value>,
    list_ends: Vec<usize>,
    /// The first invalid record of each list that has one.
    list_problems: BTreeMap<u32, u32>,
    /// Lists already converted to lists of strings, because many records may refer to one list.
    string_lists: BTreeMap<u32, Option<StringListId>>,
    problems: Vec<Problem>,
    last_tags: Option<(Tags, TagsId)>,
    /// Whether a trace entry names an operator, as only Paddle's do.
    is_paddle: bool,
    /// Whether a trace entry has one text as its category and its metadata. Those of MLX name a primitive in both.
    names_primitives: bool,
    /// Maximum bytes of memory for all records.
    most_memory: u64,
}

/// Why a record was not converted.
enum Unread {
    Full(TableFull),
    /// A key is wrong or missing.
    Wrong(String),
}

impl From<TableFull> for Unread {
    fn from(full: TableFull) -> Self {
        Self::Full(full)
    }
}

impl<S: Into<String>> From<S> for Unread {
    fn from(what: S) -> Self {
        Self::Wrong(what.into())
    }
}

/// Meaning of a closed dictionary.
pub(super) enum EntryOrRecord {
    /// A trace entry: its event index, which fits into a register, unlike a [`Value`].
    Entry(u32),
    /// Any other record, or an invalid one.
    Record(Value),
}

impl Assembler {
    /// Creates an assembler whose records may take about `most_memory` bytes of memory.
    pub(super) fn new(most_memory: u64) -> Result<Self, TableFull> {
        let mut trace = Trace::default();
        for key in KEYS {
            trace.strings.intern(key)?;
        }
        for action in Action::KNOWN {
            trace.strings.intern(action.name())?;
        }
        Ok(Self { most_memory, trace, ..Self::default() })
    }

    pub(super) fn notices(&mut self) -> &mut Notices {
        &mut self.notices
    }

    pub(super) fn string(&mut self, s: &str) -> Result<Value, TableFull> {
        self.trace.strings.intern(s).map(Value::Str)
    }

    pub(super) fn intern_stack(&mut self, frames: &[FrameId]) -> Result<StackId, TableFull> {
        self.trace.stacks.intern(frames)
    }

    pub(super) fn frames_of(&self, stack: StackId) -> &[FrameId] {
        self.trace.stacks.get(stack)
    }

    /// Converts a closed list.
    pub(super) fn list(&mut self, items: &[Value]) -> Result<Value, TableFull> {
        match items {
            [] => return Ok(Value::EmptyList),
            [Value::Frame(_), ..] => {
                let frames: Option<Vec<FrameId>> = items
                    .iter()
                    .map(|v| match v {
                        Value::Frame(f) => Some(*f),
                        _ => None,
                    })
                    .collect();
                if let Some(frames) = frames {
                    return self.intern_stack(&frames).map(Value::Stack);
                }
            }
            [Value::Int(_) | Value::Big(_), Value::Int(_) | Value::Big(_)] => return self.pair(items),
            [first, ..] if items.len() >= MOST_PLAIN && first.is_plain() => return Ok(Value::LongList),
            _ => {}
        }
        let start = self.elements.len();
        for &v in items {
            push_element(&mut self.elements, start, v);
        }
        let id = index32(self.list_ends.len(), "list")?;
        self.list_ends.push(self.elements.len());
        if let Some(Value::Bad(problem)) = items.iter().find(|v| matches!(v, Value::Bad(_))) {
            self.list_problems.insert(id, *problem);
        }
        Ok(Value::List(id))
    }

    /// Converts two integers to a pool id.
    fn pair(&mut self, items: &[Value]) -> Result<Value, TableFull> {
        let [Some(a), Some(b)] = [0, 1].map(|i| items.get(i).and_then(|&v| address(v))) else {
            return Ok(Value::Opaque);
        };
        let pool = PoolId(a, b);
        if let Some(&id) = self.pool_index.get(&pool) {
            return Ok(Value::Pool(id));
        }
        let id = index32(self.pools.len(), "pool")?;
        self.pools.push(pool);
        self.pool_index.insert(pool, id);
        Ok(Value::Pool(id))
    }

    /// Like [`record`](Self::record), but faster for a trace entry whose first key is `action`, as recorders write it.
    pub(super) fn entry_or_record(
        &mut self,
        items: &[Value],
        at: Option<u64>,
    ) -> Result<EntryOrRecord, TableFull> {
        Ok(match items.as_chunks::<2>().0 {
            pairs @ [[key, _], ..] if known(*key) == Some(ACTION) => match self.event(pairs) {
                Ok(event) => EntryOrRecord::Entry(event),
                Err(why) => EntryOrRecord::Record(self.bad(at, why)?),
            },
            _ => EntryOrRecord::Record(self.record(items, at)?),
        })
    }

    /// Converts a closed dictionary. `items` is key, value, key, value and so on. `at` is its byte offset, if the format provides it.
    pub(super) fn record(&mut self, items: &[Value], at: Option<u64>) -> Result<Value, TableFull> {
        let (pairs, _) = items.as_chunks::<2>();
        for (i, &[key, _]) in pairs.iter().enumerate() {
            let record = match known(key) {
                Some(ACTION) => self.event(pairs).map(|first| Value::Events { first, len: 1 }),
                Some(FILENAME) => self.frame(pairs),
                Some(STATE) => self.block(pairs),
                Some(BLOCKS | TOTAL_SIZE) => self.segment(pairs, at),
                Some(STAGE) => self.annotation(pairs),
                Some(REAL_SIZE) => self.history(pairs),
                Some(SEGMENTS | DEVICE_TRACES) => self.root(pairs),
                Some(CONF | CONF_HIP | CONF_ANY | CONF_NPU | MAX_SPLIT_SIZE | EXPANDABLE_SEGMENTS) => {
                    self.settings(pairs)
                }
                None if i == 0 => match self.power_of_two_divisions(pairs)? {
                    Some(value) => return Ok(value),
                    None => continue,
                },
                _ => continue,
            };
            return record.or_else(|why| self.bad(at, why));
        }
        Ok(Value::Opaque)
    }

    /// Keeps the problem of a wrong record.
    fn bad(&mut self, at: Option<u64>, why: Unread) -> Result<Value, TableFull> {
        match why {
            Unread::Full(full) => return Err(full),
            Unread::Wrong(what) if self.problems.len() < MOST_PROBLEMS => {
                self.problems.push(Problem { at, what });
            }
            Unread::Wrong(_) => {}
        }
        Ok(Value::Bad((self.problems.len() - 1) as u32))
    }

    fn unknown_key(&mut self, record: RecordKind, key: Value) -> Option<()> {
        self.notices.unknown_key(record, key_name(&self.trace, key));
        Some(())
    }

    fn list_items(&self, id: u32) -> &[Value] {
        &self.elements[crate::strings::bounds(&self.list_ends, id as usize)]
    }
}

/// Returns a dictionary's key for messages.
fn key_name(trace: &Trace, key: Value) -> &str {
    match key {
        Value::Str(id) => trace.strings.get(id),
        _ => "(not a string)",
    }
}

fn index32(i: usize, what: &'static str) -> Result<u32, TableFull> {
    u32::try_from(i).map_err(|_| TableFull(what))
}
