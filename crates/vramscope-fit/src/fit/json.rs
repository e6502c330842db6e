//! JSON of the results.

use serde::Serialize;

use super::change::Change;
use super::runner::{Outcome, Runner};
use super::search::{Found, Row};
use super::vary::Varied;
use crate::phantom::certainty::Certainty;

/// The output of `vramscope fit --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Fit"))]
pub struct Json {
    command: Vec<String>,
    gpu: &'static str,
    total_bytes: u64,
    budget_bytes: u64,
    context_bytes: u64,
    context_high_bytes: u64,
    fits: bool,
    baseline: OutcomeJson,
    repeat: Option<OutcomeJson>,
    deterministic: Option<bool>,
    model: Option<String>,
    changes: Vec<RowJson>,
    dropped: Vec<DroppedJson>,
    vary: Option<VaryJson>,
    stopped: bool,
}

/// The memory of one run.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "FitRun"))]
struct OutcomeJson {
    fits: bool,
    verdict: &'static str,
    certainty: Certainty,
    peak_device_bytes: u64,
    peak_reserved_bytes: u64,
    peak_allocated_bytes: u64,
    ran_out: bool,
    steps: u64,
    recordings: Vec<String>,
}

impl OutcomeJson {
    fn of(outcome: &Outcome) -> Self {
        Self {
            fits: outcome.fits() && outcome.is_certain(),
            verdict: outcome.verdict(),
            certainty: outcome.certainty.clone(),
            peak_device_bytes: outcome.peak_device,
            peak_reserved_bytes: outcome.peak_reserved,
            peak_allocated_bytes: outcome.peak_allocated,
            ran_out: outcome.is_lower_bound,
            steps: outcome.facts.steps,
            recordings: outcome.recordings.iter().map(|file| file.display().to_string()).collect(),
        }
    }
}

/// A change, or several together.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "FitChange"))]
struct RowJson {
    name: String,
    changes: Vec<&'static str>,
    value: Option<u64>,
    run: OutcomeJson,
    left_bytes: i64,
    cost: String,
    recomputed_share: Option<f64>,
    recomputed_by: Option<&'static str>,
    copied_bytes_per_step: Option<u64>,
    blocks: Option<Vec<String>>,
    lines: Vec<String>,
}

/// A change without numbers.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "FitDropped"))]
struct DroppedJson {
    name: String,
    reason: String,
}

/// The numbers of `--vary`.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "FitVary"))]
struct VaryJson {
    name: String,
    low: u64,
    high: u64,
    largest: Option<u64>,
    ignored: bool,
    grows: bool,
    stopped_by: Option<String>,
    points: Vec<PointJson>,
}

/// A measured number.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "FitPoint"))]
struct PointJson {
    value: u64,
    run: OutcomeJson,
}

pub(crate) fn json(runner: &Runner<'_>, found: &Found) -> Json {
    let args = runner.args;
    let row = |row: &Row| RowJson {
        name: row.name(found.varied.as_ref()),
        changes: row.changes.iter().map(Change::key).collect(),
        value: row.value,
        run: OutcomeJson::of(&row.outcome),
        left_bytes: i64::try_from(row.outcome.left(runner.card.total)).unwrap_or(i64::MIN),
        cost: row.cost.text.clone(),
        recomputed_share: row.cost.recomputed_share,
        recomputed_by: row.cost.recomputed_by,
        copied_bytes_per_step: row.cost.copied_bytes,
        blocks: row.changes.iter().find_map(|change| match change {
            Change::Checkpoint { paths, .. } => Some(paths.clone()),
            _ => None,
        }),
        lines: row.changes.iter().flat_map(|change| change.lines(&found.facts)).collect(),
    };
    let vary = |varied: &Varied| VaryJson {
        name: varied.name.clone(),
        low: varied.low,
        high: varied.high,
        largest: varied.largest,
        ignored: varied.is_ignored(),
        grows: varied.contradiction().is_none(),
        stopped_by: varied.stopped_by.clone(),
        points: varied
            .points
            .iter()
            .map(|(value, outcome)| PointJson { value: *value, run: OutcomeJson::of(outcome) })
            .collect(),
    };
    Json {
        command: args.command.iter().map(|part| part.to_string_lossy().into_owned()).collect(),
        gpu: args.on.gpu.name,
        total_bytes: args.on.total_bytes(),
        budget_bytes: runner.card.total,
        context_bytes: *runner.card.context.start(),
        context_high_bytes: *runner.card.context.end(),
        fits: found.fits(),
        baseline: OutcomeJson::of(&found.baseline),
        repeat: found.repeat.as_ref().map(OutcomeJson::of),
        deterministic: found.repeat.as_ref().map(|_| !found.is_random()),
        model: found.facts.model.as_ref().map(|model| model.class.clone()),
        changes: found.rows.iter().map(row).collect(),
        dropped: found
            .dropped
            .iter()
            .map(|dropped| DroppedJson { name: dropped.name.clone(), reason: dropped.reason.clone() })
            .collect(),
        vary: found.varied.as_ref().map(vary),
        stopped: found.is_stopped,
    }
}
