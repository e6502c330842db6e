//! Categories and steps: a training loop written by hand, with and without stacks.

use std::sync::Arc;

use serde_json::{Value, json};
use vramscope_analysis::{
    AllocationCategories, Frames, History, Moment, Options, Origin, Steps, StepsFrom, Summary,
};
use vramscope_trace::{Category, Trace};

use crate::{defaults, recording};

const KIB: u64 = 1 << 10;

/// The place of an allocation in the loop below.
#[derive(Clone, Copy)]
enum Made {
    Setup,
    Batch,
    Forward,
    Backward,
    Optimizer,
    /// Code of the program itself, at a line.
    Own(u32),
    /// The optimizer, called by a hook on the thread of the backward pass.
    Hook,
}

/// A training loop in which the category of each allocation is known.
#[derive(Default)]
struct Loop {
    events: Vec<Value>,
    /// Whether events have stacks.
    with_stacks: bool,
    next: u64,
    /// The category of each allocation, in order.
    truth: Vec<Category>,
    /// The events that start steps.
    starts: Vec<usize>,
}

impl Loop {
    fn alloc(&mut self, size: u64, made: Made, category: Category) -> (u64, u64) {
        let (torch, user) = ("/env/site-packages/torch", "/home/user/train.py");
        let frame =
            |file: String, name: &str, line: u32| json!({"filename": file, "name": name, "line": line});
        let mut frames = match made {
            _ if !self.with_stacks => vec![],
            Made::Setup => vec![frame(format!("{torch}/nn/modules/module.py"), "_apply", 930)],
            Made::Batch => vec![frame(user.to_owned(), "main", 10)],
            Made::Forward => vec![frame(user.to_owned(), "forward", 20)],
            Made::Backward => vec![frame(String::new(), "torch::autograd::Engine::thread_main()", 0)],
            Made::Optimizer => vec![frame(format!("{torch}/optim/adam.py"), "step", 40)],
            Made::Own(line) => vec![frame(user.to_owned(), "main", line)],
            Made::Hook => {
                vec![frame(format!("{torch}/optim/adam.py"), "step", 40), frame(user.to_owned(), "hook", 60)]
            }
        };
        if self.with_stacks && !matches!(made, Made::Backward | Made::Hook) {
            frames.push(frame(user.to_owned(), "<module>", 90));
        }
        let address = (1 << 30) + self.next;
        self.next += size.next_multiple_of(512);
        self.events
            .push(json!({"action": "alloc", "addr": address, "size": size, "stream": 0, "frames": frames}));
        self.truth.push(category);
        (address, size)
    }

    fn free(&mut self, (address, size): (u64, u64)) {
        for action in ["free_requested", "free_completed"] {
            self.events
                .push(json!({"action": action, "addr": address, "size": size, "stream": 0, "frames": []}));
        }
    }

    /// A model with layers of different sizes, trained with Adam; `leak` bytes are retained in every step.
    fn trained(layers: u64, steps: usize, with_stacks: bool, leak: u64) -> Self {
        let mut this = Self { with_stacks, ..Self::default() };
        let size = |layer| (64 + layer) * 4 * KIB;
        for layer in 0..layers {
            this.alloc(size(layer), Made::Setup, Category::Parameter);
        }
        for step in 0..steps {
            this.starts.push(this.events.len());
            let batch = this.alloc(48 * KIB, Made::Batch, Category::Input);
            if leak > 0 {
                this.alloc(leak, Made::Batch, Category::Input);
            }
            let mut kept = Vec::new();
            for layer in 0..layers {
                let scratch = this.alloc(20 * KIB, Made::Forward, Category::Temporary);
                kept.push(this.alloc(100 * KIB + layer * KIB, Made::Forward, Category::Activation));
                this.free(scratch);
            }
            let mut flowing = this.alloc(52 * KIB, Made::Backward, Category::Temporary);
            let mut gradients = Vec::new();
            for layer in (0..layers).rev() {
                gradients.push(this.alloc(size(layer), Made::Backward, Category::Gradient));
                let next = this.alloc(52 * KIB, Made::Backward, Category::Temporary);
                this.free(std::mem::replace(&mut flowing, next));
                this.free(kept.pop().unwrap());
            }
            this.free(flowing);
            this.free(batch);
            if step == 0 {
                for layer in 0..layers * 2 {
                    this.alloc(size(layer / 2), Made::Optimizer, Category::OptimizerState);
                }
            }
            let temporaries: Vec<_> = (0..layers)
                .map(|layer| this.alloc(size(layer), Made::Optimizer, Category::Temporary))
                .collect();
            temporaries.into_iter().rev().for_each(|t| this.free(t));
            gradients.into_iter().for_each(|g| this.free(g));
        }
        this
    }

    fn trace(&self) -> Arc<Trace> {
        recording(self.events.clone(), Vec::new(), defaults())
    }
}

/// Returns the wrong categories with their counts.
fn wrong(program: &Loop, history: &History) -> Vec<(Category, Category, usize)> {
    let categories = AllocationCategories::of(history);
    let recorded = history.allocations.iter().filter(|a| a.origin == Origin::Recorded);
    let told = recorded.zip(&program.truth).enumerate();
    told.map(|(number, (a, &truth))| (truth, categories.category(a), number))
        .filter(|(truth, told, _)| truth != told)
        .collect()
}

#[test]
fn categories_of_a_training_loop_with_stacks_are_exact() {
    for (layers, steps) in [(1, 2), (3, 2), (12, 3), (40, 5)] {
        let program = Loop::trained(layers, steps, true, 0);
        let trace = program.trace();
        let history = History::of(&trace, 0);
        assert_eq!(wrong(&program, &history), [], "{layers} layers, {steps} steps");
        let found = Steps::of(&history, &AllocationCategories::of(&history));
        let starts: Vec<usize> = found.steps.iter().map(|s| s.from.index()).collect();
        assert_eq!(
            (starts, found.told_by),
            (program.starts.clone(), StepsFrom::Optimizer),
            "{layers}, {steps}"
        );
    }
}

#[test]
fn categories_of_a_program_without_modules_follow_from_its_backward_passes() {
    let (layers, size) = (6, |layer: u64| (64 + layer) * 4 * KIB);
    let mut program = Loop { with_stacks: true, ..Loop::default() };
    // At least one stack must show the phases.
    program.alloc(KIB, Made::Setup, Category::Parameter);
    for layer in 0..layers {
        program.alloc(size(layer), Made::Own(1), Category::Parameter);
    }
    let mut state: Vec<(u64, u64)> = Vec::new();
    for _ in 0..4 {
        let kept: Vec<_> =
            (0..layers).map(|_| program.alloc(100 * KIB, Made::Own(2), Category::Input)).collect();
        let gradients: Vec<_> =
            (0..layers).map(|layer| program.alloc(size(layer), Made::Backward, Category::Gradient)).collect();
        kept.into_iter().for_each(|k| program.free(k));
        let flowing = program.alloc(52 * KIB, Made::Backward, Category::Temporary);
        program.alloc(512, Made::Backward, Category::Gradient);
        program.free(flowing);
        // This optimizer allocates its state anew in each step.
        let new: Vec<_> = (0..layers)
            .map(|layer| program.alloc(size(layer), Made::Own(3), Category::OptimizerState))
            .collect();
        std::mem::replace(&mut state, new).into_iter().for_each(|s| program.free(s));
        gradients.into_iter().for_each(|g| program.free(g));
    }
    let trace = program.trace();
    assert_eq!(wrong(&program, &History::of(&trace, 0)), []);
}

#[test]
fn a_hook_that_steps_the_optimizer_does_not_end_the_backward_pass() {
    let mut program = Loop { with_stacks: true, ..Loop::default() };
    let parameters = 6;
    for _ in 0..parameters {
        program.alloc(64 * KIB, Made::Setup, Category::Parameter);
    }
    for step in 0..3 {
        let batch = program.alloc(48 * KIB, Made::Batch, Category::Input);
        let mut kept: Vec<_> =
            (0..parameters).map(|_| program.alloc(100 * KIB, Made::Forward, Category::Activation)).collect();
        for _ in 0..parameters {
            let flowing = program.alloc(52 * KIB, Made::Backward, Category::Temporary);
            if step == 0 {
                program.alloc(64 * KIB, Made::Hook, Category::OptimizerState);
            }
            let needed = program.alloc(64 * KIB, Made::Hook, Category::Temporary);
            program.free(needed);
            program.free(kept.pop().unwrap());
            program.free(flowing);
        }
        program.free(batch);
    }
    let trace = program.trace();
    assert_eq!(wrong(&program, &History::of(&trace, 0)), []);
}

#[test]
fn parameters_that_the_optimizer_binds_to_new_tensors_stay_parameters() {
    let mut program = Loop { with_stacks: true, ..Loop::default() };
    let (layers, size) = (4, 64 * KIB);
    let mut parameters: Vec<_> =
        (0..layers).map(|_| program.alloc(size, Made::Setup, Category::Parameter)).collect();
    let mut states: Vec<(u64, u64)> = Vec::new();
    for _ in 0..4 {
        let kept = program.alloc(100 * KIB, Made::Forward, Category::Activation);
        let gradients: Vec<_> =
            (0..layers).map(|_| program.alloc(size, Made::Backward, Category::Gradient)).collect();
        program.free(kept);
        for layer in 0..layers as usize {
            let state = program.alloc(size, Made::Optimizer, Category::OptimizerState);
            if states.len() > layer {
                program.free(std::mem::replace(&mut states[layer], state));
            } else {
                states.push(state);
            }
            let scaled = program.alloc(size, Made::Optimizer, Category::Temporary);
            let bound = program.alloc(size, Made::Optimizer, Category::Parameter);
            program.free(scaled);
            program.free(std::mem::replace(&mut parameters[layer], bound));
        }
        gradients.into_iter().for_each(|gradient| program.free(gradient));
    }
    let trace = program.trace();
    assert_eq!(wrong(&program, &History::of(&trace, 0)), []);
}

#[test]
fn results_retained_after_the_backward_pass_are_categorized_by_their_use() {
    let mut program = Loop { with_stacks: true, ..Loop::default() };
    program.alloc(64 * KIB, Made::Setup, Category::Parameter);
    let mut held: Vec<(u64, u64)> = Vec::new();
    for _ in 0..4 {
        let hidden = program.alloc(100 * KIB, Made::Forward, Category::Activation);
        // One result is needed by a loss, and of another one the backward pass needs the softmax. The program retains both until
        // they are replaced.
        let result = program.alloc(300 * KIB, Made::Forward, Category::Activation);
        let logits = program.alloc(200 * KIB, Made::Forward, Category::Temporary);
        std::mem::replace(&mut held, vec![result, logits]).into_iter().for_each(|h| program.free(h));
        let softmax = program.alloc(200 * KIB, Made::Forward, Category::Activation);
        let flowing = program.alloc(52 * KIB, Made::Backward, Category::Temporary);
        program.free(softmax);
        program.free(hidden);
        let gradient = program.alloc(64 * KIB, Made::Backward, Category::Gradient);
        program.free(flowing);
        let needed = program.alloc(64 * KIB, Made::Optimizer, Category::Temporary);
        program.free(needed);
        program.free(gradient);
    }
    let trace = program.trace();
    let mut wrong = wrong(&program, &History::of(&trace, 0));
    // Allocations that are open in the last step get the categories of those in the steps before.
    wrong.retain(|&(.., number)| number < program.truth.len() - 8);
    assert_eq!(wrong, []);
}

#[test]
fn categories_without_stacks_follow_from_the_rhythm_of_a_training_loop() {
    for (layers, steps) in [(12, 3), (20, 4), (40, 6)] {
        let program = Loop::trained(layers, steps, false, 0);
        let trace = program.trace();
        let history = History::of(&trace, 0);
        let found = Steps::of(&history, &AllocationCategories::of(&history));
        let starts: Vec<usize> = found.steps.iter().map(|s| s.from.index()).collect();
        assert_eq!((starts, found.told_by), (program.starts.clone(), StepsFrom::Rhythm), "{layers}, {steps}");
        // Without stacks, a batch looks like any other result, and the exact turn of a pass cannot be seen.
        let mut wrong = wrong(&program, &history);
        wrong.retain(|&(truth, ..)| truth != Category::Input);
        assert!(wrong.len() <= 3 * steps, "{layers} layers, {steps} steps: {wrong:?}");
    }
}

/// Without stacks: one step of layers of different sizes. With `gradient`, a backward pass begins with the gradient of the loss; without, the
/// program only evaluates, and frees in the order of its allocations.
fn one_step(gradient: bool) -> Loop {
    let mut this = Loop::default();
    let size = |layer: u64| (64 + layer) * 4 * KIB;
    for layer in 0..6 {
        this.alloc(size(layer), Made::Setup, Category::Parameter);
    }
    let mut saved = vec![this.alloc(8 * KIB, Made::Batch, Category::Input)];
    for layer in 0..6 {
        let result = this.alloc(96 * KIB, Made::Forward, Category::Temporary);
        let activation = if gradient { Category::Activation } else { Category::Temporary };
        saved.push(this.alloc((100 + layer) * KIB, Made::Forward, activation));
        this.free(result);
    }
    let loss = this.alloc(4, Made::Forward, Category::Temporary);
    if !gradient {
        let norm = this.alloc(4, Made::Forward, Category::Temporary);
        saved.into_iter().for_each(|tensor| this.free(tensor));
        this.free(norm);
        this.free(loss);
        this.alloc(16 * KIB, Made::Forward, Category::Unknown);
        return this;
    }
    let seed = this.alloc(4, Made::Backward, Category::Temporary);
    let mut gradients = Vec::new();
    let mut flowing = this.alloc(96 * KIB, Made::Backward, Category::Temporary);
    for layer in (0..6).rev() {
        gradients.push(this.alloc(size(layer), Made::Backward, Category::Gradient));
        let next = this.alloc(96 * KIB, Made::Backward, Category::Temporary);
        this.free(std::mem::replace(&mut flowing, next));
        this.free(saved.pop().unwrap());
    }
    this.free(flowing);
    this.free(saved.pop().unwrap());
    this.free(seed);
    for layer in 0..6 {
        this.alloc(size(layer), Made::Optimizer, Category::OptimizerState);
    }
    let list: Vec<_> =
        (0..6).map(|layer| this.alloc(size(layer), Made::Optimizer, Category::Temporary)).collect();
    list.into_iter().rev().for_each(|tensor| this.free(tensor));
    gradients.into_iter().for_each(|gradient| this.free(gradient));
    this.free(loss);
    this.alloc(8 * KIB, Made::Batch, Category::Unknown);
    this
}

#[test]
fn categories_of_one_step_without_stacks_follow_from_the_gradient_of_its_loss() {
    let program = one_step(true);
    let mut wrong = wrong(&program, &History::of(&program.trace(), 0));
    // Without stacks, a batch looks like any other tensor that the backward pass needs, and so does the loss, which outlives it. The next batch
    // may be for another pass.
    wrong.retain(|&(truth, told, _)| {
        !matches!(truth, Category::Input | Category::Unknown)
            && (truth, told) != (Category::Temporary, Category::Activation)
    });
    assert_eq!(wrong, []);

    let program = one_step(false);
    let trace = program.trace();
    let history = History::of(&trace, 0);
    let categories = AllocationCategories::of(&history);
    for a in &history.allocations {
        assert_eq!(categories.category(a), Category::Unknown, "{a:?}");
    }
}

#[test]
fn a_pass_that_frees_few_tensors_is_recognized_by_its_gradients() {
    let mut program = Loop::default();
    let sizes = [256 * KIB, 4 * KIB];
    for size in sizes {
        program.alloc(size, Made::Setup, Category::Parameter);
    }
    for _ in 0..4 {
        let hidden = program.alloc(100 * KIB, Made::Forward, Category::Activation);
        let loss = program.alloc(4, Made::Forward, Category::Temporary);
        let seed = program.alloc(4, Made::Backward, Category::Temporary);
        let flowing = program.alloc(100 * KIB, Made::Backward, Category::Temporary);
        program.free(hidden);
        let gradients = sizes.map(|size| program.alloc(size, Made::Backward, Category::Gradient));
        for tensor in [flowing, seed, loss].into_iter().chain(gradients) {
            program.free(tensor);
        }
    }
    let mut wrong = wrong(&program, &History::of(&program.trace(), 0));
    // The loss outlives the pass, and tensors of the last pass may be needed by the next.
    wrong.retain(|&(_, told, number)| {
        told != Category::Unknown
            && !(program.truth[number] == Category::Temporary && told == Category::Activation)
    });
    assert_eq!(wrong, []);
}

#[test]
fn repeated_parts_without_stacks_that_retain_their_memory_have_no_category() {
    let mut program = Loop::default();
    (0..12).for_each(|layer| {
        program.alloc((64 + layer) * 4 * KIB, Made::Setup, Category::Unknown);
    });
    for _ in 0..12 {
        for size in [20, 30, 40] {
            let scratch = program.alloc(size * KIB, Made::Forward, Category::Unknown);
            program.alloc((size + 100) * KIB, Made::Forward, Category::Unknown);
            program.free(scratch);
        }
    }
    assert_eq!(wrong(&program, &History::of(&program.trace(), 0)), []);
}

#[test]
fn inference_with_batches_of_any_size_is_recognized_by_the_order_of_its_frees() {
    let mut program = Loop::default();
    (0..6).for_each(|layer| {
        program.alloc((64 + layer) * 4 * KIB, Made::Setup, Category::Parameter);
    });
    for batch in [3, 7, 5, 9, 4, 8] {
        let mut x = program.alloc(batch * 10 * KIB, Made::Batch, Category::Temporary);
        for layer in 0..12 {
            let scratch = program.alloc(batch * KIB, Made::Forward, Category::Temporary);
            let next = program.alloc(batch * (11 + layer) * KIB, Made::Forward, Category::Temporary);
            if layer % 3 > 0 {
                program.free(scratch);
            }
            program.free(std::mem::replace(&mut x, next));
            if layer % 3 == 0 {
                program.free(scratch);
            }
        }
        program.free(x);
    }
    let mut wrong = wrong(&program, &History::of(&program.trace(), 0));
    // The recording ends before another allocation shows what the last tensors were for.
    wrong.retain(|&(.., number)| number < program.truth.len() - 3);
    assert_eq!(wrong, []);
}

#[test]
fn an_unfinished_last_pass_has_the_categories_of_earlier_passes() {
    let program = Loop::trained(8, 3, true, 0);
    for cut in [program.starts[2] + 12, program.starts[2] + 30, program.events.len() - 40] {
        let trace = recording(program.events[..cut].to_vec(), Vec::new(), defaults());
        let history = History::of(&trace, 0);
        let categories = AllocationCategories::of(&history);
        for (a, &truth) in history.allocations.iter().zip(&program.truth) {
            assert_eq!(
                categories.category(a),
                truth,
                "cut at {cut}: {:?} {:?}",
                a.from,
                categories.reason(a)
            );
        }
    }
}

#[test]
fn steps_that_match_are_found_with_the_memory_of_each_step() {
    let program = Loop::trained(6, 5, true, 24 * KIB);
    let trace = program.trace();
    let summary = Summary::of(&trace, 0, &Frames::of(&trace), &Options::default());
    let steps = &summary.steps;
    assert_eq!((steps.steps.len(), steps.usual, steps.first_unusual()), (5, 4, None));
    let kept: Vec<i64> = steps.steps.iter().skip(1).map(|s| s.bytes.kept).collect();
    assert_eq!(kept, [24 * KIB as i64; 4]);
    let highest = steps.steps.iter().max_by_key(|s| s.bytes.peak).unwrap();
    assert_eq!(
        (highest.bytes.peak, highest.bytes.peak_moment),
        (summary.peaks.allocated.bytes, summary.peaks.allocated.moment)
    );
    assert_eq!(steps.at(Moment::START), None);
    assert_eq!(steps.at(Moment::after(program.starts[3])), Some(3));
    let all: u64 = steps.steps.iter().map(|s| s.bytes.allocations).sum();
    assert_eq!(all + 6, program.truth.len() as u64, "the parameters come before the first step");
}

/// The steps of a program that allocates and frees one block of the given size in each step.
fn annotated(sizes: &[u64]) -> Steps {
    let mut time = 0;
    let (mut events, mut annotations) = (Vec::new(), Vec::new());
    for (number, size) in sizes.iter().enumerate() {
        let name = format!("ProfilerStep#{number}");
        let mut annotate = |stage: &str, time_us: i64| {
            annotations.push(json!({"stage": stage, "name": name, "device": 0, "time_us": time_us}));
        };
        annotate("START", time);
        for action in ["alloc", "free_requested", "free_completed"] {
            events.push(json!({"action": action, "addr": 4096, "size": size, "stream": 0, "time_us": time}));
            time += 1;
        }
        annotate("END", time - 1);
    }
    let snapshot = json!({"segments": [], "device_traces": [events], "external_annotations": annotations});
    let trace = vramscope_trace::formats::read(snapshot.to_string().as_bytes()).unwrap().trace;
    let history = History::of(&trace, 0);
    Steps::of(&history, &AllocationCategories::of(&history))
}

#[test]
fn steps_are_unusual_only_where_half_of_them_are_alike() {
    let unusual = |sizes: &[u64]| {
        let found = annotated(sizes);
        assert_eq!((found.steps.len(), found.told_by), (sizes.len(), StepsFrom::Annotations));
        let unusual: Vec<usize> = (0..sizes.len()).filter(|&n| !found.steps[n].is_usual).collect();
        (found.usual, unusual, found.first_unusual(), found.highest(), found.typical())
    };
    let [a, b, c, d, e] = [1, 2, 3, 4, 5].map(|n| n * KIB);
    assert_eq!(unusual(&[b, a, a, c, a, a, b]), (4, vec![0, 3, 6], Some(3), Some(3), Some(4)));
    assert_eq!(unusual(&[a, a, c, d]), (2, vec![2, 3], Some(2), Some(3), Some(2)));
    assert_eq!(unusual(&[a, a, b, c, d, e]), (2, vec![], None, Some(5), Some(3)));
    assert_eq!(unusual(&[a, b, c]), (0, vec![], None, Some(2), Some(1)));
}

#[test]
fn steps_end_at_regions_of_an_optimizer_that_allocates_nothing() {
    let mut program = Loop { with_stacks: true, ..Loop::default() };
    for layer in 1..5 {
        program.alloc(layer * 64 * KIB, Made::Setup, Category::Parameter);
    }
    let mut regions = Vec::new();
    for step in 0..3 {
        program.starts.push(program.events.len());
        let batch = program.alloc((40 + step) * KIB, Made::Batch, Category::Input);
        let activation = program.alloc((100 + step) * KIB, Made::Forward, Category::Activation);
        let flowing = program.alloc((10 + step) * KIB, Made::Backward, Category::Temporary);
        program.free(activation);
        program.free(flowing);
        let begin = program.events.len();
        if step == 0 {
            for layer in 1..5 {
                program.alloc(layer * 64 * KIB, Made::Optimizer, Category::OptimizerState);
            }
        }
        regions.push((begin, program.events.len()));
        program.free(batch);
    }
    for (number, event) in program.events.iter_mut().enumerate() {
        event["time_us"] = json!(10 * number);
    }
    let steps = |name: &dyn Fn(usize) -> String| {
        let annotation = |(number, &(begin, end)): (usize, &(usize, usize))| {
            let mark = |stage: &str, time_us: usize| json!({"stage": stage, "name": name(number), "device": 0, "time_us": time_us});
            [mark("START", 10 * begin - 5), mark("END", (10 * end - 5).max(10 * begin - 4))]
        };
        let annotations: Vec<Value> = regions.iter().enumerate().flat_map(annotation).collect();
        let snapshot =
            json!({"segments": [], "device_traces": [program.events], "external_annotations": annotations});
        let trace = vramscope_trace::formats::read(snapshot.to_string().as_bytes()).unwrap().trace;
        let history = History::of(&trace, 0);
        let found = Steps::of(&history, &AllocationCategories::of(&history));
        (found.steps.iter().map(|s| s.from.index()).collect::<Vec<_>>(), found.told_by)
    };
    let one = |_: usize| "Optimizer.step#SGD.step".to_owned();
    assert_eq!(steps(&one), (program.starts.clone(), StepsFrom::Optimizer));
    let several = |number: usize| format!("Optimizer.step#SGD{number}.step");
    assert_eq!(steps(&several), (program.starts[..2].to_vec(), StepsFrom::Optimizer), "from stacks");
}

#[test]
fn programs_without_phases_have_neither_categories_nor_steps() {
    let mut program = Loop { with_stacks: true, ..Loop::default() };
    let mut state = 1_u64;
    for i in 0..200 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let a = program.alloc((1 + (state >> 33) % 91) * KIB, Made::Batch, Category::Unknown);
        if i % 3 > 0 {
            program.free(a);
        }
    }
    let trace = program.trace();
    let history = History::of(&trace, 0);
    assert_eq!(wrong(&program, &history), []);
    assert_eq!(Steps::of(&history, &AllocationCategories::of(&history)), Steps::default());
}
