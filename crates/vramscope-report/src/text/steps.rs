//! The steps of a program that repeats itself: what each needed, and the first that differs.

use vramscope_analysis::{Step, Steps, StepsFrom, Summary};

use super::page::{DIM, Page};
use vramscope_basics::units::{bytes, count, signed_bytes};

impl Page<'_> {
    pub(super) fn steps(&mut self, s: &Summary) {
        let Steps { steps, told_by, .. } = &s.steps;
        let (Some(first), Some(typical)) = (steps.first(), s.steps.typical()) else { return };
        self.heading(&format!(
            "{:<26}{:>13}{:>13}{:>13}{:>10}",
            format!("Steps ({})", count(steps.len() as u64)),
            "peak",
            "allocated",
            "kept",
            "blocks"
        ));
        self.step("the first", first);
        self.step("one in the middle", &typical);
        let highest = (0..steps.len()).max_by_key(|&n| (steps[n].peak, std::cmp::Reverse(n)));
        let others = [("highest peak", highest), ("first that differs", s.steps.first_unusual())];
        for (what, number) in others {
            if let Some(number) = number.filter(|&n| n > 0) {
                self.step(&format!("{what}: step {}", count(number as u64 + 1)), &steps[number]);
            }
        }
        let alike = match s.steps.usual {
            0 => "No two made the same allocations".to_owned(),
            usual => format!("{} made the same allocations", count(usual as u64)),
        };
        let from = match told_by {
            StepsFrom::Annotations => "A step is a run of ProfilerStep#",
            StepsFrom::Optimizer => "A step ends with that of the optimizer",
            StepsFrom::Rhythm => "Steps are told by the allocations that come back",
        };
        self.words(2, &format!("{from}. {alike}."));
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
