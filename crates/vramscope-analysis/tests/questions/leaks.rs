//! Leaks, and patterns that only look like leaks.

use serde_json::{Value, json};
use vramscope_analysis::{Frames, History, Options, Summary, leak_suspects};

use crate::{at_line, defaults, recording};

const KIB: u64 = 1 << 10;

/// A program that allocates from the lines of a file.
#[derive(Default)]
pub(crate) struct Program {
    pub(crate) events: Vec<Value>,
    next: u64,
}

impl Program {
    pub(crate) fn alloc(&mut self, line: u32, size: u64) -> (u64, u64, u32) {
        self.next += 1 << 20;
        self.events.push(at_line("alloc", self.next, size, line));
        (self.next, size, line)
    }

    fn free(&mut self, (address, size, line): (u64, u64, u32)) {
        self.events.push(at_line("free_requested", address, size, line));
        self.events.push(at_line("free_completed", address, size, line));
    }

    /// A training step: activations, then gradients while the activations are freed.
    pub(crate) fn step(&mut self) {
        let activations: Vec<_> = (0..12).map(|i| self.alloc(10 + i, 64 * KIB)).collect();
        for (i, a) in activations.into_iter().enumerate().rev() {
            let gradient = self.alloc(30 + i as u32, 32 * KIB);
            self.free(a);
            self.free(gradient);
        }
    }

    /// Returns the suspected lines.
    fn suspects(self) -> Vec<u32> {
        let trace = recording(self.events, Vec::new(), defaults());
        let history = History::of(&trace, 0);
        let suspects = leak_suspects(&history, &Frames::of(&trace));
        suspects.iter().map(|s| trace.frames.get(s.line).line).collect()
    }
}

#[test]
fn a_list_that_grows_each_step_is_found() {
    let mut p = Program::default();
    for _ in 0..40 {
        p.step();
        p.alloc(99, 4 * KIB);
    }
    assert_eq!(p.suspects(), [99]);
}

#[test]
fn a_leak_has_its_retained_bytes_per_step() {
    let mut p = Program::default();
    for step in 0..40 {
        p.step();
        p.alloc(99, 4 * KIB);
        // A step that retains more does not change the median.
        if step == 20 {
            p.alloc(99, 512 * KIB);
        }
    }
    let trace = recording(p.events, Vec::new(), defaults());
    let summary = Summary::of(&trace, 0, &Frames::of(&trace), &Options::default());
    assert!(summary.steps.steps.len() > 30, "{}", summary.steps.steps.len());
    let told: Vec<_> = summary.leaks.iter().map(|leak| leak.kept_per_step).collect();
    assert_eq!(told, [Some(4 * KIB)]);
}

#[test]
fn the_larger_of_two_leaks_comes_first() {
    let mut p = Program::default();
    for _ in 0..40 {
        p.step();
        p.alloc(98, KIB);
        p.alloc(99, 4 * KIB);
    }
    assert_eq!(p.suspects(), [99, 98]);
}

#[test]
fn parameters_and_optimizer_state_are_no_leak() {
    let mut p = Program::default();
    for _ in 0..50 {
        p.alloc(1, 256 * KIB);
    }
    for step in 0..20 {
        p.step();
        if step == 0 {
            for _ in 0..100 {
                p.alloc(2, 256 * KIB);
            }
        }
    }
    assert_eq!(p.suspects(), Vec::<u32>::new());
}

/// Allocates the new moment of each of 40 parameters and frees other blocks in between. `behind` is called after each.
fn optimizer_step(p: &mut Program, behind: impl Fn(&mut Program, u64)) {
    for parameter in 0..40 {
        for line in [70, 71] {
            let scratch = p.alloc(line, 512 * KIB);
            p.free(scratch);
        }
        p.alloc(99, 64 * KIB);
        behind(p, parameter);
    }
}

/// Returns the program with a wrapper of PyTorch's optimizers around the allocations of these lines.
fn within_optimizer(mut p: Program) -> Program {
    for event in &mut p.events {
        if event["frames"][0]["line"].as_u64().is_some_and(|line| line >= 70)
            && let Some(frames) = event["frames"].as_array_mut()
        {
            let wrapper = "/usr/lib/python3/site-packages/torch/optim/optimizer.py";
            frames.push(json!({"name": "wrapper", "filename": wrapper, "line": 533}));
        }
    }
    p
}

#[test]
fn state_allocated_in_one_optimizer_step_is_no_leak() {
    let steps = |count| {
        let mut p = Program::default();
        for _ in 0..count {
            optimizer_step(&mut p, |_, _| {});
            // The next batch.
            let batch = p.alloc(1, 512 * KIB);
            p.free(batch);
        }
        p
    };
    // Without the frames of an optimizer, the one step is a loop whose blocks accumulate.
    assert_eq!(steps(1).suspects(), [99]);
    assert_eq!(within_optimizer(steps(1)).suspects(), Vec::<u32>::new());
    // Memory that accumulates over many steps is a leak, even inside an optimizer.
    assert_eq!(within_optimizer(steps(5)).suspects(), [99]);
}

#[test]
fn the_layers_of_one_optimizer_step_are_no_steps_of_the_program() {
    let mut p = Program::default();
    for _ in 0..3 {
        let scratch: Vec<_> = (70..78).map(|line| p.alloc(line, 512 * KIB)).collect();
        p.alloc(99, 64 * KIB);
        scratch.into_iter().for_each(|s| p.free(s));
    }
    let steps = |p: Program| {
        let trace = recording(p.events, Vec::new(), defaults());
        Summary::of(&trace, 0, &Frames::of(&trace), &Options::default()).steps.steps.len()
    };
    let events = p.events.clone();
    assert_eq!(steps(p), 3);
    assert_eq!(steps(within_optimizer(Program { events, next: 0 })), 0);
}

#[test]
fn blocks_that_replace_older_ones_are_no_leak() {
    // A recording that begins after the first step: each new moment replaces one from before.
    let late = |size: u64| {
        let mut p = Program::default();
        optimizer_step(&mut p, |p, parameter| p.free(((1 << 40) + (parameter << 20), size, 99)));
        p
    };
    assert_eq!(late(64 * KIB).suspects(), Vec::<u32>::new());
    // The blocks that are freed meanwhile have different sizes.
    assert_eq!(late(KIB).suspects(), [99]);
}

#[test]
fn a_cache_that_fills_up_is_no_leak() {
    let mut p = Program::default();
    for step in 0..60u32 {
        p.step();
        if step < 25 {
            p.alloc(50, 16 * KIB);
        }
    }
    assert_eq!(p.suspects(), Vec::<u32>::new());
}

#[test]
fn loading_a_model_or_one_forward_pass_is_no_leak() {
    let mut p = Program::default();
    for _ in 0..400 {
        p.alloc(5, 512 * KIB);
        let scratch = p.alloc(6, 16 * KIB);
        p.free(scratch);
    }
    assert_eq!(p.suspects(), Vec::<u32>::new());
}

#[test]
fn frees_after_the_last_allocation_hide_no_leak() {
    let mut p = Program::default();
    let mut kept = Vec::new();
    for _ in 0..40 {
        p.step();
        kept.push(p.alloc(99, 4 * KIB));
    }
    // The program ends and frees everything.
    kept.into_iter().for_each(|k| p.free(k));
    assert_eq!(p.suspects(), [99]);
}

#[test]
fn an_empty_recording_has_no_suspects() {
    assert_eq!(Program::default().suspects(), Vec::<u32>::new());
}
