//! The records of a snapshot, recognized by the keys of a dictionary.

use super::value::{address, as_bool, as_float, as_string, known, optional, set, signed, unsigned, wrapped};
use super::{Assembler, History, RawBlock, RawSegment, RawSettings, Root, Unread, Value, index32, key_name};
use crate::annotations::{Annotation, Stage};
use crate::devices::DeviceKind;
use crate::end_state::{Block, BlockState, Segment, SegmentKind};
use crate::error::TableFull;
use crate::events::{Action, Event, PoolId, Tags};
use crate::formats::DEVICES;
use crate::formats::keys::*;
use crate::ids::{StackId, StringId, StringListId};
use crate::notices::RecordKind;
use crate::settings::{PowerOfTwoDivisions, SettingKind, SettingValue, TorchSettings};
use crate::stacks::{Frame, FxNode};

impl Assembler {
    /// Adds a trace entry. Returns its event index.
    pub(super) fn event(&mut self, pairs: &[[Value; 2]]) -> Result<u32, Unread> {
        let mut action = None;
        let (mut addr, mut device_free, mut size) = (None, None, None);
        let mut time_us = None;
        let mut stack = None;
        let mut op_name = None;
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
                Some(OP_NAME) => optional(&mut op_name, v, as_string),
                Some(POOL_ID) => optional(&mut tags.pool, v, |v| self.as_pool(v)),
                Some(FRAMES) if let Value::Stack(id) = v => {
                    stack = Some(id);
                    Some(())
                }
                Some(FRAMES) => self.stack(&mut stack, v)?,
                Some(FORWARD_FRAMES) => self.string_list(&mut tags.forward_frames, v)?,
                _ => self.unknown_key(RecordKind::TraceEntry, key),
            };
            if field.is_none() {
                return Err(self.wrong("trace entry", key, v).into());
            }
        }
        let Some(name) = action else { return Err("trace entry without `action`".into()) };
        if let Some(op_name) = op_name {
            self.is_paddle = true;
            let is_named = !self.trace.strings.get(op_name).is_empty();
            tags.user_metadata = tags.user_metadata.or(Some(op_name).filter(|_| is_named));
        }
        self.names_primitives |= tags.category.is_some() && tags.category == tags.user_metadata;
        // In the table, the names of actions follow the keys.
        let known = name.index().checked_sub(KEYS.len()).and_then(|i| Action::KNOWN.get(i));
        let action = known.copied().unwrap_or(Action::Unknown);
        if action == Action::Unknown {
            tags.unknown_action = Some(name);
        }
        let needs_numbers = !matches!(
            action,
            Action::Oom | Action::Snapshot | Action::UserDefined | Action::Annotate | Action::Unknown
        );
        if device_free.is_some() && !matches!(action, Action::Oom | Action::Unknown) {
            return Err(format!("`{}` with `device_free`", action.name()).into());
        }
        let address_or_free = if action == Action::Oom { device_free.or(addr) } else { addr };
        if needs_numbers && address_or_free.is_none() {
            return Err(format!("`{}` without `addr`", action.name()).into());
        }
        if (needs_numbers || action == Action::Oom) && size.is_none() {
            return Err(format!("`{}` without `size`", action.name()).into());
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
            address_or_free: address_or_free.unwrap_or(0),
            size: size.unwrap_or(0),
            time_us,
            stack,
            tags,
        });
        Ok(first)
    }

    pub(super) fn frame(&mut self, pairs: &[[Value; 2]]) -> Result<Value, Unread> {
        let (mut name, mut filename, mut line) = (None, None, 0);
        let mut fx = FxNode::default();
        for &[key, v] in pairs {
            let field = match known(key) {
                Some(NAME) => set(&mut name, as_string(v)),
                Some(FILENAME) => set(&mut filename, as_string(v)),
                // A negative or absurdly high line counts as unknown.
                Some(LINE) => wrapped(v).map(|n| line = u32::try_from(n).unwrap_or(0)),
                Some(FX_NODE_OP) => optional(&mut fx.op, v, as_string),
                Some(FX_NODE_NAME) => optional(&mut fx.name, v, as_string),
                Some(FX_NODE_TARGET) => optional(&mut fx.target, v, as_string),
                Some(FX_ORIGINAL_TRACE) => optional(&mut fx.original_trace, v, as_string),
                _ => self.unknown_key(RecordKind::Frame, key),
            };
            if field.is_none() {
                return Err(self.wrong("frame", key, v).into());
            }
        }
        let (Some(name), Some(filename)) = (name, filename) else {
            return Err("frame without `name` or `filename`".into());
        };
        Ok(Value::Frame(self.trace.frames.intern(Frame { name, filename, line, fx })?))
    }

    pub(super) fn block(&mut self, pairs: &[[Value; 2]]) -> Result<Value, Unread> {
        let (mut address, mut size, mut requested_size, mut state) = (None, None, None, None);
        let (mut stack, mut forward_frames, mut user_metadata, mut history) = (None, None, None, None);
        for &[key, v] in pairs {
            let field = match known(key) {
                Some(ADDRESS) => set(&mut address, self::address(v)),
                Some(SIZE) => set(&mut size, unsigned(v)),
                Some(REQUESTED_SIZE) => set(&mut requested_size, unsigned(v)),
                Some(STATE) => set(&mut state, self.as_state(v)),
                Some(FRAMES) => self.stack(&mut stack, v)?,
                Some(FORWARD_FRAMES) => self.string_list(&mut forward_frames, v)?,
                Some(USER_METADATA) => optional(&mut user_metadata, v, as_string),
                Some(HISTORY) => {
                    history = self.newest_history(v);
                    Some(())
                }
                _ => self.unknown_key(RecordKind::Block, key),
            };
            if field.is_none() {
                return Err(self.wrong("block", key, v).into());
            }
        }
        let (Some(size), Some(state)) = (size, state) else {
            return Err("block without `size` or `state`".into());
        };
        let requested_size = requested_size.or(history.and_then(|h| h.real_size)).unwrap_or(size);
        let stack = stack.or(history.and_then(|h| h.stack));
        let id = index32(self.blocks.len(), "block")?;
        let block = Block { address: 0, size, requested_size, state, stack, forward_frames, user_metadata };
        self.blocks.push(RawBlock { address, block, used: false });
        Ok(Value::Block(id))
    }

    pub(super) fn segment(&mut self, pairs: &[[Value; 2]], at: Option<u64>) -> Result<Value, Unread> {
        let mut device = 0;
        let mut blocks = Value::EmptyList;
        let (mut address, mut total_size) = (None, None);
        let mut segment = Segment::new(0, 0);
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
                Some(FRAMES) => self.stack(&mut segment.stack, v)?,
                Some(FORWARD_FRAMES) => self.string_list(&mut segment.forward_frames, v)?,
                Some(BLOCKS) => {
                    blocks = v;
                    Some(())
                }
                _ => self.unknown_key(RecordKind::Segment, key),
            };
            if field.is_none() {
                return Err(self.wrong("segment", key, v).into());
            }
        }
        // A profile converted to a snapshot numbers its segments but may leave out the address.
        segment.address = address.unwrap_or(0);
        let Some(total_size) = total_size else { return Err("segment without `total_size`".into()) };
        segment.total_size = total_size;
        if segment.address.checked_add(total_size).is_none() {
            return Err("segment that ends beyond the last address".into());
        }
        if !DEVICES.contains(&device) {
            return Err(format!("segment of device {device}, which no machine has").into());
        }
        let id = index32(self.segments.len(), "segment")?;
        self.segments.push(RawSegment { device, segment, blocks, at, used: false });
        Ok(Value::Segment(id))
    }

    pub(super) fn annotation(&mut self, pairs: &[[Value; 2]]) -> Result<Value, Unread> {
        let (mut stage, mut name, mut device, mut time_us) = (None, None, -1, None);
        for &[key, v] in pairs {
            let field = match known(key) {
                Some(STAGE) => set(&mut stage, self.as_stage(v)),
                Some(NAME) => set(&mut name, as_string(v)),
                Some(DEVICE) => signed(v).map(|d| device = d),
                Some(TIME_US) => optional(&mut time_us, v, signed),
                _ => self.unknown_key(RecordKind::Annotation, key),
            };
            if field.is_none() {
                return Err(self.wrong("annotation", key, v).into());
            }
        }
        let (Some(stage), Some(name)) = (stage, name) else {
            return Err("annotation without `stage` or `name`".into());
        };
        let id = index32(self.annotations.len(), "annotation")?;
        self.annotations.push(Annotation { stage, name, device, time_us });
        Ok(Value::Annotation(id))
    }

    pub(super) fn history(&mut self, pairs: &[[Value; 2]]) -> Result<Value, Unread> {
        let mut history = History { real_size: None, stack: None };
        for &[key, v] in pairs {
            match known(key) {
                Some(REAL_SIZE) => history.real_size = unsigned(v),
                Some(FRAMES) => match self.stack(&mut history.stack, v) {
                    Err(Unread::Wrong(_)) => history.stack = None,
                    read => {
                        read?;
                    }
                },
                Some(ADDR | CPP_FRAMES) => {}
                _ => {
                    self.unknown_key(RecordKind::HistoryEntry, key);
                }
            }
        }
        let id = index32(self.histories.len(), "history")?;
        self.histories.push(history);
        Ok(Value::History(id))
    }

    pub(super) fn settings(&mut self, pairs: &[[Value; 2]]) -> Result<Value, Unread> {
        let mut recorded = TorchSettings::default();
        let (mut conf_text, mut kind) = (None, None);
        for &[key, v] in pairs {
            let setting = TorchSettings::recorded_as(key_name(&self.trace, key));
            let is_read = match (known(key), setting) {
                (Some(CONF | CONF_HIP | CONF_ANY | CONF_NPU), _) => {
                    kind = DeviceKind::of_conf_key(key_name(&self.trace, key));
                    set(&mut conf_text, as_string(v)).is_some()
                }
                (_, Some(setting)) => {
                    matches!(v, Value::None)
                        || self.as_setting(setting.kind, v).is_some_and(|v| setting.set(&mut recorded, v))
                }
                (_, None) => self.unknown_key(RecordKind::AllocatorSettings, key).is_some(),
            };
            if !is_read {
                return Err(self.wrong("settings", key, v).into());
            }
        }
        let id = index32(self.settings.len(), "settings")?;
        // Releases that rename CUDA's key still record its settings; XPU's allocator has no such setting.
        let kind = kind.filter(|&kind| kind != DeviceKind::Xpu || recorded.max_split_size.is_none());
        self.settings.push(RawSettings { recorded, conf_text, kind });
        Ok(Value::Settings(id))
    }

    /// Converts a value to a setting's type.
    fn as_setting(&self, kind: SettingKind, v: Value) -> Option<SettingValue<'_>> {
        Some(match kind {
            SettingKind::Bytes | SettingKind::Number => SettingValue::Int(wrapped(v)?),
            SettingKind::Fraction => SettingValue::Float(as_float(v)?),
            SettingKind::Truth => SettingValue::Bool(as_bool(v)?),
            SettingKind::Divisions => match v {
                Value::Divisions(i) => SettingValue::Divisions(self.divisions[i as usize]),
                _ => return None,
            },
            SettingKind::Word => SettingValue::Word(self.trace.strings.get(as_string(v)?)),
        })
    }

    /// Parses `{"1": 0, "2": 0, ... "32768": 0}`: divisions by MiB. `None` for any other dictionary.
    pub(super) fn power_of_two_divisions(
        &mut self,
        pairs: &[[Value; 2]],
    ) -> Result<Option<Value>, TableFull> {
        let mut out = PowerOfTwoDivisions::default();
        for &[key, v] in pairs {
            let Value::Str(key) = key else { return Ok(None) };
            // A long key could be all zeros and appear in many dictionaries.
            let digits = Some(self.trace.strings.get(key)).filter(|key| key.len() <= 5);
            let mib = digits.and_then(|d| d.parse::<u64>().ok()).filter(|n| n.is_power_of_two());
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

    pub(super) fn root(&mut self, pairs: &[[Value; 2]]) -> Result<Value, Unread> {
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
                Some(DEVICE_TOTAL_BYTES) => root.total_bytes = Some(v),
                Some(START_BLOCKS) => root.start_blocks = Some(v),
                Some(MISSING_EVENTS) => root.missing_events = Some(v),
                Some(ENDS_EARLY) => root.ends_early = Some(v),
                _ => {
                    self.unknown_key(RecordKind::Snapshot, key);
                }
            }
        }
        let id = index32(self.roots.len(), "snapshot")?;
        self.roots.push(root);
        Ok(Value::Root(id))
    }

    // Conversions of a value to the type of its key; `None` for any other type.

    /// Sets or clears a stack.
    fn stack(&mut self, slot: &mut Option<StackId>, v: Value) -> Result<Option<()>, Unread> {
        *slot = match v {
            Value::None => None,
            Value::Stack(id) => Some(id),
            Value::EmptyList => Some(self.trace.stacks.intern(&[])?),
            Value::List(id) => match self.list_problems.get(&id) {
                Some(&p) => return Err(Unread::Wrong(self.problems[p as usize].what.clone())),
                None => return Err("`frames` holds something that is not a frame".into()),
            },
            _ => return Err("`frames` is not a list of frames".into()),
        };
        Ok(Some(()))
    }

    /// Sets or clears a list of strings. `None` if the value is neither a list of strings nor `None`.
    fn string_list(&mut self, slot: &mut Option<StringListId>, v: Value) -> Result<Option<()>, TableFull> {
        let id = match v {
            Value::None => {
                *slot = None;
                return Ok(Some(()));
            }
            Value::EmptyList => Some(self.trace.string_lists.intern(Vec::new())?),
            Value::List(list) => self.interned_list(list)?,
            _ => None,
        };
        Ok(id.map(|id| *slot = Some(id)))
    }

    /// Interns a list that has only strings. Each list is converted once.
    fn interned_list(&mut self, list: u32) -> Result<Option<StringListId>, TableFull> {
        if let Some(&known) = self.string_lists.get(&list) {
            return Ok(known);
        }
        let strings: Option<Vec<StringId>> = self.list_items(list).iter().map(|&v| as_string(v)).collect();
        let id = strings.map(|s| self.trace.string_lists.intern(s)).transpose()?;
        self.string_lists.insert(list, id);
        Ok(id)
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
        let name = self.trace.strings.get(as_string(v)?);
        Some(SegmentKind::ALL.into_iter().find(|kind| kind.name() == name).unwrap_or(SegmentKind::Unknown))
    }

    fn as_stage(&self, v: Value) -> Option<Stage> {
        let name = self.trace.strings.get(as_string(v)?);
        Stage::ALL.into_iter().find(|stage| stage.name() == name)
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

    fn wrong(&self, record: &str, key: Value, value: Value) -> String {
        let key = key_name(&self.trace, key);
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
            _ => "a value of another type".to_owned(),
        };
        format!("{record} whose `{key}` is {value}")
    }
}
