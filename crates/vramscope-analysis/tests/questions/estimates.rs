//! Estimates for a training program of three blocks, compared with a computation by hand.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use vramscope_analysis::{
    Cancel, EstimatedChange, Estimates, Frames, History, MarkedProgram, NoEstimate, Options, Summary,
    Unrecorded,
};
use vramscope_trace::Trace;

use crate::{defaults, recording};

const MIB: u64 = 1 << 20;
const BLOCKS: u64 = 3;

/// A frame of a file, by its line.
fn frame(file: &str, name: &str, line: u32) -> Value {
    json!({"name": name, "filename": file, "line": line})
}

fn call() -> [Value; 2] {
    ["_call_impl", "_wrapped_call_impl"]
        .map(|name| frame("/p/site-packages/torch/nn/modules/module.py", name, 1))
}

/// A stack in a block that line 9 of the model calls.
fn in_block(line: u32) -> Vec<Value> {
    let mut stack = vec![frame("/home/u/block.py", "forward", line)];
    stack.extend(call());
    stack.push(frame("/home/u/model.py", "forward", 9));
    stack.extend(call());
    stack.push(frame("/home/u/train.py", "main", 20));
    stack
}

fn in_optimizer(function: &str) -> Vec<Value> {
    let file = "/p/site-packages/torch/optim/adam.py";
    vec![frame(file, function, 1), frame(file, "step", 2), frame("/home/u/train.py", "main", 22)]
}

/// A recording in the making: each allocation has its number as address.
#[derive(Default)]
struct Program {
    events: Vec<Value>,
    made: u64,
    with_stacks: bool,
}

impl Program {
    fn event(&mut self, action: &str, address: u64, mib: u64, stack: &[Value]) {
        let frames = if self.with_stacks { stack } else { &[] };
        self.events.push(
            json!({"action": action, "addr": address << 30, "size": mib * MIB, "stream": 0, "frames": frames}),
        );
    }

    fn alloc(&mut self, mib: u64, stack: &[Value]) -> (u64, u64) {
        self.made += 1;
        self.event("alloc", self.made, mib, stack);
        (self.made, mib)
    }

    fn free(&mut self, (address, mib): (u64, u64)) {
        self.event("free_completed", address, mib, &[]);
    }

    /// A parameter of 4 MiB, and training steps. Each block saves 10 MiB and its output of 2 MiB. Adam has two states.
    fn new(steps: u64, with_stacks: bool) -> Self {
        let mut this = Self { with_stacks, ..Self::default() };
        let apply = frame("/p/site-packages/torch/nn/modules/module.py", "_apply", 3);
        this.alloc(4, &[apply, frame("/home/u/train.py", "main", 10)]);
        for step in 0..steps {
            let saved = this.forward();
            let gradient = this.alloc(4, &[]);
            saved.into_iter().rev().for_each(|each| this.free(each));
            if step == 0 {
                for _ in 0..2 {
                    this.alloc(4, &in_optimizer("_init_group"));
                }
            }
            let temporary = this.alloc(4, &in_optimizer("_multi_tensor_adam"));
            this.free(temporary);
            this.free(gradient);
        }
        this
    }

    fn forward(&mut self) -> Vec<(u64, u64)> {
        (0..BLOCKS)
            .flat_map(|_| [(10, 5), (2, 6)])
            .map(|(mib, line)| self.alloc(mib, &in_block(line)))
            .collect()
    }

    fn trace(self) -> Arc<Trace> {
        recording(self.events, Vec::new(), defaults())
    }
}

fn estimates(trace: &Arc<Trace>, budget: Option<u64>) -> Option<Estimates> {
    let options = Options { budget, ..Options::default() };
    Summary::of(trace, 0, &Frames::of(trace), &options).estimates
}

/// The estimated peaks in MiB, rounded up.
fn peaks(estimates: &Estimates) -> BTreeMap<&'static str, u64> {
    estimates.estimates.iter().map(|each| (each.change.name(), each.peak.div_ceil(MIB))).collect()
}

#[test]
fn the_changes_of_a_training_step() {
    let trace = Program::new(3, true).trace();
    let of = estimates(&trace, Some(40 * MIB)).unwrap();
    // The parameter, two states, the gradient and all activations.
    assert_eq!(of.peak, (4 + 8 + 4 + BLOCKS * 12) * MIB);
    assert_eq!((of.available, of.overhead, of.unrecorded), (Some(40 * MIB), 0, None));
    let expected = [
        // The outputs of two blocks, and one block that ran again.
        ("activation_checkpointing", 4 + 8 + 4 + 2 * 2 + 10),
        // Half of the activations, and two gradients.
        ("gradient_accumulation", 4 + 8 + 2 * 4 + BLOCKS * 6),
        ("smaller_batch", 4 + 8 + 4 + BLOCKS * 6),
        // The states have a byte and a 64th for each element; rounded up.
        ("adam_8bit", 4 + 3 + 4 + BLOCKS * 12),
    ];
    let found = peaks(&of);
    for (change, peak) in expected {
        assert_eq!(found.get(change), Some(&peak), "{change}: {found:?} {:?}", of.left_out);
    }
    // Those that suffice come first.
    let fit: Vec<bool> = of.estimates.iter().map(|each| of.left(each).unwrap() >= 0).collect();
    assert!(fit.is_sorted_by_key(|fits| !fits) && fit[0] && !fit[fit.len() - 1]);
    let blocks =
        &of.estimates.iter().find(|e| e.change == EstimatedChange::ActivationCheckpointing).unwrap().blocks;
    let [blocks] = &blocks[..] else { panic!("{blocks:?}") };
    assert_eq!((trace.frames.get(blocks.caller).line, blocks.calls), (9, 3));
    let reason = |change| of.left_out.iter().find(|(of, _)| *of == change).map(|(_, reason)| *reason);
    assert_eq!(reason(EstimatedChange::FusedOptimizer), Some(NoEstimate::SavesNothing));
    assert_eq!(reason(EstimatedChange::GradientsToNone), Some(NoEstimate::SavesNothing));
}

/// The estimated peak in MiB with these marks, and the number of allocations that each changes.
fn marked(trace: &Arc<Trace>, marks: &[&str]) -> (u64, Vec<usize>) {
    let marks: Vec<_> = marks.iter().map(|text| text.parse().unwrap()).collect();
    let history = History::replayed(trace, 0);
    let of = MarkedProgram::of(&history, &Frames::of(trace), &marks, &Cancel::default()).unwrap();
    assert_eq!(of.recorded_peak, history.peaks().allocated.bytes);
    (of.peak.div_ceil(MIB), of.marks.into_iter().map(|(_, count)| count).collect())
}

#[test]
fn changes_to_parts_of_a_training_step() {
    let trace = Program::new(3, true).trace();
    let all = BLOCKS * 12;
    // Three steps of six activations, and two states.
    for (marks, peak, counts) in [
        (&[][..], 16 + all, vec![]),
        // The same as the estimates of the whole program.
        (&["batch=x0.5"], 16 + all / 2, vec![18]),
        (&["category:activation=checkpoint"], 16 + 2 * 2 + 10, vec![9]),
        (&["batch=x2"], 16 + 2 * all, vec![18]),
        (&["line:block.py:5=x0.5"], 16 + BLOCKS * 7, vec![9]),
        (&["category:optimizer_state=x0.25"], 8 + 2 + all, vec![2]),
        // The states are only there in the optimizer step, which is not the peak.
        (&["category:optimizer_state=offload"], 8 + all, vec![2]),
        (&["category:optimizer_state=offload", "batch=x0.5"], 8 + all / 2, vec![2, 18]),
        // Without accesses, the last use is not known.
        (&["category:activation=free"], 16 + all, vec![0]),
        (&["category:parameter=offload", "layer:h=checkpoint", "line:lock.py:5=x2"], 16 + all, vec![0, 0, 0]),
    ] {
        assert_eq!(marked(&trace, marks), (peak, counts), "{marks:?}");
    }
}

#[test]
fn changes_to_modules() {
    let mut program = Program::new(3, true);
    let of_block = |event: &&mut Value| {
        event["action"] == "alloc" && [10 * MIB, 2 * MIB].contains(&event["size"].as_u64().unwrap())
    };
    for (at, event) in (0..).zip(program.events.iter_mut().filter(of_block)) {
        let block = at / 2 % BLOCKS;
        event["user_metadata"] =
            format!("vramscope:category=activation;module=h.{block}.mlp;phase=forward").into();
    }
    let trace = program.trace();
    let all = BLOCKS * 12;
    for (mark, peak, count) in [
        ("layer:h.*=checkpoint", 16 + 2 * 2 + 10, 9),
        // The saved 10 MiB of the block in the middle.
        ("layer:h.1=checkpoint", 16 + all - 10, 3),
        ("layer:h.*.mlp=x0.5", 16 + all / 2, 18),
        ("layer:h.3=x2", 16 + all, 0),
        ("layer:h.0.mlp=x2", 16 + all + 12, 6),
    ] {
        assert_eq!(marked(&trace, &[mark]), (peak, vec![count]), "{mark}");
    }
}

#[test]
fn the_optimizer_step_is_the_peak_of_a_small_batch() {
    let mut program = Program::new(2, true);
    // A step whose optimizer has more temporaries than activations.
    let gradient = {
        let saved = program.forward();
        let gradient = program.alloc(4, &[]);
        saved.into_iter().rev().for_each(|each| program.free(each));
        gradient
    };
    let temporary = program.alloc(100, &in_optimizer("_multi_tensor_adam"));
    program.free(temporary);
    program.free(gradient);
    let found = peaks(&estimates(&program.trace(), Some(MIB)).unwrap());
    // The other peak is that of the backward pass.
    assert_eq!(found["fused_optimizer"], 4 + 8 + 4 + BLOCKS * 12);
    assert_eq!(found["optimizer_without_foreach"], 4 + 8 + 4 + BLOCKS * 12);
    assert!(!found.contains_key("activation_checkpointing"), "{found:?}");
}

#[test]
fn the_estimate_of_gradients_to_none_frees_them_after_the_step() {
    let mut program = Program { with_stacks: true, ..Program::default() };
    let apply = frame("/p/site-packages/torch/nn/modules/module.py", "_apply", 3);
    program.alloc(4, &[apply, frame("/home/u/train.py", "main", 10)]);
    for step in 0..3 {
        let saved = program.forward();
        // A temporary of the backward pass, and a gradient in the middle of the first one.
        let temporary = program.alloc(1, &[]);
        let (first, last) = saved.split_at(3);
        last.iter().rev().for_each(|&each| program.free(each));
        if step == 0 {
            program.alloc(4, &[]);
        }
        first.iter().rev().for_each(|&each| program.free(each));
        program.free(temporary);
        if step == 0 {
            for _ in 0..2 {
                program.alloc(4, &in_optimizer("_init_group"));
            }
        }
        let temporary = program.alloc(4, &in_optimizer("_multi_tensor_adam"));
        program.free(temporary);
    }
    let of = estimates(&program.trace(), Some(MIB)).unwrap();
    assert_eq!(of.peak, (4 + 8 + 4 + BLOCKS * 12 + 1) * MIB);
    // The gradient comes back in the middle of the backward pass, when half of the activations are freed.
    assert_eq!(peaks(&of)["gradients_to_none"], 4 + 8 + BLOCKS * 12 + 1);
}

#[test]
fn a_failed_request_counts_and_cuts_off_the_step() {
    let mut program = Program::new(0, true);
    program.forward();
    let stack = in_block(5);
    program.event("oom", 0, 10, &stack);
    let of = estimates(&program.trace(), None).unwrap();
    assert_eq!(of.peak, (4 + BLOCKS * 12 + 10) * MIB);
    assert_eq!((of.unrecorded, of.budget), (Some(Unrecorded::BeforeGradients), None));
    let found = peaks(&of);
    assert_eq!(found["smaller_batch"], 4 + BLOCKS * 6 + 5);
    assert!(found["activation_checkpointing"] < of.peak / MIB, "{found:?}");
}

#[test]
fn an_estimate_that_is_left_out_has_a_reason() {
    let of = estimates(&Program::new(4, false).trace(), Some(MIB)).unwrap();
    let reason =
        |of: &Estimates, change| of.left_out.iter().find(|(of, _)| *of == change).map(|(_, reason)| *reason);
    assert_eq!(reason(&of, EstimatedChange::ActivationCheckpointing), Some(NoEstimate::NoStacks), "{of:?}");
    assert_eq!(reason(&of, EstimatedChange::FusedOptimizer), Some(NoEstimate::NoStacks));
    assert!(of.estimates.iter().all(|each| each.peak < of.peak));

    let mut serving = Program { with_stacks: true, ..Program::default() };
    let block = serving.alloc(4, &[frame("/home/u/serve.py", "main", 1)]);
    serving.free(block);
    let trace = serving.trace();
    assert_eq!(estimates(&trace, None), None);
    let of = estimates(&trace, Some(MIB)).unwrap();
    assert_eq!((of.estimates.len(), of.left_out.len()), (0, EstimatedChange::ALL.len()));
    assert_eq!(reason(&of, EstimatedChange::SmallerBatch), Some(NoEstimate::NoTraining));
}
