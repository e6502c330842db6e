//! Plans: their places against a check of their own, and replays with them.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use vramscope_analysis::{
    Capacity, DeviceReplay, Frames, History, Plan, PlanReplay, PlanSource, PlannedRequest, ReplayOptions,
    Setting, StepPlan,
};
use vramscope_trace::{PoolId, Trace, formats};

use crate::{MIB, alloc, free};

/// What a program does in one step, or before its steps.
#[derive(Debug, Clone)]
enum Act {
    Malloc {
        size: u64,
        stream: u64,
    },
    /// Frees the live block at this index, modulo their number.
    Free(usize),
}

fn acts(most: usize) -> impl Strategy<Value = Vec<Act>> {
    let size = prop_oneof![3 => 1u64..5000, 2 => 1u64..8 * MIB, 1 => MIB..40 * MIB];
    let act = prop_oneof![
        3 => (size, prop_oneof![4 => Just(0u64), 1 => Just(7u64)]).prop_map(|(size, stream)| Act::Malloc { size, stream }),
        2 => any::<usize>().prop_map(Act::Free),
    ];
    prop::collection::vec(act, 4..most)
}

/// Events of a program with annotated steps. Blocks of a step that it does not free are freed in the next step, before its
/// request with this index.
struct Program {
    events: Vec<Value>,
    notes: Vec<Value>,
    live: Vec<u64>,
    blocks: u64,
}

impl Program {
    fn new() -> Self {
        Self { events: Vec::new(), notes: Vec::new(), live: Vec::new(), blocks: 0 }
    }

    fn push(&mut self, mut event: Value) {
        event["time_us"] = json!(self.events.len() + 1);
        self.events.push(event);
    }

    fn malloc(&mut self, size: u64, stream: u64) {
        self.blocks += 1;
        let mut event = alloc(self.blocks, size);
        event["stream"] = json!(stream);
        self.push(event);
        self.live.push(self.blocks);
    }

    fn act(&mut self, acts: &[Act]) {
        for act in acts {
            match *act {
                Act::Malloc { size, stream } => self.malloc(size, stream),
                Act::Free(which) if !self.live.is_empty() => {
                    let block = self.live.swap_remove(which % self.live.len());
                    self.push(free(block));
                }
                Act::Free(_) => {}
            }
        }
    }

    /// One step, of which `carried` blocks live into the next step.
    fn step(&mut self, number: usize, acts: &[Act], carried: usize) {
        let begin = self.events.len();
        let before = std::mem::take(&mut self.live);
        self.malloc(3000, 0);
        let all: Vec<u64> = before.into_iter().chain(std::mem::take(&mut self.live)).collect();
        for block in all {
            self.push(free(block));
        }
        self.act(acts);
        while self.live.len() > carried {
            let block = self.live.remove(0);
            self.push(free(block));
        }
        let note = |stage: &str, at: usize| json!({"stage": stage, "name": format!("ProfilerStep#{number}"), "device": 0, "time_us": at});
        self.notes.push(note("START", begin + 1));
        self.notes.push(note("END", self.events.len()));
    }

    fn trace(&self) -> Arc<Trace> {
        let snapshot = json!({"segments": [], "device_traces": [self.events],
            "external_annotations": self.notes, "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": ""}});
        formats::read(snapshot.to_string().as_bytes()).unwrap().trace
    }
}

fn replayed(trace: &Arc<Trace>, options: ReplayOptions) -> DeviceReplay {
    DeviceReplay::of(trace, 0, &Frames::of(trace), &options, &|| {}).unwrap()
}

fn with_plan(trace: &Arc<Trace>) -> (DeviceReplay, PlanReplay) {
    with_plan_of(trace, false)
}

fn with_plan_of(trace: &Arc<Trace>, share_streams: bool) -> (DeviceReplay, PlanReplay) {
    let plan = Some(PlanSource::Recording { share_streams });
    let options = ReplayOptions { plan, ..ReplayOptions::default() };
    let replayed = replayed(trace, options);
    let plan = replayed.plan.clone().unwrap();
    (replayed, plan)
}

/// A live planned block: its allocation, stream and bytes.
type Placed = (u32, u32, u64, u64);

/// Runs the recorded requests against the plan alone, without any allocator. Returns the number of planned requests, or the two
/// allocations that overlap. A request of another size than the plan's ends the check: from there the plan promises nothing.
fn check(trace: &Arc<Trace>, plan: &Plan, steps: bool) -> Result<usize, (u32, u32)> {
    check_from(0, trace, plan, steps)
}

/// Like [`check`], for a plan that begins with the request at this index.
fn check_from(first: usize, trace: &Arc<Trace>, plan: &Plan, steps: bool) -> Result<usize, (u32, u32)> {
    let history = History::of(trace, 0);
    let mut streams: Vec<u64> = vec![0];
    let mut live: Vec<Placed> = Vec::new();
    let whole = plan.startup().len() + plan.step().len();
    let mut planned = 0;
    let requests = history.allocations.iter().enumerate().filter(|(_, a)| {
        a.tags.and_then(|tags| trace.tags.get(tags).pool).unwrap_or_default() == PoolId::default()
    });
    for (n, (index, a)) in requests.enumerate() {
        let stream = streams.iter().position(|&s| s == a.stream).unwrap_or_else(|| {
            streams.push(a.stream);
            streams.len() - 1
        });
        let Some(n) = n.checked_sub(first) else { continue };
        let request: &PlannedRequest = if n < plan.startup().len() {
            &plan.startup()[n]
        } else if plan.step().is_empty() || (n >= whole && !steps) {
            break;
        } else {
            &plan.step()[(n - plan.startup().len()) % plan.step().len()]
        };
        let size = a.requested.max(1).next_multiple_of(512);
        if (request.size, request.stream as usize) != (size, stream) {
            break;
        }
        live.retain(|&(other, ..)| history.allocations[other as usize].to > a.from);
        let Some(offset) = request.offset else { continue };
        let is_shared = plan.shares_streams();
        assert!(offset + size <= plan.segments()[if is_shared { 0 } else { stream }]);
        for &(other, other_stream, from, to) in &live {
            if (is_shared || other_stream as usize == stream) && offset < to && from < offset + size {
                return Err((other, index as u32));
            }
        }
        live.push((index as u32, stream as u32, offset, offset + size));
        planned += 1;
    }
    Ok(planned)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn planned_blocks_of_repeating_programs_never_overlap_in_any_step(
        startup in acts(30), step in acts(40), carried in 0usize..4, share in any::<bool>(),
    ) {
        let mut program = Program::new();
        program.act(&startup);
        // What is live now stays for ever.
        program.live.clear();
        for number in 0..6 {
            program.step(number, &step, carried);
        }
        let trace = program.trace();
        let (replay, plan) = with_plan_of(&trace, share);
        let made = plan.made.clone().unwrap();
        prop_assert!(made.step.is_some());
        if let Some(separate) = &made.separate {
            prop_assert!(share && plan.plan.shares_streams() && plan.plan.bytes() < separate.bytes());
        }
        let checked = check(&trace, &plan.plan, true);
        prop_assert!(checked.is_ok(), "{checked:?}");
        // Only requests that live for a step or longer have no place.
        prop_assert_eq!(plan.usage.in_use.requests + plan.usage.differing.requests, 0, "{:?}", plan.usage);
        prop_assert_eq!(plan.usage.planned.requests as usize, checked.unwrap());
        prop_assert!(plan.outcome.statistics.reserved.peak >= replay.lower_bounds.active);

        // The plan of the step alone, as a running program makes it.
        if let Some(StepPlan { plan: running, .. }) = StepPlan::of(&History::of(&trace, 0), share) {
            prop_assert!(running.startup().is_empty());
            let sizes = |requests: &[PlannedRequest]| -> Vec<_> {
                requests.iter().map(|request| (request.size, request.stream)).collect()
            };
            let whole = [plan.plan.startup(), plan.plan.step(), plan.plan.step(), plan.plan.step()].concat();
            let step = sizes(running.step());
            let first = sizes(&whole).windows(step.len()).position(|window| window == step).unwrap();
            let checked = check_from(first, &trace, &running, true);
            prop_assert!(checked.is_ok(), "{checked:?}");
        }
    }

    #[test]
    fn planned_blocks_of_any_program_never_overlap(
        startup in acts(30), steps in prop::collection::vec((acts(20), 0usize..5), 0..5),
    ) {
        let mut program = Program::new();
        program.act(&startup);
        for (number, (step, carried)) in steps.iter().enumerate() {
            program.step(number, step, *carried);
        }
        let trace = program.trace();
        let (_, plan) = with_plan(&trace);
        let checked = check(&trace, &plan.plan, false);
        prop_assert!(checked.is_ok(), "{checked:?}");
        let all = plan.usage.all().requests;
        prop_assert_eq!(all, program.blocks);
        prop_assert!(plan.outcome.fits());
    }

    /// The recording of one program with the plan of another, on devices of any size.
    #[test]
    fn a_plan_of_another_program_is_harmless(
        planned in acts(40), run in acts(40), steps in 1usize..4, mib in 1u64..200,
    ) {
        let program = |acts: &[Act]| {
            let mut program = Program::new();
            for number in 0..steps {
                program.step(number, acts, 0);
            }
            program.trace()
        };
        let (_, other) = with_plan(&program(&planned));
        let trace = program(&run);
        let capacity = Capacity { total: mib * MIB, overhead: 0 };
        let options = ReplayOptions {
            plan: Some(PlanSource::Given(Arc::clone(&other.plan))),
            capacity: Some(capacity),
            ..ReplayOptions::default()
        };
        let replay = replayed(&trace, options);
        let plan = replay.plan.unwrap();
        prop_assert!(plan.made.is_none());
        let s = plan.outcome.statistics;
        prop_assert!(s.reserved.peak <= capacity.total);
        prop_assert!(s.active.peak <= s.reserved.peak);
        if plan.outcome.fits() {
            prop_assert_eq!(s.allocated.current, 0);
        }
    }
}

/// Places computed by hand: 30 MiB of parameters live for ever, each step has blocks of 20, 10 and 25 MiB, of which the first two are
/// live together.
fn training(steps: usize) -> Program {
    let mut program = Program::new();
    program.malloc(30 * MIB, 0);
    program.live.clear();
    for number in 0..steps {
        let step = [(20, false), (10, true), (25, true)];
        let acts = step.iter().flat_map(|&(mib, frees_all)| {
            let malloc = Act::Malloc { size: mib * MIB, stream: 0 };
            let frees = if frees_all { 1 + usize::from(mib == 10) } else { 0 };
            [malloc].into_iter().chain((0..frees).map(|_| Act::Free(0)))
        });
        program.step(number, &acts.collect::<Vec<_>>(), 0);
    }
    program
}

#[test]
fn a_plan_reserves_no_more_than_the_blocks_need() {
    let (replay, plan) = with_plan(&training(4).trace());
    // The 20 and 10 MiB are live together; the small block of 3,000 bytes at the start of a step is freed before them.
    assert_eq!(plan.outcome.statistics.allocated.peak, 60 * MIB);
    assert_eq!(plan.outcome.statistics.reserved.peak, 60 * MIB);
    let default = replay.asked.outcome.statistics.reserved.peak;
    // 30, 20, 10 and 26 MiB, and 2 MiB for the small block: none of the free blocks is large enough.
    assert_eq!(default, 88 * MIB);
    assert_eq!(plan.usage.planned.requests, plan.usage.all().requests);
    assert_eq!(plan.made.map(|made| (made.step, made.steps)), Some((Some(0), 4)));
}

#[test]
fn a_plan_of_the_step_alone_has_no_places_for_parameters() {
    let of = |program: &Program| StepPlan::of(&History::of(&program.trace(), 0), false);
    let StepPlan { plan, streams } = of(&training(5)).unwrap();
    assert_eq!((plan.segments(), plan.startup().len(), plan.step().len()), (&[30 * MIB][..], 0, 4));
    assert!(streams.is_empty());
    // Three complete steps are needed, and the last one may be incomplete.
    assert_eq!(of(&training(3)), None);
    let mut other = training(5);
    other.step(5, &[Act::Malloc { size: 5 * MIB, stream: 0 }], 0);
    other.step(6, &[Act::Malloc { size: 5 * MIB, stream: 0 }], 0);
    assert_eq!(of(&other), None, "the last steps differ");
}

#[test]
fn an_extra_request_is_served_as_without_a_plan() {
    let (_, made) = with_plan(&training(4).trace());
    let mut other = Program::new();
    other.malloc(30 * MIB, 0);
    other.live.clear();
    for number in 0..4 {
        let mut acts =
            vec![Act::Malloc { size: 20 * MIB, stream: 0 }, Act::Malloc { size: 10 * MIB, stream: 0 }];
        if number == 2 {
            acts.push(Act::Malloc { size: 7 * MIB, stream: 0 });
        }
        acts.extend([Act::Free(0), Act::Free(0), Act::Free(0), Act::Malloc { size: 25 * MIB, stream: 0 }]);
        other.step(number, &acts, 0);
    }
    let options =
        ReplayOptions { plan: Some(PlanSource::Given(Arc::clone(&made.plan))), ..ReplayOptions::default() };
    let plan = replayed(&other.trace(), options).plan.unwrap();
    assert_eq!((plan.usage.differing.requests, plan.usage.differing.bytes), (1, 7 * MIB));
    assert_eq!(plan.usage.planned.requests + 1, plan.usage.all().requests);
    // Its own segment has 20 MiB.
    assert_eq!(plan.outcome.statistics.reserved.peak, 80 * MIB);
}

/// Steps that vary, as those of a program with sequences of several lengths: the plan needs no more than the parameters and the largest
/// step, although most requests leave it.
#[test]
fn a_plan_of_steps_that_vary_gives_its_memory_back() {
    let program = |lengths: &[u64]| {
        let mut program = Program::new();
        program.malloc(30 * MIB, 0);
        program.live.clear();
        for (number, &length) in lengths.iter().enumerate() {
            let mallocs =
                (1..=20).map(|layer| Act::Malloc { size: layer % 4 * length * MIB / 10 + MIB, stream: 0 });
            let acts: Vec<Act> = mallocs.chain((0..20).map(|_| Act::Free(0))).collect();
            program.step(number, &acts, 0);
        }
        program.trace()
    };
    let (_, made) = with_plan(&program(&[20, 20, 20]));
    assert!(!made.made.unwrap().varies());
    let trace = program(&[20, 14, 17, 20, 11, 19, 13, 20, 20, 12, 18, 16]);
    let options = ReplayOptions {
        plan: Some(PlanSource::Given(Arc::clone(&made.plan))),
        setting: Some(Setting::parse("expandable_segments:True", trace.shown_release()).unwrap()),
        ..ReplayOptions::default()
    };
    let replay = replayed(&trace, options);
    let (plan, expandable) = (replay.plan.unwrap().outcome.statistics, replay.asked.outcome.statistics);
    assert!(plan.reserved.peak <= expandable.reserved.peak, "{plan:?} {expandable:?}");
    let (_, varying) = with_plan(&trace);
    let varying = varying.made.unwrap();
    assert_eq!((varying.varies(), varying.steps, varying.alike), (true, 12, 4));
}

#[test]
fn free_memory_of_the_plan_is_released_under_pressure() {
    let (_, made) = with_plan(&training(4).trace());
    let mut other = training(4);
    // Nothing of the step is live, and the device has no room for this beside the plan's segment.
    other.malloc(40 * MIB, 0);
    let capacity = |mib: u64| ReplayOptions {
        plan: Some(PlanSource::Given(Arc::clone(&made.plan))),
        capacity: Some(Capacity { total: mib * MIB, overhead: 0 }),
        ..ReplayOptions::default()
    };
    let trace = other.trace();
    let fits = |mib: u64| replayed(&trace, capacity(mib)).plan.unwrap().outcome.fits();
    assert!(fits(72));
    assert!(!fits(68));
    let s = replayed(&trace, capacity(72)).plan.unwrap().outcome.statistics;
    assert_eq!((s.num_alloc_retries, s.reserved.peak), (0, 70 * MIB));
}

/// Programs that repeat their steps on one stream: reserved bytes with the plan are at most 1.01 times the peak of allocated bytes, and
/// less than under default settings and expandable segments.
#[test]
fn plans_of_recorded_training_leave_almost_no_fragmentation() {
    let Some(folder) = crate::data() else { return };
    for file in [
        "phantom/mlp-torch2.11-default.pickle",
        "phantom/resnet50-torch2.11-default.pickle",
        "phantom/gpt2-torch2.11-default.pickle",
        "phantom/gpt2-torch2.15-default.pickle",
        "categories/gan-adam.pickle.zst",
        "categories/gpt2-adamw-python.pickle.zst",
        "categories/lora-adam.pickle.zst",
        "categories/mlp-adam.pickle.zst",
        "categories/mlp-amp.pickle.zst",
        "categories/resnet50-sgd.pickle.zst",
        "large/resnet50-torch2.11-700k-events.pickle.zst",
    ] {
        let file = std::fs::File::open(folder.join(file)).map(|open| (file, open));
        let Ok((file, open)) = file else { continue };
        let trace = formats::read(open).unwrap().trace;
        let (replay, plan) = with_plan(&trace);
        let checked = check(&trace, &plan.plan, true);
        assert!(checked.is_ok(), "{file}: {checked:?}");
        let active = replay.lower_bounds.active;
        let over = |reserved: u64| reserved as f64 / active as f64;
        let reserved = |conf: &str| {
            let tried = replay.tried.iter().find(|t| t.setting.conf == conf);
            tried.map_or(f64::NAN, |t| over(t.outcome.statistics.reserved.peak))
        };
        let [default, expandable] = ["", "expandable_segments:True"].map(reserved);
        let planned = over(plan.outcome.statistics.reserved.peak);
        eprintln!(
            "{file}: default {default:.3}, expandable {expandable:.3}, plan {planned:.3}, floor {:.3}, covered {:.4} of {} requests",
            over(replay.lower_bounds.packed),
            plan.covered(),
            plan.usage.all().requests
        );
        assert!(planned <= 1.01, "{file}: {planned}");
        assert!(planned < default.min(expandable), "{file}: {planned}");
    }
}
