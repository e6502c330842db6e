//! JSON of `vramscope fleet --json`.

use std::collections::BTreeMap;

use serde::Serialize;
use vramscope_report::Advice;

use crate::answers::FleetAnswers;
use crate::budgets::{Status, Verdict};
use crate::fleet::{
    Card, Imbalances, Kind, LeakOfFleet, Mixed, OomOfRank, Spread, UnreadRank, UnusedOfFleet,
};
use crate::rows::RankRow;
use crate::summary::{
    Course, DeviceUsed, Holders, Leak, Oom, PeakAt, Program, RankSummary, StepsTold, Unused,
};

/// The output of `vramscope fleet --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Fleet"))]
pub struct FleetJson<'f> {
    paths: &'f [String],
    /// The source of the rank numbers; completes "ranks by".
    ranks_by: &'f str,
    /// Files that were left out and summaries that could not be cached, one line each.
    notes: &'f [String],
    /// Whether all budgets are kept; false if one is unknown; null if none was set.
    kept: Option<bool>,
    /// `exceeded` if a budget is exceeded, else `unknown` if one is unknown, else `kept`; null if none was set.
    status: Option<Status>,
    budgets: &'f [Verdict],
    rank_count: usize,
    read_count: usize,
    /// The ranks of each host.
    hosts: &'f BTreeMap<String, Vec<u64>>,
    unread: &'f [UnreadRank],
    /// Rank numbers below the highest without a file.
    missing_ranks: &'f [u64],
    peak_allocated: Option<Spread>,
    peak_reserved: Option<Spread>,
    /// The driver's highest counts of the memory of each rank's device, by all processes; null without a log of `vramscope run`.
    device_used: Option<Spread>,
    /// The parts of these that no recording explains: contexts, kernels and other processes.
    device_rest: Option<Spread>,
    /// Groups of ranks that match, largest first.
    kinds: &'f [Kind],
    imbalances: Option<&'f Imbalances>,
    /// Ranks that ran out of memory, sorted by time; ranks without a time are last.
    out_of_memory: Vec<OomOfRankJson<'f>>,
    leaks: &'f [LeakOfFleet],
    fragmentation: Option<&'f UnusedOfFleet>,
    card: Option<Card>,
    mixed: &'f Mixed,
    /// Ranks whose recordings lack events, so that their peaks may have been others.
    peaks_not_known: &'f [u64],
    /// Ranks whose allocated bytes are partly inferred.
    not_exact: &'f [u64],
    /// Ranks that used further devices, which are not included.
    several_devices: &'f [u64],
    ranks: Vec<RankJson<'f>>,
}

impl<'f> FleetJson<'f> {
    /// Returns the output for `answers`.
    #[must_use]
    pub fn new(answers: &FleetAnswers<'f>) -> Self {
        let FleetAnswers { paths, rule, notes, fleet, verdicts, advice } = *answers;
        let kept = verdicts.iter().all(|verdict| verdict.status == Status::Kept);
        Self {
            paths,
            ranks_by: rule,
            notes,
            kept: (!verdicts.is_empty()).then_some(kept),
            status: Status::of_all(verdicts),
            budgets: verdicts,
            rank_count: fleet.rank_count,
            read_count: fleet.read_count,
            hosts: &fleet.hosts,
            unread: &fleet.unread,
            missing_ranks: &fleet.missing_ranks,
            peak_allocated: fleet.peak_allocated,
            peak_reserved: fleet.peak_reserved,
            device_used: fleet.device_used,
            device_rest: fleet.device_rest,
            kinds: &fleet.kinds,
            imbalances: fleet.imbalances.as_ref(),
            out_of_memory: fleet.out_of_memory.iter().map(|oom| OomOfRankJson::new(oom, &advice)).collect(),
            leaks: &fleet.leaks,
            fragmentation: fleet.fragmentation.as_ref(),
            card: fleet.card,
            mixed: &fleet.mixed,
            peaks_not_known: &fleet.peaks_not_known,
            not_exact: &fleet.not_exact,
            several_devices: &fleet.several_devices,
            ranks: fleet.ranks.iter().map(|row| RankJson::new(row, &advice)).collect(),
        }
    }
}

/// A rank and its recording.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Rank"))]
struct RankJson<'f> {
    rank: u64,
    host: Option<&'f str>,
    /// Its number in each parallel group: `tp`, `pp`, `dp`, `ep`, `cp`.
    groups: &'f BTreeMap<String, u64>,
    file: &'f str,
    /// The reason why the file could not be read.
    unread_because: Option<&'f str>,
    summary: Option<SummaryJson<'f>>,
}

impl<'f> RankJson<'f> {
    fn new(RankRow { rank, file, summary }: &'f RankRow, advice: &Advice) -> Self {
        Self {
            rank: rank.number,
            host: rank.host.as_deref(),
            groups: &rank.groups,
            file,
            unread_because: summary.as_ref().err().map(String::as_str),
            summary: summary.as_ref().ok().map(|summary| SummaryJson::new(summary, advice)),
        }
    }
}

/// The summary of one recording, for the device with the highest peak.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "RankSummary"))]
struct SummaryJson<'f> {
    format: &'f str,
    device: i64,
    /// Further devices that the process used; this summary does not include them.
    other_devices: &'f [i64],
    events: usize,
    begin_us: Option<i64>,
    end_us: Option<i64>,
    peak_allocated: PeakAt,
    peak_reserved: PeakAt,
    /// Allocated bytes before the first event.
    preexisting_bytes: u64,
    /// The first failed request.
    oom: Option<OomJson<'f>>,
    /// The number of failed requests.
    ooms: usize,
    /// Device memory available to the allocator, inferred from the first out-of-memory failure.
    capacity_bytes: Option<u64>,
    /// The driver's highest count of the device's memory; null if the recording has none.
    device_use: Option<DeviceUsed>,
    /// Holders at the peak of allocated bytes, by line.
    lines: &'f Holders,
    /// Holders at that peak, by category.
    categories: &'f Holders,
    /// Holders at that peak, by allocating module without inner modules; empty if no modules are recorded.
    layers: &'f Holders,
    leaks: &'f [Leak],
    /// The number of leaking lines that `leaks` does not list.
    more_leaks: usize,
    /// Unused reserved memory at the peak of allocated bytes; null if no request is known.
    fragmentation_at_peak: Option<Unused>,
    /// Unused reserved memory at the peak of reserved bytes.
    fragmentation_at_most_reserved: Option<Unused>,
    /// The steps of training or serving, if the program repeats itself.
    steps: Option<StepsTold>,
    course: &'f Course,
    /// The PyTorch release, inferred from the recording.
    release: &'f str,
    /// The allocator settings in force, by their keys in `PYTORCH_CUDA_ALLOC_CONF`; null if none are recorded.
    settings: Option<&'f BTreeMap<String, String>>,
    program: &'f Program,
    /// Whether allocated bytes are exact, and not partly inferred.
    is_exact: bool,
    /// Whether the oldest events were probably dropped, so that the peak may have been higher.
    events_dropped: bool,
    /// The limitations of the numbers, one sentence each.
    #[serde(rename = "doubts")]
    limitations: Vec<String>,
    /// Contents of the file that were not used.
    notices: Vec<String>,
}

impl<'f> SummaryJson<'f> {
    fn new(summary: &'f RankSummary, advice: &Advice) -> Self {
        Self {
            format: &summary.format,
            device: summary.device,
            other_devices: &summary.other_devices,
            events: summary.events,
            begin_us: summary.begin_us,
            end_us: summary.end_us,
            peak_allocated: summary.peak_allocated,
            peak_reserved: summary.peak_reserved,
            preexisting_bytes: summary.preexisting_bytes,
            oom: summary.oom.as_ref().map(|oom| OomJson::new(oom, advice)),
            ooms: summary.ooms,
            capacity_bytes: summary.capacity_bytes,
            device_use: summary.device_use,
            lines: &summary.lines,
            categories: &summary.categories,
            layers: &summary.layers,
            leaks: &summary.leaks,
            more_leaks: summary.more_leaks,
            fragmentation_at_peak: summary.fragmentation_at_peak,
            fragmentation_at_most_reserved: summary.fragmentation_at_most_reserved,
            steps: summary.steps,
            course: &summary.course,
            release: &summary.release,
            settings: summary.settings.as_ref(),
            program: &summary.program,
            is_exact: summary.is_exact(),
            events_dropped: summary.events_dropped(),
            limitations: summary.limitations(advice),
            notices: summary.notices.to_string().lines().map(str::to_owned).collect(),
        }
    }
}

/// A failed request.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "RankOutOfMemory"))]
struct OomJson<'f> {
    event: usize,
    time_us: Option<i64>,
    /// The requested bytes, after rounding.
    requested_bytes: u64,
    /// Free device memory according to the driver.
    device_free_bytes: u64,
    allocated_bytes: u64,
    reserved_bytes: u64,
    /// Whether the free device memory and the unused reserved memory together would have been enough.
    enough_in_total: bool,
    /// Whether the device had room for the request, and a limit on reserved bytes prevented it.
    at_limit: bool,
    /// The requesting line.
    line: Option<&'f str>,
    verdict: String,
    /// What to change, in sentences.
    remedy: Option<String>,
}

impl<'f> OomJson<'f> {
    fn new(oom: &'f Oom, advice: &Advice) -> Self {
        Self {
            event: oom.event,
            time_us: oom.time_us,
            requested_bytes: oom.requested_bytes,
            device_free_bytes: oom.device_free_bytes,
            allocated_bytes: oom.allocated_bytes,
            reserved_bytes: oom.reserved_bytes,
            enough_in_total: oom.enough_in_total,
            at_limit: oom.at_limit,
            line: oom.line.as_deref(),
            verdict: oom.verdict(),
            remedy: oom.changes(advice),
        }
    }
}

/// A rank that ran out of memory.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "OutOfMemoryOfRank"))]
struct OomOfRankJson<'f> {
    rank: u64,
    /// Time after the first failing rank in microseconds; null if times are not recorded.
    after_first_us: Option<i64>,
    /// Time after the first event of its recording in microseconds.
    into_recording_us: Option<i64>,
    #[serde(flatten)]
    oom: OomJson<'f>,
    /// The number of further failed requests.
    more: usize,
}

impl<'f> OomOfRankJson<'f> {
    fn new(of: &'f OomOfRank, advice: &Advice) -> Self {
        Self {
            rank: of.rank,
            after_first_us: of.after_first_us,
            into_recording_us: of.into_recording_us,
            oom: OomJson::new(&of.oom, advice),
            more: of.more,
        }
    }
}
