//! From values to a trace.
//!
//! A format's reader (pickle, JSON) hands over each dictionary and list as it closes, innermost first; the
//! assembler knows the schema of a snapshot and keeps what means something: an event goes into the columns
//! at once and only its number travels on as a [`Value`]. So no reader builds a tree, and a value that is
//! referred to a thousand times costs a thousand numbers.

use std::collections::BTreeMap;

use super::keys::*;
use crate::annotations::{Annotation, Stage};
use crate::end_state::{Block, BlockState, Segment, SegmentKind};
use crate::error::{ReadError, TableFull};
use crate::events::{Action, Event, Events, PoolId, Tags};
use crate::ids::{FrameId, StackId, StringId, StringListId, TagsId};
use crate::notices::Notices;
use crate::settings::{AllocatorSettings, Conf, PowerOfTwoDivisions};
use crate::stacks::{Frame, FxNode};
use crate::trace::{DeviceTrace, Trace};

/// One value of the file: a plain one, or the number of a record the assembler keeps. 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value {
    None,
    Bool(bool),
    Int(i64),
    /// An integer above `i64::MAX`.
    Big(u64),
    Float(f64),
    Str(StringId),
    Frame(FrameId),
    Stack(StackId),
    EmptyList,
    /// `len` events in a row, of which `first` is the first.
    Events {
        first: u32,
        len: u32,
    },
    Block(u32),
    Segment(u32),
    Annotation(u32),
    History(u32),
    Settings(u32),
    Divisions(u32),
    Pool(u32),
    Root(u32),
    List(u32),
    /// A record that breaks the schema; an error only where the schema needs it.
    Bad(u32),
    /// A value of no known meaning.
    Opaque,
    /// A container that its reader has not closed yet; only the pickle machine makes it.
    Open(u32),
    /// A dictionary that nothing was put into yet, with its place in the memo; only the pickle machine.
    OpenDict(Option<std::num::NonZeroU32>),
}

/// Lists of at least so many plain values mean nothing in a snapshot and are not kept: a byte of the file must
/// not cost many of memory.
const MOST_PLAIN: usize = 4096;

impl Value {
    /// Neither a record nor made of records.
    fn is_plain(self) -> bool {
        use Value::*;
        matches!(self, None | Bool(_) | Int(_) | Big(_) | Float(_) | Str(_) | EmptyList | Pool(_) | Opaque)
    }
}

/// Appends `value` to the list that begins at `start`.
pub(super) fn push_element(values: &mut Vec<Value>, start: usize, value: Value) {
    match values.get(start) {
        None => values.push(value),
        Some(first) if values.len() - start >= MOST_PLAIN && first.is_plain() => {}
        Some(_) => push_joined(values, value),
    }
}

/// Appends `value`, joining events that follow each other into one run.
pub(super) fn push_joined(values: &mut Vec<Value>, value: Value) {
    if let (Some(Value::Events { first, len }), Value::Events { first: next, len: more }) =
        (values.last_mut(), value)
        && first.checked_add(*len) == Some(next)
    {
        *len += more;
        return;
    }
    values.push(value);
}

/// What is wrong with a record, and where it stands.
struct Problem {
    at: Option<u64>,
    what: String,
}

/// Devices of the largest machine there could be.
const MOST_DEVICES: usize = 4096;

/// How many broken records are remembered one by one.
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

/// A former occupant of a block, in files of 2022.
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
}

pub(super) struct Assembler {
    trace: Trace,
    notices: Notices,
    events: Events,
    blocks: Vec<RawBlock>,
    segments: Vec<RawSegment>,
    annotations: Vec<Annotation>,
    histories: Vec<History>,
    settings: Vec<AllocatorSettings>,
    divisions: Vec<PowerOfTwoDivisions>,
    pools: Vec<PoolId>,
    pool_index: BTreeMap<PoolId, u32>,
    roots: Vec<Root>,
    /// Elements of lists without a shape of their own, end to end; list `i` ends at `list_ends[i]`.
    elements: Vec<Value>,
    list_ends: Vec<usize>,
    /// The first broken record of each list that holds one.
    list_problems: BTreeMap<u32, u32>,
    /// Lists that were read as lists of strings before: many records may refer to one.
    string_lists: BTreeMap<u32, Option<StringListId>>,
    problems: Vec<Problem>,
    last_tags: Option<(Tags, TagsId)>,
}

/// A record's value under a wrong or missing key.
type Field<T> = Result<T, String>;

impl Assembler {
    pub(super) fn new() -> Result<Self, TableFull> {
        let mut trace = Trace::default();
        for key in KEYS {
            trace.strings.intern(key)?;
        }
        for action in Action::KNOWN {
            trace.strings.intern(action.name())?;
        }
        Ok(Self {
            trace,
            notices: Notices::default(),
            events: Events::default(),
            blocks: Vec::new(),
            segments: Vec::new(),
            annotations: Vec::new(),
            histories: Vec::new(),
            settings: Vec::new(),
            divisions: Vec::new(),
            pools: Vec::new(),
            pool_index: BTreeMap::new(),
            roots: Vec::new(),
            elements: Vec::new(),
            list_ends: Vec::new(),
            list_problems: BTreeMap::new(),
            string_lists: BTreeMap::new(),
            problems: Vec::new(),
            last_tags: None,
        })
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

    /// A list that has closed.
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
            [first, ..] if items.len() >= MOST_PLAIN && first.is_plain() => return Ok(Value::Opaque),
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

    /// Two integers: a pool's id.
    pub(super) fn pair(&mut self, items: &[Value]) -> Result<Value, TableFull> {
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

    /// A dictionary that has closed: `items` are key, value, key, value ...; `at` is the byte where it
    /// stands, where the format can tell.
    pub(super) fn record(&mut self, items: &[Value], at: Option<u64>) -> Result<Value, TableFull> {
        let (pairs, _) = items.as_chunks::<2>();
        for (i, &[key, _]) in pairs.iter().enumerate() {
            let record = match known(key) {
                Some(ACTION) => self.event(pairs)?,
                Some(FILENAME) => self.frame(pairs)?,
                Some(STATE) => self.block(pairs)?,
                Some(BLOCKS | TOTAL_SIZE) => self.segment(pairs, at)?,
                Some(STAGE) => self.annotation(pairs)?,
                Some(REAL_SIZE) => self.history(pairs)?,
                Some(SEGMENTS | DEVICE_TRACES) => self.root(pairs)?,
                Some(CONF | MAX_SPLIT_SIZE | EXPANDABLE_SEGMENTS) => self.settings(pairs)?,
                None if i == 0 => match self.power_of_two_divisions(pairs)? {
                    Some(value) => return Ok(value),
                    None => continue,
                },
                _ => continue,
            };
            return Ok(match record {
                Ok(value) => value,
                Err(what) => self.bad(Problem { at, what }),
            });
        }
        Ok(Value::Opaque)
    }

    fn bad(&mut self, problem: Problem) -> Value {
        if self.problems.len() < MOST_PROBLEMS {
            self.problems.push(problem);
        }
        Value::Bad((self.problems.len() - 1) as u32)
    }

    fn unknown_key(&mut self, record: &'static str, key: Value) {
        let name = match key {
            Value::Str(id) => self.trace.strings.get(id),
            _ => "(not a string)",
        };
        self.notices.unknown_key(record, name);
    }

    fn event(&mut self, pairs: &[[Value; 2]]) -> Result<Field<Value>, TableFull> {
        let mut action = None;
        let (mut addr, mut device_free, mut size) = (None, None, None);
        let mut time_us = None;
        let mut stack = None;
        let mut tags = Tags::default();
        for &[key, v] in pairs {
            let field = match known(key) {
                Some(ACTION) => set(&mut action, as_string(v)),
                Some(ADDR) => set(&mut addr, address(v)),
                Some(DEVICE_FREE) => set(&mut device_free, unsigned(v)),
                Some(SIZE) => set(&mut size, unsigned(v)),
                Some(STREAM) => address(v).map(|s| tags.stream = s),
                Some(TIME_US) => optional(&mut time_us, v, signed),
                Some(COMPILE_CONTEXT) => optional(&mut tags.compile_context, v, as_string),
                Some(USER_METADATA) => optional(&mut tags.user_metadata, v, as_string),
                Some(INTERNAL_METADATA) => optional(&mut tags.internal_metadata, v, as_string),
                Some(CATEGORY) => optional(&mut tags.category, v, as_string),
                Some(POOL_ID) => optional(&mut tags.pool, v, |v| self.as_pool(v)),
                Some(FRAMES) => match self.as_stack(v)? {
                    Ok(s) => {
                        stack = s;
                        Some(())
                    }
                    Err(what) => return Ok(Err(what)),
                },
                Some(FORWARD_FRAMES) => self.as_string_list(v)?.map(|l| tags.forward_frames = l),
                _ => {
                    self.unknown_key("trace entries", key);
                    Some(())
                }
            };
            if field.is_none() {
                return Ok(Err(self.wrong("trace entry", key, v)));
            }
        }
        let Some(name) = action else { return Ok(Err("trace entry without `action`".to_owned())) };
        // The names of actions follow the keys in the table.
        let known = name.index().checked_sub(KEYS.len()).and_then(|i| Action::KNOWN.get(i));
        let action = known.copied().unwrap_or(Action::Unknown);
        if action == Action::Unknown {
            self.notices.unknown_action(self.trace.strings.get(name));
            tags.unknown_action = Some(name);
        }
        let needs_numbers = !matches!(
            action,
            Action::Oom | Action::Snapshot | Action::UserDefined | Action::Annotate | Action::Unknown
        );
        let address = if action == Action::Oom { device_free.or(addr) } else { addr };
        if needs_numbers && address.is_none() {
            return Ok(Err(format!("`{}` without `addr`", action.name())));
        }
        if (needs_numbers || action == Action::Oom) && size.is_none() {
            return Ok(Err(format!("`{}` without `size`", action.name())));
        }
        let tags = match self.last_tags {
            Some((last, id)) if last == tags => id,
            _ => {
                let id = self.trace.tags.intern(tags)?;
                self.last_tags = Some((tags, id));
                id
            }
        };
        let first = index32(self.events.len(), "event")?;
        self.events.push(Event {
            action,
            address: address.unwrap_or(0),
            size: size.unwrap_or(0),
            time_us,
            stack,
            tags,
        });
        Ok(Ok(Value::Events { first, len: 1 }))
    }

    fn frame(&mut self, pairs: &[[Value; 2]]) -> Result<Field<Value>, TableFull> {
        let (mut name, mut filename, mut line) = (None, None, 0);
        let mut fx = FxNode::default();
        for &[key, v] in pairs {
            let field = match known(key) {
                Some(NAME) => set(&mut name, as_string(v)),
                Some(FILENAME) => set(&mut filename, as_string(v)),
                // A line below 0 or absurdly high is as good as unknown.
                Some(LINE) => wrapped(v).map(|n| line = u32::try_from(n).unwrap_or(0)),
                Some(FX_NODE_OP) => optional(&mut fx.op, v, as_string),
                Some(FX_NODE_NAME) => optional(&mut fx.name, v, as_string),
                Some(FX_NODE_TARGET) => optional(&mut fx.target, v, as_string),
                Some(FX_ORIGINAL_TRACE) => optional(&mut fx.original_trace, v, as_string),
                _ => {
                    self.unknown_key("frames", key);
                    Some(())
                }
            };
            if field.is_none() {
                return Ok(Err(self.wrong("frame", key, v)));
            }
        }
        let (Some(name), Some(filename)) = (name, filename) else {
            return Ok(Err("frame without `name` or `filename`".to_owned()));
        };
        Ok(Ok(Value::Frame(self.trace.frames.intern(Frame { name, filename, line, fx })?)))
    }

    fn block(&mut self, pairs: &[[Value; 2]]) -> Result<Field<Value>, TableFull> {
        let (mut address, mut size, mut requested_size, mut state) = (None, None, None, None);
        let (mut stack, mut forward_frames, mut history) = (None, None, None);
        for &[key, v] in pairs {
            let field = match known(key) {
                Some(ADDRESS) => set(&mut address, self::address(v)),
                Some(SIZE) => set(&mut size, unsigned(v)),
                Some(REQUESTED_SIZE) => set(&mut requested_size, unsigned(v)),
                Some(STATE) => set(&mut state, self.as_state(v)),
                Some(FRAMES) => match self.as_stack(v)? {
                    Ok(s) => {
                        stack = s;
                        Some(())
                    }
                    Err(what) => return Ok(Err(what)),
                },
                Some(FORWARD_FRAMES) => self.as_string_list(v)?.map(|l| forward_frames = l),
                Some(HISTORY) => {
                    history = self.newest_history(v);
                    Some(())
                }
                _ => {
                    self.unknown_key("blocks", key);
                    Some(())
                }
            };
            if field.is_none() {
                return Ok(Err(self.wrong("block", key, v)));
            }
        }
        let (Some(size), Some(state)) = (size, state) else {
            return Ok(Err("block without `size` or `state`".to_owned()));
        };
        let requested_size = requested_size.or(history.and_then(|h| h.real_size)).unwrap_or(size);
        let stack = stack.or(history.and_then(|h| h.stack));
        let id = index32(self.blocks.len(), "block")?;
        let block = Block { address: 0, size, requested_size, state, stack, forward_frames };
        self.blocks.push(RawBlock { address, block, used: false });
        Ok(Ok(Value::Block(id)))
    }

    fn segment(&mut self, pairs: &[[Value; 2]], at: Option<u64>) -> Result<Field<Value>, TableFull> {
        let mut device = 0;
        let mut blocks = Value::EmptyList;
        let (mut address, mut total_size) = (None, None);
        let mut segment = Segment {
            address: 0,
            total_size: 0,
            allocated_size: None,
            active_size: None,
            requested_size: None,
            stream: 0,
            kind: SegmentKind::Unknown,
            pool: None,
            is_expandable: None,
            stack: None,
            forward_frames: None,
            blocks: 0..0,
        };
        for &[key, v] in pairs {
            let field = match known(key) {
                Some(DEVICE) => signed(v).map(|d| device = d),
                Some(ADDRESS) => set(&mut address, self::address(v)),
                Some(TOTAL_SIZE) => set(&mut total_size, unsigned(v)),
                Some(ALLOCATED_SIZE) => optional(&mut segment.allocated_size, v, unsigned),
                Some(ACTIVE_SIZE) => optional(&mut segment.active_size, v, unsigned),
                Some(REQUESTED_SIZE) => optional(&mut segment.requested_size, v, unsigned),
                Some(STREAM) => self::address(v).map(|s| segment.stream = s),
                Some(SEGMENT_TYPE) => self.as_kind(v).map(|k| segment.kind = k),
                Some(SEGMENT_POOL_ID) => optional(&mut segment.pool, v, |v| self.as_pool(v)),
                Some(IS_EXPANDABLE) => optional(&mut segment.is_expandable, v, as_bool),
                Some(FRAMES) => match self.as_stack(v)? {
                    Ok(s) => {
                        segment.stack = s;
                        Some(())
                    }
                    Err(what) => return Ok(Err(what)),
                },
                Some(FORWARD_FRAMES) => self.as_string_list(v)?.map(|l| segment.forward_frames = l),
                Some(BLOCKS) => {
                    blocks = v;
                    Some(())
                }
                _ => {
                    self.unknown_key("segments", key);
                    Some(())
                }
            };
            if field.is_none() {
                return Ok(Err(self.wrong("segment", key, v)));
            }
        }
        // A profile made into a snapshot numbers its segments but may leave the address out.
        segment.address = address.unwrap_or(0);
        let Some(total_size) = total_size else { return Ok(Err("segment without `total_size`".to_owned())) };
        segment.total_size = total_size;
        if segment.address.checked_add(total_size).is_none() {
            return Ok(Err("segment that ends beyond the last address".to_owned()));
        }
        let id = index32(self.segments.len(), "segment")?;
        self.segments.push(RawSegment { device, segment, blocks, at, used: false });
        Ok(Ok(Value::Segment(id)))
    }

    fn annotation(&mut self, pairs: &[[Value; 2]]) -> Result<Field<Value>, TableFull> {
        let (mut stage, mut name, mut device, mut time_us) = (None, None, -1, None);
        for &[key, v] in pairs {
            let field = match known(key) {
                Some(STAGE) => set(&mut stage, self.as_stage(v)),
                Some(NAME) => set(&mut name, as_string(v)),
                Some(DEVICE) => signed(v).map(|d| device = d),
                Some(TIME_US) => optional(&mut time_us, v, signed),
                _ => {
                    self.unknown_key("annotations", key);
                    Some(())
                }
            };
            if field.is_none() {
                return Ok(Err(self.wrong("annotation", key, v)));
            }
        }
        let (Some(stage), Some(name)) = (stage, name) else {
            return Ok(Err("annotation without `stage` or `name`".to_owned()));
        };
        let id = index32(self.annotations.len(), "annotation")?;
        self.annotations.push(Annotation { stage, name, device, time_us });
        Ok(Ok(Value::Annotation(id)))
    }

    fn history(&mut self, pairs: &[[Value; 2]]) -> Result<Field<Value>, TableFull> {
        let mut history = History { real_size: None, stack: None };
        for &[key, v] in pairs {
            match known(key) {
                Some(REAL_SIZE) => history.real_size = unsigned(v),
                Some(FRAMES) => history.stack = self.as_stack(v)?.ok().flatten(),
                Some(ADDR | CPP_FRAMES) => {}
                _ => self.unknown_key("history entries", key),
            }
        }
        let id = index32(self.histories.len(), "history")?;
        self.histories.push(history);
        Ok(Ok(Value::History(id)))
    }

    fn settings(&mut self, pairs: &[[Value; 2]]) -> Result<Field<Value>, TableFull> {
        let mut s = AllocatorSettings::default();
        for &[key, v] in pairs {
            let field = match known(key) {
                Some(CONF) => {
                    as_string(v).map(|id| s.conf_text = Some(self.trace.strings.get(id).to_owned()))
                }
                Some(MAX_SPLIT_SIZE) => optional(&mut s.max_split_size, v, wrapped),
                Some(GARBAGE_COLLECTION_THRESHOLD) => {
                    optional(&mut s.garbage_collection_threshold, v, as_float)
                }
                Some(EXPANDABLE_SEGMENTS) => optional(&mut s.expandable_segments, v, as_bool),
                Some(PINNED_NUM_REGISTER_THREADS) => optional(&mut s.pinned_num_register_threads, v, wrapped),
                Some(RELEASE_LOCK_ON_CUDAMALLOC) => optional(&mut s.release_lock_on_cudamalloc, v, as_bool),
                Some(PINNED_USE_CUDA_HOST_REGISTER) => {
                    optional(&mut s.pinned_use_cuda_host_register, v, as_bool)
                }
                Some(GRAPH_CAPTURE_RECORD_STREAM_REUSE) => {
                    optional(&mut s.graph_capture_record_stream_reuse, v, as_bool)
                }
                Some(MAX_ROUND_THRESHOLD) => optional(&mut s.max_round_threshold, v, wrapped),
                Some(MAX_CACHED_SIZE) => optional(&mut s.max_cached_size, v, wrapped),
                Some(ROUNDUP_POWER2_DIVISIONS) => optional(&mut s.roundup_power2_divisions, v, |v| match v {
                    Value::Divisions(i) => Some(self.divisions[i as usize]),
                    _ => None,
                }),
                _ => {
                    self.unknown_key("allocator settings", key);
                    Some(())
                }
            };
            if field.is_none() {
                return Ok(Err(self.wrong("settings", key, v)));
            }
        }
        match Conf::parse(s.conf_text.as_deref().unwrap_or_default()) {
            Ok(conf) => s.conf = conf,
            Err(e) => self.notices.conf = Some(e.to_string()),
        }
        let id = index32(self.settings.len(), "settings")?;
        self.settings.push(s);
        Ok(Ok(Value::Settings(id)))
    }

    /// `{"1": 0, "2": 0, ... "32768": 0}`: divisions by MiB. `None` where it is another dictionary.
    fn power_of_two_divisions(&mut self, pairs: &[[Value; 2]]) -> Result<Option<Value>, TableFull> {
        let mut out = PowerOfTwoDivisions::default();
        for &[key, v] in pairs {
            let Value::Str(key) = key else { return Ok(None) };
            let mib = self.trace.strings.get(key).parse::<u64>().ok().filter(|n| n.is_power_of_two());
            let slot = mib.and_then(|n| out.0.get_mut(n.ilog2() as usize));
            match (slot, unsigned(v)) {
                (Some(slot), Some(n)) if n == 0 || n.is_power_of_two() => *slot = n,
                _ => return Ok(None),
            }
        }
        let id = index32(self.divisions.len(), "settings")?;
        self.divisions.push(out);
        Ok(Some(Value::Divisions(id)))
    }

    fn root(&mut self, pairs: &[[Value; 2]]) -> Result<Field<Value>, TableFull> {
        let mut root = Root::default();
        for &[key, v] in pairs {
            match known(key) {
                Some(SEGMENTS) => root.segments = Some(v),
                Some(DEVICE_TRACES) => root.device_traces = Some(v),
                Some(ALLOCATOR_SETTINGS) => root.settings = Some(v),
                Some(EXTERNAL_ANNOTATIONS) => root.annotations = Some(v),
                Some(HOST_SEGMENTS) => root.host_segments = Some(v),
                Some(HOST_TRACES) => root.host_traces = Some(v),
                Some(TRACE_ALLOC_OVERFLOWED) => root.overflowed = Some(v),
                Some(TRACE_ALLOC_MAX_ENTRIES) => root.max_entries = Some(v),
                _ => self.unknown_key("snapshots", key),
            }
        }
        let id = index32(self.roots.len(), "snapshot")?;
        self.roots.push(root);
        Ok(Ok(Value::Root(id)))
    }

    // What a value must be under its key; `None` where it is something else.

    fn as_stack(&mut self, v: Value) -> Result<Field<Option<StackId>>, TableFull> {
        Ok(match v {
            Value::None => Ok(None),
            Value::Stack(id) => Ok(Some(id)),
            Value::EmptyList => Ok(Some(self.trace.stacks.intern(&[])?)),
            Value::List(id) => Err(match self.list_problems.get(&id) {
                Some(&p) => self.problems[p as usize].what.clone(),
                None => "`frames` holds something that is not a frame".to_owned(),
            }),
            _ => Err("`frames` is not a list of frames".to_owned()),
        })
    }

    fn as_string_list(&mut self, v: Value) -> Result<Option<Option<StringListId>>, TableFull> {
        let list = match v {
            Value::None => return Ok(Some(None)),
            Value::EmptyList => return Ok(Some(Some(self.trace.string_lists.intern(Vec::new())?))),
            Value::List(id) => id,
            _ => return Ok(None),
        };
        if let Some(&known) = self.string_lists.get(&list) {
            return Ok(known.map(Some));
        }
        let strings: Option<Vec<StringId>> = self.list_items(list).iter().map(|&v| as_string(v)).collect();
        let id = strings.map(|s| self.trace.string_lists.intern(s)).transpose()?;
        self.string_lists.insert(list, id);
        Ok(id.map(Some))
    }

    fn as_pool(&self, v: Value) -> Option<PoolId> {
        match v {
            Value::Pool(i) => Some(self.pools[i as usize]),
            _ => None,
        }
    }

    fn as_state(&self, v: Value) -> Option<BlockState> {
        match self.trace.strings.get(as_string(v)?) {
            "active_allocated" => Some(BlockState::ActiveAllocated),
            "active_pending_free" | "active_awaiting_free" => Some(BlockState::ActivePendingFree),
            "inactive" => Some(BlockState::Inactive),
            _ => None,
        }
    }

    fn as_kind(&self, v: Value) -> Option<SegmentKind> {
        Some(match self.trace.strings.get(as_string(v)?) {
            "small" => SegmentKind::Small,
            "large" => SegmentKind::Large,
            _ => SegmentKind::Unknown,
        })
    }

    fn as_stage(&self, v: Value) -> Option<Stage> {
        match self.trace.strings.get(as_string(v)?) {
            "START" => Some(Stage::Start),
            "END" => Some(Stage::End),
            _ => None,
        }
    }

    fn newest_history(&self, v: Value) -> Option<History> {
        match v {
            Value::List(id) => match self.list_items(id).first() {
                Some(&Value::History(i)) => Some(self.histories[i as usize]),
                _ => None,
            },
            _ => None,
        }
    }

    fn list_items(&self, id: u32) -> &[Value] {
        &self.elements[crate::strings::bounds(&self.list_ends, id as usize)]
    }

    fn wrong(&self, record: &str, key: Value, value: Value) -> String {
        let key = match key {
            Value::Str(id) => self.trace.strings.get(id),
            _ => "(not a string)",
        };
        let value = match value {
            Value::Int(n) => format!("{n}"),
            Value::Big(n) => format!("{n}"),
            Value::Float(x) => format!("{x}"),
            Value::Bool(b) => format!("{b}"),
            Value::None => "None".to_owned(),
            Value::Str(id) => {
                format!(
                    "\"{}\"",
                    self.trace.strings.get(id).chars().take(40).collect::<String>().escape_debug()
                )
            }
            _ => "a value of another kind".to_owned(),
        };
        format!("{record} whose `{key}` is {value}")
    }

    /// The trace, where `root` is a snapshot.
    pub(super) fn finish(mut self, root: Value) -> Result<(Trace, Notices), ReadError> {
        let root = match root {
            Value::Root(i) => self.roots[i as usize],
            // Before there were traces a snapshot was the list of its segments.
            Value::List(id)
                if self.list_items(id).iter().all(|v| matches!(v, Value::Segment(_) | Value::Bad(_))) =>
            {
                Root { segments: Some(root), ..Root::default() }
            }
            other => return Err(ReadError::NotASnapshot { what: describe(other) }),
        };
        let mut devices: BTreeMap<i64, DeviceTrace> = BTreeMap::new();
        let traces = self.traces(root.device_traces, "device_traces")?;
        let host_traces = self.host_traces(root.host_traces)?;
        self.check_events_stand_once(traces.iter().chain(&host_traces))?;
        if traces.len() > MOST_DEVICES {
            return Err(schema("device_traces", "has more lists than any machine has devices"));
        }
        for (i, runs) in traces.iter().enumerate() {
            let device = i as i64;
            let overflowed = self.of_device(root.overflowed, i).and_then(as_bool);
            let max_entries = self.of_device(root.max_entries, i).and_then(unsigned);
            let events = self.take_events(runs);
            devices.insert(
                device,
                DeviceTrace { device, events, overflowed, max_entries, ..DeviceTrace::default() },
            );
        }
        for (device, segment, blocks) in self.end_state(root.segments, "segments")? {
            let new = || DeviceTrace { device, ..DeviceTrace::default() };
            devices.entry(device).or_insert_with(new).push_segment(segment, blocks);
        }
        if root.host_segments.is_some() || root.host_traces.is_some() {
            let runs: Vec<_> = host_traces.into_iter().flatten().collect();
            let events = self.take_events(&runs);
            let mut host = DeviceTrace { device: -1, events, ..DeviceTrace::default() };
            for (_, segment, blocks) in self.end_state(root.host_segments, "host_segments")? {
                host.push_segment(segment, blocks);
            }
            self.trace.host = Some(host);
        }
        self.trace.devices = devices.into_values().collect();
        self.trace.settings = match root.settings {
            None | Some(Value::None | Value::Opaque) => None,
            Some(Value::Settings(i)) => Some(self.settings[i as usize].clone()),
            Some(Value::Bad(i)) => return Err(self.problem("allocator_settings".to_owned(), i)),
            Some(_) => return Err(schema("allocator_settings", "is not a dictionary of settings")),
        };
        self.trace.annotations = self.annotations_of(root.annotations)?;
        check_sizes(self.trace.devices.iter().chain(&self.trace.host))?;
        Ok((self.trace, self.notices))
    }

    /// A device's own value of those that some releases give for each device.
    fn of_device(&self, values: Option<Value>, device: usize) -> Option<Value> {
        match values? {
            Value::List(id) => self.list_items(id).get(device).copied(),
            // Two numbers look like a pool's id.
            Value::Pool(i) => {
                let PoolId(first, second) = self.pools[i as usize];
                [first, second].get(device).map(|&n| i64::try_from(n).map_or(Value::Big(n), Value::Int))
            }
            _ => None,
        }
    }

    /// The runs of events that make up each list of a list of lists.
    fn traces(&self, lists: Option<Value>, path: &str) -> Result<Vec<Vec<(u32, u32)>>, ReadError> {
        let lists = self.items_under(lists, path)?;
        let trace = |(i, &v): (usize, &Value)| self.trace_runs(v, &format!("{path}[{i}]"));
        lists.iter().enumerate().map(trace).collect()
    }

    fn host_traces(&self, v: Option<Value>) -> Result<Vec<Vec<(u32, u32)>>, ReadError> {
        let items = self.items_under(v, "host_traces")?;
        match (v, items.first()) {
            // Entries in one list, or a list of such lists.
            (Some(v), Some(Value::Events { .. } | Value::Bad(_))) => {
                Ok(vec![self.trace_runs(v, "host_traces")?])
            }
            _ => self.traces(v, "host_traces"),
        }
    }

    fn trace_runs(&self, v: Value, path: &str) -> Result<Vec<(u32, u32)>, ReadError> {
        let mut at = 0u64;
        let mut runs = Vec::new();
        for &v in self.items_under(Some(v), path)? {
            match v {
                Value::Events { first, len } => {
                    runs.push((first, len));
                    at += u64::from(len);
                }
                Value::Bad(i) => return Err(self.problem(format!("{path}[{at}]"), i)),
                _ => return Err(schema(&format!("{path}[{at}]"), "is not a trace entry")),
            }
        }
        Ok(runs)
    }

    fn items_under(&self, v: Option<Value>, path: &str) -> Result<&[Value], ReadError> {
        match v {
            None | Some(Value::None | Value::EmptyList) => Ok(&[]),
            Some(Value::List(id)) => Ok(self.list_items(id)),
            Some(_) => Err(schema(path, "is not a list")),
        }
    }

    /// A pickle may put one event into many lists by reference; unfolding that could fill any memory.
    fn check_events_stand_once<'r>(
        &self,
        runs: impl Iterator<Item = &'r Vec<(u32, u32)>>,
    ) -> Result<(), ReadError> {
        let mut runs: Vec<(u32, u32)> = runs.flat_map(|r| r.iter().copied()).collect();
        runs.sort_unstable();
        if runs.array_windows().any(|[a, b]| u64::from(a.0) + u64::from(a.1) > u64::from(b.0)) {
            return Err(schema("device_traces", "holds the same entry twice, which no recorder writes"));
        }
        Ok(())
    }

    fn take_events(&mut self, runs: &[(u32, u32)]) -> Events {
        let mut events = match runs {
            [(0, len)] if *len as usize == self.events.len() => std::mem::take(&mut self.events),
            _ => {
                let mut events = Events::default();
                for &(first, len) in runs {
                    events.extend_from(&self.events, first as usize..first as usize + len as usize);
                }
                events
            }
        };
        events.shrink_to_fit();
        events
    }

    /// Segments in address order, each with its device and its blocks.
    fn end_state(
        &mut self,
        segments: Option<Value>,
        path: &str,
    ) -> Result<Vec<(i64, Segment, Vec<Block>)>, ReadError> {
        let mut ids = Vec::new();
        for (i, &v) in self.items_under(segments, path)?.iter().enumerate() {
            let at = || format!("{path}[{i}]");
            match v {
                Value::Segment(id) => ids.push((i, id)),
                Value::Bad(p) => return Err(self.problem(at(), p)),
                _ => return Err(schema(&at(), "is not a segment")),
            }
        }
        ids.sort_by_key(|&(_, id)| self.segments[id as usize].segment.address);
        let mut out = Vec::with_capacity(ids.len());
        for (i, id) in ids {
            let raw = &mut self.segments[id as usize];
            let path = format!("{path}[{i}]{}", at_byte(raw.at));
            if std::mem::replace(&mut raw.used, true) {
                return Err(schema(&path, "stands in the file twice, which no recorder writes"));
            }
            let (device, segment, blocks) = (raw.device, raw.segment.clone(), raw.blocks);
            let blocks = self.blocks_of(blocks, &segment, &path)?;
            out.push((device, segment, blocks));
        }
        Ok(out)
    }

    fn blocks_of(&mut self, list: Value, segment: &Segment, path: &str) -> Result<Vec<Block>, ReadError> {
        let mut ids = Vec::new();
        for (i, &v) in self.items_under(Some(list), &format!("{path}.blocks"))?.iter().enumerate() {
            match v {
                Value::Block(id) => ids.push(id),
                Value::Bad(p) => return Err(self.problem(format!("{path}.blocks[{i}]"), p)),
                _ => return Err(schema(&format!("{path}.blocks[{i}]"), "is not a block")),
            }
        }
        let mut blocks = Vec::with_capacity(ids.len());
        let mut next = segment.address;
        for id in ids {
            let raw = &mut self.blocks[id as usize];
            if std::mem::replace(&mut raw.used, true) {
                return Err(schema(&format!("{path}.blocks"), "holds a block of another segment"));
            }
            let address = raw.address.unwrap_or(next);
            let Some(end) = address.checked_add(raw.block.size) else {
                return Err(schema(&format!("{path}.blocks"), "holds a block beyond the last address"));
            };
            next = end;
            blocks.push(Block { address, ..raw.block });
        }
        blocks.sort_by_key(|b| b.address);
        Ok(blocks)
    }

    fn annotations_of(&mut self, v: Option<Value>) -> Result<Option<Vec<Annotation>>, ReadError> {
        if v.is_none() {
            return Ok(None);
        }
        let mut out = Vec::new();
        for (i, &v) in self.items_under(v, "external_annotations")?.iter().enumerate() {
            let path = || format!("external_annotations[{i}]");
            match v {
                Value::Annotation(id) => out.push(self.annotations[id as usize]),
                Value::Bad(p) => return Err(self.problem(path(), p)),
                _ => return Err(schema(&path(), "is not an annotation")),
            }
        }
        Ok(Some(out))
    }

    fn problem(&self, path: String, i: u32) -> ReadError {
        match self.problems.get(i as usize) {
            Some(p) => ReadError::Schema { path: format!("{path}{}", at_byte(p.at)), what: p.what.clone() },
            None => schema(&path, "is broken"),
        }
    }
}

/// All sizes together stay so far below 2^64 that no sum of some of them can overflow, rounded up or not.
fn check_sizes<'d>(devices: impl Iterator<Item = &'d DeviceTrace>) -> Result<(), ReadError> {
    for d in devices {
        let events = d.events.iter().map(|e| u128::from(e.size));
        let segments = d.segments.iter().map(|s| u128::from(s.total_size));
        let blocks = d.blocks.iter().flat_map(|b| [b.size, b.requested_size].map(u128::from));
        if events.chain(segments).chain(blocks).sum::<u128>() >= 1 << 61 {
            let path = format!("device {}", d.device);
            return Err(schema(&path, "has sizes that sum to more than 2^61 bytes, beyond any device"));
        }
    }
    Ok(())
}

fn at_byte(at: Option<u64>) -> String {
    at.map_or_else(String::new, |at| format!(" (byte {at})"))
}

fn schema(path: &str, what: &str) -> ReadError {
    ReadError::Schema { path: path.to_owned(), what: what.to_owned() }
}

fn index32(i: usize, what: &'static str) -> Result<u32, TableFull> {
    u32::try_from(i).map_err(|_| TableFull(what))
}

/// The number of a known key.
#[inline]
fn known(key: Value) -> Option<usize> {
    match key {
        Value::Str(id) if id.index() < KEYS.len() => Some(id.index()),
        _ => None,
    }
}

fn set<T>(slot: &mut Option<T>, v: Option<T>) -> Option<()> {
    *slot = Some(v?);
    Some(())
}

/// As [`set`], where Python's `None` leaves the slot empty.
fn optional<T>(slot: &mut Option<T>, v: Value, read: impl FnOnce(Value) -> Option<T>) -> Option<()> {
    if v == Value::None { Some(()) } else { set(slot, read(v)) }
}

fn as_string(v: Value) -> Option<StringId> {
    match v {
        Value::Str(id) => Some(id),
        _ => None,
    }
}

fn as_bool(v: Value) -> Option<bool> {
    match v {
        Value::Bool(b) => Some(b),
        Value::Int(0) => Some(false),
        Value::Int(1) => Some(true),
        _ => None,
    }
}

fn as_float(v: Value) -> Option<f64> {
    match v {
        Value::Float(x) => Some(x).filter(|x| x.is_finite()),
        Value::Int(n) => Some(n as f64),
        _ => None,
    }
}

fn signed(v: Value) -> Option<i64> {
    match v {
        Value::Int(n) => Some(n),
        _ => None,
    }
}

/// A number that some writers cast through `size_t`: above `i64::MAX` it is a negative one.
fn wrapped(v: Value) -> Option<i64> {
    match v {
        Value::Int(n) => Some(n),
        Value::Big(n) => Some(n as i64),
        _ => None,
    }
}

fn unsigned(v: Value) -> Option<u64> {
    match v {
        Value::Int(n) => u64::try_from(n).ok(),
        Value::Big(n) => Some(n),
        _ => None,
    }
}

/// An address or a stream: libtorch's own pickler casts them to `int64_t`, so a high one comes negative.
fn address(v: Value) -> Option<u64> {
    match v {
        Value::Int(n) => Some(n as u64),
        Value::Big(n) => Some(n),
        _ => None,
    }
}

fn describe(v: Value) -> &'static str {
    match v {
        Value::None => "`None`",
        Value::Bool(_) => "a truth value",
        Value::Int(_) | Value::Big(_) | Value::Float(_) => "a number",
        Value::Str(_) => "a string",
        Value::EmptyList | Value::List(_) | Value::Stack(_) => "a list",
        Value::Pool(_) => "two numbers",
        Value::Frame(_)
        | Value::Block(_)
        | Value::Segment(_)
        | Value::Annotation(_)
        | Value::Events { .. } => "a part of a snapshot",
        Value::Settings(_) | Value::Divisions(_) => "allocator settings",
        _ => "neither `segments` nor `device_traces`",
    }
}
