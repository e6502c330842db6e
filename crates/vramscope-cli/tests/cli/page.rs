//! The page's data equals the command's output: legend, table of allocations and panel of a range are compared with the JSON of
//! `report --at` from a separate process.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use vramscope::analysis::Cancel;
use vramscope::session::{OpenRecording, Question};
use vramscope::trace::formats;

use crate::data::{data, recordings};
use crate::{json as command, root};

/// Number of events, and of ranges, tested per recording: each key once, unless more are wanted.
fn times() -> usize {
    vramscope_testing::times(BY.len() as u32) as usize
}

/// The color and grouping keys.
const BY: [&str; 11] =
    ["category", "line", "function", "file", "module", "layer", "step", "stack", "pool", "stream", "size"];

/// Reproducible pseudo-random numbers below `n`.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

/// An answer as the page receives it: a header, and the columns of numbers after it.
struct Answer(Vec<u8>);

impl Answer {
    fn behind_length(&self) -> (&[u8], usize) {
        let length = u32::from_le_bytes(self.0[..4].try_into().unwrap()) as usize;
        (&self.0[4..4 + length], (4 + length).next_multiple_of(8))
    }

    fn head(&self) -> Value {
        serde_json::from_slice(self.behind_length().0).unwrap()
    }

    /// The bytes of each group, or of each row.
    fn sizes(&self, column: &Value) -> Vec<u64> {
        let at = &column["f64"];
        let begin = self.behind_length().1 + at[0].as_u64().unwrap() as usize;
        let length = 8 * at[1].as_u64().unwrap() as usize;
        let numbers = self.0[begin..begin + length].chunks_exact(8);
        numbers.map(|n| f64::from_le_bytes(n.try_into().unwrap()) as u64).collect()
    }
}

/// A recording as the page loads it.
struct Page(OpenRecording);

impl Page {
    fn open(path: &Path) -> Self {
        let recording = formats::read(std::fs::File::open(path).unwrap()).unwrap();
        let open = OpenRecording::of("f".to_owned(), None, recording, &Cancel::default()).unwrap();
        Self(open)
    }

    fn ask(&self, device: usize, question: &Value) -> Answer {
        let question = Question::of_json(question.to_string().as_bytes()).unwrap();
        Answer(question.answer(&self.0, device, None, &Cancel::default()).unwrap())
    }
}

/// The compared state, for messages of failed assertions.
struct ComparedState<'p> {
    file: &'p Path,
    device: i64,
    at: String,
    by: &'static str,
}

impl ComparedState<'_> {
    /// The command's answer.
    fn report(&self) -> Value {
        let file = self.file.to_str().unwrap();
        let device = self.device.to_string();
        let told = command(&["report", file, "--device", &device, "--at", &self.at, "--by", self.by]);
        told["devices"][0].clone()
    }

    fn same<T: PartialEq + std::fmt::Debug>(&self, what: &str, page: T, report: T) {
        let ComparedState { file, device, at, by } = self;
        assert_eq!(page, report, "{what} of {} device {device} --at {at} --by {by}", file.display());
    }

    /// Compares the groups: categories by name, lines and layers by label, which is longer on the page.
    fn named(&self, keys: &[Value], labels: &[Value], groups: &[Value]) {
        for ((key, label), group) in keys.iter().zip(labels).zip(groups) {
            let (key, label, told) = (text(key), text(label), text(&group["key"]));
            let is_same = match self.by {
                // The prefix is the group's origin.
                "category" => key.split_once(' ').map(|(_, name)| name) == Some(told),
                "line" | "layer" => label.contains(told) || told.contains('…') || label.contains('…'),
                _ => true,
            };
            assert!(
                is_same,
                "{key:?} {label:?} {told:?} {} --at {} --by {}",
                self.file.display(),
                self.at,
                self.by
            );
        }
    }
}

fn text(of: &Value) -> &str {
    of.as_str().unwrap()
}

fn all(of: &Value) -> &[Value] {
    of.as_array().unwrap()
}

fn number(of: &Value) -> u64 {
    of.as_u64().unwrap()
}

fn numbers(of: &[Value], name: &str) -> Vec<u64> {
    of.iter().map(|one| number(&one[name])).collect()
}

/// The bytes and the number of blocks.
fn amount(of: &Value) -> (u64, u64) {
    (number(&of["bytes"]), number(&of["count"]))
}

/// The table of allocations: its totals, and the sum of its rows.
fn table(page: &Page, device: usize, among: &Value) -> [(u64, u64); 2] {
    /// Rows per request.
    const ROWS: u64 = 1000;
    let mut rows = (0, 0);
    loop {
        let told = page.ask(
            device,
            &json!({
                "question": "allocations", "search": null, "among": among, "sort": "requested_bytes",
                "descending": true, "first": rows.1, "count": ROWS,
            }),
        );
        let head = told.head();
        let some = told.sizes(&head["bytes_of"]);
        rows = (rows.0 + some.iter().sum::<u64>(), rows.1 + some.len() as u64);
        if some.is_empty() || rows.1 >= number(&head["count"]) {
            return [amount(&head), rows];
        }
    }
}

fn legend(page: &Page, device: usize, by: &str, from: u64, to: u64, most: usize) -> Value {
    let question = json!({
        "question": "legend", "by": by, "from": from, "to": to, "reserved": false, "most": most, "search": null,
    });
    let told = page.ask(device, &question).head();
    let parts: u64 = numbers(all(&told["groups"]), "bytes").iter().sum();
    assert_eq!(
        parts + number(&told["other_bytes"]),
        number(&told["bytes"]),
        "shares are of all of it: {told}"
    );
    told
}

/// The legend and the table after an event.
fn same_at(page: &Page, device: usize, place: &ComparedState<'_>, event: u64) {
    let at = &place.report()["at"];
    let holders = all(&at["holders"]);
    let moment = event + 1;
    let told = legend(page, device, place.by, moment, moment, usize::MAX);
    let groups = all(&told["groups"]);
    place.same("moment", number(&told["moment"]), moment);
    place.same("bytes", number(&told["bytes"]), number(&at["allocated_bytes"]));
    place.same("groups", groups.iter().map(amount).collect(), holders.iter().map(amount).collect::<Vec<_>>());
    let column = |name: &str| groups.iter().map(|group| group[name].clone()).collect::<Vec<_>>();
    place.named(&column("key"), &column("label"), holders);
    // As the page requests it.
    let told = legend(page, device, place.by, moment, moment, 12);
    place.same("the largest", all(&told["groups"]), &groups[..groups.len().min(12)]);
    let sum = holders.iter().map(amount).fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
    let table = table(page, device, &json!({ "are": "live_at", "moment": moment }));
    place.same("the table", table, [sum, sum]);
}

/// The legend, the table and the panel of a range of events.
fn same_between(page: &Page, device: usize, place: &ComparedState<'_>, first: u64, last: u64) {
    const MEASURES: [&str; 7] =
        ["before", "allocated", "freed", "temporary", "survived", "at_highest", "after"];
    let report = place.report();
    let (from, to) = (first, last + 1);
    let question = json!({ "question": "interval", "from": from, "to": to, "by": place.by, "search": null, "before": null });
    let answer = page.ask(device, &question);
    let head = answer.head();
    let now = &head["now"];
    place.same("name", &now["title"], &report["name"]);
    place.same("highest", &now["highest"], &report["highest_allocated_bytes"]);
    for measure in MEASURES.iter().chain(&["freed_from_before"]) {
        place.same(measure, amount(&now["all"][measure]), amount(&report[measure]));
        place.same(measure, amount(&now["found"][measure]), amount(&report[measure]));
    }
    let groups = all(&report["groups"]);
    place.named(all(&head["key"]), all(&head["label"]), groups);
    for measure in MEASURES {
        let page = answer.sizes(&now[measure]);
        place.same("shares", page.iter().sum::<u64>(), number(&report[measure]["bytes"]));
        place.same(measure, page, groups.iter().map(|group| number(&group[measure]["bytes"])).collect());
    }

    let told = legend(page, device, place.by, from, to, usize::MAX);
    place.same("highest", &told["bytes"], &report["highest_allocated_bytes"]);
    // The peak may be before the first event.
    let highest = report["highest_event"].as_u64().map_or(0, |event| event + 1);
    place.same("highest moment", number(&told["moment"]), highest);
    place.same("highest moment", number(&now["highest_moment"]), highest);
    let mut held: Vec<u64> = groups.iter().map(|group| number(&group["at_highest"]["bytes"])).collect();
    held.retain(|&bytes| bytes > 0);
    held.sort_unstable_by(|a, b| b.cmp(a));
    place.same("at the highest", numbers(all(&told["groups"]), "bytes"), held);

    let allocated = amount(&report["allocated"]);
    let table = table(page, device, &json!({ "are": "within", "from": from, "to": to }));
    place.same("the table", table, [allocated, allocated]);
}

/// Compares random events and ranges of each device; returns their number.
fn compare(file: &Path, seed: u64) -> usize {
    let page = Page::open(file);
    let overview: Value = serde_json::from_slice(&page.0.overview_json().unwrap()).unwrap();
    let mut random = Numbers(seed);
    let mut compared = 0;
    for (position, device) in all(&overview["devices"]).iter().enumerate() {
        let events = number(&device["events"]) as usize;
        if events == 0 {
            continue;
        }
        // Steps are available only after categories were requested.
        page.ask(position, &json!({ "question": "meaning" }));
        let number = device["device"].as_i64().unwrap();
        for n in 0..times() {
            let by = BY[n % BY.len()];
            let event = random.below(events) as u64;
            let place = ComparedState { file, device: number, at: event.to_string(), by };
            same_at(&page, position, &place, event);
            let (a, b) = (random.below(events) as u64, random.below(events) as u64);
            let (first, last) = (a.min(b), a.max(b));
            let place = ComparedState { file, device: number, at: format!("{first}..{last}"), by };
            same_between(&page, position, &place, first, last);
            compared += 2;
        }
    }
    compared
}

/// Some programs have two devices.
fn devices_of(seed: u64) -> usize {
    if seed.is_multiple_of(8) { 2 } else { 1 }
}

/// A recording of a program that allocates and frees at random: on one or two devices, with several stacks, streams, pools and regions; if
/// `seed` is odd, with memory that was live before. Each allocation is in a segment with enough free space.
fn made(seed: u64) -> Value {
    let mut random = Numbers(seed);
    let frame = |name: &str, file: &str, line: usize| json!({ "name": name, "filename": file, "line": line });
    let stacks: Vec<Value> = (0..12)
        .map(|n| {
            let model = frame(["forward", "attend", "mlp"][n % 3], "/home/user/model.py", 10 + n % 4);
            let train = frame("train", "/home/user/train.py", 30 + n % 2);
            let inner = frame("linear", "/usr/lib/python3/site-packages/torch/nn/functional.py", 5);
            json!([frame("at::empty_cuda", "", 0), inner, model, train])
        })
        .collect();
    let devices = devices_of(seed);
    let (mut segments, mut traces, mut annotations) = (Vec::new(), Vec::new(), Vec::new());
    for device in 0..devices {
        let (mut events, mut time) = (Vec::new(), 1_000_000);
        // Segments with their address, size, stream, pool and blocks.
        let mut held: Vec<(usize, usize, usize, usize, Option<usize>)> = Vec::new();
        if seed % 2 == 1 {
            held.extend((0..5).map(|n| (n << 30, 2 << 20, 0, 0, Some(4096 * (n + 1)))));
        }
        for _ in 0..100 + random.below(100) {
            time += 1 + random.below(50);
            let stack = &stacks[random.below(stacks.len())];
            let mut event = |action: &str, address: usize, size: usize, stream: usize| {
                events.push(json!({
                    "action": action, "addr": address, "size": size, "stream": stream, "frames": stack,
                    "time_us": time,
                }));
            };
            let busy: Vec<usize> = (0..held.len()).filter(|&n| held[n].4.is_some()).collect();
            if random.below(5) < 2 && !busy.is_empty() {
                let (address, _, stream, _, block) = &mut held[busy[random.below(busy.len())]];
                let size = block.take().unwrap();
                event("free_requested", *address, size, *stream);
                event("free_completed", *address, size, *stream);
                continue;
            }
            let (size, stream, pool) = (512 * (1 + random.below(3000)), 7 * random.below(2), random.below(2));
            let free = held.iter().position(|s| s.4.is_none() && (s.2, s.3) == (stream, pool) && s.1 >= size);
            let at = free.unwrap_or_else(|| {
                let address = held.len() << 30;
                held.push((address, 2 << 20, stream, pool, None));
                event("segment_alloc", address, 2 << 20, stream);
                held.len() - 1
            });
            held[at].4 = Some(size);
            event("alloc", held[at].0, size, stream);
        }
        for (name, half) in [("forward", 0), ("backward", 1)] {
            let end = 1_000_000 + (time - 1_000_000) * (half + 1) / 2;
            for (stage, at) in [("START", end - (time - 1_000_000) / 2), ("END", end)] {
                annotations.push(json!({ "stage": stage, "name": name, "device": device, "time_us": at }));
            }
        }
        for (address, size, stream, pool, block) in held {
            let used = block.unwrap_or(0);
            let part = |address, size, state| json!({ "address": address, "size": size, "requested_size": size, "state": state, "frames": [] });
            let mut blocks = Vec::new();
            if used > 0 {
                blocks.push(part(address, used, "active_allocated"));
            }
            if used < size {
                blocks.push(part(address + used, size - used, "inactive"));
            }
            segments.push(json!({
                "device": device, "address": address, "total_size": size, "allocated_size": used,
                "active_size": used, "requested_size": used, "stream": stream, "segment_type": "large",
                "segment_pool_id": [0, pool], "is_expandable": false, "blocks": blocks, "frames": [],
            }));
        }
        traces.push(events);
    }
    json!({ "segments": segments, "device_traces": traces, "external_annotations": annotations })
}

// Twenty recordings, in two parallel tests.

#[test]
fn the_page_equals_the_report_for_the_examples() {
    for (example, seed) in ["training.pickle.zst", "leak.pickle", "oom.pickle"].into_iter().zip(1..) {
        assert_eq!(compare(&root().join("examples").join(example), seed), 2 * times());
    }
}

#[test]
fn the_page_equals_the_report_for_random_programs() {
    let folder = tempfile::tempdir().unwrap();
    for seed in 0..17 {
        let file = folder.path().join(format!("made-{seed}.json"));
        std::fs::write(&file, made(seed).to_string()).unwrap();
        assert_eq!(compare(&file, seed), devices_of(seed) * 2 * times());
    }
}

#[test]
#[ignore = "takes long: ./test --slow"]
fn the_page_equals_the_report_for_larger_recordings() {
    let Some(data) = data() else { return };
    let of = |folder: &str| recordings(&data.join(folder)).into_iter();
    let files: Vec<PathBuf> = ["real", "categories", "phantom"].into_iter().flat_map(of).collect();
    let small: Vec<&PathBuf> = files.iter().filter(|f| f.metadata().unwrap().len() < 1_000_000).collect();
    let every = small.len().div_ceil(20).max(1);
    let chosen: Vec<_> = small.into_iter().step_by(every).collect();
    let compared: usize = chosen.iter().zip(100..).map(|(file, seed)| compare(file, seed)).sum();
    // Some recordings have no events.
    assert!(compared >= 15 * 2 * times(), "{compared} of {} recordings", chosen.len());
}
