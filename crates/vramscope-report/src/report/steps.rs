//! The sections about the steps of a program that repeats itself: typical and unusual steps, and the phases of one step.

use serde::Serialize;
use vramscope_analysis::{PhaseFrom, Step, StepPhase, Steps, StepsFrom, Summary, phase_totals};
use vramscope_basics::units::{bytes, count, signed_bytes};

pub use crate::report::out_of_memory::causes::{
    MainCause, changes_after_oom, nearest, oom_advice, oom_cause, oom_verdict, recorded_conf,
};
use crate::text::lines::DIM;
use crate::text::page::Page;

/// The steps and their source.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Steps"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Steps"))]
pub(crate) struct StepsJson {
    /// `annotations`, `optimizer` or `rhythm`.
    told_by: &'static str,
    /// Index (from 0) of the first step, after the very first, whose allocations differ from those of most steps.
    first_unusual: Option<usize>,
    /// In order of time.
    steps: Vec<StepJson>,
}

/// One step.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Step"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Step"))]
pub(crate) struct StepJson {
    /// Half-open range `first_event..end_event` of event indices.
    first_event: usize,
    /// One past the last event index.
    end_event: usize,
    peak_allocated_bytes: u64,
    /// Event index of the peak; null before the first event.
    peak_event: Option<usize>,
    /// Bytes and number of all blocks allocated in the step.
    allocated_bytes: u64,
    allocations: u64,
    /// Allocated bytes after the step minus those before.
    kept_bytes: i64,
    /// Whether most steps make the same allocations.
    is_usual: bool,
}

/// One phase of a step.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Phase"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Phase"))]
pub(crate) struct PhaseJson {
    /// `forward`, `backward`, `optimizer` or `zero_grad`.
    phase: &'static str,
    /// `recorded`, `region`, `stacks` or `rhythm`; the last two are inferred.
    told_by: &'static str,
    /// Number of the step, from 1; null outside of all steps.
    step: Option<usize>,
    /// Half-open range `first_event..end_event` of event indices.
    first_event: usize,
    /// One past the last event index.
    end_event: usize,
    peak_allocated_bytes: u64,
    /// Event index of the peak; null before the first event.
    peak_event: Option<usize>,
    /// Bytes and number of all blocks allocated in the phase.
    allocated_bytes: u64,
    allocations: u64,
    /// Allocated bytes after the phase minus those before.
    kept_bytes: i64,
}

impl PhaseJson {
    /// `None` if no phases are known.
    pub(crate) fn of(steps: &Steps) -> Option<Vec<Self>> {
        let each = steps.phases.iter().map(|p| Self {
            phase: p.phase.name(),
            told_by: match p.told_by {
                PhaseFrom::Recorded => "recorded",
                PhaseFrom::Region => "region",
                PhaseFrom::Stacks => "stacks",
                PhaseFrom::Rhythm => "rhythm",
            },
            step: p.step.map(|step| step + 1),
            first_event: p.from.index(),
            end_event: p.to.index(),
            peak_allocated_bytes: p.bytes.peak,
            peak_event: p.bytes.peak_moment.event(),
            allocated_bytes: p.bytes.allocated,
            allocations: p.bytes.allocations,
            kept_bytes: p.bytes.kept,
        });
        let each: Vec<Self> = each.collect();
        (!each.is_empty()).then_some(each)
    }
}

impl StepsJson {
    /// `None` if no steps are known.
    pub(crate) fn of(steps: &Steps) -> Option<Self> {
        let told_by = match steps.told_by {
            StepsFrom::Annotations => "annotations",
            StepsFrom::Optimizer => "optimizer",
            StepsFrom::Rhythm => "rhythm",
        };
        let each = steps.steps.iter().map(|s| StepJson {
            first_event: s.from.index(),
            end_event: s.to.index(),
            peak_allocated_bytes: s.bytes.peak,
            peak_event: s.bytes.peak_moment.event(),
            allocated_bytes: s.bytes.allocated,
            allocations: s.bytes.allocations,
            kept_bytes: s.bytes.kept,
            is_usual: s.is_usual,
        });
        let each: Vec<StepJson> = each.collect();
        (!each.is_empty()).then_some(Self { told_by, first_unusual: steps.first_unusual(), steps: each })
    }
}

impl Page<'_> {
    pub(crate) fn steps(&mut self, s: &Summary) {
        let steps = &s.steps.steps;
        let Some((first, later)) = steps.split_first().filter(|(_, later)| !later.is_empty()) else { return };
        self.heading(&format!(
            "{:<26}{:>13}{:>13}{:>13}{:>10}",
            format!("Steps ({})", count(steps.len() as u64)),
            "peak",
            "allocated",
            "retained",
            "blocks"
        ));
        self.step("first", first);
        let Some(median) = s.steps.median() else {
            for (number, step) in later.iter().enumerate() {
                self.step(&format!("step {}", number + 2), step);
            }
            self.words(2, &steps_told(&s.steps));
            return;
        };
        self.step("median peak", &steps[median]);
        let others = [("highest peak", s.steps.highest()), ("first that differs", s.steps.first_unusual())];
        for (what, number) in others {
            if let Some(number) = number.filter(|&n| n > 0) {
                self.step(&format!("{what}: step {}", count(number as u64 + 1)), &steps[number]);
            }
        }
        self.words(2, &steps_told(&s.steps));
    }

    /// The phases of the step with the median peak. Without steps, those of the whole recording.
    pub(crate) fn phases(&mut self, s: &Summary) {
        let step = s.steps.typical().or_else(|| (!s.steps.steps.is_empty()).then_some(0));
        let phases: Vec<_> = s.steps.phases_of(step).collect();
        let Some(told) = phases_told(phases.iter().copied()) else { return };
        let of = step.map_or(String::new(), |step| format!(" of step {}", count(step as u64 + 1)));
        self.heading(&format!(
            "{:<26}{:>13}{:>13}{:>13}{:>10}",
            format!("Phases{of}"),
            "peak",
            "allocated",
            "retained",
            "blocks"
        ));
        let (mut allocated, mut allocations) = (0, 0);
        for t in phase_totals(phases.iter().copied()) {
            let times = if t.count > 1 { format!(" ({})", count(t.count)) } else { String::new() };
            self.figures(
                &format!("{}{times}", t.phase.name()),
                &bytes(t.peak),
                t.allocated,
                &signed_bytes(t.kept),
                t.allocations,
            );
            allocated += t.allocated;
            allocations += t.allocations;
        }
        if let Some(step) =
            step.map(|step| s.steps.steps[step]).filter(|step| step.bytes.allocations > allocations)
        {
            self.figures(
                "outside of phases",
                "",
                step.bytes.allocated - allocated,
                "",
                step.bytes.allocations - allocations,
            );
        }
        self.words(2, &told);
    }

    fn step(&mut self, what: &str, step: &Step) {
        self.figures(
            what,
            &bytes(step.bytes.peak),
            step.bytes.allocated,
            &signed_bytes(step.bytes.kept),
            step.bytes.allocations,
        );
    }

    fn figures(&mut self, what: &str, peak: &str, allocated: u64, retained: &str, blocks: u64) {
        let allocated = bytes(allocated);
        self.line(format!(
            "  {DIM}{what:<24}{DIM:#}{peak:>13}{allocated:>13}{retained:>13}{:>10}",
            count(blocks)
        ));
    }
}

/// How step boundaries were found, and how many steps made the same allocations, in sentences.
pub fn steps_told(steps: &Steps) -> String {
    let from = match steps.told_by {
        StepsFrom::Annotations => "Steps are runs of ProfilerStep#",
        StepsFrom::Optimizer => "Steps end at the optimizer step",
        StepsFrom::Rhythm => "Steps are inferred from repeating allocations",
    };
    let alike = match steps.usual {
        0 => "No two steps made the same allocations".to_owned(),
        usual => format!("{} steps made the same allocations", count(usual as u64)),
    };
    format!("{from}. {alike}.")
}

/// The sources of some phases, in sentences; `None` without phases.
pub fn phases_told<'p>(phases: impl IntoIterator<Item = &'p StepPhase>) -> Option<String> {
    let mut sources: Vec<PhaseFrom> = phases.into_iter().map(|phase| phase.told_by).collect();
    sources.sort_unstable();
    sources.dedup();
    let told = sources.iter().map(|from| match from {
        PhaseFrom::Recorded => "recorded with the allocations",
        PhaseFrom::Region => "regions of the program",
        PhaseFrom::Stacks => "inferred from stacks",
        PhaseFrom::Rhythm => "inferred from repeating allocations",
    });
    let told: Vec<&str> = told.collect();
    let limit = if sources.contains(&PhaseFrom::Rhythm) { " Without stacks, they can be wrong." } else { "" };
    (!told.is_empty()).then(|| format!("Phases are {}.{limit}", told.join(", or ")))
}
