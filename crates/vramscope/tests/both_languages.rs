//! The programs of `both_languages.json` have one output, `both_languages.snap.json`, in Rust and in Python, where
//! `python/tests/test_both_languages.py` runs them. `INSTA_UPDATE=always` writes the output of Rust.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
#![deny(warnings)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use vramscope::allocator::hooks::function::{self, Function, Unit};
use vramscope::allocator::{SourceFrame, StackSource, Stacks};
use vramscope::prelude::*;
use vramscope::profiler::{AlertChange, AlertLimits, AlertState, FunctionLeaks, GrowthRate};

/// The lines of the program, outermost first.
#[derive(Default)]
struct Lines(Mutex<Vec<SourceFrame>>);

impl StackSource for Lines {
    fn capture(&self, frames: &mut Vec<SourceFrame>) {
        frames.extend(self.0.lock().unwrap().iter().rev().cloned());
    }
}

/// A running program.
struct Program {
    pool: MemoryPool,
    source: Arc<PoolSource>,
    blocks: BTreeMap<String, Vec<Allocation>>,
    lines: Arc<Lines>,
    leaks: FunctionLeaks,
}

impl Program {
    fn allocated(&self) -> u64 {
        self.source.read().unwrap().allocated.unwrap()
    }

    fn run(&mut self, steps: &Value) {
        for step in steps.as_array().unwrap() {
            let (what, name) = (step[0].as_str().unwrap(), step[1].as_str().unwrap());
            match what {
                "malloc" => {
                    let block = self.pool.malloc(step[2].as_u64().unwrap()).unwrap();
                    self.blocks.entry(name.to_owned()).or_default().push(block);
                }
                "free" => drop(self.blocks.get_mut(name).unwrap().pop().unwrap()),
                "repeat" => (0..name.parse::<u32>().unwrap()).for_each(|_| self.run(&step[2])),
                "line" => {
                    let [file, line, function] = name.splitn(3, ':').collect::<Vec<_>>().try_into().unwrap();
                    let frame = SourceFrame::new(file, line.parse().unwrap(), function);
                    self.lines.0.lock().unwrap().push(frame);
                    self.run(&step[2]);
                    self.lines.0.lock().unwrap().pop();
                }
                "call" => {
                    let before = self.allocated();
                    Function::new(name).forward(|| self.run(&step[2]));
                    self.leaks.record(name, before, self.allocated(), 0);
                }
                other => panic!("{other}"),
            }
        }
    }
}

fn output(program: &Value) -> Value {
    let device = Arc::new(VirtualDevice::with_capacity(1 << 30));
    let pool = MemoryPool::new(&Policy::cupy(), vec![device]).unwrap();
    let lines = Arc::new(Lines::default());
    let by_line = Arc::new(LineProfileHook::with_source(lines.clone(), Stacks::Python));
    let by_function = Arc::new(CupyMemoryProfileHook::new().max_history(10));
    let guards = (register(by_line.clone()).unwrap(), function::register(by_function.clone()).unwrap());
    let source = PoolSource::new(&pool, 0).unwrap();
    let mut run = Program { pool, source, blocks: BTreeMap::new(), lines, leaks: FunctionLeaks::default() };
    run.run(&program["steps"]);
    drop(guards);

    let mut tree = Vec::new();
    by_line.print_report(&mut tree).unwrap();
    let calls = by_function.call_history();
    let history = calls.iter().map(|c| json!([*c.function, c.used_bytes, c.acquired_bytes, c.depth]));
    let table = |unit: Unit| {
        let mut table = Vec::new();
        by_function.print_report(unit, &mut table).unwrap();
        text_lines(&table)
    };
    let mut output = json!({
        "name": program["name"],
        "lines": text_lines(&tree),
        "calls": history.collect::<Vec<_>>(),
        "totals": [by_function.total_used_bytes(), by_function.total_acquired_bytes()],
        "leaks": run.leaks.suspects(run.allocated()),
    });
    // Rows of nested calls are counted once in Rust and, as in Chainer, again in the rows of their callers in Python.
    if !program["calls_nest"].as_bool().unwrap() {
        output["tables"] = [Unit::Auto, Unit::AutoForeach, Unit::KB].map(table).into();
    }
    output
}

fn text_lines(text: &[u8]) -> Value {
    std::str::from_utf8(text).unwrap().lines().collect::<Vec<_>>().into()
}

fn alerts(case: &Value) -> Value {
    let (mut state, limits) = (AlertState::default(), AlertLimits::new(case["above"].as_f64().unwrap()));
    let change = |(second, value): (u64, &Value)| {
        let at = Duration::from_secs(second);
        state.update(&limits, value.as_f64().unwrap(), at).map(|change| match change {
            AlertChange::Raised => "raised",
            AlertChange::Cleared => "cleared",
        })
    };
    json!([case["name"], (0..).zip(case["values"].as_array().unwrap()).map(change).collect::<Vec<_>>()])
}

fn growth(case: &Value) -> Value {
    let [start, each] = ["start", "each_second"].map(|key| case["allocated"][key].as_u64().unwrap());
    let mut growth = GrowthRate::new(Duration::from_secs(60));
    let rates = (0..=61).map(|second| growth.update(Duration::from_secs(second), start + each * second));
    json!([case["name"], rates.skip(59).collect::<Vec<_>>()])
}

#[test]
fn a_program_has_the_same_output_in_rust_as_in_python() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let read = |name| std::fs::read(folder.join(name)).unwrap();
    let programs: Value = serde_json::from_slice(&read("both_languages.json")).unwrap();
    let all = |key: &str, run: fn(&Value) -> Value| {
        programs[key].as_array().unwrap().iter().map(run).collect::<Value>()
    };
    let outputs = json!({
        "programs": all("programs", output),
        "alerts": all("alerts", alerts),
        "growth": all("growth", growth),
    });
    let expected = folder.join("both_languages.snap.json");
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        let text = serde_json::to_string_pretty(&outputs).unwrap() + "\n";
        std::fs::write(&expected, text).unwrap();
    }
    let expected: Value = serde_json::from_slice(&read("both_languages.snap.json")).unwrap();
    assert_eq!(outputs, expected);
}
