//! Real PyTorch ran these programs and counted; replays must count the same.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use vramscope_analysis::{Capacity, History, Outcome, Replay, ReplayDevice};
use vramscope_engine::{Policy, Statistics};
use vramscope_packing::{Effort, Item, Packing, pack};
use vramscope_trace::{TorchSettings, Trace, formats};

use crate::data;

/// Recordings of only a part of their run.
const PARTIAL: [&str; 3] = ["late", "max-entries", "context_state"];

fn read(path: &Path) -> Arc<Trace> {
    formats::read(std::fs::File::open(path).unwrap()).unwrap().trace
}

fn text<'v>(truth: &'v Value, key: &str) -> &'v str {
    truth[key].as_str().unwrap_or_default()
}

fn capacity(truth: &Value) -> Capacity {
    let number = |key: &str| truth[key].as_u64().unwrap();
    let total = number("device_capacity");
    Capacity { total, overhead: total - number("device_free_at_start") }
}

/// Returns the differences between a replay's counters and PyTorch's.
fn differences(outcome: &Outcome, truth: &Value) -> Vec<String> {
    let Statistics { requested, allocated, active, reserved, .. } = outcome.statistics;
    let ours = [
        ("peak_requested", requested.peak),
        ("peak_allocated", allocated.peak),
        ("peak_active", active.peak),
        ("peak_reserved", reserved.peak),
        ("end_reserved", reserved.current),
        ("segments_allocated", outcome.statistics.segments_allocated),
        ("segments_freed", outcome.statistics.segments_freed),
        ("num_alloc_retries", outcome.statistics.num_alloc_retries),
    ];
    let mut wrong: Vec<String> = ours
        .into_iter()
        .filter(|(key, ours)| truth[*key].as_u64() != Some(*ours))
        .map(|(key, ours)| format!("{key} is {}, ours {ours}", truth[key]))
        .collect();
    if outcome.failure.is_some() == truth["oom"].is_null() {
        wrong.push(format!("oom is {}, ours {:?}", truth["oom"], outcome.failure));
    }
    wrong
}

/// Compares the block sizes from the layout with those that the allocator computes.
fn sizes_differ(history: &History, replay: &Replay<'_>) -> Option<String> {
    let sizes = history.allocations.iter().zip(&replay.reproduction.sizes);
    let mut recorded = sizes.filter(|(a, _)| !a.is_preexisting());
    let (a, size) = recorded.find(|(a, size)| a.size != **size)?;
    Some(format!("{a:?} is of {size} bytes in the replay"))
}

fn truths() -> Option<(std::path::PathBuf, Vec<Value>)> {
    let folder = data()?.join("phantom");
    let truth = std::fs::read_to_string(folder.join("truth.jsonl")).unwrap();
    Some((folder, truth.lines().map(|line| serde_json::from_str(line).unwrap()).collect()))
}

#[test]
fn recordings_are_reproduced_with_and_without_the_device_s_size() {
    let Some((folder, truths)) = truths() else { return };
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for truth in &truths {
        let file = text(truth, "file");
        let trace = read(&folder.join(file));
        for (position, device) in trace.devices.iter().enumerate() {
            let history = History::of(&trace, position);
            // Exactly the recordings whose ring buffer was too small.
            if history.quality.inferred.probably_overflowed != file.contains("max-entries") {
                wrong.push(format!("{file}: the ring buffer overflowed, or did not"));
            }
            let replay = Replay::of(&history).unwrap();
            if let Some(first_difference) = replay.reproduction.first_difference {
                wrong.push(format!("{file} {}: {first_difference:?}", device.device));
            }
            wrong.extend(sizes_differ(&history, &replay).map(|why| format!("{file}: {why}")));
            for on in [ReplayDevice::Recorded, capacity(truth).into()] {
                let outcome = replay.under(&replay.policy, on).unwrap();
                let sized = if on == ReplayDevice::Recorded { "unsized" } else { "sized" };
                if device.device == 0 && !PARTIAL.iter().any(|p| file.contains(p)) {
                    compared += 1;
                    for difference in differences(&outcome, truth) {
                        wrong.push(format!("{file} {sized}: {difference}"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared >= 80, "{compared} compared");
}

#[test]
fn replays_predict_the_counters_of_sibling_runs() {
    let Some((folder, truths)) = truths() else { return };
    let whole =
        |t: &Value| !PARTIAL.iter().chain(&["stacks", "context"]).any(|p| text(t, "file").contains(p));
    let key = |t: &Value| (text(t, "name").to_owned(), text(t, "torch").to_owned(), t["iters"].clone());
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for base in truths
        .iter()
        .filter(|t| whole(t) && text(t, "conf").is_empty() && t["oom"].is_null() && t["mem_mb"].is_null())
    {
        let trace = read(&folder.join(text(base, "file")));
        let history = History::of(&trace, 0);
        let replay = Replay::of(&history).unwrap();
        let release = trace.shown_release();
        for truth in truths.iter().filter(|t| whole(t) && key(t) == key(base)) {
            let settings = TorchSettings::parse(text(truth, "conf")).unwrap();
            let outcome = replay.under(&Policy::torch(&settings, release), capacity(truth)).unwrap();
            for difference in differences(&outcome, truth) {
                wrong.push(format!("{} from {}: {difference}", truth["file"], base["file"]));
            }
            compared += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared >= 40, "{compared} compared");
}

#[test]
fn recordings_of_real_gpus_are_reproduced() {
    let Some(folder) = data() else { return };
    let mut files = 0;
    for folder in [folder.join("real"), folder.join("large")] {
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            let trace = read(&path);
            for position in 0..trace.devices.len() {
                let history = History::of(&trace, position);
                assert!(!history.quality.inferred.probably_overflowed, "{}", path.display());
                let replay = Replay::of(&history).unwrap();
                assert_eq!(replay.reproduction.first_difference, None, "{}", path.display());
                let ours = replay.reproduction.outcome.statistics;
                assert_eq!(ours.reserved.peak, history.peaks().reserved.bytes, "{}", path.display());
                assert_eq!(sizes_differ(&history, &replay), None, "{}", path.display());
                assert_eq!(ours.allocated.peak, history.peaks().allocated.bytes, "{}", path.display());
            }
            files += 1;
        }
    }
    assert!(files >= 9, "{files} files");
}

/// A packing problem: `id,lower,upper,size` with half-open lifetimes.
fn items(path: &Path) -> Vec<Item> {
    let row = |line: &str| {
        let numbers: Vec<u64> = line.split(',').skip(1).map(|n| n.parse().unwrap()).collect();
        Item { from: numbers[0] as u32, to: numbers[1] as u32, size: numbers[2] }
    };
    std::fs::read_to_string(path).unwrap().lines().skip(1).map(row).collect()
}

/// No two items share bytes and time; the height is that of the highest item.
fn check_packing(items: &[Item], packing: &Packing) {
    let tops = items.iter().zip(&packing.offsets).map(|(item, &offset)| offset + item.size);
    assert_eq!(tops.max(), Some(packing.height));
    for (i, a) in items.iter().enumerate() {
        for (j, b) in items.iter().enumerate().skip(i + 1) {
            let (at, bt) = (packing.offsets[i], packing.offsets[j]);
            let together = a.from < b.to && b.from < a.to;
            assert!(!together || at + a.size <= bt || bt + b.size <= at, "{i} and {j} overlap");
        }
    }
}

#[test]
#[ignore = "takes long: ./test --slow"]
fn published_packing_problems_are_packed_as_low_as_is_known() {
    let Some(folder) = data() else { return };
    let mut problems: Vec<(String, u64)> =
        ('A'..='K').map(|c| (format!("{c}.1048576.csv"), 1 << 20)).collect();
    problems.push(("input.12.csv".to_owned(), 12));
    for (name, known) in problems {
        let items = items(&folder.join("packing").join(&name));
        let packing = pack(&items, Effort::default());
        check_packing(&items, &packing);
        assert!(packing.height <= known, "{name}: {}", packing.height);
    }
}
