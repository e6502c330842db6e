//! The sections about the steps of a program that repeats itself: typical and unusual steps, and the phases of one step.

use vramscope_analysis::{Step, Summary, phase_totals};

use super::page::{DIM, Page};
use crate::findings::{phases_told, steps_told};
use vramscope_basics::units::{bytes, count, signed_bytes};

impl Page<'_> {
    pub(super) fn steps(&mut self, s: &Summary) {
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
    pub(super) fn phases(&mut self, s: &Summary) {
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
