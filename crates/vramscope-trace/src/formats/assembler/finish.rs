//! Builds the trace from the records of a snapshot. Uses each record once.

use std::collections::BTreeMap;
use std::ops::Range;

use super::value::{as_bool, unsigned};
use super::{Assembler, RawSettings, Root, Value};
use crate::annotations::Annotation;
use crate::devices::{DeviceKind, OtherAllocator};
use crate::end_state::{Block, Segment};
use crate::error::ReadError;
use crate::events::{Action, Events, PoolId};
use crate::formats::DEVICES;
use crate::notices::{Notices, RecordKind};
use crate::settings::{AllocatorSettings, TorchSettings};
use crate::trace::{DeviceTrace, Trace};

/// A segment of the end state.
struct SegmentOfDevice {
    /// The device's number.
    device: i64,
    segment: Segment,
    blocks: Vec<Block>,
}

impl Assembler {
    /// Returns the trace, if `root` is a snapshot.
    pub(in crate::formats) fn finish(mut self, root: Value) -> Result<(Trace, Notices), ReadError> {
        let root = match root {
            Value::Root(i) => self.roots[i as usize],
            // The oldest snapshots, before traces existed, are a list of segments.
            Value::List(id)
                if self.list_items(id).iter().all(|v| matches!(v, Value::Segment(_) | Value::Bad(_))) =>
            {
                Root { segments: Some(root), ..Root::default() }
            }
            Value::Bad(i) => return Err(self.problem("the snapshot".to_owned(), i)),
            other => return Err(ReadError::NotASnapshot { what: describe(other) }),
        };
        let mut devices: BTreeMap<i64, DeviceTrace> = BTreeMap::new();
        if root.device_traces == Some(Value::LongList) {
            return Err(too_many_lists());
        }
        let traces = self.traces(root.device_traces, "device_traces")?;
        let host_traces = self.host_traces(root.host_traces)?;
        self.check_events_stand_once(traces.iter().chain(&host_traces))?;
        if traces.len() as u64 > DEVICES.end as u64 {
            return Err(too_many_lists());
        }
        for (i, runs) in traces.iter().enumerate() {
            let device = i as i64;
            let overflowed = self.of_device(root.overflowed, i).and_then(as_bool);
            let max_entries = self.of_device(root.max_entries, i).and_then(unsigned);
            let total_bytes = self.of_device(root.total_bytes, i).and_then(unsigned);
            let start_blocks = self.start_blocks(root.start_blocks, i)?;
            let events = self.take_events(runs);
            let gap = self.gap(root.missing_events, i, events.len());
            let new = DeviceTrace {
                device,
                events,
                overflowed,
                max_entries,
                total_bytes,
                start_blocks,
                gap,
                ..DeviceTrace::default()
            };
            devices.insert(device, new);
        }
        for SegmentOfDevice { device, segment, blocks } in self.end_state(root.segments, "segments")? {
            let new = || DeviceTrace { device, ..DeviceTrace::default() };
            devices.entry(device).or_insert_with(new).push_segment(segment, blocks);
        }
        // A segment with the number of the host belongs to it, wherever it is listed.
        let mut host = devices.remove(&-1).unwrap_or(DeviceTrace { device: -1, ..DeviceTrace::default() });
        let records_host = root.host_segments.is_some() || root.host_traces.is_some() || host.was_used();
        self.trace.devices = devices.into_values().collect();
        if records_host {
            let runs: Vec<_> = host_traces.into_iter().flatten().collect();
            host.events = self.take_events(&runs);
            for SegmentOfDevice { segment, blocks, .. } in
                self.end_state(root.host_segments, "host_segments")?
            {
                host.push_segment(segment, blocks);
            }
            self.trace.push_host(host);
        }
        let is_named = !matches!(root.settings, None | Some(Value::None | Value::Opaque));
        let other = if is_named { None } else { self.other_allocator() };
        if other == Some(OtherAllocator::Mlx) {
            // MLX records each free once.
            for device in &mut self.trace.devices {
                device.events.rename_without(Action::FreeRequested, Action::FreeCompleted, Action::Free);
            }
        }
        self.trace.settings = match root.settings {
            None | Some(Value::None | Value::Opaque) => other.map(OtherAllocator::settings),
            Some(Value::Settings(i)) => Some(self.settings_with_conf(i)),
            Some(Value::Bad(i)) => return Err(self.problem("allocator_settings".to_owned(), i)),
            Some(_) => return Err(schema("allocator_settings", "is not a dictionary of settings")),
        };
        self.trace.annotations = self.annotations_of(root.annotations)?;
        self.trace.kind = self.kind(root.settings);
        self.note_missing_segments(root.segments);
        self.trace.ends_early = root.ends_early.and_then(as_bool).unwrap_or(false);
        self.note_unknown_actions();
        Ok((self.trace, self.notices))
    }

    /// Returns the allocator of a snapshot without settings, if its entries show that it is not PyTorch's.
    fn other_allocator(&self) -> Option<OtherAllocator> {
        let has_segments = || self.trace.devices.iter().any(|device| !device.segments.is_empty());
        if self.is_paddle {
            Some(OtherAllocator::Paddle)
        } else if self.names_primitives && !has_segments() {
            Some(OtherAllocator::Mlx)
        } else {
            None
        }
    }

    /// Returns the kind of the devices: by the key of the allocator's configuration text, or else by the frames.
    fn kind(&self, settings: Option<Value>) -> DeviceKind {
        let by_key = match settings {
            Some(Value::Settings(i)) => self.settings[i as usize].kind,
            _ => None,
        };
        by_key
            .filter(|&kind| kind != DeviceKind::Cuda)
            .unwrap_or_else(|| DeviceKind::of_frames(&self.trace.frames, &self.trace.strings))
    }

    /// Notes events as missing if the key of the segments is damaged: it is missing, and there is an unknown one.
    fn note_missing_segments(&mut self, segments: Option<Value>) {
        let is_unknown = |(record, _): &(RecordKind, String)| *record == RecordKind::Snapshot;
        if segments.is_none() && self.notices.unknown_keys.keys().any(is_unknown) {
            self.notices.damage.add(0, 0);
            for device in &mut self.trace.devices {
                device.gap = Some(0..device.events.len());
            }
        }
    }

    /// Counts the unknown actions in the trace. Trace entries elsewhere in the file do not count.
    fn note_unknown_actions(&mut self) {
        let Trace { devices, tags, strings, .. } = &self.trace;
        for events in devices.iter().map(|device| &device.events) {
            for (i, _) in events.actions().iter().enumerate().filter(|(_, a)| **a == Action::Unknown) {
                if let Some(name) = tags.get(events.get(i).tags).unknown_action {
                    self.notices.unknown_action(strings.get(name));
                }
            }
        }
    }

    /// Adds the parsed configuration text to the settings.
    fn settings_with_conf(&mut self, i: u32) -> AllocatorSettings {
        let RawSettings { recorded, conf_text, kind: _ } = &self.settings[i as usize];
        let text = conf_text.map(|id| self.trace.strings.get(id));
        let conf = TorchSettings::parse(text.unwrap_or_default());
        self.notices.conf = text.filter(|_| conf.is_err()).map(str::to_owned);
        AllocatorSettings {
            conf_text: text.map(str::to_owned),
            conf: conf.unwrap_or_default(),
            recorded: recorded.clone(),
        }
    }

    /// Returns a device's value in a list with one value per device, as some releases write it.
    fn of_device(&self, values: Option<Value>, device: usize) -> Option<Value> {
        match values? {
            Value::List(id) => self.list_items(id).get(device).copied(),
            // Two numbers look like a pool id.
            Value::Pool(i) => {
                let PoolId(first, second) = self.pools[i as usize];
                [first, second].get(device).map(|&n| i64::try_from(n).map_or(Value::Big(n), Value::Int))
            }
            _ => None,
        }
    }

    /// Returns the positions between which a device with `events` events lacks some.
    fn gap(&self, gaps: Option<Value>, device: usize, events: usize) -> Option<Range<usize>> {
        let Some(Value::Pool(pair)) = self.of_device(gaps, device) else { return None };
        let PoolId(first, last) = self.pools[pair as usize];
        let [first, last] = [first, last].map(|at| usize::try_from(at).unwrap_or(events).min(events));
        Some(first..last.max(first))
    }

    /// Returns the runs of events of each list in a list of lists.
    fn traces(&self, lists: Option<Value>, path: &str) -> Result<Vec<Vec<(u32, u32)>>, ReadError> {
        let lists = self.items_under(lists, path)?;
        let trace = |(i, &v): (usize, &Value)| self.trace_runs(v, &format!("{path}[{i}]"));
        lists.iter().enumerate().map(trace).collect()
    }

    fn host_traces(&self, v: Option<Value>) -> Result<Vec<Vec<(u32, u32)>>, ReadError> {
        let items = self.items_under(v, "host_traces")?;
        match (v, items.first()) {
            // One list of entries, or a list of such lists.
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
            Some(Value::LongList) => {
                Err(schema(path, "is a list of thousands of values that are not records"))
            }
            Some(_) => Err(schema(path, "is not a list")),
        }
    }

    /// Fails if one event is in several lists. A pickle may do this by reference, and expanding the lists could exhaust memory.
    fn check_events_stand_once<'r>(
        &self,
        runs: impl Iterator<Item = &'r Vec<(u32, u32)>>,
    ) -> Result<(), ReadError> {
        let mut runs: Vec<(u32, u32)> = runs.flat_map(|r| r.iter().copied()).collect();
        runs.sort_unstable();
        if runs.array_windows().any(|[a, b]| u64::from(a.0) + u64::from(a.1) > u64::from(b.0)) {
            return Err(schema("device_traces", "contains the same entry twice, which no recorder writes"));
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

    /// Returns the segments in address order.
    fn end_state(&mut self, segments: Option<Value>, path: &str) -> Result<Vec<SegmentOfDevice>, ReadError> {
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
                return Err(schema(&path, "appears twice in the file, which no recorder writes"));
            }
            let (device, segment, blocks) = (raw.device, raw.segment.clone(), raw.blocks);
            let blocks = self.blocks_of(blocks, &segment, &path)?;
            out.push(SegmentOfDevice { device, segment, blocks });
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
                return Err(schema(&format!("{path}.blocks"), "contains a block of another segment"));
            }
            let address = raw.address.unwrap_or(next);
            let Some(end) = address.checked_add(raw.block.size) else {
                return Err(schema(&format!("{path}.blocks"), "contains a block beyond the last address"));
            };
            next = end;
            blocks.push(Block { address, ..raw.block });
        }
        blocks.sort_by_key(|b| b.address);
        Ok(blocks)
    }

    /// Returns the blocks of a device before the first event, in address order.
    fn start_blocks(&mut self, lists: Option<Value>, device: usize) -> Result<Option<Vec<Block>>, ReadError> {
        let of_device = self.of_device(lists, device).filter(|list| *list != Value::None);
        let Some(list) = of_device else { return Ok(None) };
        // Every block names its address; a segment at 0 gives none.
        let path = format!("start_blocks[{device}]");
        if let Some(Value::List(id)) = of_device
            && self
                .list_items(id)
                .iter()
                .any(|v| matches!(v, Value::Block(id) if self.blocks[*id as usize].address.is_none()))
        {
            return Err(schema(&path, "contains a block without an address"));
        }
        self.blocks_of(list, &Segment::new(0, 0), &path).map(Some)
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

fn too_many_lists() -> ReadError {
    let what = format!("has too many lists: a machine has at most {} devices", DEVICES.end);
    schema("device_traces", &what)
}

fn at_byte(at: Option<u64>) -> String {
    at.map_or_else(String::new, |at| format!(" (byte {at})"))
}

fn schema(path: &str, what: &str) -> ReadError {
    ReadError::Schema { path: path.to_owned(), what: what.to_owned() }
}

fn describe(v: Value) -> &'static str {
    match v {
        Value::None => "`None`",
        Value::Bool(_) => "a Boolean",
        Value::Int(_) | Value::Big(_) | Value::Float(_) => "a number",
        Value::Str(_) => "a string",
        Value::EmptyList | Value::List(_) | Value::LongList | Value::Stack(_) => "a list",
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
