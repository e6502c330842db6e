//! Real PyTorch ran these programs and counted; replays must count the same.

use std::path::Path;

use serde_json::Value;
use vramscope_allocator::{Policy, Statistics};
use vramscope_analysis::{Capacity, History, Outcome, Replay};
use vramscope_trace::{AllocatorSettings, Conf, Trace, formats};

use crate::data;

/// Recordings of only a part of their run.
const PARTIAL: [&str; 3] = ["late", "max-entries", "context_state"];

fn read(path: &Path) -> Trace {
    formats::read(std::fs::File::open(path).unwrap(), &mut |_| {}).unwrap().trace
}

fn text<'v>(truth: &'v Value, key: &str) -> &'v str {
    truth[key].as_str().unwrap_or_default()
}

fn capacity(truth: &Value) -> Capacity {
    let number = |key: &str| truth[key].as_u64().unwrap();
    let total = number("device_capacity");
    Capacity { total, overhead: total - number("device_free_at_start") }
}

/// Where a replay's counters differ from PyTorch's.
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
    if outcome.failure.is_some() != !truth["oom"].is_null() {
        wrong.push(format!("oom is {}, ours {:?}", truth["oom"], outcome.failure));
    }
    wrong
}

fn truths() -> Option<(std::path::PathBuf, Vec<Value>)> {
    let folder = data()?.join("phantom");
    let truth = std::fs::read_to_string(folder.join("truth.jsonl")).unwrap();
    Some((folder, truth.lines().map(|line| serde_json::from_str(line).unwrap()).collect()))
}

#[test]
fn recordings_are_reproduced_with_and_without_the_device_s_size() {
    let Some((folder, truths)) = truths() else { return };
    let mut wrong = Vec::new();
    for truth in &truths {
        let file = text(truth, "file");
        let trace = read(&folder.join(file));
        for device in &trace.devices {
            let history = History::of(&trace, device);
            let mut replay = Replay::of(&history);
            for capacity in [None, Some(capacity(truth))] {
                let reproduction = replay.reproduce(capacity).unwrap();
                let sized = if capacity.is_some() { "sized" } else { "unsized" };
                if let Some(divergence) = reproduction.divergence {
                    wrong.push(format!("{file} {} {sized}: {divergence:?}", device.device));
                }
                if device.device == 0 && !PARTIAL.iter().any(|p| file.contains(p)) {
                    let mut differences = differences(&reproduction.outcome, truth);
                    if capacity.is_none() {
                        // Whether memory was given back by a request or by the program shows only there.
                        differences.retain(|d| !d.starts_with("num_alloc_retries"));
                    }
                    for difference in differences {
                        wrong.push(format!("{file} {sized}: {difference}"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_if_is_what_pytorch_did() {
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
        let history = History::of(&trace, &trace.devices[0]);
        let replay = Replay::of(&history);
        let release = vramscope_allocator::TorchRelease::shown_by(&trace);
        for truth in truths.iter().filter(|t| whole(t) && key(t) == key(base)) {
            let conf = Conf::parse(text(truth, "conf")).unwrap();
            let settings = AllocatorSettings { conf, ..AllocatorSettings::default() };
            let outcome = replay.under(&Policy::torch(&settings, release), Some(capacity(truth))).unwrap();
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
fn zz_real() {
    let Some(folder) = data() else { return };
    for dir in ["real", "large"] {
        for f in std::fs::read_dir(folder.join(dir)).unwrap() {
            let p = f.unwrap().path();
            let trace = read(&p);
            for device in &trace.devices {
                let t = std::time::Instant::now();
                let history = History::of(&trace, device);
                let t1 = t.elapsed();
                let mut replay = Replay::of(&history);
                let t2 = t.elapsed();
                let r = replay.reproduce(None).unwrap();
                let t3 = t.elapsed();
                let o = replay
                    .under(&Policy { expandable_segments: true, ..replay.policy().clone() }, None)
                    .unwrap();
                let t4 = t.elapsed();
                println!(
                    "{} dev {} events {} pre {} q {:?}\n   div {:?}\n  peak {:?} exp {:?}  times history {t1:?} prep {t2:?} repr {t3:?} exp {t4:?}",
                    p.display(),
                    device.device,
                    device.events.len(),
                    history.quality.preexisting,
                    history.quality,
                    r.divergence,
                    r.outcome.statistics.reserved,
                    o.statistics.reserved.peak
                );
            }
        }
    }
}
