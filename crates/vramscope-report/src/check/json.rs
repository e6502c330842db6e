//! JSON of `vramscope check --json`.

use serde::Serialize;
use vramscope_analysis::{
    Both, BudgetCheck, BudgetStatus, DeviceVerdict, Growth, HighWater, HolderChange, Measured, Unknown,
};

use crate::advice::Advice;
use crate::answers::CheckAnswers;
use crate::check::sentences::{budget, kind, notes, sentence};
use crate::diff::changes;
use crate::json::stacks::Builder;
use crate::names::Names;
use crate::report::holders::HolderJson;
use crate::report::leaks::LeakJson;
use crate::report::limitations::{DamageJson, QualityJson};
use crate::report::out_of_memory::OomJson;

/// The output of `vramscope check --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Check"))]
pub struct CheckJson {
    file: String,
    format: &'static str,
    baseline: Option<String>,
    /// Whether all budgets are kept; false if one is unknown.
    kept: bool,
    /// `exceeded` if a budget is exceeded, else `unknown` if one is unknown, else `kept`.
    status: &'static str,
    /// Damaged places of the file; null if there are none.
    damage: Option<DamageJson>,
    devices: Vec<DeviceCheckJson>,
    /// Devices that were used only in the baseline.
    only_in_baseline: Vec<i64>,
}

/// The verdicts on one device.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "DeviceCheck"))]
struct DeviceCheckJson {
    device: i64,
    events: usize,
    verdicts: Vec<VerdictJson>,
    quality: QualityJson,
    /// Null if there is no baseline or the baseline lacks this device.
    baseline_quality: Option<QualityJson>,
    /// The limitations of the numbers, as in the text output.
    notes: Vec<String>,
}

/// The verdict on one budget.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Verdict"))]
struct VerdictJson {
    budget: String,
    /// `kept`, `exceeded` or `unknown`.
    status: &'static str,
    unknown_because: Option<&'static str>,
    /// The verdict as in the text output.
    text: String,
    #[serde(flatten)]
    measured: MeasuredJson,
}

/// The measured values of a budget.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Measured"))]
#[serde(untagged)]
enum MeasuredJson {
    Peak {
        /// `requested`, `allocated`, `active` or `reserved`.
        kind: Option<&'static str>,
        limit_bytes: u64,
        peak: HighWaterJson,
        holders: Vec<HolderJson>,
    },
    Growth {
        kind: Option<&'static str>,
        /// The largest peak that keeps the budget; null without a baseline peak.
        limit_bytes: Option<u64>,
        max_growth_bytes: Option<u64>,
        /// Null if the budget is in bytes.
        max_growth_percent: Option<f64>,
        peak: HighWaterJson,
        baseline_peak: Option<HighWaterJson>,
        /// Lines with more bytes than at the baseline's peak, largest growth first.
        grown: Vec<GrownJson>,
    },
    Category {
        category: &'static str,
        limit_bytes: u64,
        peak_bytes: u64,
        /// Event index of the peak, its first occurrence; null before the first event.
        peak_event: Option<usize>,
        /// Holders of the category at the peak.
        holders: Vec<HolderJson>,
    },
    Leaks {
        leaks: Vec<LeakJson>,
    },
    Ooms {
        ooms: Vec<OomJson>,
        more_ooms: usize,
    },
}

/// A peak.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "HighWater"))]
struct HighWaterJson {
    bytes: u64,
    /// Event index of the peak, its first occurrence; null before the first event.
    event: Option<usize>,
    /// Allocated bytes at that event.
    allocated_bytes: u64,
    exact: bool,
}

/// A line that holds more bytes than at the peak of the baseline.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "GrownLine"))]
struct GrownJson {
    key: String,
    bytes: u64,
    baseline_bytes: u64,
    grown_bytes: u64,
}

impl CheckJson {
    /// The output for `answers`.
    pub fn new(answers: &CheckAnswers<'_>) -> Self {
        let names = Names { trace: &answers.recording.trace, frames: answers.frames };
        let builder = Builder::new(names, None);
        Self {
            file: answers.file.to_owned(),
            format: answers.recording.format.name(),
            baseline: answers.baseline.map(str::to_owned),
            kept: answers.devices.iter().all(BudgetCheck::keeps_all),
            status: match answers.devices.as_slice() {
                devices if devices.iter().any(BudgetCheck::exceeds_one) => "exceeded",
                devices if devices.iter().all(BudgetCheck::keeps_all) => "kept",
                _ => "unknown",
            },
            damage: DamageJson::of(answers.recording),
            devices: answers.devices.iter().map(|d| device(&builder, answers, d)).collect(),
            only_in_baseline: answers.only_in_baseline.clone(),
        }
    }
}

fn device(builder: &Builder<'_>, answers: &CheckAnswers<'_>, d: &BudgetCheck) -> DeviceCheckJson {
    DeviceCheckJson {
        device: d.device,
        events: d.events,
        verdicts: d.verdicts.iter().map(|v| verdict(builder, &answers.advice, d, v)).collect(),
        quality: QualityJson::new(&d.quality),
        baseline_quality: d.baseline_quality.as_ref().map(QualityJson::new),
        notes: notes(answers, d),
    }
}

fn verdict(builder: &Builder<'_>, advice: &Advice, device: &BudgetCheck, v: &DeviceVerdict) -> VerdictJson {
    let (status, unknown_because) = match v.status {
        BudgetStatus::Kept => ("kept", None),
        BudgetStatus::Exceeded => ("exceeded", None),
        BudgetStatus::Unknown(why) => ("unknown", Some(because(why))),
    };
    VerdictJson {
        budget: budget(&v.measured).replace('-', "_"),
        status,
        unknown_because,
        text: sentence(&builder.names, advice, device.device, v),
        measured: measured(builder, &v.measured),
    }
}

fn measured(builder: &Builder<'_>, measured: &Measured) -> MeasuredJson {
    let kind = kind(measured);
    match measured {
        Measured::Peak { limit, peak, holders, .. } => MeasuredJson::Peak {
            kind,
            limit_bytes: *limit,
            peak: high_water(peak),
            holders: builder.holders(holders, None),
        },
        Measured::Growth { growth, peak, baseline, lines, .. } => {
            let max_growth_bytes = baseline.map(|b| growth.over(b.peak.bytes));
            MeasuredJson::Growth {
                kind,
                limit_bytes: baseline.zip(max_growth_bytes).map(|(b, g)| b.peak.bytes.saturating_add(g)),
                max_growth_bytes,
                max_growth_percent: match growth {
                    Growth::Bytes(_) => None,
                    Growth::Percent(percent) => Some(*percent),
                },
                peak: high_water(peak),
                baseline_peak: baseline.as_ref().map(high_water),
                grown: lines.iter().map(|g| grown(&builder.names, g)).collect(),
            }
        }
        Measured::Category { category, limit, peak, holders } => MeasuredJson::Category {
            category: category.name(),
            limit_bytes: *limit,
            peak_bytes: peak.bytes,
            peak_event: peak.moment.event(),
            holders: builder.holders(holders, None),
        },
        Measured::Leaks(suspects) => {
            MeasuredJson::Leaks { leaks: suspects.iter().map(|l| builder.leak(l)).collect() }
        }
        Measured::Ooms { explained, more } => {
            MeasuredJson::Ooms { ooms: explained.iter().map(|o| builder.oom(o)).collect(), more_ooms: *more }
        }
    }
}

fn high_water(high: &HighWater) -> HighWaterJson {
    HighWaterJson {
        bytes: high.peak.bytes,
        event: high.peak.moment.event(),
        allocated_bytes: high.allocated,
        exact: high.exact,
    }
}

fn grown(names: &Names<'_>, line: &HolderChange) -> GrownJson {
    let Both { a: baseline_bytes, b: bytes } = line.held().map(|held| held.bytes);
    let key = changes::holder(line, &Both { a: *names, b: *names });
    GrownJson { key, bytes, baseline_bytes, grown_bytes: bytes.saturating_sub(baseline_bytes) }
}

fn because(why: Unknown) -> &'static str {
    match why {
        Unknown::NoHistory => "no_history",
        Unknown::NoStacks => "no_stacks",
        Unknown::NoCategories => "no_categories",
        Unknown::NoBaseline => "no_baseline",
        Unknown::NoBaselineHistory => "no_baseline_history",
        Unknown::EventsDropped => "events_dropped",
        Unknown::BaselineEventsDropped => "baseline_events_dropped",
        Unknown::NoFailedRequests => "no_failed_requests",
        Unknown::NoSegments => "no_segments",
        Unknown::Damaged => "damaged",
        Unknown::Contradictions => "contradictions",
        Unknown::EndsEarly => "ends_early",
        Unknown::CountedMore => "counted_more",
        Unknown::UnknownEvents => "unknown_events",
        Unknown::BaselineIncomplete => "baseline_incomplete",
    }
}
