//! The recording as a trace.

use hashbrown::HashMap;
use vramscope_trace::{
    Annotation, Block, BlockState, DeviceTrace, Event, Frame, FxNode, NO_COMPILE_CONTEXT, Segment, StackId,
    TableFull, Tags, Trace,
};

use super::{ArenaKey, Entry, Recorder, StackKey};
use crate::engine::{self, Engine, SegmentState};
use crate::stacks::Symbols;
use crate::sync::lock;

/// What engines hold and what was recorded of them (`torch.cuda.memory._snapshot`), of each device as of one
/// moment. Its history gets a `snapshot` event there.
///
/// # Errors
/// Where there are more distinct strings, frames or stacks than a trace can number.
pub(crate) fn snapshot(engines: &[&Engine], recorder: &Recorder) -> Result<Trace, TableFull> {
    let devices: Vec<RawDevice> = engines.iter().map(|engine| RawDevice::of(engine)).collect();
    // The pool goes on working while addresses are looked up.
    let settings = engines.first().map(|engine| engine.core.policy.settings()).unwrap_or_default();
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
    builder.regions()?;
    if settings.with_host_memory() {
        // A pool has none.
        builder.trace.host = Some(DeviceTrace { device: -1, ..DeviceTrace::default() });
    }
    builder.trace.settings = Some(settings);
    Ok(builder.trace)
}

/// A device's state and history at one moment.
struct RawDevice {
    device_id: i32,
    segments: Vec<SegmentState>,
    entries: Vec<Entry>,
    arenas: Vec<ArenaKey>,
    max_entries: usize,
    overflowed: bool,
}

impl RawDevice {
    fn of(engine: &Engine) -> Self {
        let mut whole = engine.whole();
        let segments = whole.segments();
        let history = &engine.core.history;
        let raw = {
            let ring = lock(&history.ring);
            Self {
                device_id: history.device_id,
                segments,
                entries: ring.entries.iter().copied().collect(),
                arenas: ring.arenas.clone(),
                max_entries: ring.max_entries,
                overflowed: ring.overflowed,
            }
        };
        whole.record_snapshot();
        raw
    }
}

struct Builder<'a> {
    trace: Trace,
    /// Every event has a compile context and user metadata, be they empty.
    contexts: bool,
    stacks: HashMap<StackKey, StackId>,
    symbols: &'a mut Symbols,
    recorder: &'a Recorder,
}

impl Builder<'_> {
    fn device(&mut self, raw: RawDevice) -> Result<(), TableFull> {
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
                action: entry.what.action,
                address: entry.what.address,
                size: entry.what.size,
                time_us: Some(entry.time_us),
                stack: self.stack(entry.what.stack)?,
                tags: self.trace.tags.intern(tags)?,
            });
        }
        for held in &raw.segments {
            let blocks = held
                .blocks
                .iter()
                .map(|b| Ok(block(b, self.stack(b.stack)?)))
                .collect::<Result<Vec<_>, TableFull>>()?;
            let segment = Segment { stack: self.stack(held.segment.stack)?, ..segment(held, &blocks) };
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

    fn regions(&mut self) -> Result<(), TableFull> {
        let mut annotations = Vec::new();
        for region in self.recorder.regions() {
            let name = self.trace.strings.intern(&region.name)?;
            let (stage, device) = (region.stage, region.device_id.into());
            annotations.push(Annotation { stage, name, device, time_us: Some(region.time_us) });
        }
        self.trace.annotations = Some(annotations);
        Ok(())
    }
}

/// A segment and its blocks without their stacks.
pub(crate) fn plain_segment(held: &SegmentState) -> (Segment, Vec<Block>) {
    let blocks: Vec<Block> = held.blocks.iter().map(|b| block(b, None)).collect();
    (segment(held, &blocks), blocks)
}

fn block(b: &engine::Block, stack: Option<StackId>) -> Block {
    Block {
        address: b.address,
        size: b.size,
        requested_size: b.requested,
        state: state(b.state),
        stack,
        forward_frames: None,
    }
}

/// A segment without its stack.
fn segment(held: &SegmentState, blocks: &[Block]) -> Segment {
    let SegmentState { arena, segment, .. } = held;
    let sum = |bytes: &dyn Fn(&Block) -> u64| Some(blocks.iter().map(bytes).sum());
    Segment {
        address: held.address(),
        total_size: held.size(),
        allocated_size: sum(&|b| if b.state == BlockState::ActiveAllocated { b.size } else { 0 }),
        active_size: sum(&|b| if b.state.is_active() { b.size } else { 0 }),
        requested_size: sum(&|b| if b.state.is_active() { b.requested_size } else { 0 }),
        stream: arena.stream,
        kind: segment.class.into(),
        pool: Some(arena.pool),
        is_expandable: Some(segment.expandable),
        stack: None,
        forward_frames: None,
        blocks: 0..0,
    }
}

/// The state of a block, in PyTorch's words.
pub(super) fn state(state: engine::BlockState) -> BlockState {
    match state {
        engine::BlockState::Allocated => BlockState::ActiveAllocated,
        engine::BlockState::PendingFree => BlockState::ActivePendingFree,
        // A held block is about to be handed out; nobody has it yet.
        engine::BlockState::Free
        | engine::BlockState::Held
        | engine::BlockState::Unmapped
        | engine::BlockState::Vacant => BlockState::Inactive,
    }
}
