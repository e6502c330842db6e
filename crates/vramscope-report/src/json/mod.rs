//! The report as JSON: keys are stable, sizes are bytes, times microseconds since the Unix epoch.

mod check;
mod replay;
#[cfg(test)]
mod typescript;
mod writer;

use std::cell::Cell;

use serde::Serialize;
use vramscope_analysis::{
    Counters, DeviceFacts, EndState, Facts, Fragmentation, FreeBlock, Holder, LeakSuspect, Moment, Origin,
    OutOfMemory, Peak, Quality, Region, RunFigures, Summary, Unusable,
};
use vramscope_trace::formats::{Format, Recording};
use vramscope_trace::{Action, Events, FrameId, PoolId, SegmentKind, StackId};

use crate::Answers;
use crate::names::Names;

pub use check::CheckJson;
pub use replay::ReplayJson;
pub use writer::{write_json, write_json_line};

/// `vramscope report --json`.
#[derive(Debug, Serialize)]
pub struct ReportJson {
    file: String,
    format: &'static str,
    devices: Vec<DeviceJson>,
}

/// One device of the report.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "ReportDevice"))]
struct DeviceJson {
    device: i64,
    events: usize,
    /// The last event before the highest allocated bytes; null where nothing rose above the start.
    peak_event: Option<usize>,
    peak_time_us: Option<i64>,
    peak_requested_bytes: u64,
    peak_allocated_bytes: u64,
    peak_active_bytes: u64,
    peak_reserved_bytes: u64,
    end_requested_bytes: u64,
    end_allocated_bytes: u64,
    end_active_bytes: u64,
    end_reserved_bytes: u64,
    end_segments: usize,
    end_blocks: usize,
    preexisting_bytes: u64,
    /// Who held `peak_allocated_bytes`, most first. With `--at` it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    holders_at_peak: Option<Vec<HolderJson>>,
    /// With `--at`: the event, the counters after it, and who held `allocated_bytes` then.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    at: Option<AtJson>,
    pools: Vec<HolderJson>,
    streams: Vec<HolderJson>,
    /// What `--filter` left out of the holders.
    filtered_out_bytes: u64,
    ooms: Vec<OomJson>,
    /// Out-of-memory events beyond those in `ooms`.
    more_ooms: usize,
    /// After an out of memory, the setting that would have served best on the same device.
    best_setting: Option<BestSettingJson>,
    leaks: Vec<LeakJson>,
    fragmentation: FragmentationsJson,
    regions: Vec<RegionJson>,
    churn: Vec<ChurnJson>,
    quality: QualityJson,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "ReportMoment"))]
struct AtJson {
    event: usize,
    requested_bytes: u64,
    allocated_bytes: u64,
    active_bytes: u64,
    reserved_bytes: u64,
    holders: Vec<HolderJson>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Holder"))]
struct HolderJson {
    bytes: u64,
    requested_bytes: u64,
    count: u64,
    /// What the group shares, as the text report names it.
    key: String,
    /// Live before recording began; null in groups that do not tell it apart.
    preexisting: Option<bool>,
    /// Innermost frame first; of a group of several stacks the one that holds most.
    stack: Vec<FrameJson>,
    /// Of memory live before recording whose allocation was not recorded: where it was freed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, ts(optional, as = "Option<_>"))]
    freed_at: Vec<FrameJson>,
    /// Outer frames of either that are not told, see [`MOST_FRAMES`].
    #[serde(skip_serializing_if = "is_zero")]
    #[cfg_attr(test, ts(optional, as = "Option<_>"))]
    frames_left_out: usize,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "ReportFrame"))]
struct FrameJson {
    filename: String,
    line: u32,
    name: String,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Oom"))]
struct OomJson {
    event: usize,
    time_us: Option<i64>,
    requested_bytes: u64,
    stream: u64,
    device_free_bytes: u64,
    allocated_bytes: u64,
    active_bytes: u64,
    reserved_bytes: u64,
    /// Reserved and in no active block; none of it could serve the request, but for `usable_bytes`.
    reserved_unused_bytes: u64,
    usable_bytes: u64,
    unusable: Vec<UnusableJson>,
    largest_free_block: Option<FreeBlockJson>,
    /// The device had room for it: a limit on reserved bytes stood in the way.
    at_limit: bool,
    /// Free on the device and reserved without use together would have been enough.
    enough_in_total: bool,
    missing_bytes: u64,
    stack: Vec<FrameJson>,
    #[serde(skip_serializing_if = "is_zero")]
    #[cfg_attr(test, ts(optional, as = "Option<_>"))]
    frames_left_out: usize,
    /// Who held `allocated_bytes`, by line.
    holders: Vec<HolderJson>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "BestSetting"))]
struct BestSettingJson {
    conf: String,
    peak_reserved_bytes: u64,
    /// Up to the end of the recording.
    fits: bool,
    exact: bool,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Unusable"))]
struct UnusableJson {
    why: WhyJson,
    bytes: u64,
    blocks: usize,
    largest_bytes: u64,
}

/// Why a free block could not serve a request.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Why"))]
#[serde(rename_all = "snake_case")]
enum WhyJson {
    TooSmall,
    OtherStream,
    OtherSizeClass,
    OtherPool,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "FreeBlock"))]
struct FreeBlockJson {
    address: u64,
    bytes: u64,
    stream: u64,
    kind: &'static str,
    pool: Option<[u64; 2]>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Leak"))]
struct LeakJson {
    line: FrameJson,
    stack: Vec<FrameJson>,
    #[serde(skip_serializing_if = "is_zero")]
    #[cfg_attr(test, ts(optional, as = "Option<_>"))]
    frames_left_out: usize,
    stacks: usize,
    /// Fewest live allocations from each tenth of the run on.
    floor: Vec<u64>,
    allocations: u64,
    kept: u64,
    kept_bytes: u64,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Fragmentations"))]
struct FragmentationsJson {
    at_peak: Option<FragmentationJson>,
    at_end: Option<FragmentationJson>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Fragmentation"))]
struct FragmentationJson {
    internal_bytes: u64,
    external_bytes: u64,
    whole_segments_bytes: u64,
    free_blocks: usize,
    largest_free_block: Option<FreeBlockJson>,
    /// The request that the next two are told for.
    request_bytes: u64,
    usable_bytes: u64,
    unusable: Vec<UnusableJson>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Region"))]
struct RegionJson {
    name: String,
    count: u64,
    peak_allocated_bytes: u64,
    peak_above_start_bytes: u64,
    net_bytes: i64,
    total_us: i64,
    first: RunJson,
    typical: RunJson,
    largest: RunJson,
}

/// One run of a region.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "RegionRun"))]
struct RunJson {
    peak_allocated_bytes: u64,
    peak_above_start_bytes: u64,
    net_bytes: i64,
    us: i64,
}

/// Totals over the run of one line.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Churn"))]
struct ChurnJson {
    key: String,
    total_bytes: u64,
    count: u64,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Quality"))]
struct QualityJson {
    /// Allocated and active bytes are exact.
    exact: bool,
    preexisting_blocks: usize,
    inferred_sizes: usize,
    size_mismatches: usize,
    lost_events: usize,
    segment_contradictions: usize,
    end_state_disagreements: usize,
    end_state_disagreement_bytes: u64,
    settings_assumed: bool,
    probably_overflowed: bool,
    /// The allocator's rules give every address, segment event and the layout at the end as recorded.
    reproduced: Option<bool>,
    /// Kinds of events that were left out.
    skipped_actions: Vec<&'static str>,
    /// When blocks began and ended is partly inferred, for lack of those.
    lifetimes_inferred: bool,
    /// No segment event was recorded, and whether they were left out cannot be told.
    no_segment_events: bool,
}

impl ReportJson {
    /// The report about `answers`; `top` limits lists of holders where the user asked for it.
    pub fn new(answers: &Answers<'_>, top: Option<usize>) -> Self {
        let names = Names { trace: &answers.recording.trace, frames: answers.frames };
        let maker = Maker::new(names, top);
        Self {
            file: answers.file.to_owned(),
            format: answers.recording.format.name(),
            devices: answers.devices.iter().map(|d| maker.device(d, answers.at)).collect(),
        }
    }
}

impl QualityJson {
    fn new(q: &Quality) -> Self {
        Self {
            exact: q.sizes_exact(),
            preexisting_blocks: q.preexisting,
            inferred_sizes: q.inferred_sizes,
            size_mismatches: q.size_mismatches,
            lost_events: q.lost_events,
            segment_contradictions: q.segment_contradictions,
            end_state_disagreements: q.end_state_disagreements,
            end_state_disagreement_bytes: q.end_state_disagreement_bytes,
            settings_assumed: q.settings_assumed,
            probably_overflowed: q.probably_overflowed,
            reproduced: q.reproduced,
            skipped_actions: q.skipped.iter().map(Action::name).collect(),
            lifetimes_inferred: q.lifetimes_inferred,
            no_segment_events: q.no_segment_events,
        }
    }
}

/// Frames of one stack that are told, the innermost: real ones have some hundred, recursion without an end a million.
const MOST_FRAMES: usize = 1000;

/// Bytes that all stacks together may take, about: a file may refer to one stack, or one long name, any number of times.
const MOST_STACK_BYTES: usize = 64 << 20;

/// What a frame takes beside its names, about.
const FRAME_BYTES: usize = 64;

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
fn is_zero(n: &usize) -> bool {
    *n == 0
}

struct Maker<'r> {
    names: Names<'r>,
    top: Option<usize>,
    /// Of [`MOST_STACK_BYTES`], those that are left.
    left: Cell<usize>,
}

/// The frames of a stack, innermost first, and how many outer ones are not told.
#[derive(Default)]
struct StackJson {
    frames: Vec<FrameJson>,
    left_out: usize,
}

impl<'r> Maker<'r> {
    fn new(names: Names<'r>, top: Option<usize>) -> Self {
        Self { names, top, left: Cell::new(MOST_STACK_BYTES) }
    }

    fn device(&self, s: &Summary, at: Option<usize>) -> DeviceJson {
        let EndState { segments, blocks, allocated, active, requested, reserved } = s.end;
        let Peak { moment, .. } = s.peaks.allocated;
        let holders = self.holders(&s.holders, self.top);
        let Counters {
            requested: here_requested,
            allocated: here,
            active: here_active,
            reserved: here_reserved,
        } = s.counters;
        let (holders_at_peak, at) = match at {
            None => (Some(holders), None),
            Some(event) => {
                let at = AtJson {
                    event,
                    requested_bytes: here_requested,
                    allocated_bytes: here,
                    active_bytes: here_active,
                    reserved_bytes: here_reserved,
                    holders,
                };
                (None, Some(at))
            }
        };
        DeviceJson {
            device: s.device,
            events: s.events,
            peak_event: moment.event(),
            peak_time_us: self.time(s.device, moment),
            peak_requested_bytes: s.peaks.requested.bytes,
            peak_allocated_bytes: s.peaks.allocated.bytes,
            peak_active_bytes: s.peaks.active.bytes,
            peak_reserved_bytes: s.peaks.reserved.bytes,
            end_requested_bytes: requested,
            end_allocated_bytes: allocated,
            end_active_bytes: active,
            end_reserved_bytes: reserved,
            end_segments: segments,
            end_blocks: blocks,
            preexisting_bytes: s.preexisting,
            holders_at_peak,
            at,
            pools: self.holders(&s.pools, None),
            streams: self.holders(&s.streams, None),
            filtered_out_bytes: s.filtered_out,
            ooms: s.ooms.iter().map(|o| self.oom(o)).collect(),
            more_ooms: s.more_ooms,
            best_setting: s.best_setting.as_ref().map(|best| BestSettingJson {
                conf: best.tried.setting.conf.clone(),
                peak_reserved_bytes: best.tried.outcome.statistics.reserved.peak,
                fits: best.tried.outcome.fits(),
                exact: !best.is_approximate,
            }),
            leaks: s.leaks.iter().map(|l| self.leak(l)).collect(),
            fragmentation: FragmentationsJson {
                at_peak: s.fragmentation.as_ref().map(fragmentation),
                at_end: s.fragmentation_at_end.as_ref().map(fragmentation),
            },
            regions: s.regions.iter().map(region).collect(),
            churn: s.churn.iter().take(self.top.unwrap_or(usize::MAX)).map(|h| self.churn(h)).collect(),
            quality: QualityJson::new(&s.quality),
        }
    }

    fn time(&self, device: i64, moment: Moment) -> Option<i64> {
        let device = self.names.trace.devices.iter().find(|d| d.device == device)?;
        device.events.get(moment.event()?).time_us
    }

    fn holders(&self, holders: &[Holder], top: Option<usize>) -> Vec<HolderJson> {
        let holder = |h: &Holder| {
            let StackJson { frames: stack, left_out } = self.stack(h.stack);
            let (stack, freed_at) =
                if h.origin == Some(Origin::FreeOnly) { (Vec::new(), stack) } else { (stack, Vec::new()) };
            HolderJson {
                bytes: h.bytes,
                requested_bytes: h.requested,
                count: h.count,
                key: self.names.key(&h.key).into(),
                preexisting: h.origin.map(|o| o != Origin::Recorded),
                stack,
                freed_at,
                frames_left_out: left_out,
            }
        };
        holders.iter().take(top.unwrap_or(usize::MAX)).map(holder).collect()
    }

    fn stack(&self, stack: Option<StackId>) -> StackJson {
        let Some(stack) = stack else { return StackJson::default() };
        let trace = self.names.trace;
        let all = trace.stacks.get(stack);
        let room = |id: &FrameId| {
            let frame = trace.frames.get(*id);
            let names = [frame.filename, frame.name].map(|s| trace.strings.get(s).len());
            let left = self.left.get().checked_sub(FRAME_BYTES + names.iter().sum::<usize>());
            self.left.set(left.unwrap_or(0));
            left.is_some()
        };
        let told = all.iter().take(MOST_FRAMES).take_while(|id| room(id));
        let frames: Vec<FrameJson> = told.map(|&f| self.frame(f)).collect();
        StackJson { left_out: all.len() - frames.len(), frames }
    }

    fn frame(&self, id: FrameId) -> FrameJson {
        let trace = self.names.trace;
        let frame = trace.frames.get(id);
        FrameJson {
            filename: trace.strings.get(frame.filename).to_owned(),
            line: frame.line,
            name: trace.strings.get(frame.name).to_owned(),
        }
    }

    fn oom(&self, o: &OutOfMemory) -> OomJson {
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
            unusable: unusable(&o.fragmentation),
            largest_free_block: o.fragmentation.largest.map(free_block),
            at_limit: o.at_limit,
            enough_in_total: o.enough_in_total(),
            missing_bytes: o.missing(),
            stack,
            frames_left_out: left_out,
            holders: self.holders(&o.holders, self.top),
        }
    }

    fn leak(&self, l: &LeakSuspect) -> LeakJson {
        let StackJson { frames: stack, left_out } = self.stack(Some(l.stack));
        LeakJson {
            line: self.frame(l.line),
            stack,
            frames_left_out: left_out,
            stacks: l.stacks,
            floor: l.floor.to_vec(),
            allocations: l.allocations,
            kept: l.kept,
            kept_bytes: l.kept_bytes,
        }
    }

    fn churn(&self, h: &Holder) -> ChurnJson {
        ChurnJson { key: self.names.key(&h.key).into(), total_bytes: h.bytes, count: h.count }
    }
}

fn fragmentation(f: &Fragmentation) -> FragmentationJson {
    FragmentationJson {
        internal_bytes: f.internal,
        external_bytes: f.external,
        whole_segments_bytes: f.whole_segments,
        free_blocks: f.free_blocks,
        largest_free_block: f.largest.map(free_block),
        request_bytes: f.request.bytes,
        usable_bytes: f.usable,
        unusable: unusable(f),
    }
}

fn unusable(f: &Fragmentation) -> Vec<UnusableJson> {
    let one = |u: &vramscope_analysis::UnusableBlocks| UnusableJson {
        why: match u.why {
            Unusable::TooSmall => WhyJson::TooSmall,
            Unusable::OtherStream => WhyJson::OtherStream,
            Unusable::OtherSize => WhyJson::OtherSizeClass,
            Unusable::OtherPool => WhyJson::OtherPool,
        },
        bytes: u.bytes,
        blocks: u.blocks,
        largest_bytes: u.largest.size,
    };
    f.unusable.iter().map(one).collect()
}

fn free_block(b: FreeBlock) -> FreeBlockJson {
    FreeBlockJson {
        address: b.address,
        bytes: b.size,
        stream: b.stream,
        kind: match b.kind {
            SegmentKind::Small => "small",
            SegmentKind::Large => "large",
            SegmentKind::Unknown => "unknown",
        },
        pool: b.pool.map(|PoolId(x, y)| [x, y]),
    }
}

fn region(r: &Region) -> RegionJson {
    RegionJson {
        name: r.name.clone(),
        count: r.count,
        peak_allocated_bytes: r.peak,
        peak_above_start_bytes: r.peak_above_start,
        net_bytes: r.net,
        total_us: r.total_us,
        first: run(&r.first),
        typical: run(&r.typical),
        largest: run(&r.largest),
    }
}

fn run(r: &RunFigures) -> RunJson {
    RunJson {
        peak_allocated_bytes: r.peak,
        peak_above_start_bytes: r.above_start,
        net_bytes: r.net,
        us: r.us,
    }
}

/// `vramscope info --json`.
#[derive(Debug, Serialize)]
pub struct InfoJson {
    file: String,
    format: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pickle_protocol: Option<u8>,
    compression: &'static str,
    generation: Option<&'static str>,
    features: Vec<&'static str>,
    devices: Vec<InfoDeviceJson>,
    frames: usize,
    stacks: usize,
    stack_frames: usize,
    annotations: Option<usize>,
    allocator_conf: Option<String>,
    /// What an event takes in memory beside its stack.
    bytes_per_event: usize,
}

#[derive(Debug, Serialize)]
struct InfoDeviceJson {
    device: i64,
    events: usize,
    actions: std::collections::BTreeMap<&'static str, usize>,
    /// Kinds of events that were left out.
    skipped_actions: Vec<&'static str>,
    segments: usize,
    blocks: usize,
    first_time_us: Option<i64>,
    last_time_us: Option<i64>,
}

impl InfoJson {
    /// The bare facts of a file.
    pub fn new(file: &str, recording: &Recording, facts: &Facts) -> Self {
        let trace = &recording.trace;
        let device = |d: &DeviceFacts| InfoDeviceJson {
            device: d.device,
            events: d.events,
            actions: d.actions.iter().map(|&(a, n)| (a.name(), n)).collect(),
            skipped_actions: d.skipped.iter().map(Action::name).collect(),
            segments: d.segments,
            blocks: d.blocks,
            first_time_us: d.time_us.0,
            last_time_us: d.time_us.1,
        };
        Self {
            file: file.to_owned(),
            format: recording.format.name(),
            pickle_protocol: match recording.format {
                Format::Pickle { protocol } => Some(protocol),
                Format::Json | Format::Log { .. } => None,
            },
            compression: recording.compression.name(),
            // A log says nothing about PyTorch's age.
            generation: (!matches!(recording.format, Format::Log { .. })).then_some(facts.generation),
            features: facts.features.clone(),
            devices: facts.devices.iter().map(device).collect(),
            frames: trace.frames.len(),
            stacks: trace.stacks.len(),
            stack_frames: facts.stack_frames,
            annotations: trace.annotations.as_ref().map(Vec::len),
            allocator_conf: trace.settings.as_ref().and_then(|s| s.conf_text.clone()),
            bytes_per_event: Events::BYTES_PER_EVENT,
        }
    }
}

#[cfg(test)]
mod tests {
    use vramscope_analysis::{Frames, Options, Summary};
    use vramscope_trace::formats;

    use super::*;
    use crate::Advice;

    /// The report on blocks that live before recording, each with a stack of `depth` frames.
    fn report(blocks: usize, depth: usize, name: &str) -> serde_json::Value {
        let frame = |line: usize| serde_json::json!({"filename": name, "line": line, "name": "f"});
        let block = |n: usize| {
            let mut frames = vec![frame(n + 1)];
            frames.extend((1..depth).map(|_| frame(0)));
            serde_json::json!({"address": n * 512, "size": 512, "requested_size": 512,
                "state": "active_allocated", "frames": frames})
        };
        let blocks: Vec<_> = (0..blocks).map(block).collect();
        let segment = serde_json::json!({"device": 0, "address": 0, "total_size": blocks.len() * 512, "stream": 0,
            "segment_type": "large", "blocks": blocks});
        let snapshot = serde_json::json!({"segments": [segment], "device_traces": [[]]}).to_string();
        let recording = formats::read(snapshot.as_bytes(), &mut |_| {}).unwrap();
        let frames = Frames::of(&recording.trace);
        let trace = &recording.trace;
        let devices =
            trace.devices.iter().map(|d| Summary::of(trace, d, &frames, &Options::default())).collect();
        let answers = Answers {
            file: "f",
            recording: &recording,
            frames: &frames,
            devices,
            by: None,
            at: None,
            advice: Advice::default(),
        };
        serde_json::to_value(ReportJson::new(&answers, None)).unwrap()
    }

    #[test]
    fn deep_stacks_are_told_up_to_a_bound() {
        let json = report(2, 3000, "train.py");
        let holders = json["devices"][0]["holders_at_peak"].as_array().unwrap();
        assert_eq!(holders.len(), 2);
        for holder in holders {
            assert_eq!(holder["stack"].as_array().unwrap().len(), MOST_FRAMES);
            assert_eq!(holder["frames_left_out"], 2000);
        }
        let json = report(1, MOST_FRAMES, "train.py");
        let holder = &json["devices"][0]["holders_at_peak"][0];
        assert_eq!(holder["stack"].as_array().unwrap().len(), MOST_FRAMES);
        assert_eq!(holder.get("frames_left_out"), None);
    }

    #[test]
    fn all_stacks_together_are_bounded() {
        let name = "n".repeat(1 << 20);
        let trace = report(4, 40, &name);
        let told = |h: &serde_json::Value| h["stack"].as_array().unwrap().len();
        let holders = trace["devices"][0]["holders_at_peak"].as_array().unwrap();
        assert_eq!(holders.iter().map(told).sum::<usize>(), 63);
        let left_out: u64 = holders.iter().filter_map(|h| h["frames_left_out"].as_u64()).sum();
        assert_eq!(left_out, 4 * 40 - 63);
    }
}
