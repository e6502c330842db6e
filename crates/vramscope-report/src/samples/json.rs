//! JSON of `vramscope report --json` for a log of samples.

use serde::Serialize;
use serde_json::{Map, Value};
use vramscope_analysis::{Growing, OutsidePart, PoolUse, SamplesSummary, Spike};
use vramscope_trace::samples::{Call, DeviceMemorySource, LogEnd, LogEvent, PhaseSeen, Quantity, Values};

use crate::answers::SampleAnswers;
use crate::samples::sentences::{advice, findings, limitations};

/// The output of `vramscope report --json` for a log of samples.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Samples"))]
pub struct SamplesJson {
    file: String,
    format: &'static str,
    compression: &'static str,
    source: Option<String>,
    collector: Option<String>,
    ended: Option<&'static str>,
    devices: Vec<DeviceJson>,
    functions: Vec<CallJson>,
    more_events: u64,
    bad_rows: u64,
    first_bad_row: Option<u64>,
    cut_off: bool,
    unordered_rows: u64,
    left_out_samples: u64,
}

/// The samples of one device.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "SampledDevice"))]
struct DeviceJson {
    device: Option<i64>,
    rank: Option<i64>,
    samples: u64,
    missed_samples: u64,
    first_time_us: Option<i64>,
    last_time_us: Option<i64>,
    interval_us: u64,
    longest_silence: Option<IntervalJson>,
    main: &'static str,
    device_total_bytes: Option<u64>,
    /// Source of the device's bytes: `driver`, `nvml`, `nvml_mig` (a MIG instance) or `meminfo` (the host's memory, which the GPU shares);
    /// null if the log does not have it.
    device_source: Option<&'static str>,
    high_is_exact: bool,
    quantities: Vec<QuantityJson>,
    growing: Vec<GrowingJson>,
    spikes: Vec<SpikeJson>,
    pool: Option<PoolJson>,
    hidden: Option<OutsideJson>,
    others: Option<OutsideJson>,
    failed_requests: u64,
    num_alloc_retries: u64,
    events: Vec<EventJson>,
    phases: Vec<PhaseJson>,
    /// Sentences at the start and at the end of the text report.
    findings: Vec<String>,
    advice: Vec<&'static str>,
    #[serde(rename = "doubts")]
    limitations: Vec<String>,
}

/// A time span.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "SampledSpan"))]
struct IntervalJson {
    from_us: i64,
    to_us: i64,
}

/// The course of one quantity.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "SampledQuantity"))]
struct QuantityJson {
    quantity: &'static str,
    most_seen_bytes: Option<u64>,
    highest_bytes: u64,
    highest_time_us: i64,
    lowest_bytes: u64,
    end_bytes: Option<u64>,
}

/// A quantity that keeps growing.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "SampledGrowth"))]
struct GrowingJson {
    quantity: &'static str,
    grown_bytes: u64,
    bytes_per_hour: f64,
    floor_bytes: Vec<u64>,
    rises: usize,
    repeats: bool,
    full_in_us: Option<u64>,
}

/// A short rise.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "SampledSpike"))]
struct SpikeJson {
    quantity: &'static str,
    bytes: u64,
    usual_bytes: u64,
    from_us: i64,
    time_us: i64,
    to_us: i64,
    is_last: bool,
    phase: Option<String>,
}

/// The memory of the pool.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "SampledPool"))]
struct PoolJson {
    highest_reserved_bytes: u64,
    highest_in_use_bytes: u64,
    never_in_use_bytes: u64,
    unused_on_average_bytes: u64,
    unused_at_most_bytes: u64,
    unused_at_end_bytes: u64,
    internal_bytes: Option<u64>,
    is_fragmented: bool,
}

/// Memory outside of the pool.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "SampledOutside"))]
struct OutsideJson {
    lowest_bytes: u64,
    highest_bytes: u64,
    highest_time_us: i64,
    end_bytes: u64,
}

/// An event of the log.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "SampledEvent"))]
struct EventJson {
    time_us: i64,
    kind: &'static str,
    message: String,
    /// Values of the sample before the event, by quantity.
    before: Map<String, Value>,
}

/// A phase of the program.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "SampledPhase"))]
struct PhaseJson {
    phase: String,
    samples: u64,
    highest: Map<String, Value>,
}

/// The measured calls of one function.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "SampledCall"))]
struct CallJson {
    name: String,
    calls: u64,
    peak_bytes: Option<u64>,
    kept_bytes: i64,
}

impl SamplesJson {
    /// The report of `answers`; `top` limits the lists of spikes, events and phases if the user asked for a limit.
    pub fn new(answers: &SampleAnswers<'_>, top: Option<usize>) -> Self {
        let (log, top) = (answers.log, top.unwrap_or(usize::MAX));
        let device = |s: &SamplesSummary| DeviceJson::of(answers, s, top);
        let call = |call: &Call| CallJson {
            name: call.name.clone(),
            calls: call.calls,
            peak_bytes: call.peak,
            kept_bytes: call.kept,
        };
        Self {
            file: answers.file.to_owned(),
            format: log.form.name(),
            compression: answers.compression.name(),
            source: log.source.clone(),
            collector: log.collector.clone(),
            ended: log.ended.map(|end| match end {
                LogEnd::Stopped => "stopped",
                LogEnd::Gone => "gone",
            }),
            devices: answers.devices.iter().map(device).collect(),
            functions: log.calls.iter().take(top).map(call).collect(),
            more_events: log.more_events,
            bad_rows: log.damage.bad_rows,
            first_bad_row: log.damage.first_bad_row,
            cut_off: log.damage.cut_off,
            unordered_rows: log.damage.unordered,
            left_out_samples: log.damage.left_out,
        }
    }
}

impl DeviceJson {
    fn of(answers: &SampleAnswers<'_>, s: &SamplesSummary, top: usize) -> Self {
        let quantities = s.quantities.iter().map(|range| QuantityJson {
            quantity: range.quantity.name(),
            most_seen_bytes: range.most_seen,
            highest_bytes: range.highest.bytes,
            highest_time_us: range.highest.time_us,
            lowest_bytes: range.lowest,
            end_bytes: range.last,
        });
        Self {
            device: s.device,
            rank: s.rank,
            samples: s.samples,
            missed_samples: s.missed,
            first_time_us: s.time_us.map(|(first, _)| first),
            last_time_us: s.time_us.map(|(_, last)| last),
            interval_us: s.interval_us,
            longest_silence: s.longest_silence.map(|(from_us, to_us)| IntervalJson { from_us, to_us }),
            main: s.main.name(),
            device_total_bytes: s.device_total,
            device_source: s.device_source.map(DeviceMemorySource::name),
            high_is_exact: s.high_is_exact,
            quantities: quantities.collect(),
            growing: s.growing.iter().map(growing).collect(),
            spikes: s.spikes.iter().take(top).map(spike).collect(),
            pool: s.pool.as_ref().map(pool),
            hidden: s.outside.map(|outside| part(&outside.hidden)),
            others: s.outside.and_then(|outside| outside.others).map(|others| part(&others)),
            failed_requests: s.failed_requests,
            num_alloc_retries: s.retries,
            events: s.events.iter().take(top).map(event).collect(),
            phases: s.phases.iter().take(top).map(phase).collect(),
            findings: findings(s).into_iter().map(|found| found.text).collect(),
            advice: advice(s),
            limitations: limitations(answers, s),
        }
    }
}

fn growing(growing: &Growing) -> GrowingJson {
    GrowingJson {
        quantity: growing.quantity.name(),
        grown_bytes: growing.bytes(),
        bytes_per_hour: growing.bytes_per_hour.round(),
        floor_bytes: growing.floor.to_vec(),
        rises: growing.rises,
        repeats: growing.repeats,
        full_in_us: growing.full_in_us,
    }
}

fn spike(spike: &Spike) -> SpikeJson {
    SpikeJson {
        quantity: spike.quantity.name(),
        bytes: spike.bytes,
        usual_bytes: spike.usual,
        from_us: spike.from_us,
        time_us: spike.time_us,
        to_us: spike.to_us,
        is_last: spike.is_last,
        phase: spike.phase.clone(),
    }
}

fn pool(pool: &PoolUse) -> PoolJson {
    PoolJson {
        highest_reserved_bytes: pool.reserved.bytes,
        highest_in_use_bytes: pool.in_use.bytes,
        never_in_use_bytes: pool.never_in_use,
        unused_on_average_bytes: pool.unused_on_average,
        unused_at_most_bytes: pool.unused_at_most,
        unused_at_end_bytes: pool.unused_at_end,
        internal_bytes: pool.internal,
        is_fragmented: pool.is_fragmented,
    }
}

fn part(part: &OutsidePart) -> OutsideJson {
    OutsideJson {
        lowest_bytes: part.lowest,
        highest_bytes: part.highest.bytes,
        highest_time_us: part.highest.time_us,
        end_bytes: part.last,
    }
}

fn event((event, before): &(LogEvent, Values)) -> EventJson {
    EventJson {
        time_us: event.time_us,
        kind: event.kind.name(),
        message: event.message.clone(),
        before: known(before),
    }
}

fn phase(phase: &PhaseSeen) -> PhaseJson {
    PhaseJson { phase: phase.path.clone(), samples: phase.samples, highest: known(&phase.highest) }
}

/// The known quantities, with keys as `allocated_bytes`.
fn known(values: &Values) -> Map<String, Value> {
    let known = |q: Quantity| Some((format!("{}_bytes", q.name()), values.get(q)?.into()));
    Quantity::ALL.into_iter().filter_map(known).collect()
}
