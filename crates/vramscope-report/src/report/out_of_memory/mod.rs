//! The section about failed requests.
//!
//! - `causes`: sentences about the causes of a failure, and the changes that avoid it.
//! - `brief`: a failure in a few lines, for programs that fail.

mod brief;
pub(crate) mod causes;

pub use brief::{OomInBrief, oom_in_brief};
pub use causes::{MainCause, changes_after_oom, nearest, oom_advice, oom_cause, oom_verdict, recorded_conf};

use serde::Serialize;
use vramscope_analysis::{
    FailedRequest, OomCause, OomCauseKind, OomExplanation, Origin, Pin, Pins, Summary, UnexplainedOoms,
    UnusableBlocks,
};
use vramscope_basics::units::{bytes, count, counted, duration};

use crate::json::stacks::{Builder, FrameJson, StackJson, is_zero};
use crate::names::{Names, kind, stream, unusable};
use crate::report::fragmentation::{self, FreeBlockJson, UnusableJson, free_block};
use crate::report::holders::HolderJson;
use crate::text::page::Page;

/// An allocation request that ran out of memory.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "OutOfMemory"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Oom"))]
pub(crate) struct OomJson {
    event: usize,
    time_us: Option<i64>,
    requested_bytes: u64,
    stream: u64,
    device_free_bytes: u64,
    allocated_bytes: u64,
    active_bytes: u64,
    reserved_bytes: u64,
    /// Reserved bytes outside of active blocks; only `usable_bytes` of them could serve the request.
    reserved_unused_bytes: u64,
    usable_bytes: u64,
    unusable: Vec<UnusableJson>,
    largest_free_block: Option<FreeBlockJson>,
    /// Whether the device had room for the request, and a limit on reserved bytes prevented it.
    at_limit: bool,
    /// Whether the free device memory and the unused reserved memory together would have been enough.
    enough_in_total: bool,
    missing_bytes: u64,
    /// Total device memory; null if it was not recorded.
    device_total_bytes: Option<u64>,
    /// Device memory missing for the request.
    lacking_bytes: u64,
    /// False if `lacking_bytes` is an upper bound.
    lacking_is_exact: bool,
    /// The causes, main cause first.
    causes: Vec<CauseJson>,
    stack: Vec<FrameJson>,
    #[serde(skip_serializing_if = "is_zero")]
    #[cfg_attr(test, ts(optional, as = "Option<_>"))]
    frames_left_out: usize,
    /// Holders of `allocated_bytes`, by line.
    holders: Vec<HolderJson>,
    /// Free memory in holes between blocks; each hole counts once.
    pinned_bytes: u64,
    /// The lines of the blocks next to these holes, most bytes first. A hole between blocks of two lines counts for both.
    pinned: Vec<PinJson>,
}

/// Failed requests without explanations.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "UnexplainedOoms"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "UnexplainedOoms"))]
pub(crate) struct UnexplainedOomsJson {
    first: FailedRequestJson,
    last: FailedRequestJson,
    largest: FailedRequestJson,
}

/// A failed request.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "FailedRequest"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "FailedRequest"))]
struct FailedRequestJson {
    event: usize,
    time_us: Option<i64>,
    requested_bytes: u64,
    /// Null if it was not recorded.
    device_free_bytes: Option<u64>,
}

impl UnexplainedOomsJson {
    pub(crate) fn of(ooms: &UnexplainedOoms) -> Self {
        let request = |of: &FailedRequest| FailedRequestJson {
            event: of.event,
            time_us: of.time_us,
            requested_bytes: of.bytes,
            device_free_bytes: of.device_free,
        };
        Self { first: request(&ooms.first), last: request(&ooms.last), largest: request(&ooms.largest) }
    }
}

/// One cause of a failed request.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "OutOfMemoryCause"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "OomCause"))]
pub(crate) struct CauseJson {
    cause: &'static str,
    bytes: u64,
    /// Whether the program would have gone on without it.
    decisive: bool,
    /// How far the recording shows it: `shown`, `likely` or `possible`.
    certainty: &'static str,
    /// For a leak: the line; else null.
    line: Option<String>,
    /// For a leak: its growth per step; null if it is unknown.
    bytes_per_step: Option<u64>,
    /// For a leak: the bytes that one repetition retains, whatever repeats; null for other causes.
    bytes_per_repetition: Option<u64>,
}

/// A line whose blocks keep free memory apart.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Pin"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Pin"))]
pub(crate) struct PinJson {
    key: String,
    /// Whether the blocks were live before recording began.
    preexisting: bool,
    /// Bytes of the holes next to its blocks; each hole counts once.
    bytes: u64,
    holes: u64,
    /// The part of `bytes` in segments without blocks of other lines.
    alone_bytes: u64,
    /// The largest hole without these blocks.
    joined_bytes: u64,
    /// The number of its blocks next to these holes.
    blocks: u64,
    block_bytes: u64,
}

impl Builder<'_> {
    pub(crate) fn oom(&self, o: &OomExplanation) -> OomJson {
        let StackJson { frames: stack, left_out } = self.stack(o.stack);
        OomJson {
            event: o.event,
            time_us: o.time_us,
            requested_bytes: o.request.bytes,
            stream: o.request.stream,
            device_free_bytes: o.device_free,
            allocated_bytes: o.counters.allocated,
            active_bytes: o.counters.active,
            reserved_bytes: o.counters.reserved,
            reserved_unused_bytes: o.fragmentation.external,
            usable_bytes: o.fragmentation.usable,
            unusable: fragmentation::unusable(&o.fragmentation),
            largest_free_block: o.fragmentation.largest.map(free_block),
            at_limit: o.at_limit,
            enough_in_total: o.enough_in_total(),
            missing_bytes: o.missing(),
            device_total_bytes: o.device_total,
            lacking_bytes: o.causes.lacking,
            lacking_is_exact: o.causes.is_exact,
            causes: o.causes.all.iter().map(|cause| self.cause(cause)).collect(),
            stack,
            frames_left_out: left_out,
            holders: self.holders(&o.holders, self.top),
            pinned_bytes: o.pins.bytes,
            pinned: o
                .pins
                .lines
                .iter()
                .take(self.top.unwrap_or(usize::MAX))
                .map(|pin| self.pin(pin))
                .collect(),
        }
    }

    fn cause(&self, cause: &OomCause) -> CauseJson {
        let line = match cause.kind {
            OomCauseKind::Leak(line) => Some(self.names.frame(line).into()),
            _ => None,
        };
        CauseJson {
            cause: name(cause.kind),
            bytes: cause.bytes,
            decisive: cause.is_decisive,
            line,
            certainty: cause.certainty.name(),
            bytes_per_step: cause.per_step,
            bytes_per_repetition: cause.per_repetition,
        }
    }

    fn pin(&self, pin: &Pin) -> PinJson {
        PinJson {
            key: self.names.key(&pin.key).into(),
            preexisting: pin.origin != Origin::Recorded,
            bytes: pin.bytes,
            holes: pin.holes,
            alone_bytes: pin.alone,
            joined_bytes: pin.joined,
            blocks: pin.blocks,
            block_bytes: pin.block_bytes,
        }
    }
}

/// The JSON name of a cause.
fn name(kind: OomCauseKind) -> &'static str {
    match kind {
        OomCauseKind::Leak(_) => "leak",
        OomCauseKind::Size => "size",
        OomCauseKind::Rising => "rising",
        OomCauseKind::Pages => "pages",
        OomCauseKind::Outside => "outside",
        OomCauseKind::Limit => "limit",
        OomCauseKind::Rounding => "rounding",
        OomCauseKind::Unsplit => "max_split_size",
        OomCauseKind::Collection => "garbage_collection",
        OomCauseKind::Pending => "pending",
        OomCauseKind::OtherSize => "other_size_class",
        OomCauseKind::OtherPool => "other_pool",
        OomCauseKind::OtherStream => "other_stream",
        OomCauseKind::IdleStream => "idle_stream",
        OomCauseKind::TooSmall => "fragmentation",
    }
}

/// Limit on the lines that are listed for pinning free memory.
const MOST_PINS: usize = 3;

impl Page<'_> {
    /// Describes the failed requests.
    pub(crate) fn ooms(&mut self, s: &Summary) {
        let conf = recorded_conf(self.names.trace);
        for oom in &s.ooms {
            self.oom(s.time_us.map(|t| t.0), oom, conf);
        }
        if let Some(unexplained) = &s.unexplained_ooms {
            let summary = unexplained_ooms(unexplained);
            self.words(2, &format!("... {summary} {} shows any event.", self.advice.any_moment));
        }
    }

    /// Describes a failed request. `start` is the first time of the recording in microseconds, `conf` the settings at the failure.
    pub(crate) fn oom(&mut self, start: Option<i64>, oom: &OomExplanation, conf: &str) {
        let time = match (oom.time_us, start) {
            (Some(t), Some(start)) => format!(", {} after the first", duration(t.saturating_sub(start))),
            _ => String::new(),
        };
        self.heading(&format!("Out of memory at event {}{time}", count(oom.event as u64)));
        let f = &oom.fragmentation;
        self.words(
            2,
            &format!("requested {} on the {}", bytes(oom.request.bytes), stream(oom.request.stream)),
        );
        if let Some(line) = oom.stack.and_then(|st| self.names.frames.own_frame(self.names.trace, st)) {
            let line = self.names.frame(line);
            self.words(2, &format!("in {line}"));
        }
        self.full_stack(oom.stack);
        self.words(2, &format!("{} was free on the device", bytes(oom.device_free)));
        self.words(
            2,
            &format!(
                "{} was reserved: {} in use and {} unused",
                bytes(oom.counters.reserved),
                bytes(oom.counters.active),
                bytes(f.external)
            ),
        );
        if f.usable > 0 {
            let pool = oom.causes.get(OomCauseKind::OtherPool).filter(|cause| cause.bytes >= f.usable);
            let owner = pool.map_or("", |_| ", of a private pool that the recording does not name");
            self.words(4, &format!("{} in free blocks that fit{owner}", bytes(f.usable)));
        }
        for u in &f.unusable {
            self.words(4, &unusable_blocks(u));
        }
        self.words(2, &oom_verdict(&self.names, conf, oom));
        self.words(2, &oom_cause(&self.names, conf, oom));
        if !oom.pins.lines.is_empty() {
            self.words(2, &pinned(&oom.pins));
            for line in oom.pins.lines.iter().take(self.options.top.min(MOST_PINS)) {
                self.words(4, &pin(&self.names, line));
            }
        }
        if !oom.holders.is_empty() {
            self.words(2, &format!("holders of the {} allocated:", bytes(oom.counters.allocated)));
            self.holder_rows(&oom.holders, oom.counters.allocated, self.options.top.min(5));
        }
    }
}

/// The free blocks that could not serve a failed request, and why.
pub fn unusable_blocks(u: &UnusableBlocks) -> String {
    format!(
        "{} unusable, in {} {}; the largest is {} in the {} on the {}",
        bytes(u.bytes),
        counted(u.blocks as u64, "free block"),
        unusable(u.why),
        bytes(u.largest.size),
        kind(u.largest.kind),
        stream(u.largest.stream)
    )
}

/// The out-of-memory events that are not explained one by one.
pub fn unexplained_ooms(ooms: &UnexplainedOoms) -> String {
    let UnexplainedOoms { first, last, largest, .. } = ooms;
    format!(
        "and {} without an explanation, from event {} to event {}. The largest request among them, of {}, failed at event {}.",
        counted(ooms.count as u64, "more out-of-memory event"),
        count(first.event),
        count(last.event),
        bytes(largest.bytes),
        count(largest.event)
    )
}

/// The total free memory in holes between blocks; introduces the sentences of [`pin`].
pub fn pinned(pins: &Pins) -> String {
    let both = if pins.lines.len() > 1 { " A hole between blocks of two lines counts for both." } else { "" };
    format!(
        "{} of free memory is in {}, kept apart by blocks between them.{both}",
        bytes(pins.bytes),
        counted(pins.holes, "hole")
    )
}

/// The free memory that the blocks of a line keep apart, and the largest hole without these blocks, in a sentence.
pub fn pin(names: &Names<'_>, pin: &Pin) -> String {
    let alone = match pin.alone {
        0 => String::new(),
        all if all == pin.bytes => ", all of it in segments without blocks of other lines".to_owned(),
        part => format!(", {} of it in segments without blocks of other lines", bytes(part)),
    };
    format!(
        "{} pins {} of free memory in {}{alone}: without its {} ({}) next to them, the largest hole would be {}",
        names.pin(pin),
        bytes(pin.bytes),
        counted(pin.holes, "hole"),
        counted(pin.blocks, "block"),
        bytes(pin.block_bytes),
        bytes(pin.joined)
    )
}
