//! The report of a recording: one file or folder for each section, with its JSON, its rows of text, its sentences and its tests.
//!
//! [`SECTIONS`] has the order of the sections. The text report, the page's Overview, and the JSON of assistants and Python follow it.

use serde::Serialize;
use vramscope_analysis::{
    Counters, EndState, Moment, Nearest, Peak, Recommended, Recorder, Remedy, Summary, When,
};

use crate::answers::Answers;
use crate::json::stacks::Builder;
use crate::names::Names;
use crate::report::allocator_findings::AllocatorFindingJson;
use crate::report::collectives::CollectiveJson;
use crate::report::estimates::EstimatesJson;
use crate::report::fixes::FixJson;
use crate::report::fragmentation::{FragmentationsJson, fragmentation};
use crate::report::holders::{CategoryJson, ChurnJson, HolderJson, ReasonJson};
use crate::report::host_memory::HostMemoryJson;
use crate::report::idle::IdleJson;
use crate::report::leaks::LeakJson;
use crate::report::libraries::{DeviceUseJson, FunctionCallsJson, LibraryJson};
use crate::report::limitations::{DamageJson, QualityJson, not_followed};
use crate::report::out_of_memory::{OomJson, UnexplainedOomsJson};
use crate::report::private_pools::{PrivatePoolJson, ServingJson};
use crate::report::referrers::ReferredTensorJson;
use crate::report::regions::{RegionJson, region};
use crate::report::steps::{PhaseJson, StepsJson};
use crate::text::page::{Page, TextOptions};

pub(crate) mod allocator_findings;
mod bytes_table;
pub(crate) mod categories;
pub(crate) mod chart;
mod churn;
mod collectives;
pub mod estimates;
mod first_lines;
mod fixes;
pub(crate) mod fragmentation;
pub(crate) mod holders;
mod host_memory;
pub mod idle;
pub(crate) mod leaks;
mod libraries;
pub(crate) mod limitations;
pub mod out_of_memory;
pub(crate) mod private_pools;
mod referrers;
mod regions;
pub mod steps;

/// A section of the report on a device.
struct Section {
    name: &'static str,
    /// Writes its rows of text; nothing if the recording has none.
    text: fn(&mut Page<'_>, &Answers<'_>, &Summary),
}

/// The sections, in the order of the text and of the page's Overview.
const SECTIONS: &[Section] = &[
    Section { name: "verdict", text: |page, _, s| page.verdict(s) },
    Section { name: "chart", text: |page, _, s| page.chart(s) },
    Section { name: "bytes", text: |page, answers, s| page.bytes_table(answers, s) },
    Section { name: "libraries", text: |page, _, s| page.libraries(s) },
    Section { name: "holders", text: |page, answers, s| page.holders(answers, s) },
    Section { name: "findings", text: |page, _, s| page.allocator_findings(s) },
    Section { name: "leaks", text: |page, _, s| page.leaks(s) },
    Section { name: "idle", text: |page, _, s| page.idle(s) },
    Section { name: "referrers", text: |page, _, s| page.referrers(s) },
    Section { name: "fragmentation", text: |page, _, s| page.fragmentation(s) },
    Section { name: "collectives", text: |page, _, s| page.collectives(s) },
    Section { name: "serving", text: |page, _, s| page.serving(s) },
    Section { name: "private_pools", text: |page, _, s| page.private_pools(s) },
    Section { name: "host_memory", text: |page, _, s| page.host_memory(s) },
    Section { name: "out_of_memory", text: |page, _, s| page.ooms(s) },
    Section { name: "estimates", text: |page, _, s| page.estimates(s) },
    Section { name: "steps", text: |page, _, s| page.steps(s) },
    Section { name: "phases", text: |page, _, s| page.phases(s) },
    Section { name: "regions", text: |page, _, s| page.regions(s) },
    Section { name: "churn", text: |page, _, s| page.churn(s) },
    Section { name: "limitations", text: |page, _, s| page.limitations(s) },
];

/// The output of `vramscope report --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Report"))]
pub struct ReportJson {
    file: String,
    format: &'static str,
    /// Damaged places of the file; null if there are none.
    damage: Option<DamageJson>,
    devices: Vec<DeviceJson>,
}

/// One device of the report.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Device"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "ReportDevice"))]
pub(crate) struct DeviceJson {
    device: i64,
    events: usize,
    /// Event index of the peak of allocated bytes; null if nothing rose above the start.
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
    /// Holders of `peak_allocated_bytes`, largest first. Absent with `--at`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    holders_at_peak: Option<Vec<HolderJson>>,
    /// Categories of `peak_allocated_bytes`, largest first. Absent with `--at`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    categories_at_peak: Option<Vec<CategoryJson>>,
    /// With `--at`: the event, and the counters and holders after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    at: Option<AtJson>,
    /// The evidence for the categories of the holders.
    category_reasons: Vec<ReasonJson>,
    /// The steps of training or serving, if the program repeats itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    steps: Option<StepsJson>,
    /// The phases of all steps, in order of time, if any are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    phases: Option<Vec<PhaseJson>>,
    /// Device memory of the process beside PyTorch's allocator, and host memory that it pinned, at the event of the holders. Only in logs of
    /// `vramscope run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    libraries: Option<Vec<LibraryJson>>,
    /// The driver's counts of the device's memory. Only in logs of `vramscope run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    device_use: Option<DeviceUseJson>,
    /// Functions of the driver that may allocate memory, and whose calls the recorder counts and does not follow. Only in logs of
    /// `vramscope run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    not_followed: Option<Vec<FunctionCallsJson>>,
    pools: Vec<HolderJson>,
    streams: Vec<HolderJson>,
    /// Bytes of holders that `--filter` left out.
    filtered_out_bytes: u64,
    ooms: Vec<OomJson>,
    /// Out-of-memory events beyond those in `ooms`.
    more_ooms: usize,
    /// Three of these further events; null if there are none.
    unexplained_ooms: Option<UnexplainedOomsJson>,
    /// After an out-of-memory failure: the setting that would have worked best on the same device.
    best_setting: Option<BestSettingJson>,
    /// Other settings under which a run without a failed request reserves clearly less; null if none is known.
    less_reserved: Option<LessReservedJson>,
    /// After an out-of-memory failure: another change, if it removes the main cause.
    remedy: Option<RemedyJson>,
    /// Changes of the program that the leak or the failed request points to, the most useful first.
    fixes: Vec<FixJson>,
    /// Growth of allocated bytes per step; null if there is none, or no steps are known.
    growth_per_step_bytes: Option<u64>,
    /// The peak with changes to the program, estimated with `--budget` or after an out-of-memory failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    estimates: Option<EstimatesJson>,
    leaks: Vec<LeakJson>,
    /// Known problems of programs with a caching allocator, most bytes first.
    findings: Vec<AllocatorFindingJson>,
    /// Memory that is live while nothing uses it. Only in logs of phantom GPUs that have accesses.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    idle: Option<IdleJson>,
    /// Tensors whose referrers the program named when it took the snapshot, largest first. With `--at`, those allocated after the event. Only
    /// in recordings with `referrers=True`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    referred_tensors: Option<Vec<ReferredTensorJson>>,
    fragmentation: FragmentationsJson,
    /// The host memory of the process, at its first device. Only in logs of `vramscope run` of a minute or more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    host_memory: Option<HostMemoryJson>,
    /// Buffers of collectives at the event of the holders, most bytes first. Absent if the recording has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    collectives: Option<Vec<CollectiveJson>>,
    /// The private pools at the end, most reserved bytes first.
    private_pools: Vec<PrivatePoolJson>,
    /// The parts of a program with a KV cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    serving: Option<ServingJson>,
    regions: Vec<RegionJson>,
    churn: Vec<ChurnJson>,
    quality: QualityJson,
}

/// The counters after an event, and the holders of the allocated bytes there.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Moment"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "ReportMoment"))]
pub(crate) struct AtJson {
    /// The last event with `--at end`; null if the device has none.
    event: Option<usize>,
    requested_bytes: u64,
    allocated_bytes: u64,
    active_bytes: u64,
    reserved_bytes: u64,
    holders: Vec<HolderJson>,
    categories: Vec<CategoryJson>,
}

/// The best allocator setting found after an out of memory.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "BestSetting"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "BestSetting"))]
pub(crate) struct BestSettingJson {
    conf: String,
    peak_reserved_bytes: u64,
    /// Whether the recording fits up to its end.
    fits: bool,
    /// Present if it does not fit.
    nearest: Option<NearestJson>,
    exact: bool,
    /// Items to add to and remove from the recorded settings.
    add: Vec<String>,
    /// Items to remove from the recorded settings.
    remove: Vec<String>,
    /// If the program grows: the number of further steps before it fails again.
    more_steps: Option<u64>,
    /// Effect of the setting that PyTorch's error message recommends: `was_on`, `helps` or `does_not_help`.
    recommended: &'static str,
}

/// The setting that needs the least memory, if none fits.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Nearest"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Nearest"))]
pub(crate) struct NearestJson {
    conf: String,
    /// Size of a device that fits the run.
    needed_bytes: u64,
    /// `needed_bytes` minus the device size.
    missing_bytes: u64,
}

impl NearestJson {
    pub(crate) fn of(n: &Nearest) -> Self {
        Self { conf: n.conf.clone(), needed_bytes: n.needed, missing_bytes: n.missing }
    }
}

/// Settings under which a run reserves less.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "LessReserved"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "LessReserved"))]
pub(crate) struct LessReservedJson {
    /// Items to add to the recorded settings.
    add: Vec<String>,
    /// Items to remove from the recorded settings.
    remove: Vec<String>,
    /// The peak of reserved bytes in a replay with this change.
    peak_reserved_bytes: u64,
    exact: bool,
}

/// A change other than a setting.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Remedy"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Remedy"))]
pub(crate) struct RemedyJson {
    /// `remove_limit`, `free_outside`, `default_pool`, `no_waiting` or `larger_device`.
    change: &'static str,
    peak_reserved_bytes: u64,
    /// For a larger device: its size in bytes.
    needed_bytes: Option<u64>,
}

impl RemedyJson {
    fn of(remedy: &Remedy) -> Self {
        let (change, peak_reserved_bytes, needed_bytes) = match remedy {
            Remedy::WithoutLimit(peak) => ("remove_limit", *peak, None),
            Remedy::WithoutOutside(peak) => ("free_outside", *peak, None),
            Remedy::WithoutPools(peak) => ("default_pool", *peak, None),
            Remedy::WithoutWaiting(peak) => ("no_waiting", *peak, None),
            Remedy::LargerDevice(nearest, peak) => ("larger_device", *peak, Some(nearest.needed)),
        };
        Self { change, peak_reserved_bytes, needed_bytes }
    }
}

impl ReportJson {
    /// The report of `answers`.
    pub fn new(answers: &Answers<'_>) -> Self {
        let names = Names { trace: &answers.recording.trace, frames: answers.frames };
        let builder = Builder::new(names, answers.top);
        Self {
            file: answers.file.to_owned(),
            format: answers.recording.format.name(),
            damage: DamageJson::of(answers.recording),
            devices: answers.devices.iter().map(|d| builder.device(d, answers.at)).collect(),
        }
    }
}

impl Builder<'_> {
    fn device(&self, s: &Summary, at: Option<When>) -> DeviceJson {
        let EndState { segments, blocks, allocated, active, requested, reserved } = s.end;
        let Peak { moment, .. } = s.peaks.allocated;
        let holders = self.holders(&s.holders, self.top);
        let Counters {
            requested: here_requested,
            allocated: here,
            active: here_active,
            reserved: here_reserved,
        } = s.counters;
        let categories = self.categories(&s.categories);
        let (holders_at_peak, categories_at_peak, at) = match at {
            None => (Some(holders), Some(categories), None),
            Some(when) => {
                let event = match when {
                    When::After(event) => Some(event),
                    When::End => s.moment.event(),
                };
                let at = AtJson {
                    event,
                    requested_bytes: here_requested,
                    allocated_bytes: here,
                    active_bytes: here_active,
                    reserved_bytes: here_reserved,
                    holders,
                    categories,
                };
                (None, None, Some(at))
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
            categories_at_peak,
            at,
            category_reasons: s.reasons.iter().map(ReasonJson::of).collect(),
            steps: StepsJson::of(&s.steps),
            phases: PhaseJson::of(&s.steps),
            libraries: s.libraries.as_deref().map(|uses| self.libraries(uses)),
            device_use: s.device_use.as_ref().map(DeviceUseJson::of),
            not_followed: FunctionCallsJson::of(self.names.trace),
            pools: self.holders(&s.pools, None),
            streams: self.holders(&s.streams, None),
            filtered_out_bytes: s.filtered_out,
            ooms: s.ooms.iter().map(|o| self.oom(o)).collect(),
            more_ooms: s.unexplained_ooms.map_or(0, |unexplained| unexplained.count),
            unexplained_ooms: s.unexplained_ooms.as_ref().map(UnexplainedOomsJson::of),
            best_setting: s.best_setting.as_ref().map(|best| BestSettingJson {
                conf: best.conf.clone(),
                peak_reserved_bytes: best.peak_reserved,
                fits: best.fits,
                nearest: best.nearest.as_ref().map(NearestJson::of),
                exact: best.limitations.is_empty(),
                add: best.change.add.clone(),
                remove: best.change.remove.clone(),
                more_steps: best.more_steps,
                recommended: match best.recommended {
                    Recommended::WasOn => "was_on",
                    Recommended::Helps => "helps",
                    Recommended::DoesNotHelp => "does_not_help",
                },
            }),
            less_reserved: s.less_reserved.as_ref().map(|less| LessReservedJson {
                add: less.change.add.clone(),
                remove: less.change.remove.clone(),
                peak_reserved_bytes: less.peak_reserved,
                exact: less.is_exact,
            }),
            remedy: s.remedy.as_ref().map(RemedyJson::of),
            fixes: s.fixes.iter().map(|fix| self.fix(fix)).collect(),
            growth_per_step_bytes: s.growth_per_step,
            estimates: s.estimates.as_ref().map(|estimates| self.estimates(estimates)),
            leaks: s.leaks.iter().map(|l| self.leak(l)).collect(),
            findings: s.findings.iter().map(|finding| self.allocator_finding(s, finding)).collect(),
            idle: s.idle.as_ref().map(|idle| self.idle(idle)),
            referred_tensors: self.referred_tensors(&s.referred),
            fragmentation: FragmentationsJson {
                at_peak: s.fragmentation.as_ref().map(fragmentation),
                at_end: s.fragmentation_at_end.as_ref().map(fragmentation),
            },
            host_memory: s.host_memory.as_ref().map(HostMemoryJson::of),
            collectives: self.collectives(&s.collectives),
            private_pools: s.private_pools.iter().map(PrivatePoolJson::of).collect(),
            serving: s.serving.as_ref().map(ServingJson::of),
            regions: s.regions.iter().map(region).collect(),
            churn: s.churn.iter().take(self.top.unwrap_or(usize::MAX)).map(|h| self.churn(h)).collect(),
            quality: QualityJson::new(&s.quality),
        }
    }

    fn time(&self, device: i64, moment: Moment) -> Option<i64> {
        let device = self.names.trace.devices.iter().find(|d| d.device == device)?;
        device.events.get(moment.event()?).time_us
    }
}

/// A section of the report on a device, as plain text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "ReportSection"))]
pub struct SectionText {
    /// Its name, as in `leaks`.
    pub name: &'static str,
    /// Its first line.
    pub title: String,
    /// The lines below the title, with their indentation.
    pub lines: Vec<String>,
}

/// The sections of the report that a device has, in order.
pub fn sections(answers: &Answers<'_>, device: &Summary, options: TextOptions) -> Vec<SectionText> {
    let section = |section: &Section| {
        let mut page = Page::of(answers, options);
        (section.text)(&mut page, answers, device);
        let text = anstream::adapter::strip_str(&page.out).to_string();
        let mut lines = text.trim_matches('\n').lines().map(str::to_owned);
        Some(SectionText { name: section.name, title: lines.next()?, lines: lines.collect() })
    };
    SECTIONS.iter().filter_map(section).collect()
}

/// The report of a recording as text with ANSI styles.
pub fn report(answers: &Answers<'_>, options: TextOptions) -> String {
    let mut page = Page::of(answers, options);
    let events = answers.devices.iter().map(|d| d.events).sum();
    page.file(answers.file, answers.recording, events, answers.devices.len());
    for device in &answers.devices {
        page.device(answers, device);
    }
    page.out
}

impl<'r> Page<'r> {
    fn of(answers: &Answers<'r>, options: TextOptions) -> Self {
        let names = Names { trace: &answers.recording.trace, frames: answers.frames };
        Self::new(names, Recorder::of(answers.recording), answers.advice, options)
    }

    fn device(&mut self, answers: &Answers<'_>, s: &Summary) {
        if answers.devices.len() > 1 {
            let rule = "─".repeat(self.options.width.saturating_sub(12).min(60));
            let name = self.names.device(s.device);
            self.heading(&format!("{name} {rule}"));
        }
        if s.events == 0 && s.end.segments == 0 {
            if s.device_use.is_some() || s.libraries.as_ref().is_some_and(|uses| !uses.is_empty()) {
                self.libraries(s);
                let q = &s.quality;
                if q.missing.older_allocations > 0
                    || q.missing.attached
                    || not_followed(self.names.trace).is_some()
                {
                    self.limitations(s);
                }
            } else {
                self.line("Nothing was recorded on this device.");
            }
            return;
        }
        for section in SECTIONS {
            (section.text)(self, answers, s);
        }
    }
}

#[cfg(test)]
mod tests {
    use vramscope_analysis::{Frames, Options, Summary};
    use vramscope_trace::formats;

    use super::*;
    use crate::Advice;
    use crate::json::stacks::MOST_FRAMES;

    /// The report of blocks that are live before recording, each with a stack of `depth` frames.
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
        let recording = formats::read(snapshot.as_bytes()).unwrap();
        let frames = Frames::of(&recording.trace);
        let trace = &recording.trace;
        let devices =
            (0..trace.devices.len()).map(|d| Summary::of(trace, d, &frames, &Options::default())).collect();
        let answers = Answers {
            file: "f",
            recording: &recording,
            frames: &frames,
            devices,
            by: None,
            at: None,
            top: None,
            advice: Advice::default(),
        };
        serde_json::to_value(ReportJson::new(&answers)).unwrap()
    }

    #[test]
    fn deep_stacks_are_cut_at_a_limit() {
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
