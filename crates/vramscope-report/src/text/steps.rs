//! The section about the steps of a program that repeats itself: typical and unusual steps.

use vramscope_analysis::{Step, Summary};

use super::page::{DIM, Page};
use crate::findings::steps_told;
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

    fn step(&mut self, what: &str, step: &Step) {
        self.line(format!(
            "  {DIM}{what:<24}{DIM:#}{:>13}{:>13}{:>13}{:>10}",
            bytes(step.peak),
            bytes(step.allocated),
            signed_bytes(step.kept),
            count(step.allocations)
        ));
    }
}
