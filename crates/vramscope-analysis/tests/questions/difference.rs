//! Differences between two recordings: each rule on its example, and the matching of lines.

use serde_json::{Value, json};
use vramscope_analysis::{
    Both, Cancel, Cause, CodePlace, ComparedPart, DeviceDiff, DeviceHistory, Difference, Finding, Frames,
    History, Moment, RULES, Side, changed_settings,
};

use crate::{defaults, recording};

/// Number of steps of an example: enough to show accumulation.
const STEPS: usize = 30;

/// The allocations of one line of an example.
#[derive(Debug, Clone)]
struct Made {
    when: String,
    count: usize,
    bytes: u64,
    block: u64,
    category: Option<String>,
    frames: Vec<Value>,
}

/// `1 MiB` in bytes.
fn size(number: &str, unit: &str) -> u64 {
    let unit = match unit {
        "MiB" => 1 << 20,
        "KiB" => 1 << 10,
        _ => panic!("no unit: {unit}"),
    };
    number.parse::<u64>().unwrap() * unit
}

/// Parses `once 4 x 8 MiB parameter at file.py:9 f < file.py:2 g in blocks of 10 MiB`.
fn made(line: &str) -> Made {
    let (line, block) = match line.split_once(" in blocks of ") {
        Some((line, block)) => (line, block.split_once(' ')),
        None => (line, None),
    };
    let (what, stack) = line.split_once(" at ").unwrap();
    let what: Vec<&str> = what.split(' ').collect();
    let frame = |frame: &str| {
        let (place, name) = frame.split_once(' ').unwrap();
        let (file, line) = place.rsplit_once(':').unwrap();
        let folder =
            if file.starts_with("torch/") { "/env/lib/python3.11/site-packages" } else { "/home/user" };
        let line: u32 = line.parse().unwrap();
        json!({"filename": format!("{folder}/{file}"), "line": line, "name": name})
    };
    let bytes = size(what[3], what[4]);
    Made {
        when: what[0].to_owned(),
        count: what[1].parse().unwrap(),
        bytes,
        block: block.map_or(bytes, |(number, unit)| size(number, unit)),
        category: what.get(5).map(|name| (*name).to_owned()),
        frames: stack.split(" < ").map(frame).collect(),
    }
}

/// A program that runs in steps.
#[derive(Default)]
struct Program {
    events: Vec<Value>,
    blocks: Vec<Value>,
    /// The address of the next retained block.
    kept: u64,
}

/// The start addresses of retained blocks and of blocks that live within one step.
const START: u64 = 1 << 40;
const BEYOND: u64 = 1 << 41;

impl Program {
    fn alloc(&mut self, made: &Made, address: u64) {
        let metadata = made.category.as_ref().map_or(String::new(), |c| format!("vramscope:category={c}"));
        self.events.push(json!({"action": "alloc", "addr": address, "size": made.bytes, "stream": 0,
            "frames": made.frames, "user_metadata": metadata}));
    }

    fn keep(&mut self, made: &Made) {
        for _ in 0..made.count {
            let address = self.kept;
            self.kept += made.block;
            self.alloc(made, address);
            self.blocks.push(json!({"address": address, "size": made.block, "requested_size": made.bytes,
                "state": "active_allocated", "frames": made.frames}));
        }
    }

    fn come_and_go(&mut self, step: &[Made]) {
        let mut live = Vec::new();
        for made in step.iter().flat_map(|made| std::iter::repeat_n(made, made.count)) {
            let address = BEYOND + live.iter().map(|(_, bytes)| bytes).sum::<u64>();
            self.alloc(made, address);
            live.push((address, made.bytes));
        }
        for (address, bytes) in live {
            for action in ["free_requested", "free_completed"] {
                let event =
                    json!({"action": action, "addr": address, "size": bytes, "stream": 0, "frames": []});
                self.events.push(event);
            }
        }
    }
}

/// The recording of an example.
fn run(example: &str) -> std::sync::Arc<vramscope_trace::Trace> {
    let lines: Vec<Made> = example.lines().map(|line| made(line.trim())).collect();
    let of = |when: &str| lines.iter().filter(|made| made.when == when).cloned().collect::<Vec<Made>>();
    assert!(lines.iter().all(|made| ["once", "step", "kept"].contains(&made.when.as_str())), "{example}");
    let mut program = Program { kept: START, ..Program::default() };
    of("once").iter().for_each(|made| program.keep(made));
    for _ in 0..STEPS {
        program.come_and_go(&of("step"));
        of("kept").iter().for_each(|made| program.keep(made));
    }
    let step: u64 = of("step").iter().map(|made| made.bytes * made.count as u64).sum();
    let segment = |address: u64, size: u64, blocks: Vec<Value>| json!({"device": 0, "address": address, "total_size": size, "stream": 0, "segment_type": "large", "blocks": blocks});
    let segments =
        vec![segment(START, program.kept - START, program.blocks), segment(BEYOND, step, Vec::new())];
    recording(program.events, segments, defaults())
}

fn difference(examples: Both<&str>) -> Difference {
    let traces = examples.map(|example| run(example));
    let frames = traces.map(|trace| Frames::of(trace));
    let histories = traces.map(|trace| History::of(trace, 0));
    let compared = |side: Side| DeviceHistory { history: histories.of(side), frames: frames.of(side) };
    Difference::of(Both { a: compared(Side::A), b: compared(Side::B) }, Both::default())
}

/// The findings, as the text of a failing test.
fn told(difference: &Difference) -> String {
    let findings = difference.findings.iter();
    findings.map(|of| format!("{} {:?} {:?}\n", of.difference(), of.cause, of.held)).collect()
}

fn first(difference: &Difference) -> &Finding {
    difference.findings.first().unwrap()
}

#[test]
fn each_rule_finds_its_example_first() {
    for rule in RULES {
        let forward = difference(rule.example);
        assert_eq!(first(&forward).cause.name(), rule.name, "{}", told(&forward));
        assert!(first(&forward).counts);
        // In the other direction, the same memory disappears.
        let back = difference(Both { a: rule.example.b, b: rule.example.a });
        assert_eq!(first(&back).cause.name(), rule.name, "{}", told(&back));
        assert_eq!(first(&forward).difference(), -first(&back).difference());
        // Two equal recordings have no cause of a difference.
        for same in [rule.example.a, rule.example.b] {
            let findings = difference(Both { a: same, b: same }).findings;
            assert!(findings.is_empty(), "{}: {findings:#?}", rule.name);
        }
    }
}

#[test]
fn the_rules_explain_every_difference_of_their_examples() {
    for rule in RULES {
        let difference = difference(rule.example);
        let of_rules = difference.findings.iter().filter(|of| of.cause != Cause::Unused);
        let sum: i64 = of_rules.map(Finding::difference).sum();
        let allocated = difference.counters.map(|counters| counters.allocated).difference();
        assert_eq!(sum, allocated, "{}", rule.name);
        let lines: i64 =
            difference.lines.iter().map(|line| line.held.map(|held| held.bytes).difference()).sum();
        let stacks: i64 =
            difference.stacks.iter().map(|of| of.held.map(|held| held.bytes).difference()).sum();
        assert_eq!((lines, stacks), (allocated, allocated), "{}", rule.name);
    }
}

/// The steps of a program at two lines of a function.
fn two_lines(first: u32, second: u32, mib: u32) -> String {
    format!("step 2 x 4 MiB at model.py:{first} forward\nstep 2 x {mib} MiB at model.py:{second} forward")
}

#[test]
fn a_function_whose_lines_have_moved_is_one_place() {
    let (a, b) = (two_lines(10, 11, 4), two_lines(12, 13, 8));
    let difference = difference(Both { a: &a, b: &b });
    let [line] = &difference.lines[..] else { panic!("{:#?}", difference.lines) };
    assert!(
        matches!(line.places.a, Some(CodePlace::Function(_)))
            && matches!(line.places.b, Some(CodePlace::Function(_)))
    );
    assert_eq!(line.held.map(|held| held.bytes), Both { a: 16 << 20, b: 24 << 20 });
    assert_eq!(line.only_in, None);
}

#[test]
fn a_new_line_differs_from_a_line_that_grew() {
    let a = "step 2 x 4 MiB at model.py:10 forward";
    let b = two_lines(10, 20, 5);
    let difference = difference(Both { a, b: &b });
    let new = &difference.lines[0];
    assert_eq!((new.only_in, new.held.a.bytes, new.held.b.bytes), (Some(Side::B), 0, 10 << 20));
    assert_eq!(difference.lines[1].only_in, None);
}

#[test]
fn settings_that_one_recording_leaves_out_do_not_count() {
    let with = |settings: Value| recording(Vec::new(), Vec::new(), settings);
    let told = |a: Value, b: Value| {
        let (a, b) = (with(a), with(b));
        let changed = changed_settings(Both { a: &*a, b: &*b });
        changed.into_iter().map(|of| (of.key, of.values.a, of.values.b)).collect::<Vec<_>>()
    };
    let (on, off) = (json!({"expandable_segments": true}), json!({"expandable_segments": false}));
    let key = || "expandable_segments".to_owned();
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(told(off.clone(), on.clone()), [(key(), text("False"), text("True"))]);
    assert_eq!(told(json!({}), on), []);
    let set = json!({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"});
    assert_eq!(told(json!({}), set), [(key(), None, text("True"))]);
    assert_eq!(told(off.clone(), off), []);
}

#[test]
fn other_moments_can_be_compared() {
    let trace = run("step 2 x 4 MiB at model.py:10 forward");
    let frames = Frames::of(&trace);
    let history = History::replayed(&trace, 0);
    let of = DeviceHistory { history: &history, frames: &frames };
    let end = history.end();
    let part = Some(ComparedPart { at: end, from: Moment::START, to: end });
    let diff = DeviceDiff::of(Both { a: of, b: of }, Both { a: part, b: part }, &Cancel::default()).unwrap();
    assert_eq!(diff.difference.counters.map(|counters| counters.allocated), Both { a: 0, b: 0 });
}
