//! The recording as a trace.

use hashbrown::HashMap;
use vramscope_trace::{
    AllocatorSettings, Annotation, DeviceTrace, Event, Frame, FxNode, NO_COMPILE_CONTEXT, StackId, TableFull,
    Tags, Trace,
};

use vramscope_basics::lock;
use vramscope_engine::{ArenaKey, SegmentLayout};

use super::{DeviceHistory, Entry, Recorder, Regions};
use crate::stacks::{StackKey, Symbols};

/// Builds a trace from the devices' states and histories, each at one moment (`torch.cuda.memory._snapshot`).
///
/// # Errors
/// There are more distinct strings, frames or stacks than a trace can number.
pub(crate) fn snapshot(
    devices: Vec<DeviceLayout>,
    settings: AllocatorSettings,
    recorder: &Recorder,
    regions: &Regions,
) -> Result<Trace, TableFull> {
    let mut builder = Builder {
        contexts: settings.with_contexts(),
        trace: Trace::default(),
        stacks: HashMap::new(),
        symbols: &mut lock(&recorder.symbols),
        recorder,
    };
    for device in devices {
        builder.device(device)?;
    }
    builder.regions(regions)?;
    if settings.with_host_memory() {
        // Snapshots of those releases list pinned host memory; a pool has none.
        builder.trace.records_host = true;
    }
    builder.trace.settings = Some(settings);
    Ok(builder.trace)
}

/// A device's state and history at one moment.
pub(crate) struct DeviceLayout {
    device_id: i32,
    segments: Vec<SegmentLayout<StackKey>>,
    entries: Vec<Entry>,
    arenas: Vec<ArenaKey>,
    max_entries: usize,
    overflowed: bool,
}

impl DeviceLayout {
    /// Captures the layout of a device whose current segments are `segments`. The caller holds the device's locks.
    pub(crate) fn of(history: &DeviceHistory, segments: Vec<SegmentLayout<StackKey>>) -> Self {
        let ring = lock(&history.ring);
        Self {
            device_id: history.device_id,
            segments,
            entries: ring.entries.iter().copied().collect(),
            arenas: ring.arenas.clone(),
            max_entries: ring.max_entries,
            overflowed: ring.overflowed,
        }
    }
}

struct Builder<'a> {
    trace: Trace,
    /// Whether every event has a compile context and user metadata, even if empty, as in PyTorch from 2.11 on.
    contexts: bool,
    stacks: HashMap<StackKey, StackId>,
    symbols: &'a mut Symbols,
    recorder: &'a Recorder,
}

impl Builder<'_> {
    fn device(&mut self, raw: DeviceLayout) -> Result<(), TableFull> {
        let mut device = DeviceTrace { device: raw.device_id.into(), ..DeviceTrace::default() };
        if raw.max_entries != 0 && raw.max_entries != usize::MAX {
            device.max_entries = Some(raw.max_entries as u64);
            device.overflowed = Some(raw.overflowed);
        }
        let none = match self.contexts {
            true => Some((self.trace.strings.intern(NO_COMPILE_CONTEXT)?, self.trace.strings.intern("")?)),
            false => None,
        };
        for entry in &raw.entries {
            let ArenaKey { pool, stream } = raw.arenas[entry.arena as usize];
            let user_metadata = match entry.metadata {
                Some(text) => Some(self.trace.strings.intern(&self.recorder.texts.get(text))?),
                None => none.map(|(_, metadata)| metadata),
            };
            let compile_context = none.map(|(context, _)| context);
            let tags = Tags { stream, pool: Some(pool), compile_context, user_metadata, ..Tags::default() };
            device.events.push(Event {
                action: entry.event.action,
                address_or_free: entry.event.address_or_free,
                size: entry.event.size,
                time_us: Some(entry.time_us),
                stack: self.stack(entry.event.stack)?,
                tags: self.trace.tags.intern(tags)?,
            });
        }
        for held in &raw.segments {
            let (mut segment, mut blocks) = held.without_stacks();
            for (block, layout) in blocks.iter_mut().zip(&held.blocks) {
                block.stack = self.stack(layout.stack)?;
            }
            segment.stack = self.stack(held.stack)?;
            device.push_segment(segment, blocks);
        }
        self.trace.devices.push(device);
        Ok(())
    }

    fn stack(&mut self, stack: Option<StackKey>) -> Result<Option<StackId>, TableFull> {
        let Some(key) = stack else { return Ok(None) };
        if let Some(&id) = self.stacks.get(&key) {
            return Ok(Some(id));
        }
        let mut frames = Vec::new();
        for frame in self.symbols.stack(&self.recorder.stacks, key) {
            let name = self.trace.strings.intern(&frame.name)?;
            let filename = self.trace.strings.intern(&frame.filename)?;
            let frame = Frame { name, filename, line: frame.line, fx: FxNode::default() };
            frames.push(self.trace.frames.intern(frame)?);
        }
        let id = self.trace.stacks.intern(&frames)?;
        self.stacks.insert(key, id);
        Ok(Some(id))
    }

    fn regions(&mut self, regions: &Regions) -> Result<(), TableFull> {
        let mut annotations = Vec::new();
        for region in regions.entries() {
            let name = self.trace.strings.intern(&region.name)?;
            let (stage, device) = (region.stage, region.device_id.into());
            annotations.push(Annotation { stage, name, device, time_us: Some(region.time_us) });
        }
        self.trace.annotations = Some(annotations);
        Ok(())
    }
}
