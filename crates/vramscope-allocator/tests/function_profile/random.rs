//! Random programs, compared with independent counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use vramscope_allocator::hooks::function::{self, CallPhase, CupyMemoryProfileHook, Ended, Function};
use vramscope_allocator::{Allocation, MemoryPool};

use crate::{caught, panic_quietly, pool, profile};

const NAMES: [&str; 3] = ["Linear", "ReLU", "Add"];

#[derive(Debug, Clone)]
enum Step {
    Malloc(u64),
    /// Frees the live allocation at this position, on this or another thread.
    Free(usize),
    FreeElsewhere(usize),
    /// Releases the cache, so that later requests reach the device.
    FreeAllBlocks,
    Call {
        name: usize,
        phase: usize,
        body: Vec<Step>,
        panics: bool,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let leaf = prop_oneof![
        4 => (1u64..5000).prop_map(Step::Malloc),
        2 => any::<usize>().prop_map(Step::Free),
        1 => any::<usize>().prop_map(Step::FreeElsewhere),
        1 => Just(Step::FreeAllBlocks),
    ];
    let step = leaf.prop_recursive(5, 60, 8, |step| {
        let call =
            (0..NAMES.len(), 0..3usize, prop::collection::vec(step.clone(), 0..8), prop::bool::weighted(0.1));
        prop_oneof![
            1 => step,
            2 => call.prop_map(|(name, phase, body, panics)| Step::Call { name, phase, body, panics }),
        ]
    });
    prop::collection::vec(step, 0..12)
}

fn phase(number: usize) -> CallPhase {
    ["forward", "backward", "eval"][number].into()
}

/// A running call, with the sizes of the live blocks that were allocated in it, by id.
#[derive(Default)]
struct Running {
    live: BTreeMap<u64, u64>,
    used: u64,
    acquired: u64,
    peak: u64,
}

#[derive(Debug, PartialEq)]
struct Ran {
    name: String,
    phase: CallPhase,
    depth: usize,
    used: u64,
    acquired: u64,
    peak: u64,
    live: u64,
    ended: Ended,
}

/// Runs a program and counts its calls from their definition alone.
struct Program {
    pool: MemoryPool,
    functions: Vec<Arc<Function>>,
    held: Vec<Allocation>,
    running: Vec<Running>,
    ran: Vec<Ran>,
    /// By id: the size, and the function and phase of the block.
    blocks: BTreeMap<u64, (u64, usize, usize)>,
    own: Vec<(usize, usize)>,
    acquired_of: BTreeMap<(usize, usize), u64>,
    used_of: BTreeMap<(usize, usize), u64>,
}

impl Program {
    fn new() -> Self {
        Self {
            pool: pool(),
            functions: NAMES.iter().map(|&name| Arc::new(Function::new(name))).collect(),
            held: Vec::new(),
            running: Vec::new(),
            ran: Vec::new(),
            blocks: BTreeMap::new(),
            own: Vec::new(),
            acquired_of: BTreeMap::new(),
            used_of: BTreeMap::new(),
        }
    }

    fn run(&mut self, steps: &[Step]) {
        for step in steps {
            match *step {
                Step::Malloc(size) => self.malloc(size),
                Step::Free(i) | Step::FreeElsewhere(i) if !self.held.is_empty() => {
                    let block = self.held.swap_remove(i % self.held.len());
                    self.blocks.remove(&block.id());
                    for call in &mut self.running {
                        call.live.remove(&block.id());
                    }
                    if matches!(step, Step::Free(_)) {
                        drop(block);
                    } else {
                        std::thread::scope(|s| {
                            s.spawn(|| drop(block));
                        });
                    }
                }
                Step::Free(_) | Step::FreeElsewhere(_) => (),
                Step::FreeAllBlocks => self.pool.free_all_blocks().unwrap(),
                Step::Call { name, phase, ref body, panics } => self.call(name, phase, body, panics),
            }
        }
    }

    fn malloc(&mut self, size: u64) {
        let before = self.pool.total_bytes();
        let block = self.pool.malloc(size).unwrap();
        let acquired = self.pool.total_bytes() - before;
        for call in &mut self.running {
            call.live.insert(block.id(), block.size());
            call.used += block.size();
            call.acquired += acquired;
            call.peak = call.peak.max(call.live.values().sum());
        }
        if let Some(&own) = self.own.last() {
            self.blocks.insert(block.id(), (block.size(), own.0, own.1));
            *self.used_of.entry(own).or_default() += block.size();
            *self.acquired_of.entry(own).or_default() += acquired;
        }
        self.held.push(block);
    }

    fn call(&mut self, name: usize, phase_number: usize, body: &[Step], panics: bool) {
        let depth = self.running.len();
        self.running.push(Running::default());
        self.own.push((name, phase_number));
        // Alternate between the object and the name, which mean the same function.
        let function = Arc::clone(&self.functions[name]);
        let panicked = caught(|| {
            let _scope = match depth % 2 {
                0 => function.scope(phase(phase_number)),
                _ => function::scope(NAMES[name], phase(phase_number)),
            };
            self.run(body);
            if panics {
                panic_quietly();
            }
        });
        assert_eq!(panicked, panics);
        self.own.pop();
        let call = self.running.pop().unwrap();
        self.ran.push(Ran {
            name: NAMES[name].to_owned(),
            phase: phase(phase_number),
            depth,
            used: call.used,
            acquired: call.acquired,
            peak: call.peak,
            live: call.live.values().sum(),
            ended: if panics { Ended::Panicked } else { Ended::Returned },
        });
    }
}

fn check(hook: &CupyMemoryProfileHook, program: &Program) -> Result<(), TestCaseError> {
    let history = hook.call_history();
    let ran: Vec<Ran> = history
        .iter()
        .map(|c| Ran {
            name: c.function.to_string(),
            phase: c.phase.clone(),
            depth: c.depth,
            used: c.used_bytes,
            acquired: c.acquired_bytes,
            peak: c.peak_bytes,
            live: c.live_bytes,
            ended: c.ended,
        })
        .collect();
    prop_assert_eq!(&ran, &program.ran);
    prop_assert!(history.iter().all(|c| c.used_bytes == c.live_bytes + c.freed_bytes));

    let outermost = || history.iter().filter(|c| c.depth == 0);
    prop_assert_eq!(hook.total_used_bytes(), outermost().map(|c| c.used_bytes).sum::<u64>());
    prop_assert_eq!(hook.total_acquired_bytes(), outermost().map(|c| c.acquired_bytes).sum::<u64>());
    let mut names: Vec<&str> = Vec::new();
    for name in ran.iter().map(|r| r.name.as_str()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let summary = hook.summary();
    prop_assert_eq!(summary.iter().map(|row| &*row.function).collect::<Vec<_>>(), names);
    for rows in [&summary, &hook.summary_by_phase()] {
        prop_assert_eq!(rows.iter().map(|r| r.used_bytes).sum::<u64>(), hook.total_used_bytes());
        prop_assert_eq!(rows.iter().map(|r| r.acquired_bytes).sum::<u64>(), hook.total_acquired_bytes());
        prop_assert_eq!(rows.iter().map(|r| r.occurrence).sum::<u64>(), history.len() as u64);
        prop_assert!(rows.iter().all(|r| r.used_bytes == r.live_bytes + r.freed_bytes));
    }
    for row in hook.summary_by_phase() {
        let name = NAMES.iter().position(|&name| name == &*row.function).unwrap();
        let number = (0..3).find(|&number| Some(phase(number)) == row.phase).unwrap();
        let live = program.blocks.values().filter(|b| (b.1, b.2) == (name, number)).map(|b| b.0).sum::<u64>();
        let of = |counts: &BTreeMap<(usize, usize), u64>| counts.get(&(name, number)).copied().unwrap_or(0);
        prop_assert_eq!(
            (row.used_bytes, row.acquired_bytes, row.live_bytes),
            (of(&program.used_of), of(&program.acquired_of), live)
        );
        let peak =
            history.iter().filter(|c| c.function == row.function && Some(&c.phase) == row.phase.as_ref());
        prop_assert_eq!(Some(row.peak_bytes), peak.map(|c| c.peak_bytes).max());
    }
    Ok(())
}

proptest! {
    #[test]
    fn rows_add_up_to_the_totals(steps in steps()) {
        let hook = profile();
        let guard = function::register(Arc::clone(&hook) as _).unwrap();
        let mut program = Program::new();
        program.run(&steps);
        drop(guard);
        check(&hook, &program)?;
        // Blocks that are freed after the profile still count.
        let held = std::mem::take(&mut program.held);
        drop(held);
        program.blocks.clear();
        check(&hook, &program)?;
    }
}
